package build

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
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

// readGoMod reads a go.mod file. What it does not understand it leaves to the
// go command.
func readGoMod(file string) (goMod, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return goMod{}, err
	}
	var m goMod
	block := ""
	for line := range strings.Lines(string(data)) {
		code, comment, _ := strings.Cut(strings.TrimSpace(line), "//")
		words := strings.Fields(code)
		switch {
		case len(words) == 0:
			continue
		case words[0] == ")":
			block = ""
			continue
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case block != "":
			words = append([]string{block}, words...)
		}
		switch {
		case words[0] == "go" && len(words) == 2:
			m.goVersion = words[1]
		case words[0] == "require" && len(words) == 3:
			path := unquote(words[1])
			m.required = append(m.required, debug.Module{Path: path, Version: words[2]})
			if strings.TrimSpace(comment) != "indirect" {
				m.direct = append(m.direct, path)
			}
		case words[0] == "replace":
			for i, w := range words {
				if w == "=>" && i+2 == len(words) {
					dir := unquote(words[i+1])
					if !filepath.IsAbs(dir) {
						dir = filepath.Join(filepath.Dir(file), dir)
					}
					m.replaced = append(m.replaced, replacement{unquote(words[1]), dir})
				}
			}
		}
	}
	return m, nil
}

// readGoWork returns the directories that a go.work file uses, with the modules
// in them. Without the file there are none.
func readGoWork(file string) []replacement {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	var out []replacement
	block := false
	for line := range strings.Lines(string(data)) {
		code, _, _ := strings.Cut(line, "//")
		words := strings.Fields(code)
		use := len(words) > 1 && words[0] == "use"
		switch {
		case use && words[1] == "(":
			block = true
			continue
		case len(words) > 0 && words[0] == ")":
			block = false
		}
		if len(words) == 0 || !use && !block {
			continue
		}
		dir := unquote(words[len(words)-1])
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(filepath.Dir(file), dir)
		}
		if dir == filepath.Dir(file) {
			continue // the cells' module itself
		}
		mod, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
		for line := range strings.Lines(string(mod)) {
			if words := strings.Fields(line); len(words) > 1 && words[0] == "module" {
				out = append(out, replacement{unquote(words[1]), dir})
				break
			}
		}
	}
	return out
}

func unquote(s string) string { return strings.Trim(s, "\"`") }

// seedGoMod returns the first go.mod of a cells' module. With a library it is
// the library's own, under another name and with the library added: so every
// version is the one that the library was built and tested with, and nothing
// has to be looked up. What only the library needs is marked as indirect.
func seedGoMod(library, goVersion string) (mod, sum []byte, err error) {
	if library == "" {
		return fmt.Appendf(nil, "module cell\n\ngo %s\n", goVersion), nil, nil
	}
	mod, err = os.ReadFile(filepath.Join(library, "go.mod"))
	if err != nil {
		return nil, nil, fmt.Errorf("cell: library: %w; Library must be the source tree of the installed library", err)
	}
	sum, err = os.ReadFile(filepath.Join(library, "go.sum"))
	if err != nil && !os.IsNotExist(err) {
		return nil, nil, fmt.Errorf("cell: library: %w", err)
	}
	var out bytes.Buffer
	name := ""
	for line := range strings.Lines(string(mod)) {
		if words := strings.Fields(line); name == "" && len(words) >= 2 && words[0] == "module" {
			name = unquote(words[1])
			line = "module cell\n"
		}
		if words := strings.Fields(strings.TrimPrefix(line, "require")); len(words) >= 2 && strings.HasPrefix(words[1], "v") && !slices.ContainsFunc(named, func(m string) bool { return strings.HasPrefix(words[0], m) }) {
			required, _, _ := strings.Cut(line, "//")
			line = strings.TrimRight(required, " \n") + " // indirect\n"
		}
		out.WriteString(line)
	}
	if name == "" {
		return nil, nil, fmt.Errorf("cell: library: %s has no module line", filepath.Join(library, "go.mod"))
	}
	fmt.Fprintf(&out, "\nrequire %s v0.0.0\n\nreplace %s => %q\n", name, name, library)
	return out.Bytes(), sum, nil
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
	f, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer f.Close()
	head := make([]byte, 64<<10)
	n, _ := f.Read(head)
	comment := false
	for line := range strings.Lines(string(head[:n])) {
		line = strings.TrimSpace(line)
		switch {
		case comment:
			comment = !strings.Contains(line, "*/")
		case strings.HasPrefix(line, "/*"):
			comment = !strings.Contains(line, "*/")
		case strings.HasPrefix(line, "package "):
			name, _, _ := strings.Cut(strings.TrimSpace(line[len("package "):]), " ")
			return strings.TrimRight(name, ";")
		case line != "" && !strings.HasPrefix(line, "//"):
			return ""
		}
	}
	return ""
}

var languagePattern = regexp.MustCompile(`^[0-9]+\.[0-9]+`)

// languageVersion returns "go1.26" for a go.mod's "1.26.5".
func languageVersion(v string) string {
	if l := languagePattern.FindString(v); l != "" {
		return "go" + l
	}
	return ""
}
