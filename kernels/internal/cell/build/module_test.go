package build_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/cell/keep"
	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/cell/process"
)

// newLibrary makes a library with one package, whose go.mod requires nothing.
func newLibrary(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "go.mod", "module example.org/house // a comment\n\ngo 1.26\n")
	write(t, dir, "lib/door/door.go", "// Package door is a door.\n/* and\nmore */\npackage door\n\nconst Width = 90\n")
	write(t, dir, "lib/internal/secret/secret.go", "package secret\n")
	write(t, dir, "lib/broken/broken.go", "package broken\n\nvar X int = \"\"\n")
	write(t, dir, "tool/main.go", "package main\n\nfunc main() {}\n")
	return dir
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	file := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A bench is a composer with its builder.
type bench struct {
	*keep.Composer
	*build.Builder
	t   *testing.T
	n   int
	log lockedBuffer
}

// A lockedBuffer is written to by several at once.
type lockedBuffer struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newBench(t *testing.T, library string) *bench {
	return newKernel(t, library, t.TempDir())
}

// newKernel is a bench with a cache that others may share.
func newKernel(t *testing.T, library, cache string) *bench {
	b := &bench{t: t}
	log := slog.New(slog.NewTextHandler(&b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	m := &build.Module{Dir: t.TempDir(), Library: library, Cache: cache, Log: log}
	b.Composer = &keep.Composer{Module: m, Memory: &keep.Memory{}}
	b.Builder = &build.Builder{Module: m, Store: &build.Store{Dir: filepath.Join(cache, "binaries"), Log: log}, Dir: t.TempDir()}
	t.Cleanup(b.Builder.Close)
	return b
}

// programs lists the files of the kernel's store.
func programs(b *bench) []string {
	names, _ := filepath.Glob(filepath.Join(b.Store.Dir, "cell-*"))
	return names
}

// run composes, builds and runs a cell, and returns what it printed.
func (b *bench) run(text string) (stdout string, cost build.Cost, err error) {
	b.t.Helper()
	b.n++
	p, err := b.Compose(b.t.Context(), parse.Source{ID: b.n, Text: text})
	if err != nil {
		return "", cost, err
	}
	bin, cost, err := b.Build(b.t.Context(), &p.Program)
	if err != nil {
		return "", cost, err
	}
	b.Remember(p)
	var out strings.Builder
	exit, err := (&process.Command{Path: bin.Path, Go: true, Stdout: func(p []byte) { out.Write(p) }}).Run(b.t.Context())
	if err == nil && exit.Panic != nil {
		err = errors.New(exit.Panic.Message + "\n" + exit.Panic.Traceback(func(c, l int) string { return p.Line(c, l) }))
		for _, f := range exit.Panic.Frames {
			if got := bin.Cell(f.Cell); got != b.n && got > b.n {
				b.t.Errorf("frame of cell %d is in cell %d, want one up to %d", f.Cell, got, b.n)
			}
		}
	}
	return out.String(), cost, err
}

// TestLibrary: the library's packages are found by name, its versions are the
// cells', and a change of its source is seen by the next cell.
func TestLibrary(t *testing.T) {
	library := newLibrary(t)
	b := newBench(t, library)
	if out, _, err := b.run("fmt.Print(door.Width)"); out != "90" || err != nil {
		t.Fatalf("got %q, %v; want 90", out, err)
	}
	write(t, library, "lib/door/door.go", "package door\n\nconst Width = 120 // wider\n")
	if out, _, err := b.run("fmt.Print(door.Width)"); out != "120" || err != nil {
		t.Errorf("after a change got %q, %v; want 120", out, err)
	}
	if _, _, err := b.run("fmt.Print(secret.X)"); err == nil || !strings.Contains(err.Error(), "undefined: secret") {
		t.Errorf("internal package: got error %v, want undefined", err)
	}
	_, _, err := b.run("fmt.Print(broken.X)")
	var ie *build.ImportError
	if !errors.As(err, &ie) || !strings.Contains(err.Error(), "does not compile") {
		t.Errorf("broken package: got error %v, want an ImportError that says so", err)
	}
	if out, _, err := b.run("fmt.Print(door.Width)"); out != "120" || err != nil {
		t.Errorf("after an error got %q, %v; want 120", out, err)
	}
}

// TestLinkedLibrary: the library may be a symbolic link to its tree.
func TestLinkedLibrary(t *testing.T) {
	link := filepath.Join(t.TempDir(), "src")
	if err := os.Symlink(newLibrary(t), link); err != nil {
		t.Fatal(err)
	}
	b := newBench(t, link)
	if out, _, err := b.run("fmt.Print(door.Width)"); out != "90" || err != nil {
		t.Errorf("got %q, %v; want 90", out, err)
	}
}

// TestGOROOT: a cell can read Go's own files, as a program of go run can.
func TestGOROOT(t *testing.T) {
	b := newBench(t, "")
	if out, _, err := b.run("fmt.Print(len(must(os.ReadFile(filepath.Join(runtime.GOROOT(), \"LICENSE\")))) > 0)"); out != "true" || err != nil {
		t.Errorf("got %q, %v; want the licence", out, err)
	}
}

// TestLibraryNames: what notebooks import is found by its name alone.
func TestLibraryNames(t *testing.T) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Dir(string(out))
	m := &build.Module{Dir: t.TempDir(), Library: root, Tags: []string{"noxla"}}
	want := map[string]string{"graph": "github.com/gomlx/gomlx/core/graph", "tensors": "github.com/gomlx/gomlx/core/tensors", "model": "github.com/gomlx/gomlx/ml/model",
		"layers": "github.com/gomlx/gomlx/ml/layers", "dtypes": "github.com/gomlx/compute/dtypes", "shapes": "github.com/gomlx/compute/shapes", "compute": "github.com/gomlx/compute",
		"gonbui": "github.com/janpfeifer/gonb/gonbui", "fmt": "fmt", "rand": "math/rand"}
	packages, _ := filepath.Glob(filepath.Join(root, "lib", "*", "*.go"))
	for _, p := range packages { // of what is in lib itself; cells do not name lib/engine
		name := filepath.Base(filepath.Dir(p))
		want[name] = "gaiden/lib/" + name
	}
	if want["fit"] == "" || want["models"] == "" {
		t.Fatalf("got %v, want the library's packages", want)
	}
	for name, path := range want {
		if got, _ := m.Resolve(t.Context(), name, nil); got != path {
			t.Errorf("%s: got %q, want %s", name, got, path)
		}
	}
	// A name that a cell does not define is no package that only the library needs, unless that
	// has what the cell selects.
	for name, want := range map[string]string{"test": "", "proto": "", "graph": "github.com/gomlx/gomlx/core/graph"} {
		if got, ok := m.Resolve(t.Context(), name, []string{"NoSuchThing"}); got != want || ok != (want != "") {
			t.Errorf("%s.NoSuchThing: got %q, %t, want %q", name, got, ok, want)
		}
	}
	if got, _ := m.Resolve(t.Context(), "proto", []string{"Marshal"}); got != "google.golang.org/protobuf/proto" {
		t.Errorf("proto.Marshal: got %q, want protobuf's", got)
	}
}

// TestRival: of two packages with what a cell selects, the library's is taken, and the
// cell says so.
func TestRival(t *testing.T) {
	library := newLibrary(t)
	write(t, library, "lib/rand/rand.go", "package rand\n\nfunc IntN(n int) int { return -n }\n")
	m := &build.Module{Dir: t.TempDir(), Library: library}
	c := &keep.Composer{Module: m, Memory: &keep.Memory{}}
	const own = "example.org/house/lib/rand"
	tests := []struct{ text, path, note string }{
		{"rand.IntN(3)", own, "rand is package " + own + " here; import \"math/rand/v2\" if you mean that one"},
		{"rand.Intn(3)", "math/rand", ""},
		{"door.Width", "example.org/house/lib/door", ""},
		{"import \"math/rand/v2\"\nrand.IntN(3)", "math/rand/v2", ""},
		{"rand.IntN(4)", "math/rand/v2", ""}, // the notebook has imported it
	}
	for i, tt := range tests {
		p, err := c.Compose(t.Context(), parse.Source{ID: i + 1, Text: tt.text})
		if err != nil {
			t.Fatal(err)
		}
		c.Remember(p)
		if got := strings.Join(p.Notes, "\n"); got != tt.note || !slices.Contains(p.Imports, tt.path) {
			t.Errorf("%q: got the note %q and imports %v, want %q and %s", tt.text, got, p.Imports, tt.note, tt.path)
		}
	}
}

// TestWorkspace: a go.work file in the module's directory is obeyed.
func TestWorkspace(t *testing.T) {
	b := newBench(t, "")
	if _, _, err := b.run("fmt.Print(1)"); err != nil {
		t.Fatal(err)
	}
	dir, used := b.Builder.Module.Dir, newLibrary(t)
	write(t, dir, "go.work", "go "+strings.TrimPrefix(runtime.Version(), "go")+" // for all\n\nuse .\nuse (\n\t"+used+"\n)\n")
	if out, _, err := b.run("fmt.Print(door.Width)"); out != "90" || err != nil {
		t.Errorf("got %q, %v; want 90", out, err)
	}
}

func TestResolve(t *testing.T) {
	m := &build.Module{Dir: t.TempDir()}
	tests := []struct {
		name     string
		selected []string
		want     string
	}{
		{"fmt", nil, "fmt"},
		{"rand", []string{"Intn"}, "math/rand"},
		{"rand", []string{"IntN"}, "math/rand/v2"},
		{"rand", []string{"Text"}, "crypto/rand"},
		{"template", []string{"HTML"}, "html/template"},
		{"template", []string{"New"}, "html/template"},
		{"rand", []string{"Nothing"}, "math/rand"},
		{"scanner", []string{"Position"}, "text/scanner"},
		{"scanner", []string{"ErrorList", "PrintError"}, "go/scanner"},
		{"nosuch", nil, ""},
	}
	for _, tt := range tests {
		got, _ := m.Resolve(t.Context(), tt.name, tt.selected)
		if tt.name == "template" && tt.selected[0] == "New" {
			// Both have it: any order is good as long as it is always the same.
			again, _ := m.Resolve(t.Context(), tt.name, tt.selected)
			if got != again {
				t.Errorf("template: got %s, then %s, want the same", got, again)
			}
			continue
		}
		if got != tt.want {
			t.Errorf("%s %v: got %q, want %q", tt.name, tt.selected, got, tt.want)
		}
	}
	if len(m.Compiled()) > 0 {
		t.Errorf("got %d packages compiled, want none: to choose one, sources are enough", len(m.Compiled()))
	}
}

// TestStore: an unchanged cell is not built again, in this kernel and the next,
// and its panics carry the numbers of today.
func TestStore(t *testing.T) {
	b := newBench(t, "")
	const declared, crash = "func f(a []int) int {\n\treturn a[3]\n}", "fmt.Print(1)\nf(nil)"
	mustRun := func(text string) {
		t.Helper()
		if _, _, err := b.run(text); err != nil {
			t.Fatal(err)
		}
	}
	road := func(text, want string) error {
		t.Helper()
		_, cost, err := b.run(text)
		if cost.Road != want {
			t.Errorf("cell %d took the road %q, want %q", b.n, cost.Road, want)
		}
		return err
	}
	mustRun(declared) // 1
	road(crash, "direct")
	err := road(crash, "cached") // 3
	if err == nil || !strings.Contains(err.Error(), "cell 1, line 2, in f") {
		t.Errorf("got %v, want a frame in cell 1", err)
	}
	road("fmt.Print(2)", "direct")
	mustRun("func f(a []int) int {\n\treturn a[4]\n}") // 5
	road(crash, "direct")
	mustRun(declared) // 7: the program's text is that of cell 2, its function another cell's
	b.n = 40
	road(crash, "cached")

	next := newBench(t, "")
	next.Store = b.Store
	next.Composer.Memory = b.Composer.Memory
	if _, cost, _ := next.run("fmt.Print(2)"); cost.Road != "cached" {
		t.Errorf("the next kernel took the road %q, want cached", cost.Road)
	}
	b.Store.Limit = 1
	road("fmt.Print(3)", "direct")
	b.Store.Wait()
	if left := programs(b); len(left) > 1 {
		t.Errorf("got %d files in a store that is full, want one", len(left))
	}
}

// TestClock: whatever the clock said when the files of a store were written, a
// cell is built and runs, an unchanged one is not built again, and when the store
// is full the files from a time that has not come yet go first.
func TestClock(t *testing.T) {
	for _, jump := range []time.Duration{-30 * 365 * 24 * time.Hour, -time.Hour, time.Hour, 30 * 365 * 24 * time.Hour} {
		b := newBench(t, "")
		if _, _, err := b.run("fmt.Print(1)"); err != nil {
			t.Fatal(err)
		}
		then := time.Now().Add(jump)
		for _, name := range programs(b) {
			os.Chtimes(name, then, then)
		}
		modules, _ := filepath.Glob(filepath.Join(b.Builder.Module.Dir, "*"))
		for _, name := range modules {
			os.Chtimes(name, then, then)
		}
		if out, cost, err := b.run("fmt.Print(1)"); out != "1" || cost.Road != "cached" || err != nil {
			t.Errorf("files of %v from now: got %q by %q, %v; want 1 by cached", jump, out, cost.Road, err)
		}
		for _, name := range programs(b) {
			os.Chtimes(name, then, then)
		}
		b.Store.Limit = 4 << 20 // two programs
		for _, text := range []string{"fmt.Print(2)", "fmt.Print(3)", "fmt.Print(3)"} {
			out, cost, err := b.run(text)
			if want := text[len(text)-2 : len(text)-1]; out != want || err != nil {
				t.Errorf("files of %v from now: %s: got %q by %q, %v; want %s", jump, text, out, cost.Road, err, want)
			}
		}
		b.Store.Limit = 1
		if out, _, err := b.run("fmt.Print(4)"); out != "4" || err != nil {
			t.Errorf("files of %v from now, store full: got %q, %v; want 4", jump, out, err)
		}
	}
}

// TestRoads: what compiler and linker alone cannot do, the go command does.
func TestRoads(t *testing.T) {
	b := newBench(t, "")
	if out, cost, err := b.run("fmt.Print(1)"); out != "1" || cost.Road != "direct" || err != nil {
		t.Fatalf("got %q by %q, %v; want 1 by direct", out, cost.Road, err)
	}
	b.Flags = []string{"-tags=x"}
	if out, cost, err := b.run("fmt.Print(2)"); out != "2" || cost.Road != "go build" || err != nil {
		t.Errorf("with flags got %q by %q, %v; want 2 by go build", out, cost.Road, err)
	}
	b.Flags = nil
	write(t, b.Builder.Module.Dir, "mine.go", "package main\n\nimport \"strings\"\n\nfunc mine() string { return strings.Repeat(\"m\", 3) }\n")
	if out, cost, err := b.run("fmt.Print(mine())"); out != "mmm" || cost.Road != "go build" || err != nil {
		t.Errorf("with a file beside it got %q by %q, %v; want mmm by go build", out, cost.Road, err)
	}
	os.Remove(filepath.Join(b.Builder.Module.Dir, "mine.go"))
	_, err := exec.LookPath("gcc")
	out, cost, runErr := b.run("// int twice(int x) { return 2 * x; }\nimport \"C\"\nfmt.Print(C.twice(4))")
	switch {
	case cost.Road != "go build":
		t.Errorf("cgo took the road %q, %v; want go build", cost.Road, runErr)
	case err == nil && out != "8":
		t.Errorf("cgo got %q, %v; want 8", out, runErr)
	case err != nil && runErr == nil:
		t.Error("cgo without a C compiler got no error, want one")
	}
}

// TestNoGo: without the go command the error says what to install.
func TestNoGo(t *testing.T) {
	c := &keep.Composer{Module: &build.Module{Dir: t.TempDir(), Go: "/nonexistent/go"}, Memory: &keep.Memory{}}
	_, err := c.Compose(t.Context(), parse.Source{ID: 1, Text: "1"})
	var te *build.ToolError
	if !errors.As(err, &te) {
		t.Fatalf("got error %v, want a ToolError", err)
	}
	b := newBench(t, filepath.Join(t.TempDir(), "nowhere"))
	if _, _, err := b.run("1"); err == nil || !strings.Contains(err.Error(), "gaiden install -source DIRECTORY") {
		t.Errorf("got error %v, want one about the library", err)
	}
}

// TestFullDisk: a directory that takes nothing is an error, not a panic.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() == 0 {
		if _, err := os.Stat("/dev/full"); err != nil {
			t.Skip("needs /dev/full, which Linux has: mount a /dev with it (mknod -m 666 /dev/full c 1 7)")
		}
	}
	b := newBench(t, "")
	if _, _, err := b.run("fmt.Print(1)"); err != nil {
		t.Fatal(err)
	}
	main := filepath.Join(b.Builder.Module.Dir, "main.go")
	os.Remove(main)
	if err := os.Symlink("/dev/full", main); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.run("fmt.Print(2)"); err == nil || !strings.Contains(err.Error(), "no space left") {
		t.Errorf("got error %v, want no space left on device", err)
	}
}

// TestCancel: a build ends with its context.
func TestCancel(t *testing.T) {
	b := newBench(t, "")
	p, err := b.Compose(t.Context(), parse.Source{ID: 1, Text: "fmt.Print(1)"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
	defer cancel()
	if _, _, err := b.Build(ctx, &p.Program); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got error %v, want %v", err, context.DeadlineExceeded)
	}
}

// TestLargeCell: a cell of a megabyte is a cell.
func TestLargeCell(t *testing.T) {
	b := newBench(t, "")
	text := "x := 0\n" + strings.Repeat("x++ // one more, and some words to fill the line with\n", 1<<20/54) + "fmt.Print(x)"
	out, _, err := b.run(text)
	if out != "19418" || err != nil {
		t.Errorf("got %q, %v; want 19418", out, err)
	}
}
