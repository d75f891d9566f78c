package build

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"gaiden/lib/engine/wire"
)

// Packages returns the named packages, compiled. What is not yet known is
// asked of the go command, which compiles what is not compiled. An error is an
// *ImportError for the first package that cannot be had, or a *ToolError.
func (m *Module) Packages(ctx context.Context, paths ...string) (map[string]*Package, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return nil, err
	}
	var unknown []string
	for _, p := range paths {
		if m.state.Packages[p] == nil && p != "unsafe" && p != "C" {
			unknown = append(unknown, p)
		}
	}
	if len(unknown) > 0 {
		if err := m.list(ctx, unknown); err != nil {
			return nil, err
		}
	}
	out := map[string]*Package{}
	for _, p := range paths {
		if have := m.state.Packages[p]; have != nil {
			out[p] = have
		}
	}
	return out, nil
}

// cacheFull returns why the go command cannot write its cache, if that is why it
// did not find a package: a disk that is full makes it say of the standard library
// that it is not there.
func (m *Module) cacheFull(ctx context.Context, problem *ImportError) error {
	if problem.Reason != noSuchStandard {
		return nil
	}
	if info, err := os.Stat(filepath.Join(m.tool.GOROOT, "src", problem.Path)); err != nil || !info.IsDir() {
		return nil
	}
	out, _, err := m.run(ctx, m.Environ(), "env", "GOCACHE")
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(strings.TrimSpace(string(out)), "room-")
	if err == nil {
		_, err = file.Write(make([]byte, 1<<20))
		file.Close()
		os.Remove(file.Name())
	}
	if err != nil {
		return fmt.Errorf("cell: import %q: the go command's cache: %w", problem.Path, err)
	}
	return nil
}

// notHere matches what the go command says when it may not ask the network and has
// to: for a module that others require, or for its go.mod.
var notHere = regexp.MustCompile(`module lookup disabled by GOPROXY=off|missing go\.sum entry|updates to go\.mod needed|to add missing requirements`)

// noSuchStandard is the reason of an import of the standard library that fails.
const noSuchStandard = "the standard library has no such package"

// names returns the import paths of every package that cells may import, by
// package name, best guess first. m.mu is held.
func (m *Module) names(ctx context.Context) map[string][]string {
	if m.named == nil {
		file := m.namesFile()
		m.load(file, &m.named)
		if m.named == nil {
			m.named = map[string][]string{}
			patterns := []string{"std"}
			for _, dep := range m.mod.required {
				if !slices.ContainsFunc(m.mod.replaced, func(r replacement) bool { return r.path == dep.Path }) {
					patterns = append(patterns, dep.Path+"/...")
				}
			}
			out, _, err := m.run(ctx, m.Environ(), append([]string{"list", "-e", "-f", `{{.Name}} {{.ImportPath}}{{with .Error}}{{printf " %q" .Err}}{{end}}`}, patterns...)...)
			if err != nil {
				m.named = nil
				return m.local
			}
			scan := bufio.NewScanner(bytes.NewReader(out))
			for scan.Scan() {
				name, path, _ := strings.Cut(scan.Text(), " ")
				path, _, _ = strings.Cut(path, " ")
				if name != "" && name != "main" && path != "" && Importable(path) {
					m.named[name] = append(m.named[name], path)
				}
			}
			m.save(file, m.named)
		}
	}
	all := maps.Clone(m.named)
	for name, paths := range m.local {
		all[name] = append(slices.Clone(paths), all[name]...)
	}
	for name, paths := range all {
		all[name] = slices.SortedStableFunc(slices.Values(paths), func(a, b string) int {
			return cmp.Compare(m.mod.rank(a), m.mod.rank(b))
		})
	}
	return all
}

// namesFile is what the list of names is called in the cache.
func (m *Module) namesFile() string {
	h := sha256.New()
	fmt.Fprintln(h, m.tool.settings, m.Tags, m.modSum())
	return fmt.Sprintf("names-%x", h.Sum(nil)[:12])
}

// rank orders packages of one name: the library and other modules that are directories
// of this machine first, then the standard library, then modules
// that the notebook requires itself, then those that others require; and short
// paths before long ones, so that math/rand comes before math/rand/v2.
func (m goMod) rank(path string) int {
	n := len(path)
	for _, r := range m.replaced {
		if strings.HasPrefix(path, r.path+"/") {
			return n - 1000
		}
	}
	if first, _, _ := strings.Cut(path, "/"); !strings.Contains(first, ".") {
		return n
	}
	for _, module := range m.direct {
		if path == module || strings.HasPrefix(path, module+"/") {
			return n + 1000
		}
	}
	return n + othersRank
}

// othersRank is what a package of a module that only other modules require gets.
const othersRank = 2000

// Doc returns what go doc says of a package: its comment and what it exports.
func (m *Module) Doc(ctx context.Context, path string) (string, error) {
	if err := m.Refresh(ctx); err != nil {
		return "", err
	}
	out, _, err := m.run(ctx, m.Environ(), "doc", path)
	return string(out), err
}

// Names lists the names of packages that cells may import without saying so, but for those of
// modules that only other modules require.
func (m *Module) Names(ctx context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open(ctx) != nil {
		return nil
	}
	names := m.names(ctx)
	maps.DeleteFunc(names, func(_ string, paths []string) bool { return m.mod.rank(paths[0]) >= len(paths[0])+othersRank })
	return slices.Sorted(maps.Keys(names))
}

// Paths lists the import paths of the packages that cells may import.
func (m *Module) Paths(ctx context.Context) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.open(ctx) != nil {
		return nil
	}
	return slices.Concat(slices.Collect(maps.Values(m.names(ctx)))...)
}

// importConfig writes the lists of compiled packages that compiler and linker
// read, and returns their names.
func (m *Module) importConfig() (compile, link string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var b bytes.Buffer
	for _, path := range slices.Sorted(maps.Keys(m.state.Packages)) {
		if p := m.state.Packages[path]; p.Export != "" {
			fmt.Fprintf(&b, "packagefile %s=%s\n", path, p.Export)
		}
	}
	compile, link = filepath.Join(m.Dir, ".gaiden", "importcfg"), filepath.Join(m.Dir, ".gaiden", "importcfg.link")
	for _, file := range []string{compile, link} {
		if file == link {
			fmt.Fprintf(&b, "modinfo %q\n", m.mod.buildInfo(m.tool.GOVERSION))
		}
		if have, err := os.ReadFile(file); err == nil && bytes.Equal(have, b.Bytes()) {
			continue
		}
		if err := wire.ReplaceFile(file, b.Bytes()); err != nil {
			return "", "", err
		}
	}
	return compile, link, nil
}

// A packageImporter gives go/types the packages that a Module knows.
type packageImporter struct {
	mu  sync.Mutex
	gc  types.Importer
	mod *Module
}

func newPackageImporter(m *Module) *packageImporter {
	im := &packageImporter{mod: m}
	im.gc = importer.ForCompiler(token.NewFileSet(), "gc", im.open)
	return im
}

// Import implements types.Importer. The export data of another Go version than
// the one that built this program may be unreadable, even to the point of a
// panic: that is an error like others.
func (im *packageImporter) Import(path string) (p *types.Package, err error) {
	im.mu.Lock()
	defer im.mu.Unlock()
	defer func() {
		if r := recover(); r != nil {
			err = &exportDataError{path, r}
		}
	}()
	if path == "unsafe" {
		return types.Unsafe, nil
	}
	return im.gc.Import(path)
}

// An exportDataError reports compiled packages that this program cannot read.
type exportDataError struct {
	path   string
	reason any
}

func (e *exportDataError) Error() string {
	return fmt.Sprintf("cell: compiled package %s: %v", e.path, e.reason)
}

// open finds export data for the importer; the packages have been listed before.
func (im *packageImporter) open(path string) (io.ReadCloser, error) {
	im.mod.mu.Lock()
	p := im.mod.state.Packages[path]
	im.mod.mu.Unlock()
	if p == nil || p.Export == "" {
		return nil, fmt.Errorf("package %s has not been compiled", path)
	}
	return os.Open(p.Export)
}
