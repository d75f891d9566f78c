package build

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
)

// staleCache matches what compiler and linker say of compiled packages that are
// damaged, or that do not fit to each other or to them. The types of a cell are
// checked before, so it is never the cell's own mistake.
var staleCache = regexp.MustCompile(`fingerprint mismatch|object is \[|object header mismatch|could not import |cannot find package|` +
	`cannot open file|can't open|export data|internal compiler error|^panic: |unexpected EOF|not an object file|malformed|bad magic|not in importcfg|` +
	`invalid (?:reloc|object)|reading object|relocation target [^m]\S* not defined|signal: (?:segmentation fault|bus error|aborted)`)

// A Package is a package that has been compiled.
type Package struct {
	Name    string
	Export  string   // archive for compiler and linker; empty for unsafe
	Sum     uint32   // the archive's checksum
	Imports []string `json:",omitempty"`

	// Cgo says that it, or one that it imports, is in part written in C: programs
	// with it are built by the go command, with cgo.
	Cgo bool `json:",omitempty"`
	// WithoutC says why its part in C is left out, if that is so.
	WithoutC string `json:",omitempty"`
}

// An index says where the compiled packages are. All of it is of one build: the
// archive of a package names the fingerprints of those that it imports, and they
// are those of the archives that the index has. The go command's answers fit to
// each other in one run, and in two as long as nothing has changed between them.
type index struct {
	Packages map[string]*Package
	Listed   []string // the requested packages; the others are their dependencies
}

// openIndex reads the index of an earlier kernel, if what it says is still so.
// m.mu is held.
func (m *Module) openIndex() {
	m.forget()
	m.load("packages-"+m.key, &m.state)
	if m.state.Packages == nil {
		m.state.Packages = map[string]*Package{}
	}
	if reason := m.unfit(); reason != "" {
		logger(m.Log).Warn("the list of compiled packages is made again", "reason", reason)
		m.forget()
	}
}

// forget drops all that is known of compiled packages. m.mu is held.
func (m *Module) forget() {
	m.importer = newPackageImporter(m)
	m.state = index{Packages: map[string]*Package{}}
	m.declared = map[string][]string{}
	m.generation++
}

// Generation changes when compiled packages were exchanged for others: what was
// composed with those before has to be composed again.
func (m *Module) Generation() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.generation
}

// unfit says what is wrong with the archives that the index names, "" if nothing
// is: the go command throws away what has not been used for some days. Damaged
// ones are removed. Archives that were looked at before cost a stat each.
func (m *Module) unfit() (reason string) {
	var mu sync.Mutex
	m.eachArchive(slices.Collect(maps.Values(m.state.Packages)), func(p *Package) {
		sum, err := m.files.Sum(p.Export)
		switch {
		case err != nil:
			err = fmt.Errorf("a compiled package is gone: %w", err)
		case sum != p.Sum:
			err = fmt.Errorf("%s: the compiled package is damaged", p.Export)
			m.discard(p.Export)
		default:
			return
		}
		mu.Lock()
		reason = err.Error()
		mu.Unlock()
	})
	return reason
}

// eachArchive calls f for each package that has one, for several at a time.
func (m *Module) eachArchive(packages []*Package, f func(*Package)) {
	var next atomic.Int64
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(packages) {
					return
				}
				if packages[i].Export != "" {
					f(packages[i])
				}
			}
		})
	}
	all.Wait()
}

// discard removes a damaged archive from the go command's cache: it would be used
// for ever, as its size is right.
func (m *Module) discard(archive string) {
	if m.tool.GOCACHE != "" && strings.HasPrefix(archive, m.tool.GOCACHE+string(filepath.Separator)) {
		os.Remove(archive)
	}
}

// checkArchives computes the checksums of archives that are new to the index, and compares
// them with their names: the go command names a file by its contents. It reports
// whether there were damaged ones, which are removed then.
func (m *Module) checkArchives(packages map[string]*Package) (damaged bool) {
	var bad atomic.Bool
	m.eachArchive(slices.Collect(maps.Values(packages)), func(p *Package) {
		if ok := m.contentsNamed(p.Export); !ok {
			logger(m.Log).Warn("a compiled package in Go's cache is damaged: it is compiled again", "file", p.Export)
			m.discard(p.Export)
			bad.Store(true)
			return
		}
		p.Sum, _ = m.files.Sum(p.Export) // one that cannot be read is unfit later
	})
	return bad.Load()
}

// contentsNamed reports whether a file has the contents that its name says, as far
// as it says so. It is read once.
func (m *Module) contentsNamed(archive string) bool {
	name, ok := strings.CutSuffix(filepath.Base(archive), "-d")
	want, err := hex.DecodeString(name)
	if !ok || err != nil || len(want) != sha256.Size {
		return true
	}
	if _, known := m.named256.Load(archive); known {
		return true
	}
	f, err := os.Open(archive)
	if err != nil {
		return true // to be gone is another matter
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil || !bytes.Equal(h.Sum(nil), want) {
		return false
	}
	m.named256.Store(archive, true)
	return true
}

// list asks the go command for packages and everything below them, and adds them
// to the index.
func (m *Module) list(ctx context.Context, paths []string) error {
	got, problem, err := m.listWhole(ctx, paths)
	if err != nil {
		return err
	}
	if other := m.conflict(got); other != "" {
		// Of two builds: neither's packages can be linked with the other's.
		logger(m.Log).Debug("the list of compiled packages is made again", "reason", "the go command has compiled another "+other)
		all := append(slices.Clone(m.state.Listed), paths...)
		m.forget()
		if got, problem, err = m.listWhole(ctx, all); err != nil {
			return err
		}
		m.state.Listed = all
	}
	maps.Copy(m.state.Packages, got)
	if problem != nil {
		for _, p := range paths {
			delete(m.state.Packages, p)
		}
		if err := m.cacheFull(ctx, problem); err != nil {
			return err
		}
		return problem
	}
	m.state.Listed = slices.Compact(slices.Sorted(slices.Values(append(m.state.Listed, paths...))))
	m.save("packages-"+m.key, m.state)
	return nil
}

// conflict returns a package that the index has another archive of, "" if there
// is none.
func (m *Module) conflict(got map[string]*Package) string {
	for path, p := range got {
		if have := m.state.Packages[path]; have != nil && have.Export != p.Export {
			return path
		}
	}
	return ""
}

// listWhole is listCgo with archives that are not damaged.
func (m *Module) listWhole(ctx context.Context, paths []string) (got map[string]*Package, problem *ImportError, err error) {
	got, problem, err = m.listCgo(ctx, paths)
	if err == nil && m.checkArchives(got) {
		if got, problem, err = m.listCgo(ctx, paths); err == nil {
			m.checkArchives(got)
		}
	}
	return got, problem, err
}

// goList asks the go command for packages and everything below them. problem is
// the first that cannot be had. Cgo is set for those that have files in C, used or
// not.
func (m *Module) goList(ctx context.Context, paths, env []string) (got map[string]*Package, problem *ImportError, err error) {
	args := append([]string{"list", "-e", "-export", "-deps", "-json=ImportPath,Name,Export,Error,Imports,Standard,Dir,CgoFiles,IgnoredGoFiles"}, paths...)
	if !slices.Contains(paths, "runtime") {
		args = append(args, "runtime") // every program links it, imported or not
	}
	out, _, err := m.run(ctx, env, args...)
	if err != nil && strings.Contains(err.Error(), "updates to go.mod needed") {
		// A package of a module that others require, and go.mod does not yet
		// name. Its version is decided: no network is needed to write it.
		update := append([]string{"list", "-mod=mod", "-e", "-deps"}, paths...)
		if _, _, err = m.run(ctx, m.Environ(), update...); err == nil {
			err = m.refresh(ctx)
		}
		if err == nil {
			out, _, err = m.run(ctx, env, args...)
		}
	}
	if err != nil && notHere.MatchString(err.Error()) {
		// The graph of the modules itself is not whole.
		return nil, nil, &ImportError{Path: foreign(paths), Reason: "its module, or one that it needs, is not on this machine", Needs: true}
	}
	if err != nil {
		return nil, nil, err
	}
	got = map[string]*Package{}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			Package
			ImportPath, Dir          string
			Standard                 bool
			CgoFiles, IgnoredGoFiles []string
			Error                    *struct {
				Err         string
				ImportStack []string
			}
		}
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return got, problem, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("cell: go list: %w", err)
		}
		if p.Error != nil {
			if problem == nil || slices.Contains(paths, p.ImportPath) && !slices.Contains(paths, problem.Path) {
				problem = importProblem(p.ImportPath, p.Error.Err)
				problem.inC = usesC(p.Dir, p.IgnoredGoFiles)
				for _, path := range p.Error.ImportStack {
					if problem.via == "" && slices.Contains(paths, path) {
						problem.via = path
					}
				}
			}
			continue
		}
		pkg := p.Package
		pkg.Cgo = !p.Standard && (len(p.CgoFiles) > 0 || usesC(p.Dir, p.IgnoredGoFiles))
		got[p.ImportPath] = &pkg
	}
}

// Below calls f for the packages at the given paths and all below them that the
// index has, each once.
func (m *Module) Below(paths []string, f func(path string, p *Package)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	seen := map[string]bool{}
	var visit func(path string)
	visit = func(path string) {
		p := m.state.Packages[path]
		if seen[path] || p == nil {
			return
		}
		seen[path] = true
		f(path, p)
		for _, i := range p.Imports {
			visit(i)
		}
	}
	for _, path := range paths {
		visit(path)
	}
}

// Relist recreates the index from the compiler's own cache, after a build that
// has failed as only a stale or damaged one can.
func (m *Module) Relist(ctx context.Context, why string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.open(ctx); err != nil {
		return err
	}
	return m.relist(ctx, why)
}

func (m *Module) relist(ctx context.Context, why string) error {
	logger(m.Log).Warn("the list of compiled packages is made again", "reason", why)
	m.files = &sealed.Verifier{}
	m.named256.Clear()
	listed := m.state.Listed
	m.forget()
	os.Remove(filepath.Join(m.cacheDir(), "packages-"+m.key+".json"))
	for _, name := range []string{"importcfg", "importcfg.link", "main.a", "main.a.reached"} {
		os.Remove(filepath.Join(m.Dir, ".gaiden", name))
	}
	if len(listed) == 0 {
		return nil
	}
	return m.list(ctx, listed)
}

// trustCache sees that nobody else can write to the directory of the cache.
func (m *Module) trustCache() error {
	if m.trusted || m.Cache == "" {
		return nil
	}
	if err := os.MkdirAll(m.Cache, 0o700); err != nil {
		logger(m.Log).Warn("nothing is kept for the next kernel", "error", err)
		return nil
	}
	var denied *wire.Error
	if err := wire.TrustedPath(m.Cache); errors.As(err, &denied) {
		return err
	}
	m.trusted = true
	return nil
}

// load reads a cached answer; where there is none, or a damaged one, v stays empty.
func (m *Module) load(name string, v any) {
	file := filepath.Join(m.cacheDir(), name+".json")
	data, err := sealed.Read(file)
	if err == nil {
		err = json.Unmarshal(data, v)
	}
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		logger(m.Log).Warn("a list in the cache is damaged: it is made again", "file", file, "error", err)
		os.RemoveAll(file)
	}
}

// save keeps an answer for the next kernel. A full disk costs time, not the cell.
func (m *Module) save(name string, v any) {
	dir := m.cacheDir()
	data, err := json.Marshal(v)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		prune(dir, "packages-*.json", 16)
		prune(dir, "names-*.json", 8)
		err = sealed.Write(filepath.Join(dir, name+".json"), data)
	}
	if err != nil {
		logger(m.Log).Warn("a list is not kept for the next kernel", "error", err)
	}
}
