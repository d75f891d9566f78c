package build_test

import (
	"archive/zip"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/parse"
)

// A proxy is a module proxy in a directory, as GOPROXY=file:// reads it.
type proxy struct {
	t   *testing.T
	dir string
}

// newProxy makes a proxy that the go command asks, and an empty module cache.
func newProxy(t *testing.T) *proxy {
	p := &proxy{t, t.TempDir()}
	cache := t.TempDir()
	t.Setenv("GOMODCACHE", cache)
	t.Setenv("GOPROXY", "file://"+p.dir)
	t.Setenv("GOSUMDB", "off")
	t.Setenv("GONOSUMDB", "*")
	t.Cleanup(func() { exec.Command("chmod", "-R", "u+w", cache).Run() })
	return p
}

// module adds a version of a module. Its packages are in files, one a line: the
// path below the module, then the rest of its only file.
func (p *proxy) module(path, version, requires string, files map[string]string) {
	p.t.Helper()
	dir := filepath.Join(p.dir, path, "@v")
	mod := "module " + path + "\n\ngo 1.21\n" + requires
	write(p.t, dir, version+".mod", mod)
	write(p.t, dir, version+".info", fmt.Sprintf(`{"Version":%q,"Time":"2024-01-01T00:00:00Z"}`, version))
	list, _ := os.ReadFile(filepath.Join(dir, "list"))
	write(p.t, dir, "list", string(list)+version+"\n")
	out, err := os.Create(filepath.Join(dir, version+".zip"))
	if err != nil {
		p.t.Fatal(err)
	}
	z := zip.NewWriter(out)
	add := func(name, text string) {
		f, err := z.Create(path + "@" + version + "/" + name)
		if err == nil {
			_, err = f.Write([]byte(text))
		}
		if err != nil {
			p.t.Fatal(err)
		}
	}
	add("go.mod", mod)
	for name, text := range files {
		add(name, text)
	}
	if err := errors.Join(z.Close(), out.Close()); err != nil {
		p.t.Fatal(err)
	}
}

// download has the go command fetch modules as an installation does.
func (p *proxy) download(dir string, what ...string) {
	p.t.Helper()
	cmd := exec.Command("go", append([]string{"mod", "download"}, what...)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		p.t.Fatalf("go mod download: %v: %s", err, out)
	}
}

// runFetching runs a cell, and fetches what it lacks as a notebook does.
func (b *bench) runFetching(text string) (out string, changes []string, err error) {
	for range 8 {
		out, _, err = b.run(text)
		var missing *build.ImportError
		if !errors.As(err, &missing) || !missing.Needs {
			return out, changes, err
		}
		more, failed := b.Composer.Module.Get(b.t.Context(), missing.Path)
		if failed != nil || len(more) == 0 {
			return "", changes, build.NotFetched(err, failed)
		}
		changes = append(changes, more...)
	}
	return out, changes, err
}

// TestFetch: a package of a module that the notebook knows, or does not know yet,
// is there after one Get for each module that is missing.
func TestFetch(t *testing.T) {
	p := newProxy(t)
	p.module("example.com/deep", "v1.0.0", "", map[string]string{"deep.go": "package deep\n\nconst X = 10\n", "more/more.go": "package more\n\nconst X = 11\n"})
	p.module("example.com/deep", "v1.9.0", "", map[string]string{"deep.go": "package deep\n\nconst X = 19\n"})
	p.module("example.com/mid", "v1.0.0", "\nrequire example.com/deep v1.0.0\n", map[string]string{
		"mid.go": "package mid\n\nconst X = 20\n", "uses/uses.go": "package uses\n\nimport \"example.com/deep\"\n\nconst X = 20 + deep.X\n"})
	p.module("example.com/old", "v1.0.0", "", map[string]string{"old.go": "package old\n\nconst X = 30\n"})
	p.module("example.com/old", "v1.2.0", "", map[string]string{"old.go": "package old\n\nconst X = 32\n"})
	p.module("example.com/fork", "v1.0.0", "", map[string]string{"fork.go": "package old\n\nconst X = 40\n"})
	p.module("example.com/new/v2", "v2.1.0", "\nrequire example.com/old v1.0.0\n", map[string]string{
		"sub/sub.go": "package sub\n\nimport \"example.com/old\"\n\nconst X = 50 + old.X\n"})
	const library = "module example.org/house\n\ngo 1.26\n"
	tests := []struct {
		name, mod string // the library's go.mod, which the cells' begins with
		download  []string
		edit      func(t *testing.T, dir string) // of the cells' module
		imports   string
		want      string
		version   string // that go.mod has then
	}{
		{name: "in the graph, not downloaded", mod: "require example.com/mid v1.0.0", download: []string{"example.com/mid"},
			imports: "example.com/deep", want: "10", version: "example.com/deep v1.0.0"},
		{name: "another package of it", mod: "require example.com/mid v1.0.0", download: []string{"example.com/mid"},
			imports: "example.com/deep/more", want: "11", version: "example.com/deep v1.0.0"},
		{name: "below a package that is there", mod: "require example.com/mid v1.0.0", download: []string{"example.com/mid"},
			imports: "example.com/mid/uses", want: "30", version: "example.com/deep v1.0.0"},
		{name: "required, nothing downloaded", mod: "require example.com/mid v1.0.0",
			imports: "example.com/mid/uses", want: "30", version: "example.com/mid v1.0.0"},
		{name: "required in an old version", mod: "require example.com/old v1.0.0",
			imports: "example.com/old", want: "30", version: "example.com/old v1.0.0"},
		{name: "of no module that is known", imports: "example.com/new/v2/sub", want: "80", version: "example.com/new/v2 v2.1.0"},
		{name: "newest of no module that is known", imports: "example.com/old", want: "32", version: "example.com/old v1.2.0"},
		{name: "go.sum lacks a line", mod: "require example.com/old v1.0.0", download: []string{"example.com/old"},
			edit:    func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "go.sum")) },
			imports: "example.com/old", want: "30", version: "example.com/old v1.0.0"},
		{name: "go.sum lacks the lines of a graph", mod: "require example.com/mid v1.0.0", download: []string{"all"},
			edit:    func(t *testing.T, dir string) { os.Remove(filepath.Join(dir, "go.sum")) },
			imports: "example.com/mid/uses", want: "30", version: "example.com/mid v1.0.0"},
		{name: "replaced by another module", mod: "require example.com/old v1.0.0\n\nreplace example.com/old => example.com/fork v1.0.0",
			imports: "example.com/old", want: "40", version: "example.com/old v1.0.0"},
		{name: "replaced by a directory and not required", edit: func(t *testing.T, dir string) {
			local := t.TempDir()
			write(t, local, "go.mod", "module example.com/local\n\nrequire example.com/old v1.0.0\n")
			write(t, local, "sub/sub.go", "package sub\n\nimport \"example.com/old\"\n\nconst X = 60 + old.X\n")
			mod, _ := os.ReadFile(filepath.Join(dir, "go.mod"))
			write(t, dir, "go.mod", string(mod)+"\nreplace example.com/local => "+local+"\n")
		}, imports: "example.com/local/sub", want: "90", version: "example.com/local v0.0.0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("GOMODCACHE", filepath.Join(os.Getenv("GOMODCACHE"), strings.ReplaceAll(tt.name, " ", "-")))
			house := t.TempDir()
			write(t, house, "go.mod", library+tt.mod+"\n")
			if tt.download != nil {
				p.download(house, tt.download...)
			}
			b := newBench(t, house)
			if err := b.Composer.Module.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
			dir := b.Composer.Module.Dir
			if tt.edit != nil {
				tt.edit(t, dir)
			}
			text := fmt.Sprintf("import (\"fmt\"; x %q)\nfmt.Print(x.X)", tt.imports)
			out, changes, err := b.runFetching(text)
			if out != tt.want || err != nil {
				t.Errorf("got %q, %v, after %q; want %s", out, err, changes, tt.want)
			}
			if len(changes) == 0 {
				t.Error("got no changes, want it said what was done")
			}
			if mod, _ := os.ReadFile(filepath.Join(dir, "go.mod")); !strings.Contains(string(mod), tt.version) {
				t.Errorf("got go.mod %s, want one with %s", mod, tt.version)
			}
		})
	}
}

// TestFetchLibrary: one Get fetches all modules that the library's packages import, of
// which none is on this machine.
func TestFetchLibrary(t *testing.T) {
	p := newProxy(t)
	p.module("example.com/deep", "v1.0.0", "", map[string]string{"deep.go": "package deep\n\nconst X = 10\n"})
	p.module("example.com/old", "v1.0.0", "", map[string]string{"old.go": "package old\n\nconst X = 30\n"})
	t.Setenv("GOMODCACHE", filepath.Join(os.Getenv("GOMODCACHE"), "library"))
	house := t.TempDir()
	write(t, house, "go.mod", "module example.org/house\n\ngo 1.26\n\nrequire (\n\texample.com/deep v1.0.0\n\texample.com/old v1.0.0\n)\n")
	write(t, house, "one/one.go", "package one\n\nimport \"example.com/deep\"\n\nconst X = deep.X\n")
	write(t, house, "two/two.go", "package two\n\nimport \"example.com/old\"\n\nconst X = old.X\n")
	b := newBench(t, house)
	changes, err := b.Composer.Module.Get(t.Context(), "example.com/deep")
	if said := strings.Join(changes, "\n"); err != nil || !strings.Contains(said, "downloaded example.com/deep v1.0.0") || !strings.Contains(said, "downloaded example.com/old v1.0.0") {
		t.Errorf("got %q, %v, want both modules downloaded", changes, err)
	}
}

// TestFetchFails: the error at the import says what was tried, and what to do.
func TestFetchFails(t *testing.T) {
	p := newProxy(t)
	p.module("example.com/old", "v1.0.0", "", map[string]string{"old.go": "package old\n\nconst X = 30\n"})
	tests := []struct {
		name, mod, proxy, imports string
		want                      []string // in the message
		hint                      string
	}{
		{"proxy off", "require example.com/old v1.0.0", "off", "example.com/old",
			[]string{"its module is not ", "go get example.com/old@v1.0.0", "GOPROXY=off"}, "go env -u GOPROXY"},
		{"no network", "", "http://127.0.0.1:1", "example.com/new",
			[]string{"no module of this notebook provides it", "go get example.com/new", "http://127.0.0.1:1", "connection refused"}, "-replace"},
		{"no such module", "", "", "example.com/none/x", []string{"go get example.com/none/x", "GOPROXY=file://"}, "%require example.com/none/x@v1.2.3"},
		{"no such package of it", "require example.com/old v1.0.0", "", "example.com/old/none", []string{"does not contain package"}, ""},
		{"folder that is gone", "require example.com/old v1.0.0\n\nreplace example.com/old => ./nowhere", "", "example.com/old", []string{"nowhere"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.proxy != "" {
				t.Setenv("GOPROXY", tt.proxy)
			}
			house := t.TempDir()
			write(t, house, "go.mod", "module example.org/house\n\ngo 1.26\n"+tt.mod+"\n")
			_, _, err := newBench(t, house).runFetching(fmt.Sprintf("fmt.Print(1)\nimport x %q\nfmt.Print(x.X)", tt.imports))
			var be *parse.BuildError
			if !errors.As(err, &be) || be.Diagnostics[0].Line != 2 {
				t.Fatalf("got error %v, want one at line 2", err)
			}
			for _, want := range tt.want {
				if !strings.Contains(be.Diagnostics[0].Message, want) {
					t.Errorf("got message %s, want one with %q", be.Diagnostics[0].Message, want)
				}
			}
			if !strings.Contains(be.Diagnostics[0].Hint, tt.hint) {
				t.Errorf("got hint %q, want one with %q", be.Diagnostics[0].Hint, tt.hint)
			}
		})
	}
}
