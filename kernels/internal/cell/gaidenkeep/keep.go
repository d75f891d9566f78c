package gaidenkeep

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"unsafe"
)

// Env names the environment variable with the directory that kernel and
// program share. Without it nothing is loaded or saved.
const Env = "GAIDEN_KEEP"

var shared = os.Getenv(Env) // before a cell clears its environment

// The files of that directory.
const (
	InFile       = "in"       // lines "name\tfile", quoted: where values lie
	LibraryFile  = "library"  // the path of the library's module
	ManifestFile = "manifest" // see Save
	SavingFile   = "saving"   // it is there while values are being saved
	StopFile     = "stop"     // the kernel makes it: the program is about to be stopped, and has to save what it has
)

// NotWritten begins the reason why a value is not kept that has found no room, for one.
const NotWritten = "it could not be written: "

// Limit is how many bytes one variable, with what it shares, may take.
const Limit = 1 << 30

// A Var is a variable of the program.
type Var struct {
	name  string
	ptr   unsafe.Pointer
	typ   reflect.Type
	first uint64 // its fingerprint when it had its first value; 0 if its definition must not be repeated
	lost  string // why it cannot be kept whatever it holds; empty if that is not known
}

// variable makes a Var of a variable's address.
func variable(name string, address any) Var {
	p := reflect.ValueOf(address)
	return Var{name: name, ptr: p.UnsafePointer(), typ: p.Type().Elem()}
}

var (
	mu      sync.Mutex
	tracked []Var
	files   = map[string]string{} // of loaded variables
	saved   bool
)

// Track says that a variable is to be saved. A later one of the same name
// takes its place.
func Track(name string, address any) { track(variable(name, address)) }

// TrackFirst does the same for one that has its first value by an expression that
// may be evaluated again in a later program, if the variable cannot be kept and
// has not changed.
func TrackFirst(name string, address any) {
	v := variable(name, address)
	if mayRefuse(v.typ) {
		v.first = fingerprint(v)
	}
	track(v)
}

// TrackUnnamed does so for a variable of a type that no other program can name.
func TrackUnnamed(name string, address any) {
	v := variable(name, address)
	v.first, v.lost = fingerprint(v), "only its own package can name its type"
	track(v)
}

func track(v Var) {
	mu.Lock()
	defer mu.Unlock()
	for i, t := range tracked {
		if t.name == v.name {
			tracked[i] = v
			return
		}
	}
	tracked = append(tracked, v)
}

// Load fills variables with their kept values. It takes the name of each and its
// address, and behind them nil pointers to the types that kept interfaces may
// hold. (Its own types would say this better, and cost the compiler time in every
// program.) A value that cannot be loaded ends the program: the
// kernel reads the reason in the manifest, and makes another program that does
// without.
func Load(list ...any) bool {
	if shared == "" {
		return false
	}
	where, err := readIn(shared)
	groups := map[string][]Var{}
	types := basicTypes()
	for i := 0; i < len(list); i++ {
		name, ok := list[i].(string)
		if !ok {
			types = append(types, reflect.TypeOf(list[i]).Elem())
			continue
		}
		i++
		v := variable(name, list[i])
		groups[where[v.name]] = append(groups[where[v.name]], v)
	}
	for file, group := range groups {
		if err == nil {
			err = loadFile(file, group, types)
		}
		var system syscall.Errno
		if errors.As(err, &system) && system != syscall.ENOENT { // another time it may be read
			fmt.Fprintf(os.Stderr, "the values of earlier cells cannot be read: %v\nthey are kept: run the cell again\n", err)
			os.Exit(1)
		}
		if err != nil {
			var m manifest
			for _, v := range group {
				m.add("stale", v.name, err.Error())
			}
			m.write(shared)
			os.Exit(1)
		}
		for _, v := range group {
			files[v.name] = file
		}
	}
	return true
}

func readIn(dir string) (map[string]string, error) {
	data, err := os.ReadFile(filepath.Join(dir, InFile))
	if err != nil {
		return nil, err
	}
	where := map[string]string{}
	for line := range strings.Lines(string(data)) {
		f := Fields(line)
		if len(f) == 2 {
			where[f[0]] = f[1]
		}

	}
	return where, nil
}

// Fields takes a line of the files above apart; nil if it is none.
func Fields(line string) (out []string) {
	for f := range strings.SplitSeq(strings.TrimSuffix(line, "\n"), "\t") {
		s, err := strconv.Unquote(f)
		if err != nil {
			return nil
		}
		out = append(out, s)
	}
	return out
}

// A manifest is what the program tells the kernel, a line each:
//
//	"kept" name file bytes preview types…   a new value, and the types in its interfaces
//	"same" name                             the value is the one that was loaded
//	"again" name reason                     it cannot be kept, and is what its definition makes of it
//	"lost" name reason change               it cannot be kept; change is "changed" where its definition would make what it was at first
//	"changing" name reason                  it was changing while main went on, so that it cannot be kept now
//	"stale" name reason                     it cannot be loaded
type manifest struct{ b bytes.Buffer }

func (m *manifest) add(fields ...string) {
	for i, f := range fields {
		if i > 0 {
			m.b.WriteByte('\t')
		}
		m.b.WriteString(strconv.Quote(f))
	}
	m.b.WriteByte('\n')
}

// write makes the manifest appear as a whole.
func (m *manifest) write(dir string) error {
	name := filepath.Join(dir, ManifestFile)
	if err := os.WriteFile(name+".new", m.b.Bytes(), 0o600); err != nil {
		return err
	}
	return os.Rename(name+".new", name)
}

// Save saves all tracked variables, once: it is deferred by main, and called
// before the program ends in another way. A manifest of none says that the program has
// failed before it came to its first variable. Where there is no room for one, the
// program fails, unless it panics.
func Save() {
	mu.Lock()
	defer mu.Unlock()
	if saved {
		return
	}
	saved = true
	if shared == "" || saving(shared, func() error { return saveVars(shared, "", tracked, false) }) {
		return
	}
	if r := recover(); r != nil {
		panic(r)
	}
	os.Exit(1)
}

// saving lets a file say that values are being saved, and reports whether they were.
func saving(dir string, save func() error) bool {
	flag := filepath.Join(dir, SavingFile)
	err := os.WriteFile(flag, nil, 0o600)
	if err == nil {
		// Goroutines that keep changing what is being read may leave us with
		// anything for a pointer.
		defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
		err = save()
		os.Remove(flag)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "the cell's variables cannot be saved: %v\n    make room on the disk that holds it, or set TMPDIR to another one where Jupyter is started; then run the cell again\n", err)
	}
	return err == nil
}

// saveVars saves variables to files that begin with prefix. While main continues, a
// variable is saved only if what it reaches stays where it is.
func saveVars(dir, prefix string, vars []Var, running bool) error {
	var m manifest
	groups, lost := survey(vars)
	for try := 0; running && try < tries; try++ {
		again, more := survey(vars)
		if same(groups, again) {
			break
		}
		groups, lost = again, more
	}
	for i, g := range groups {
		if err := g.save(dir, prefix+strconv.Itoa(i), running, &m); err != nil {
			for _, v := range g.vars {
				lost[v.name] = err
			}
		}
	}
	for _, v := range vars {
		err := lost[v.name]
		_, works := err.(atWork)
		switch {
		case err == nil:
		case running && err == changing:
			m.add("changing", v.name, err.Error())
		case v.first != 0 && fingerprint(v) == v.first:
			m.add("again", v.name, err.Error())
		case works: // what was kept before it is no worse
			m.add("changing", v.name, err.Error())
		case v.first == 0:
			m.add("lost", v.name, err.Error(), "")
		default:
			m.add("lost", v.name, err.Error(), "changed")
		}
	}
	return m.write(dir)
}

// changing is why a variable is not kept while main continues and gives it other values.
const changing = refusal("it was changing when its cell was stopped")

// guard turns a panic into an error.
func guard(err *error) {
	switch r := recover().(type) {
	case nil:
	case refusal:
		*err = r
	case atWork:
		*err = r
	default:
		if *err = refusal(fmt.Sprint("it cannot be read: ", r)); live {
			*err = changing // its pieces did not fit together
		}
	}
}

// save writes a group's file, unless it says what the file that it was loaded
// from says.
func (g *group) save(dir, name string, running bool, m *manifest) (err error) {
	defer guard(&err)
	e := g.encode()
	if running {
		now, _ := survey(g.vars)
		if !same([]*group{g}, now) || !e.steady(g.encode()) {
			return changing
		}
	}
	if e.size > Limit {
		return refusal(fmt.Sprintf("it takes %.1f GiB, and at most %d GiB are kept", float64(e.size)/(1<<30), Limit>>30))
	}
	if old := g.loadedFrom(); old != "" && e.equals(old) {
		for _, v := range g.vars {
			m.add("same", v.name)
		}
		return nil
	}
	file := filepath.Join(dir, name)
	if err := e.writeFile(file); err != nil {
		os.Remove(file)
		return refusal(NotWritten + err.Error())
	}
	for _, v := range g.vars {
		text := preview(nil, reflect.NewAt(v.typ, v.ptr).Elem(), 0)
		m.add(append([]string{"kept", v.name, file, strconv.Itoa(int(e.size)), string(text)}, g.dynamic...)...)
	}
	return nil
}

// loadedFrom returns the file from which all of the group came, if one file it was.
func (g *group) loadedFrom() string {
	first := files[g.vars[0].name]
	n := 0
	for _, file := range files {
		if file == first {
			n++
		}
	}
	same := !slices.ContainsFunc(g.vars, func(v Var) bool { return files[v.name] != first })
	if first == "" || !same || n != len(g.vars) {
		return ""
	}
	return first
}

// mapFile maps a file into memory; the mapping stays until the program ends.
func mapFile(name string, protection int) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return nil, err
	}
	return syscall.Mmap(int(f.Fd()), 0, int(info.Size()), protection, syscall.MAP_PRIVATE)
}

func loadFile(file string, vars []Var, types []reflect.Type) error {
	data, err := mapFile(file, syscall.PROT_READ|syscall.PROT_WRITE)
	if err != nil {
		return err
	}
	return decode(data, vars, types)
}
