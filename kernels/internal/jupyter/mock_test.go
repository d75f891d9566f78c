package jupyter_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// A cell is what a test wants Execute to do.
type cell = func(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult

// mock is an interpreter whose cells are Go functions, found by the first word
// of the code. Other code is printed.
type mock struct {
	cells map[string]cell

	mu        sync.Mutex
	shutdowns []bool // the arguments of Shutdown
}

func (m *mock) Execute(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
	word, _, _ := strings.Cut(req.Code, " ")
	if run := m.cells[word]; run != nil {
		return run(ctx, req, out)
	}
	out.Stream("stdout", []byte(req.Code))
	return jupyter.ExecuteResult{}
}

func (m *mock) Complete(_ context.Context, code string, cursor int) jupyter.Completion {
	start := len([]rune(code[:strings.LastIndexByte(code, ' ')+1]))
	return jupyter.Completion{Matches: []string{"Printf", "Println"}, Start: start, End: cursor}
}

func (m *mock) Inspect(_ context.Context, code string, cursor, detail int) jupyter.Inspection {
	if strings.HasPrefix(code, "panic") {
		panic("inspected to death")
	}
	return jupyter.Inspection{Found: cursor > 0, Data: map[string]any{"text/plain": code, "x/detail": detail}}
}

func (m *mock) IsComplete(code string) jupyter.Completeness {
	return jupyter.Completeness{Status: code, Indent: "\t"}
}

func (m *mock) Info() jupyter.LanguageInfo {
	return jupyter.LanguageInfo{Implementation: "mock", Language: jupyter.Language{Name: "go", FileExtension: ".go"}}
}

func (m *mock) Shutdown(restart bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.shutdowns = append(m.shutdowns, restart)
}

// failing is a cell that fails.
func failing(context.Context, jupyter.ExecuteRequest, jupyter.Output) jupyter.ExecuteResult {
	return jupyter.ExecuteResult{Err: &jupyter.Error{Name: "Broken", Value: "it is", Traceback: []string{"line 1", "line 2"}}}
}

// endless is a cell that runs until it is interrupted.
func endless(ctx context.Context, _ jupyter.ExecuteRequest, _ jupyter.Output) jupyter.ExecuteResult {
	<-ctx.Done()
	return jupyter.ExecuteResult{Err: &jupyter.Error{Name: "Interrupted", Value: "by you"}}
}

// within is a context for a wait. Only what hangs takes as long.
func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// kernel starts a kernel with a mock interpreter and connects to it.
func kernel(t *testing.T, cells map[string]cell) (*frontend.Client, *jupytertest.Kernel) {
	t.Helper()
	k := jupytertest.Start(t, &mock{cells: cells}, jupyter.Options{})
	return jupytertest.Connect(t, k.Connection), k
}

// answered is a request that must be answered.
func answered(t *testing.T, c *frontend.Client, channel jupyter.Channel, name string, content any) frontend.Answer {
	t.Helper()
	a, err := c.Request(within(t), channel, name, content)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return a
}

// executed runs a cell that must be answered.
func executed(t *testing.T, c *frontend.Client, code string) frontend.Answer {
	t.Helper()
	a, err := c.Execute(within(t), code)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return a
}

// sent sends a request without waiting.
func sent(t *testing.T, c *frontend.Client, channel jupyter.Channel, name string, content any) string {
	t.Helper()
	id, err := c.Send(channel, name, content)
	if err != nil {
		t.Fatal(err)
	}
	return id
}
