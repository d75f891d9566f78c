package pjrt

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Plugin is a loaded PJRT plugin. It stays loaded for the life of the process:
// XLA's libraries cannot be unloaded. Loading one twice gives two Plugins that
// share the library.
type Plugin struct {
	Path         string // absolute
	Major, Minor int    // version of the PJRT C API that it speaks

	api       uintptr
	functions [slots]uintptr // 0 where the plugin's table is shorter
}

// Load opens the shared library at path and prepares it. It refuses what is not
// a PJRT plugin of a version this package can use, and says what to do.
//
// Environment variables that XLA reads (XLA_FLAGS, CUDA_VISIBLE_DEVICES,
// LD_LIBRARY_PATH) must be set before the process starts.
func Load(path string) (*Plugin, error) {
	fail := func(err error) (*Plugin, error) { return nil, fmt.Errorf("pjrt: load: %s: %w", path, err) }
	if path == "" {
		return nil, fmt.Errorf("pjrt: load: got no path, want that of a PJRT plugin; set GAIDEN_PLUGIN")
	}
	// An absolute path keeps dlopen from searching the system's libraries.
	abs, err := filepath.Abs(path)
	if err != nil {
		return fail(err)
	}
	path = abs // in errors, too
	switch info, err := os.Stat(abs); {
	case err != nil:
		if e, is := errors.AsType[*fs.PathError](err); is {
			err = e.Err // the path is said
		}
		return fail(fmt.Errorf("%w; scripts/run fetches a plugin", err))
	case info.IsDir():
		return fail(errors.New("got a folder, want a shared library"))
	case !info.Mode().IsRegular():
		return fail(fmt.Errorf("got no file (%s), want a shared library", info.Mode().Type()))
	}
	if err := openLibc(); err != nil {
		return fail(err)
	}
	library, err := load(abs)
	if err != nil {
		return fail(fmt.Errorf("not a library that this machine can load: %w", err))
	}
	getAPI, err := purego.Dlsym(library, "GetPjrtApi")
	if err != nil {
		return fail(fmt.Errorf("a library, but no PJRT plugin (it has no GetPjrtApi); check GAIDEN_PLUGIN"))
	}
	api, _, _ := purego.SyscallN(getAPI)
	p := &Plugin{Path: abs, api: api}
	if err := p.open(); err != nil {
		return fail(err)
	}
	a := struct {
		head
		spare
	}{head: head{size: 48}}
	if err := p.call(pluginInitialize, unsafe.Pointer(&a)); err != nil {
		return fail(err)
	}
	if Loaded != nil {
		Loaded(p)
	}
	return p, nil
}

// open reads the table of functions at p.api.
func (p *Plugin) open() error {
	major, minor, size, err := checkTable(p.api)
	if err != nil {
		return err
	}
	p.Major, p.Minor = major, minor
	for i := range p.functions {
		if o := uintptr(tableHead + 8*i); o+8 <= size {
			p.functions[i] = *at[uintptr](p.api + o)
		}
	}
	return nil
}

// Loaded, where it is not nil, is called with each plugin that Load returns: a test double
// replaces functions of it.
var Loaded func(*Plugin)

// Replace puts a C function in the place of one of the plugin's, for calls of this package,
// and returns the one that was there. number counts the functions of PJRT_Api from 0.
func (p *Plugin) Replace(number int, function uintptr) (was uintptr) {
	was, p.functions[number] = p.functions[number], function
	return was
}

// Extension is an addition to the C API that the plugin offers.
type Extension struct {
	Type int    // number of the extension in the PJRT headers
	Name string // its name there, "" if this package does not know it
	Size int    // of its struct, in bytes

	address uintptr
}

// Some extensions' numbers.
const (
	extensionProfiler = 1
	extensionFFI      = 5
	maxExtensions     = 100 // a longer list is a damaged one
)

var extensionNames = []string{"GpuCustomCall", "Profiler", "CustomPartitioner", "Stream", "Layouts", "FFI", "MemoryDescriptions", "Triton",
	"RawBuffer", "PhaseCompile", "Example", "Unknown", "CrossHostTransfers", "ExecutableMetadata", "Callback", "HostAllocator", "TpuTopology",
	"TpuExecutable", "Megascale", "Shardings", "AbiVersion", "Collectives", "MultiSlice", "HostMemoryAllocator", "XlaTransform"}

func (e Extension) String() string { return fmt.Sprintf("%d %s", e.Type, e.Name) }

// Extensions lists the additions to the C API that the plugin offers.
func (p *Plugin) Extensions() []Extension {
	type base struct {
		size uintptr
		kind int32
		next uintptr
	}
	var l []Extension
	for x := *at[uintptr](p.api + 8); x != 0 && len(l) < maxExtensions; {
		b := at[base](x)
		e := Extension{Type: int(b.kind), Size: int(b.size), address: x}
		if e.Type >= 0 && e.Type < len(extensionNames) {
			e.Name = extensionNames[e.Type]
		}
		l = append(l, e)
		x = b.next
	}
	return l
}
