package build

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/mod/modfile"
)

// A goMod is what the cells' go.mod says, as far as cells are concerned.
type goMod struct {
	goVersion string   // "1.26.5"
	direct    []string // paths of the modules required, but not for others' sake
	required  []debug.Module
	replaced  []replacement
}

// A replacement points a module at a directory of this machine.
type replacement struct{ path, dir string }

// anyVersion lets a go.mod have versions that the go command has yet to resolve, such as latest.
func anyVersion(_, version string) (string, error) { return version, nil }

// readGoMod reads a go.mod file.
func readGoMod(file string) (goMod, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return goMod{}, err
	}
	f, err := modfile.Parse(file, data, anyVersion)
	if err != nil {
		return goMod{}, err
	}
	var m goMod
	if f.Go != nil {
		m.goVersion = f.Go.Version
	}
	for _, r := range f.Require {
		m.required = append(m.required, debug.Module{Path: r.Mod.Path, Version: r.Mod.Version})
		if !r.Indirect {
			m.direct = append(m.direct, r.Mod.Path)
		}
	}
	for _, r := range f.Replace {
		if r.New.Version == "" { // else it is another module, not a directory
			m.replaced = append(m.replaced, replacement{r.Old.Path, within(file, r.New.Path)})
		}
	}
	return m, nil
}

// within is a directory that a file names, as seen from the file's.
func within(file, dir string) string {
	if filepath.IsAbs(dir) {
		return dir
	}
	return filepath.Join(filepath.Dir(file), dir)
}

// readGoWork returns the directories that a go.work file uses, with the modules
// in them. Without the file, or with one that only the go command understands, there are none.
func readGoWork(file string) (out []replacement) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	w, err := modfile.ParseWork(file, data, anyVersion)
	if err != nil {
		return nil
	}
	for _, use := range w.Use {
		dir := within(file, use.Path)
		if dir == filepath.Dir(file) {
			continue // the cells' module itself
		}
		if mod, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil {
			out = append(out, replacement{modfile.ModulePath(mod), dir})
		}
	}
	return out
}

// seedGoMod returns the first go.mod of a cells' module. With a library it is
// the library's own, under another name and with the library added: so every
// version is the one that the library was built and tested with, and nothing
// has to be looked up. What only the library needs is marked as indirect.
func seedGoMod(library, goVersion string) (mod, sum []byte, err error) {
	if library == "" {
		return fmt.Appendf(nil, "module cell\n\ngo %s\n", goVersion), nil, nil
	}
	file := filepath.Join(library, "go.mod")
	mod, err = os.ReadFile(file)
	if os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("cell: library: there is none at %s: gaiden install -source DIRECTORY puts it there, from Gaiden's source tree", library)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cell: library: %w", err)
	}
	sum, err = os.ReadFile(filepath.Join(library, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("cell: library: %w", err)
	}
	f, err := modfile.Parse(file, mod, anyVersion)
	if err != nil {
		return nil, nil, fmt.Errorf("cell: library: %w", err)
	}
	if f.Module == nil {
		return nil, nil, fmt.Errorf("cell: library: %s has no module line", file)
	}
	name := f.Module.Mod.Path
	for _, r := range f.Require {
		r.Indirect = !slices.ContainsFunc(named, func(m string) bool { return strings.HasPrefix(r.Mod.Path, m) })
	}
	f.SetRequire(slices.Clone(f.Require))
	f.AddNewRequire(name, "v0.0.0", false)
	if err := errors.Join(f.AddModuleStmt("cell"), f.AddReplace(name, "", library, "")); err != nil {
		return nil, nil, fmt.Errorf("cell: library: %w", err)
	}
	mod, err = f.Format()
	return mod, sum, err
}

// named are the modules of the library's whose packages cells name, too, without importing them.
var named = []string{"github.com/gomlx/", "github.com/janpfeifer/gonb"}

// buildInfo returns what debug.ReadBuildInfo tells a cell's program, in
// the form in which the linker takes it. The go command would list the modules
// that are linked; this lists all that the notebook has.
func (m goMod) buildInfo(goVersion string) string {
	info := debug.BuildInfo{GoVersion: goVersion, Path: "cell", Main: debug.Module{Path: "cell", Version: "(devel)"}}
	for _, dep := range m.required {
		for _, r := range m.replaced {
			if r.path == dep.Path {
				dep.Replace = &debug.Module{Path: r.dir}
			}
		}
		info.Deps = append(info.Deps, &dep)
	}
	// The marks around it are those of cmd/go/internal/modload.
	const begin, end = "\x30\x77\xaf\x0c\x92\x74\x08\x02\x41\xe1\xc1\x07\xe6\xd6\x18\xe6", "\xf9\x32\x43\x31\x86\x18\x20\x72\x00\x82\x42\x10\x41\x16\xd8\xf2"
	_, text, _ := strings.Cut(info.String(), "\n") // without the line of Go's version
	return begin + text + end
}

// A localPackage is a package found in the source tree of a replaced module.
type localPackage struct{ name, path string }

// survey walks the trees that replace modules, and returns their packages and
// a stamp that changes when one of their Go files does.
func (m goMod) survey() (packages []localPackage, stamp string) {
	h := sha256.New()
	for _, r := range m.replaced {
		seen := map[string]bool{}
		root := r.dir + "/" // which follows a symbolic link
		filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return nil // what cannot be read cannot be imported either
			}
			name := e.Name()
			if e.IsDir() {
				if path != root && (name[0] == '.' || name[0] == '_' || name == "testdata" || name == "node_modules") {
					return filepath.SkipDir
				}
				return nil
			}
			if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return nil
			}
			info, err := e.Info()
			if err != nil {
				return nil
			}
			fmt.Fprintln(h, path, info.Size(), info.ModTime().UnixNano())
			dir := filepath.Dir(path)
			if seen[dir] {
				return nil
			}
			if pkg := packageClause(path); pkg != "" && pkg != "main" {
				seen[dir] = true
				rel, _ := filepath.Rel(r.dir, dir)
				full := r.path
				if rel != "." {
					full += "/" + filepath.ToSlash(rel)
				}
				if Importable(full) {
					packages = append(packages, localPackage{pkg, full})
				}
			}
			return nil
		})
	}
	return packages, fmt.Sprintf("%x", h.Sum(nil)[:12])
}

// Importable reports whether a cell may import the package.
func Importable(path string) bool {
	return !strings.Contains("/"+path+"/", "/internal/") && !strings.Contains("/"+path+"/", "/vendor/")
}

// packageClause returns the name after "package" in a Go file, or "".
func packageClause(file string) string {
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.PackageClauseOnly)
	if err != nil {
		return ""
	}
	return f.Name.Name
}
