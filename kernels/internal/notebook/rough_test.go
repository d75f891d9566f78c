package notebook

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/cell/build"
	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// TestHugeCell: a cell of a megabyte is a cell like others.
func TestHugeCell(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct{ name, code, result, fails string }{
		{"text", "x := `" + strings.Repeat("0123456789abcdef", 64<<10) + "`\nlen(x)", "1048576", ""},
		{"comment", "/*" + strings.Repeat("comment ", 128<<10) + "*/\n1", "1", ""},
		{"statements", "n := 0\n" + strings.Repeat("n++\n", 20_000) + "n", "20000", ""},
		{"calls that return errors", "func f() error { return nil }\n" + strings.Repeat("f()\n", 20_000) + "1", "1", ""},
		{"mistake at its end", strings.Repeat("// comment\n", 100<<10) + "nowhere", "", "line 102401: undefined: nowhere"},
		{"brackets", strings.Repeat("(", 100_000), "", "line 1"},
		{"garbage", strings.Repeat("@#$ ", 256<<10), "", "illegal character"},
		{"lines of garbage", strings.Repeat("@#$\n", 256<<10), "", "illegal character"},
		{"names that nobody knows", strings.Repeat("nowhere++\n", 100<<10), "", "undefined: nowhere"},
		{"one long mistake", strings.Repeat("a", 1<<20), "", "undefined: a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			began := time.Now()
			out, err := r.run(tt.code)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if err == nil && tt.fails != "" || err != nil && !strings.Contains(strings.Join(err.Traceback, "\n"), tt.fails) {
				t.Fatalf("got error %.500v, want %q", err, tt.fails)
			}
			if err != nil && tt.fails == "" {
				t.Fatalf("got error %.500v", err)
			}
			if err != nil && len(strings.Join(err.Traceback, "\n")) > 64<<10 {
				t.Errorf("got a traceback of %d bytes, want one that can be read", len(strings.Join(err.Traceback, "\n")))
			}
			if got := out.result(); got != tt.result {
				t.Errorf("got %.100q, want %q", got, tt.result)
			}
		})
	}
}

// TestNoGo: without Go a cell says what to install; magics work.
func TestNoGo(t *testing.T) {
	n := newNotebook(t)
	t.Setenv("PATH", "/nonexistent")
	n.Cache = t.TempDir()
	r := &runner{t: t, n: n}
	_, err := r.run("1 + 1")
	if err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), "install Go 1.26 or newer") {
		t.Errorf("got error %v, want one that says what to install", err)
	}
	if out := r.must("%version"); !strings.Contains(out.stream("stdout"), "gaiden") {
		t.Errorf("got %q, want the version", out.stream("stdout"))
	}
	// gopls is missing, too: completion knows names.
	if got := n.Complete(t.Context(), "%vers", 5); len(got.Matches) != 1 {
		t.Errorf("got %v, want %%version", got.Matches)
	}
}

// TestFullDisk: where there is no room to build a cell, it says so, and the next
// one runs when there is room again. The kernel is this test, run again in a name
// space of its own with a small file system.
func TestFullDisk(t *testing.T) {
	if dir := os.Getenv("NOTEBOOK_TEST_FULL"); dir != "" {
		n := &Notebook{Library: testLibrary, Cache: filepath.Join(dir, "cache"), Dir: dir}
		defer n.Shutdown(false)
		r := &runner{t: t, n: n}
		r.must("1 + 1")
		r.must("kept := 1")
		fills := "kept++\n_ = os.WriteFile(" + strconv.Quote(filepath.Join(dir, "filler")) + ", make([]byte, 64<<20), 0o600)"
		if out, err := r.run(fills); err == nil || !strings.Contains(out.stream("stderr"), "the cell's variables cannot be saved: ") || !strings.Contains(out.stream("stderr"), "no space left on device") {
			t.Errorf("got error %v and %q, want that the variable is not saved, and why", err, out.stream("stderr"))
		}
		os.Remove(filepath.Join(dir, "filler"))
		if got := r.must("kept").result(); got != "1" {
			t.Errorf("got %q, want 1 as before", got)
		}
		if err := os.WriteFile(filepath.Join(dir, "filler"), make([]byte, 64<<20), 0o600); err == nil {
			t.Fatal("the disk is not full")
		}
		for _, code := range []string{"x := 41\nx", "fmt.Println(1)"} {
			if _, err := r.run(code); err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), "no space left on device") {
				t.Errorf("%s: got error %v, want no space left on device", code, err)
			}
		}
		// The go command's own words for this are that net/http is not there.
		cache := os.Getenv("GOCACHE")
		t.Setenv("GOCACHE", filepath.Join(dir, "go-build"))
		if _, err := r.run("import \"net/http\"\nhttp.StatusText(200)"); err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), "no space left on device\n    make room") || !strings.Contains(strings.Join(err.Traceback, "\n"), filepath.Join(dir, "cache", "binaries")) {
			t.Errorf("net/http: got error %v, want no space left on device, and what to do", err)
		}
		t.Setenv("GOCACHE", cache)
		os.Remove(filepath.Join(dir, "filler"))
		if got := r.must("y := 42\ny").result(); got != "42" {
			t.Errorf("got %q, want 42", got)
		}
		return
	}
	dir := t.TempDir()
	script := `mount -t tmpfs -o size=24m none "$1" || exit 77; shift; exec "$@"`
	cmd := exec.Command("unshare", "-rm", "sh", "-c", script, "sh", dir, os.Args[0], "-test.run=^TestFullDisk$", "-test.v")
	cmd.Env = append(os.Environ(), "NOTEBOOK_TEST_FULL="+dir, "TMPDIR="+dir, "NOTEBOOK_TEST_DIR="+filepath.Dir(testCache))
	out, err := cmd.CombinedOutput()
	if exit, ok := err.(*exec.ExitError); !ok && err != nil || ok && exit.ExitCode() == 77 || strings.HasPrefix(string(out), "unshare: ") {
		t.Skipf("needs a file system of its own (unshare -rm, mount -t tmpfs), which this machine does not allow: %v %s; run it as root, outside of a container", err, out)
	}
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestTwoFrontEnds: two front ends of one kernel see each other's output and
// share the notebook's memory; neither waits for the other's answers.
func TestTwoFrontEnds(t *testing.T) {
	kernel := jupytertest.Start(t, newNotebook(t), jupyter.Options{})
	one, two := jupytertest.Connect(t, kernel.Connection), jupytertest.Connect(t, kernel.Connection)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	rounds := 5
	for i := range rounds {
		a, err := one.Send(jupyter.Shell, "execute_request", map[string]any{"code": "var shared = " + strings.Repeat("1+", i) + "1"})
		if err != nil {
			t.Fatal(err)
		}
		b, err := two.Send(jupyter.Shell, "execute_request", map[string]any{"code": "fmt.Println(\"two\")"})
		if err != nil {
			t.Fatal(err)
		}
		if answer, err := one.Wait(ctx, a); err != nil || answer.Status() != "ok" {
			t.Fatalf("first front end: got %s, %v", answer.Status(), err)
		}
		if answer, err := two.Wait(ctx, b); err != nil || answer.Stream("stdout") != "two\n" {
			t.Fatalf("second front end: got %q, %v", answer.Stream("stdout"), err)
		}
		if err := one.Until(ctx, func() bool { return true }); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := two.Execute(ctx, "shared")
	if err != nil || len(answer.Shown("execute_result", "text/plain")) != 1 || answer.Shown("execute_result", "text/plain")[0] != "5" {
		t.Errorf("got %v, %v; want 5", answer.Types(), err)
	}
	// What one runs, the other is shown.
	seen := func() bool {
		return slices.ContainsFunc(one.IOPub(), func(m jupyter.Message) bool { return m.Header.Type == "execute_result" })
	}
	for !seen() {
		if ctx.Err() != nil {
			t.Fatal("the first front end has not seen the result of the second's cell")
		}
		time.Sleep(5 * time.Millisecond) // its copy of the message comes on a connection of its own
	}

}

// TestRemovedDirectories: what somebody removes of a kernel's directories while it runs is
// made again, and what is lost with it is said.
func TestRemovedDirectories(t *testing.T) {
	n := newNotebook(t)
	n.Cache = t.TempDir()
	r := &runner{t: t, n: n}
	r.must("func f() int { return 7 }\nx := 5")
	if err := os.RemoveAll(n.Cache); err != nil { // "which may be emptied"
		t.Fatal(err)
	}
	for range 2 {
		if out := r.must("fmt.Print(f(), x, time.Now().Year() > 2000)"); out.stream("stdout") != "7 5 true" || out.stream("stderr") != "" {
			t.Errorf("without the cache: got %q, %q", out.stream("stdout"), out.stream("stderr"))
		}
	}
	if err := os.RemoveAll(n.temp.Path); err != nil {
		t.Fatal(err)
	}
	out := r.must("fmt.Print(f(), 1)")
	if got := out.stream("stdout"); got != "7 1" || !strings.Contains(out.stream("stderr"), "was removed, and is made again: the values of variables are gone") {
		t.Errorf("without the temporary directory: got %q, %q, want 7 1 and a note", got, out.stream("stderr"))
	}
	if other, err := build.NewTempDir(); err != nil { // a new kernel sweeps away what is nobody's
		t.Fatal(err)
	} else {
		other.Close()
	}
	out = r.must("y := f() + 1\ny")
	if out.result() != "8" || out.stream("stderr") != "" {
		t.Errorf("afterwards: got %q, %q, want 8 and no note", out.result(), out.stream("stderr"))
	}
	if got := r.must("y + 1").result(); got != "9" {
		t.Errorf("a value since: got %s, want 9", got)
	}
	out, failed := r.run("x + 1")
	if result := out.result(); result != "6" && (failed == nil || !strings.Contains(strings.Join(failed.Traceback, "\n"), "x")) {
		t.Errorf("a value of before: got %q, %v; want 6, by the definition again, or an error about x", result, failed)
	}
}

// TestLineDirectives: comments that are directives elsewhere do not move the errors of a cell.
func TestLineDirectives(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	for code, want := range map[string]string{
		"//line x.go:100\nvar y int = \"a\"":                 "line 2: ",
		"x := 1\n/*line x.go:7:1*/ x = \"a\"":                "line 2: ",
		"//line :9\nvar l []int\nl[3] = 1":                   "line 3",
		"const text = `\n//line x.go:5\n`\nvar s int = text": "line 4: ",
		"func f() {\n//line x.go:5\n\tpanic(1)\n}\n\nf()":    "line 3",
	} {
		if _, err := r.run(code); err == nil || !strings.Contains(err.Value+strings.Join(err.Traceback, "\n"), want) {
			t.Errorf("%q: got %+v, want an error at %s", code, err, want)
		}
	}
	if out := r.must("const kept = `\n//line x.go:5\n`\nlen(kept)"); out.result() != "15" {
		t.Errorf("a string that looks like a directive: got %s bytes, want 15", out.result())
	}
}
