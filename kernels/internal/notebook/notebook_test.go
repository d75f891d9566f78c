package notebook

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
)

// testCache is shared by all notebooks of a test run: what the go command was
// asked once holds for all.
var testCache, testLibrary string

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	if dir := os.Getenv("NOTEBOOK_TEST_DIR"); dir != "" {
		// The kernel of TestKilledKernel: it is killed, and makes nothing of its own.
		testCache, testLibrary = filepath.Join(dir, "cache"), filepath.Join(dir, "library")
		return m.Run()
	}
	dir, err := os.MkdirTemp("", "notebook-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	testCache, testLibrary = filepath.Join(dir, "cache"), filepath.Join(dir, "library")
	if err := makeLibrary(testLibrary); err != nil {
		fmt.Fprintln(os.Stderr, "notebook tests need this repository's go.mod:", err)
		return 1
	}
	return m.Run()
}

// makeLibrary makes a library with the go.mod of the real one and packages of its own,
// so that what the real one looks like today does not matter, but for the one with the
// cell's context.
func makeLibrary(dir string) error {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return err
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	for _, name := range []string{"go.mod", "go.sum", "lib/engine/interrupt/interrupt.go"} {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err == nil {
			err = writeFile(filepath.Join(dir, name), string(data))
		}
		if err != nil {
			return err
		}
	}
	for name, text := range testPackages {
		if err := writeFile(filepath.Join(dir, "lib", name, name+".go"), text); err != nil {
			return err
		}
	}
	return nil
}

func writeFile(name, text string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
		return err
	}
	return os.WriteFile(name, []byte(text), 0o600)
}

// testPackages are those of the library.
var testPackages = map[string]string{
	"greeting": "// Package greeting greets.\npackage greeting\n\n// Hello greets.\nfunc Hello(name string) string { return \"hello \" + name }\n\n// A Guest is greeted.\ntype Guest struct{ Greet func() string }\n",
	"waiting":  "package waiting\n\nimport \"gaiden/lib/engine/interrupt\"\n\n// Wait waits for Stop.\nfunc Wait() error {\n\t<-interrupt.Context().Done()\n\treturn interrupt.Context().Err()\n}\n",
}

func init() {
	testPackages["handle"] = `package handle

// A Named marshals itself, by its name.
type Named struct {
	name string
	at   chan int
}

// Find finds one.
func Find(name string) *Named { return &Named{name, make(chan int)} }

func (n *Named) Name() string               { return n.name }
func (n *Named) GobEncode() ([]byte, error) { return []byte(n.name), nil }
func (n *Named) GobDecode(b []byte) error   { *n = *Find(string(b)); return nil }

// A Work is kept by what it holds.
type Work struct {
	n     int
	wakes chan int // nil
}

// Do does it.
func Do(n int) *Work { return &Work{n: n} }

func (w *Work) Done() int { return w.n }
`
}

// newNotebook returns a notebook in a directory of its own.
func newNotebook(t testing.TB) *Notebook {
	t.Helper()
	n := &Notebook{Library: testLibrary, Cache: testCache, Dir: t.TempDir(), Version: "test"}
	t.Cleanup(func() { n.Shutdown(false) })
	return n
}

// A recorder is an Output that keeps everything, in order.
type recorder struct {
	Answer func(prompt string, password bool) (string, error) // nil = nobody is there to be asked

	mu      sync.Mutex
	events  []string // "stdout", "display", …: what came, in order
	streams map[string]*strings.Builder
	shown   []jupyter.MimeBundle
	updates []jupyter.MimeBundle
	results []jupyter.MimeBundle
}

func (r *recorder) note(event string) {
	if n := len(r.events); n == 0 || r.events[n-1] != event {
		r.events = append(r.events, event)
	}
}

func (r *recorder) Stream(name string, data []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note(name)
	if r.streams == nil {
		r.streams = map[string]*strings.Builder{}
	}
	if r.streams[name] == nil {
		r.streams[name] = &strings.Builder{}
	}
	r.streams[name].Write(data)
}

func (r *recorder) Display(d jupyter.MimeBundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("display")
	r.shown = append(r.shown, d)
}

func (r *recorder) Update(d jupyter.MimeBundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("update")
	r.updates = append(r.updates, d)
}

func (r *recorder) Result(d jupyter.MimeBundle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.note("result")
	r.results = append(r.results, d)
}

func (r *recorder) Input(ctx context.Context, prompt string, password bool) (string, error) {
	if r.Answer == nil {
		return "", jupyter.ErrNoStdin
	}
	return r.Answer(prompt, password)
}

func (r *recorder) Clear(wait bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("clear %t", wait))
}

func (r *recorder) CommOpen(jupyter.Comm)  {}
func (r *recorder) CommMsg(jupyter.Comm)   {}
func (r *recorder) CommClose(jupyter.Comm) {}

func (r *recorder) stream(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.streams[name] == nil {
		return ""
	}
	return r.streams[name].String()
}

// result returns the text of the cell's value, "" if it had none.
func (r *recorder) result() string {
	if len(r.results) == 0 {
		return ""
	}
	text, _ := r.results[0].Data["text/plain"].(string)
	return text
}

// A runner runs one cell after the other.
type runner struct {
	t     testing.TB
	n     *Notebook
	count int
}

func (r *runner) run(code string) (*recorder, *jupyter.Error) {
	r.t.Helper()
	// Only what hangs is ended: with empty caches, beside other tests on two cores, a
	// cell that imports a package has waited a minute for it to be compiled.
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	out := &recorder{}
	return out, r.runTo(ctx, out, code)
}

func (r *runner) runTo(ctx context.Context, out *recorder, code string) *jupyter.Error {
	r.count++
	req := jupyter.ExecuteRequest{Code: code, Count: r.count, AllowStdin: out.Answer != nil}
	return r.n.Execute(ctx, req, out).Err
}

// must runs a cell that has to go well.
func (r *runner) must(code string) *recorder {
	r.t.Helper()
	out, err := r.run(code)
	if err != nil {
		r.t.Fatalf("cell\n%s\ngot error %s: %s\n%s", code, err.Name, err.Value, strings.Join(err.Traceback, "\n"))
	}
	return out
}

func request(code string, count int) jupyter.ExecuteRequest {
	return jupyter.ExecuteRequest{Code: code, Count: count}
}

func kill(t *testing.T, pid string) {
	t.Helper()
	n, err := strconv.Atoi(pid)
	if err == nil {
		err = syscall.Kill(n, syscall.SIGKILL)
	}
	if err != nil {
		t.Fatalf("kill %s: %v", pid, err)
	}
}

// TestLibraryGone: a kernel whose library was upgraded or removed while it ran says so, and
// what to do.
func TestLibraryGone(t *testing.T) {
	library := t.TempDir()
	if err := os.WriteFile(filepath.Join(library, "go.mod"), []byte("module example.org/library\n\ngo 1.26\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	n := &Notebook{Library: library, Cache: t.TempDir(), Dir: t.TempDir(), Version: "1.2.3"}
	defer n.Shutdown(false)
	if err := n.Execute(t.Context(), request("%env GREETING=hello", 1), &recorder{}).Err; err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(library); err != nil {
		t.Fatal(err)
	}
	err := n.Execute(t.Context(), request("%env GREETING", 2), &recorder{}).Err
	if err == nil {
		t.Fatal("got no error, want that the library is gone")
	}
	said := strings.Join(append(err.Traceback, err.Value), "\n")
	for _, want := range []string{"version 1.2.3) is no longer at " + library, "restart the kernel"} {
		if !strings.Contains(said, want) {
			t.Errorf("got %s, want it with %q", said, want)
		}
	}
}
