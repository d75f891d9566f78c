package build

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"go/token"
	"go/types"
	"go/version"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"gaiden/kernels/internal/cell"
	"gaiden/lib/engine/sealed"
)

// A Module is the Go module that a notebook's cells are compiled in: which
// packages they may import, and where the compiled form of each lies. It asks
// the go command once and remembers the answer, in Cache also for the next
// kernel, until go.mod, go.sum, the Go version or a replaced source tree
// changes. It never touches the network; Get does.
//
// The fields are set before the first use. Methods may be called at the same time.
type Module struct {
	Dir     string // the module's directory, made if it is not there
	Library string // source tree of the library that cells import; "" = none
	Cache   string // directory for what is worth keeping; "" = Dir/.gaiden
	Go      string // the go command; "" = go in PATH

	// Tags are build tags for all packages that cells import.
	Tags []string

	// Companions are packages that a program imports, too, if it imports that of
	// the key, itself or through others.
	Companions map[string]string

	Log *slog.Logger // is told what of the cache was damaged; nil = nobody is

	mu       sync.Mutex
	tool     toolchain
	trusted  bool // the cache's directory
	mod      goMod
	modStamp string // of go.mod, go.sum and go.work
	key      string // of all that the answers below depend on
	state    index
	importer *packageImporter
	files    *sealed.Verifier
	named256 sync.Map                 // archives that have the contents that their names say
	pinned   atomic.Pointer[[]string] // Go's settings, for the environment of its tools

	noIndex atomic.Bool // the go command's index of packages is damaged

	generation int                 // of the index
	local      map[string][]string // names of packages in replaced trees
	named      map[string][]string // names of all others
	declared   map[string][]string // what packages export, by their sources
}

// A ToolError reports that the go command is missing or unusable.
type ToolError struct {
	Command string
	Err     error
	Output  string
}

func (e *ToolError) Error() string {
	msg := fmt.Sprintf("cell: %s: %v", e.Command, e.Err)
	if e.Output != "" {
		msg += "\n" + strings.TrimSpace(e.Output)
	}
	return msg
}

func (e *ToolError) Unwrap() error { return e.Err }

func (e *ToolError) Hint() string {
	if strings.Contains(e.Output, "build cache") {
		return "set GOCACHE and XDG_CACHE_HOME to directories of your own where Jupyter is started, then restart the kernel"
	}
	if !errors.Is(e.Err, exec.ErrNotFound) {
		return ""
	}
	return "install Go 1.26 or newer and see that its bin directory is in PATH, then restart the kernel"
}

func (m *Module) cacheDir() string { return cmp.Or(m.Cache, filepath.Join(m.Dir, ".gaiden")) }

// workspace returns the go.work file that somebody has put into the module's
// directory, or "off".
func (m *Module) workspace() string {
	file := filepath.Join(m.Dir, "go.work")
	if _, err := os.Stat(file); err != nil {
		return "off"
	}
	return file
}

// run runs the go command in the module's directory, without its index where that is
// damaged.
func (m *Module) run(ctx context.Context, env []string, args ...string) (stdout, stderr []byte, err error) {
	if stdout, stderr, err = m.runOnce(ctx, env, args...); ctx.Err() == nil && m.misses(stdout, stderr) {
		stdout, stderr, err = m.runOnce(ctx, env, args...)
	}
	return stdout, stderr, err
}

// notInStandard matches what the go command says of a package that it does not find in
// the standard library.
var notInStandard = regexp.MustCompile(`package (\S+) is not in std`)

// misses reports whether the go command has just missed a package of the standard
// library that is there. Its index of packages, a file of GOCACHE that it does not
// verify, is damaged then, as after a power failure: from now on it does without.
func (m *Module) misses(outputs ...[]byte) bool {
	for _, found := range notInStandard.FindAllSubmatch(slices.Concat(outputs...), -1) {
		path := string(found[1])
		if files, _ := filepath.Glob(filepath.Join(m.tool.GOROOT, "src", path, "*.go")); len(files) == 0 || m.noIndex.Swap(true) {
			continue
		}
		if m.Log != nil {
			m.Log.Warn("the go command's index of packages is damaged and not used: go clean -cache removes it", "missed", path, "cache", m.tool.GOCACHE)
		}
		return true
	}
	return false
}

func (m *Module) runOnce(ctx context.Context, env []string, args ...string) (stdout, stderr []byte, err error) {
	if m.noIndex.Load() {
		env = append(slices.Clip(env), strings.TrimSuffix("GODEBUG=goindex=0,"+os.Getenv("GODEBUG"), ","))
	}
	name := cmp.Or(m.Go, "go")
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = m.Dir, env
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	var out, complaint bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaint
	err = cmd.Run()
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	if err != nil {
		err = &ToolError{Command: name + " " + strings.Join(args[:min(2, len(args))], " "), Err: err, Output: complaint.String()}
	}
	return out.Bytes(), complaint.Bytes(), err
}

// LibraryPath returns the path of the library's module, "" if there is none.
func (m *Module) LibraryPath() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.libraryPath()
}

func (m *Module) libraryPath() string {
	for _, r := range m.mod.replaced {
		if m.Library != "" && r.dir == m.Library {
			return r.path
		}
	}
	return ""
}

// Refresh looks whether go.mod, Go's settings, a replaced source tree or a compiled
// package has changed, and forgets what no longer holds. It is called once for a
// cell.
func (m *Module) Refresh(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.refresh(ctx); err != nil {
		return err
	}
	if reason := m.unfit(); reason != "" {
		return m.relist(ctx, reason)
	}
	return nil
}

// open makes sure that the module has been looked at. m.mu is held.
func (m *Module) open(ctx context.Context) error {
	if m.key != "" {
		return nil
	}
	return m.refresh(ctx)
}

// refresh sees that directory, go.mod and toolchain are there and that what is
// remembered still holds. m.mu is held.
func (m *Module) refresh(ctx context.Context) error {
	if err := m.findToolchain(ctx); err != nil {
		return err
	}
	if err := m.trustCache(); err != nil {
		return err
	}
	own := filepath.Join(m.Dir, ".gaiden")
	if _, err := os.Stat(own); os.IsNotExist(err) { // somebody has removed it
		if err := os.MkdirAll(own, 0o700); err != nil {
			return fmt.Errorf("cell: module: %w", err)
		}
		m.key, m.modStamp = "", ""
	}
	file := filepath.Join(m.Dir, "go.mod")
	if _, err := os.Stat(file); os.IsNotExist(err) {
		if err := m.seed(); err != nil {
			return err
		}
	}
	stamp := fileStamp(file) + fileStamp(filepath.Join(m.Dir, "go.sum")) + fileStamp(filepath.Join(m.Dir, "go.work"))
	if stamp != m.modStamp {
		mod, err := readGoMod(file)
		if err != nil {
			return fmt.Errorf("cell: module: %w", err)
		}
		mod.replaced = append(mod.replaced, readGoWork(filepath.Join(m.Dir, "go.work"))...)
		m.mod, m.modStamp, m.named = mod, stamp, nil
	}
	if m.files == nil {
		m.files = &sealed.Verifier{}
	}
	if m.key == "" {
		if err := cell.WriteGlue(m.Dir); err != nil {
			return fmt.Errorf("cell: module: %w", err)
		}
	}
	packages, tree := m.mod.survey()
	m.local = map[string][]string{}
	for _, p := range packages {
		m.local[p.name] = append(m.local[p.name], p.path)
	}
	h := sha256.New()
	fmt.Fprintln(h, "4", m.compilerMissing(), m.tool.settings, m.Tags, m.modSum(), tree, cell.GluePackages())
	if key := fmt.Sprintf("%x", h.Sum(nil)[:12]); key != m.key {
		m.key = key
		m.openIndex()
	}
	return nil
}

// seed writes the first go.mod and go.sum.
func (m *Module) seed() error {
	mod, sum, err := seedGoMod(m.Library, strings.TrimPrefix(m.tool.GOVERSION, "go"))
	if err != nil {
		return err
	}
	if sum != nil {
		if err := os.WriteFile(filepath.Join(m.Dir, "go.sum"), sum, 0o600); err != nil {
			return fmt.Errorf("cell: module: %w", err)
		}
	}
	if err := os.WriteFile(filepath.Join(m.Dir, "go.mod"), mod, 0o600); err != nil {
		return fmt.Errorf("cell: module: %w", err)
	}
	return nil
}

// Reseed throws the module's go.mod away and writes the first one again.
func (m *Module) Reseed(ctx context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	os.Remove(filepath.Join(m.Dir, "go.mod"))
	os.Remove(filepath.Join(m.Dir, "go.sum"))
	return m.refresh(ctx)
}

// modSum hashes go.mod, go.sum and go.work.
func (m *Module) modSum() string {
	h := sha256.New()
	for _, name := range []string{"go.mod", "go.sum", "go.work"} {
		data, _ := os.ReadFile(filepath.Join(m.Dir, name))
		fmt.Fprintln(h, name, len(data))
		h.Write(data)
	}
	return fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// fileStamp changes when the file does.
func fileStamp(name string) string {
	info, err := os.Stat(name)
	if err != nil {
		return "-"
	}
	return fmt.Sprintf("%d.%d ", info.Size(), info.ModTime().UnixNano())
}

// Key identifies everything that compiled cells depend on besides their text.
func (m *Module) Key(ctx context.Context) (string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	err := m.open(ctx)
	return m.key, err
}

// UserFiles returns the Go files in the module's directory that are nobody's cell.
func (m *Module) UserFiles() []string {
	all, _ := filepath.Glob(filepath.Join(m.Dir, "*.go"))
	return slices.DeleteFunc(all, func(name string) bool {
		return slices.Contains(written, filepath.Base(name)) || strings.HasSuffix(name, "_test.go")
	})
}

// TypesOf returns the type information of a package, nil if there is none.
func (m *Module) TypesOf(ctx context.Context, path string) *types.Package {
	if _, err := m.Packages(ctx, path); err != nil {
		return nil
	}
	m.mu.Lock()
	im := m.importer
	m.mu.Unlock()
	p, _ := im.Import(path)
	return p
}

// Exports reports whether the package at path declares an exported name.
func Exports(p *types.Package, name string) bool {
	return p != nil && token.IsExported(name) && p.Scope().Lookup(name) != nil
}

// TypeConfig returns how the types of a program in the module are checked.
func (m *Module) TypeConfig() types.Config {
	m.mu.Lock()
	defer m.mu.Unlock()
	return types.Config{Importer: m.importer, FakeImportC: true, Sizes: types.SizesFor("gc", m.tool.GOARCH), GoVersion: version.Lang("go" + m.mod.goVersion)}
}

// PackageName returns the name of a package that has been compiled, "" if it has not.
func (m *Module) PackageName(path string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if pkg := m.state.Packages[path]; pkg != nil {
		return pkg.Name
	}
	return ""
}
