package build_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/parse"
)

// newLibraryInC makes a library with packages in C: one that is nothing without,
// one that has something else instead, and what imports them.
func newLibraryInC(t *testing.T) string {
	library := newLibrary(t)
	const twice = "package %s\n\n// static int twice(int x) { return 2 * x; }\nimport \"C\"\n\nfunc Twice(x int) int { return int(C.twice(C.int(x))) }\n"
	write(t, library, "lib/must/must.go", strings.ReplaceAll(twice, "%s", "must"))
	write(t, library, "lib/may/may.go", strings.ReplaceAll(twice, "%s", "may"))
	write(t, library, "lib/may/other.go", "//go:build !cgo\n\npackage may\n\nfunc Twice(x int) int { return -1 }\n")
	write(t, library, "lib/above/above.go", "package above\n\nimport \"example.org/house/lib/must\"\n\nfunc Four(x int) int { return must.Twice(must.Twice(x)) }\n")
	write(t, library, "lib/windows/windows_windows.go", strings.ReplaceAll(twice, "%s", "windows"))
	write(t, library, "lib/windows/windows.go", "package windows\n\nconst X = 1\n")
	return library
}

// TestCgo: a package in C can be imported where there is a compiler for it, also
// when it is far below; programs without one are built as ever.
func TestCgo(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("needs a C compiler: apt-get install gcc")
	}
	b := newBench(t, newLibraryInC(t))
	b.Flags = nil
	for _, tt := range []struct{ code, want, road string }{
		{"import \"example.org/house/lib/must\"\nfmt.Print(must.Twice(3))", "6", "go build"},
		{"fmt.Print(may.Twice(3))", "6", "go build"},
		{"fmt.Print(above.Four(3))", "12", "go build"},
		{"fmt.Print(windows.X)", "1", "direct"},
		{"fmt.Print(door.Width)", "90", "direct"},
		{"x := above.Four(1)\nfmt.Print(x, door.Width)", "4 90", "go build"},
	} {
		if out, cost, err := b.run(tt.code); out != tt.want || cost.Road != tt.road || err != nil {
			t.Errorf("%s: got %q by %q, %v; want %s by %s", tt.code, out, cost.Road, err, tt.want, tt.road)
		}
	}
	b.Flags = []string{"-tags=x"}
	if out, _, err := b.run("fmt.Print(above.Four(5))"); out != "20" || err != nil {
		t.Errorf("with flags: got %q, %v; want 20", out, err)
	}
}

// TestNoCompiler: without a C compiler the error at the import says so; what can do
// without is used without, and that is said.
func TestNoCompiler(t *testing.T) {
	t.Setenv("CC", "no-such-compiler")
	b := newBench(t, newLibraryInC(t))
	_, _, err := b.run("// int one() { return 1; }\nimport \"C\"\nfmt.Print(C.one())")
	var own *parse.BuildError
	if !errors.As(err, &own) || !strings.Contains(err.Error(), "no-such-compiler is not in PATH") || !strings.Contains(own.Diagnostics[0].Hint, "gcc") || own.Diagnostics[0].Line != 2 {
		t.Errorf("a cell in C: got error %v, want one at line 2 that says what is missing, and how to get it", err)
	}
	for _, name := range []string{"must", "above"} {
		_, _, err := b.run("fmt.Print(1)\nimport x \"example.org/house/lib/" + name + "\"\nfmt.Print(x.X)")
		var be *parse.BuildError
		if !errors.As(err, &be) || !strings.Contains(err.Error(), "no-such-compiler is not in PATH") || !strings.Contains(be.Diagnostics[0].Hint, "gcc") {
			t.Errorf("%s: got error %v, want one that says what is missing, and how to get it", name, err)
		}
	}
	p, err := b.Compose(t.Context(), parse.Source{ID: 9, Text: "fmt.Print(may.Twice(3))"})
	if err != nil || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], "example.org/house/lib/may is used without its part in C") {
		t.Fatalf("got %v, %v; want a note", p, err)
	}
	if out, cost, err := b.run("fmt.Print(may.Twice(3))"); out != "-1" || cost.Road != "direct" || err != nil {
		t.Errorf("got %q by %q, %v; want -1 by direct", out, cost.Road, err)
	}
}

// TestCompilerComes: what was listed without a C compiler is listed again with one, and
// the other way round, in one kernel and in the cache of all.
func TestCompilerComes(t *testing.T) {
	gcc, err := exec.LookPath("gcc")
	if err != nil {
		t.Skip("needs a C compiler: apt-get install gcc")
	}
	library, cache, bin := newLibraryInC(t), t.TempDir(), t.TempDir()
	t.Setenv("CC", "compiler-of-this-test")
	t.Setenv("PATH", os.Getenv("PATH")+":"+bin)
	b := newKernel(t, library, cache)
	for i, want := range []string{"-1", "6", "-1"} {
		if want == "6" {
			err = os.Symlink(gcc, bin+"/compiler-of-this-test")
		} else {
			err = os.RemoveAll(bin + "/compiler-of-this-test")
		}
		if err != nil {
			t.Fatal(err)
		}
		for name, b := range map[string]*bench{"same kernel": b, "new kernel": newKernel(t, library, cache)} {
			if out, _, err := b.run("fmt.Print(may.Twice(3))"); out != want || err != nil {
				t.Errorf("%d, %s: got %q, %v; want %s", i, name, out, err, want)
			}
		}
	}
}

// TestCompanion: a package that stands for something else in a cell brings that
// with it, at any depth, and the module's tags hold in addition to those of the user.
func TestCompanion(t *testing.T) {
	library := newLibrary(t)
	write(t, library, "lib/bell/bell.go", "package bell\n")
	write(t, library, "lib/bell/loud.go", "//go:build !quiet\n\npackage bell\n\nfunc init() { print(\"loud\") }\n")
	write(t, library, "lib/hall/hall.go", "package hall\n\nimport _ \"example.org/house/lib/bell\"\n\nconst X = 1\n")
	write(t, library, "lib/knock/knock.go", "package knock\n\nimport \"os\"\n\nfunc init() { os.Stdout.WriteString(\"knock \") }\n")
	for _, flags := range [][]string{nil, {"-tags=mine"}, {"-tags", "mine"}} {
		b := newBench(t, library)
		b.Composer.Module.Tags = []string{"quiet"}
		b.Composer.Module.Companions = map[string]string{"example.org/house/lib/bell": "example.org/house/lib/knock"}
		b.Flags = flags
		if flags != nil {
			write(t, b.Composer.Module.Dir, "mine.go", "//go:build mine\n\npackage main\n\nfunc init() { mine = true }\n")
			write(t, b.Composer.Module.Dir, "all.go", "package main\n\nvar mine bool\n")
		}
		for _, c := range [][2]string{
			{"fmt.Print(door.Width)", "90"},
			{"fmt.Print(hall.X)", "knock 1"},
			{"import _ \"example.org/house/lib/bell\"\nfmt.Print(1)", "knock 1"},
		} {
			code, want := c[0], c[1]
			if flags != nil {
				code, want = code+"\nfmt.Print(\" \", mine)", want+" true"
			}
			if out, _, err := b.run(code); out != want || err != nil {
				t.Errorf("%v: %s: got %q, %v; want %q", flags, code, out, err, want)
			}
		}
		os.Remove(filepath.Join(b.Composer.Module.Dir, "mine.go"))
	}
}
