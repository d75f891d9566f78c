package linker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/sealed"
)

// A shop compiles programs, and has what links them.
type shop struct {
	t       *testing.T
	dir     string
	config  string
	tools   string
	program string
}

func newShop(t *testing.T) *shop {
	if testing.Short() {
		t.Skip("it builds the linker of Go, for some 15 s; run without -short")
	}
	program, err := Make(t.Context(), "go", t.TempDir())
	if e := (*SourceError)(nil); errors.As(err, &e) {
		t.Skipf("%v; run it with the Go that go.mod names", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := &shop{t: t, dir: t.TempDir(), program: program}
	s.config = filepath.Join(s.dir, "importcfg")
	list := s.goCommand("list", "-export", "-deps", "-f", "{{if .Export}}packagefile {{.ImportPath}}={{.Export}}{{end}}",
		"runtime", "fmt", "errors", "maps", "reflect", "strings", "encoding/json", "net/http", "math/rand/v2")
	if err := os.WriteFile(s.config, []byte(list), 0o600); err != nil {
		t.Fatal(err)
	}
	s.tools = s.goCommand("env", "GOTOOLDIR")
	return s
}

func (s *shop) goCommand(args ...string) string {
	s.t.Helper()
	cmd := exec.Command("go", args...)
	cmd.Env, cmd.Stderr = environ(), os.Stderr
	out, err := cmd.Output()
	if err != nil {
		s.t.Fatalf("go %s: %v", args[0], err)
	}
	return strings.TrimSpace(string(out))
}

// compile compiles a program's text into the job's object.
func (s *shop) compile(text string) Job {
	s.t.Helper()
	file, object := filepath.Join(s.dir, "main.go"), filepath.Join(s.dir, "main.a")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(s.tools, "compile"), "-p", "main", "-complete", "-pack", "-importcfg", s.config, "-o", object, file).CombinedOutput()
	if err != nil {
		s.t.Fatalf("compile: %v: %s", err, out)
	}
	return Job{Config: s.config, Object: object, Dir: s.dir}
}

// says runs a program and returns its output and how it ended.
func says(path string) string {
	out, err := exec.Command(path).CombinedOutput()
	if err != nil {
		return string(out) + err.Error()
	}
	return string(out)
}

// TestLink: a program is the same whatever was loaded ahead of it.
func TestLink(t *testing.T) {
	s := newShop(t)
	programs := map[string]string{
		"print":    `package main; import "fmt"; func main() { fmt.Println("hello", 1) }`,
		"builtin":  `package main; func main() { println("no package") }`,
		"generics": `package main; import ("fmt"; "maps"); type T[K comparable] struct{ m map[K]int }; func (t T[K]) Len() int { return len(t.m) }; func main() { t := T[string]{maps.Clone(map[string]int{"a": 1})}; fmt.Printf("%T %v %d\n", t, t, t.Len()) }`,
		"init":     `package main; import ("fmt"; "strings"); var a = b + "!"; var b = strings.ToUpper("order"); func init() { fmt.Println(a) }; func main() { fmt.Println(b) }`,
		"json":     `package main; import ("fmt"; "encoding/json"); type P struct{ X, y int }; func (p P) Dist() int { return p.X + p.y }; func main() { b, err := json.Marshal(P{3, 4}); fmt.Println(string(b), err) }`,
		"http":     `package main; import ("fmt"; "net/http"); func main() { r, err := http.NewRequest("GET", "http://localhost/x", nil); fmt.Println(r.URL, err) }`,
		"linkname": "package main\nimport (\"fmt\"; _ \"unsafe\")\n//go:linkname nanotime runtime.nanotime\nfunc nanotime() int64\nfunc main() { fmt.Println(nanotime() > 0) }",
		"refused":  "package main\nimport _ \"unsafe\"\n//go:linkname start runtime.gcStart\nfunc start()\nfunc main() { start() }",
		"method":   `package main; import ("encoding/json"; "fmt"); type T []any; func (t T) MarshalJSON() ([]byte, error) { return []byte(fmt.Sprint(len(t))), nil }; func main() { b, err := json.Marshal(map[string]json.Marshaler{"n": T{1, "a"}}); fmt.Println(string(b), err) }`,
		"reflect":  `package main; import ("fmt"; "reflect"; "strings"); func main() { r := reflect.ValueOf(strings.NewReader("abc")); for i := range r.NumMethod() { fmt.Print(r.Type().Method(i).Name, " ") }; fmt.Println(r.MethodByName("Len").Call(nil)[0]) }`,
		"panic":    "package main\ntype T struct{}\nfunc (T) Fall(x []int) int { return x[3] }\nfunc main() { println(T{}.Fall(nil)) }",
	}
	ahead := map[string][]string{"none": nil, "fmt": {"fmt"}, "many": {"fmt", "maps", "strings", "net/http", "encoding/json", "math/rand/v2"}, "others": {"math/rand/v2"}, "unknown": {"no/such", "fmt"}}
	for name, text := range programs {
		t.Run(name, func(t *testing.T) {
			job := s.compile(text)
			plain := filepath.Join(s.dir, "plain")
			if out, err := exec.Command(filepath.Join(s.tools, "link"), "-importcfg", job.Config, "-s", "-w", "-o", plain, job.Object).CombinedOutput(); err != nil && name != "refused" {
				t.Fatalf("link: %v: %s", err, out)
			}
			for which, packages := range ahead {
				l := Linker{Program: s.program}
				job.Packages = packages
				l.Prepare(job)
				out := filepath.Join(s.dir, "out")
				job.Packages = nil
				for p := l.ready; p != nil && !p.loaded.Load() && !gone(p); {
					time.Sleep(time.Millisecond)
				}
				done, err := l.Link(t.Context(), job, out)
				if want := packages != nil && name != "refused"; done != want || err != nil {
					t.Fatalf("%s ahead: got done %t, %v; want %t", which, done, err, want)
				}
				if !done {
					continue
				}
				got, want := says(out), says(plain)
				if name == "panic" {
					got, want = frames(got), frames(want)
				}
				if got != want {
					t.Errorf("%s ahead: got %q, want %q", which, got, want)
				}
			}
		})
	}
}

// TestReached: a link that begins with what the one before has reached makes what
// the toolchain makes, or more, and not for ever more.
func TestReached(t *testing.T) {
	s := newShop(t)
	const (
		small = `package main; import "fmt"; func main() { fmt.Println(1) }`
		more  = `package main; import ("fmt"; "strings"); type up string; func (u up) String() string { return strings.ToUpper(string(u)) }; func main() { var s fmt.Stringer = up("more"); fmt.Println(s) }`
		large = `package main; import ("fmt"; "net/http"); func main() { r, err := http.NewRequest("GET", "http://localhost/x", nil); fmt.Println(r.URL, err) }`
	)
	var kept string
	write := func(text string) func() {
		return func() { os.WriteFile(kept, []byte(text), 0o600) }
	}
	steps := []struct {
		name, text string
		before     func()
		equal      bool // as large as what the toolchain makes, which has another order
		kept       bool // for the next one
	}{
		{name: "first", text: small, equal: true, kept: true},
		{name: "again", text: small, equal: true, kept: true},
		{name: "more", text: more, equal: true, kept: true},
		{name: "less, with what more needed", text: small, kept: true},
		{name: "much more", text: large, equal: true, kept: false},
		{name: "from the beginning", text: small, equal: true, kept: true},
		{name: "torn", text: more, before: write("torn"), equal: true, kept: true},
		{name: "empty", text: small, before: write(""), equal: true, kept: true},
		{name: "cleared", text: more, before: func() { // it would say that less is needed
			text, _ := os.ReadFile(kept)
			clear(text[len(text)/4:])
			write(string(text))()
		}, equal: true, kept: true},
	}
	for _, step := range steps {
		job := s.compile(step.text)
		job.Packages = []string{"fmt", "net/http", "strings"}
		kept = job.Object + ".reached"
		if step.before != nil {
			step.before()
		}
		plain, out := filepath.Join(s.dir, "plain"), filepath.Join(s.dir, "out")
		if out, err := exec.Command(filepath.Join(s.tools, "link"), "-importcfg", job.Config, "-s", "-w", "-buildmode=exe", "-o", plain, job.Object).CombinedOutput(); err != nil {
			t.Fatalf("link: %v: %s", err, out)
		}
		l := Linker{Program: s.program}
		l.Prepare(job)
		if done, err := l.Link(t.Context(), job, out); !done || err != nil {
			t.Fatalf("%s: got done %t, %v", step.name, done, err)
		}
		if got, want := says(out), says(plain); got != want {
			t.Errorf("%s: got %q, want %q", step.name, got, want)
		}
		got, want := size(t, out), size(t, plain)
		if equal := got == want; equal != step.equal || got < want {
			t.Errorf("%s: got %d bytes, the toolchain's %d; want as many %t", step.name, got, want, step.equal)
		}
		if _, err := os.Stat(kept); (err == nil) != step.kept {
			t.Errorf("%s: for the next one: got %v, want kept %t", step.name, err, step.kept)
		}
	}
}

func size(t *testing.T, file string) int64 {
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// frames removes what is another number in each program from a traceback.
func frames(s string) string {
	var out []string
	for line := range strings.Lines(s) {
		line, _, _ = strings.Cut(line, " +0x")
		line, _, _ = strings.Cut(line, "(0x")
		line, _, _ = strings.Cut(line, "({0x")
		out = append(out, line)
	}
	return strings.Join(out, "\n")
}

// TestRefusal: what has changed since the process was started, and a process that
// is gone, link nothing; and no process outlives its owner or its time.
func TestRefusal(t *testing.T) {
	s := newShop(t)
	job := s.compile(`package main; import "fmt"; func main() { fmt.Println(1) }`)
	job.Packages = []string{"fmt"}
	out := filepath.Join(s.dir, "out")
	l := &Linker{Program: s.program}
	link := func(what string, want bool) {
		t.Helper()
		if done, err := l.Link(t.Context(), job, out); done != want || err != nil {
			t.Errorf("%s: got done %t, %v; want %t", what, done, err, want)
		}
	}
	link("nothing prepared", false)
	l.Prepare(job)
	link("prepared", true)
	link("prepared once, linked twice", false)

	l.Prepare(job)
	l.ready.loaded.Store(false) // as if it were not done yet
	job.Packages = nil
	link("loads what is not wanted", false)
	job.Packages = []string{"fmt"}

	l.Prepare(job)
	text, _ := os.ReadFile(s.config)
	os.WriteFile(s.config, append(text, "\n"...), 0o600)
	link("another configuration", false)

	l.Prepare(job)
	syscall.Kill(l.ready.cmd.Process.Pid, syscall.SIGKILL)
	link("killed", false)

	l.Prepare(job)
	first := l.ready
	l.Prepare(job)
	if l.ready != first {
		t.Error("prepared twice: got two processes, want one")
	}
	job.Packages = []string{"fmt", "maps"}
	l.Prepare(job)
	if l.ready == first || !gone(first) {
		t.Error("more packages: got the process that lacks one, want another")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if done, err := l.Link(ctx, job, out); done || !errors.Is(err, context.Canceled) {
		t.Errorf("stopped: got %t, %v; want %v", done, err, context.Canceled)
	}

	l.Idle = time.Millisecond
	l.Prepare(job)
	l.mu.Lock()
	p := l.ready
	l.mu.Unlock()
	if p != nil {
		<-p.ended
	}
	link("its time is over", false)

	l.Idle = 0
	l.Prepare(job)
	p = l.ready
	l.Close()
	if !gone(p) {
		t.Error("closed: the process lives")
	}
	l.Prepare(job)
	link("closed", false)

	var none *Linker
	none.Prepare(job)
	none.Close()
	if done, err := none.Link(t.Context(), job, out); done || err != nil {
		t.Errorf("nil: got %t, %v", done, err)
	}
}

func gone(p *process) bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// TestApply: only source that is known is changed.
// TestDamaged: a linker that was damaged links nothing, and is made again.
func TestDamaged(t *testing.T) {
	s := newShop(t)
	dir := filepath.Dir(s.program)
	version := s.goCommand("env", "GOVERSION")
	if path, err := Find(dir, version); path != s.program || err != nil {
		t.Fatalf("got %q, %v; want %s", path, err, s.program)
	}
	text, err := os.ReadFile(s.program)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)/2] ^= 1
	if err := os.WriteFile(s.program, text, 0o700); err != nil {
		t.Fatal(err)
	}
	var damaged *sealed.DamagedError
	if path, err := Find(dir, version); path != "" || !errors.As(err, &damaged) {
		t.Errorf("one bit changed: got %q, %v; want a DamagedError", path, err)
	}
	if _, err := Make(t.Context(), "go", dir); err != nil {
		t.Fatal(err)
	}
	if path, err := Find(dir, version); path != s.program || err != nil {
		t.Errorf("made again: got %q, %v; want %s", path, err, s.program)
	}
	if files, _ := os.ReadDir(dir); len(files) != 1 {
		t.Errorf("got %v, want the linker alone", files)
	}
}

func TestApply(t *testing.T) {
	e := edit{from: "begin\n", to: "end\n", sum: "ad4eed7f59dc1ed4", old: "", new: "better\n"}
	tests := []struct{ name, text, want string }{
		{"known", "a\nbegin\nold\nend\nb\n", "a\nbetter\nend\nb\n"},
		{"another text", "a\nbegin\nolder\nend\nb\n", ""},
		{"twice", "begin\nold\nend\nbegin\nold\nend\n", ""},
		{"no end", "begin\nold\n", ""},
		{"nowhere", "a\n", ""},
	}
	for _, tt := range tests {
		if got, ok := e.apply(tt.text); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s: got %q, %t; want %q", tt.name, got, ok, tt.want)
		}
	}
}
