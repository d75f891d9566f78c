package toolserver

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit/result"
	"gaiden/lib/runs"
	"gaiden/lib/session"
	"gaiden/notebooks/pages"
)

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	dir, err := os.MkdirTemp("", "toolserver-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	cache = dir
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// cache is shared by the notebooks of all tests.
var cache string

// A client is the SDK's, joined to a server by a pipe.
type client struct {
	*mcp.ClientSession
	t        *testing.T
	server   *Server
	progress chan *mcp.ProgressNotificationParams
	notebook *notebook.Notebook
	stop     context.CancelFunc // ends the server
}

// connect starts a server with a notebook of its own. Without a session of their
// own tests have none: GAIDEN_SOCKET names one that cannot be started.
func connect(t *testing.T) *client {
	t.Helper()
	if os.Getenv("GAIDEN_SOCKET") == "" {
		t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "none", "none.sock"))
		t.Setenv("XDG_DATA_HOME", t.TempDir())
		t.Setenv("PATH", goOnly(t))
	}
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	n := &notebook.Notebook{Cache: cache, Dir: t.TempDir(), Version: "test"}
	t.Cleanup(func() { n.Shutdown(false) })
	s := &Server{Notebook: n, Library: root, Version: "test"}
	here, there := mcp.NewInMemoryTransports()
	ended := make(chan error, 1)
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(stop)
	go func() { ended <- s.Run(ctx, there) }()
	c := &client{t: t, server: s, notebook: n, stop: stop, progress: make(chan *mcp.ProgressNotificationParams, 100)}
	c.ClientSession, err = mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) { c.progress <- r.Params },
	}).Connect(t.Context(), here, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		if err := <-ended; err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	return c
}

// goOnly is a PATH in which there is go, and no gaiden.
func goOnly(t *testing.T) string {
	var keep []string
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if _, err := os.Stat(filepath.Join(dir, "gaiden")); err != nil {
			keep = append(keep, dir)
		}
	}
	return strings.Join(keep, string(filepath.ListSeparator))
}

// call calls a tool and returns its text.
func (c *client) call(tool string, arguments map[string]any) (string, *mcp.CallToolResult) {
	c.t.Helper()
	r, err := c.CallTool(c.t.Context(), &mcp.CallToolParams{Name: tool, Arguments: arguments})
	if err != nil {
		return "protocol: " + err.Error(), &mcp.CallToolResult{IsError: true}
	}
	return textIn(r), r
}

func textIn(r *mcp.CallToolResult) string {
	var all strings.Builder
	for _, content := range r.Content {
		if t, is := content.(*mcp.TextContent); is {
			all.WriteString(t.Text)
		}
	}
	return all.String()
}

// cell runs a cell that has to go well.
func (c *client) cell(code string) string {
	c.t.Helper()
	said, r := c.call("run_cell", map[string]any{"code": code})
	if r.IsError {
		c.t.Fatalf("%s: %s", code, said)
	}
	return said
}

// want holds that a result has parts.
func want(t *testing.T, what, got string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(got, part) {
			t.Errorf("%s: got %q, want it with %q", what, brief(got, 600), part)
		}
	}
}

// image is a cell that shows a small PNG.
const image = "image.NewGray(image.Rect(0, 0, 3, 2))"

func TestCells(t *testing.T) {
	c := connect(t)
	want(t, "a value", c.cell("x := 40\nx + 2"), "42\n", "[action 1; undo takes back variables and declarations, but no arrays: ")
	want(t, "the next cell", c.cell("x++; fmt.Println(x)"), "41\n", "action 2")
	want(t, "no output", c.cell("x++"), "(no output)")
	want(t, "a cell that is formatted", c.cell("%fmt\nx:=1"), "x := 1\n")
	want(t, "a page of help", c.cell("%env?"), "%env [NAME")
	want(t, "a line that is written over", c.cell(`fmt.Print("10 %\r20 %\rdone\r\n")`), "done\n")
	if said := c.cell(`fmt.Print("10 %\r20 %\rdone\n")`); strings.Contains(said, "%") {
		t.Errorf("got %q, want the last state of the line", said)
	}
	said, r := c.call("run_cell", map[string]any{"code": image})
	if r.IsError || len(r.Content) != 2 {
		t.Fatalf("an image: got %q and %d contents, want a text and an image", said, len(r.Content))
	}
	image, is := r.Content[1].(*mcp.ImageContent)
	if !is || image.MIMEType != "image/png" || !strings.HasPrefix(string(image.Data), "\x89PNG") {
		t.Errorf("an image: got %T, want a PNG", r.Content[1])
	}
	want(t, "an image", said, "[image 1]")
	said = c.cell(`for i := range 20000 { fmt.Println("line", i) }`)
	want(t, "long output", said, "line 0\n", "line 19999\n", "bytes cut here: a result has at most 30,000: print less")
	if len(said) > maxText+500 {
		t.Errorf("long output: got %d bytes, want at most %d and notes", len(said), maxText)
	}
}

// TestRefused: each bad input is an error of the tool that says what is wanted.
func TestRefused(t *testing.T) {
	c := connect(t)
	for _, tt := range []struct {
		tool      string
		arguments map[string]any
		want      []string
	}{
		{"run_cell", nil, []string{"code"}},
		{"run_cell", map[string]any{"code": " \n"}, []string{"got an empty code, want a cell"}},
		{"run_cell", map[string]any{"code": 3}, []string{"code"}},
		{"run_cell", map[string]any{"code": "1", "timeout": 3}, []string{"timeout"}},
		{"run_cell", map[string]any{"code": "1", "timeout_seconds": -3}, []string{"got -3, want a positive number"}},
		{"run_cell", map[string]any{"code": "x := 1 +"}, []string{"cell 1, line 1", "[action 1;"}},
		{"run_cell", map[string]any{"code": "undefinedName"}, []string{"undefined: undefinedName"}},
		{"run_cell", map[string]any{"code": `panic("too hot")`}, []string{"too hot"}},
		{"run_cell", map[string]any{"code": `fmt.Println("first"); os.Exit(3)`}, []string{"first", "exit status 3"}},
		{"run_cell", map[string]any{"code": `var s string; must(fmt.Scanln(&s))`}, []string{"EOF"}},
		{"run_cell", map[string]any{"code": `time.Sleep(time.Hour)`, "timeout_seconds": 0.5}, []string{"stopped after timeout_seconds=0.5"}},
		{"run_cell", map[string]any{"code": "%nonsense"}, []string{"%nonsense"}},
		{"train", map[string]any{"net": "net"}, []string{"data"}},
		{"train", map[string]any{"net": "a b", "data": ""}, []string{`train: net: got "a b", want an expression of Go`, `train: data: got ""`}},
		{"train", map[string]any{"net": "net", "data": "set", "epochs": -1, "batch": -2, "learning_rate": -0.5}, []string{"epochs: got -1", "batch: got -2", "learning_rate: got -0.5"}},
		{"train", map[string]any{"net": "net", "data": "set"}, []string{"undefined: net"}},
		{"profile", map[string]any{"net": "net; !ls"}, []string{"want the name of a variable"}},
		{"profile", map[string]any{"net": "net", "kind": "speed"}, []string{`got "speed", want one of phases, bottleneck, roofline`}},
		{"profile", map[string]any{"net": "net", "batch": -1}, []string{"got -1, want a positive number"}},
		{"describe", map[string]any{"name": "fit Train"}, []string{`got "fit Train", want a name`}},
		{"describe", map[string]any{"name": "fit.Trian"}, []string{"Trian"}},
		{"describe", map[string]any{"name": "%nonsense"}, []string{"%nonsense"}},
		{"describe", map[string]any{"name": "../../etc"}, []string{"describe"}},
		{"read_manual", map[string]any{"page": "../go.mod"}, []string{`got page "../go.mod", want one of quick-start.md`}},
		{"undo", map[string]any{"action": 1000}, []string{"undo: got action 1000, want one of "}},
		{"read_array", map[string]any{"name": "w", "count": 5000}, []string{"session"}},
		{"nonsense", nil, []string{"nonsense"}},
	} {
		said, r := c.call(tt.tool, tt.arguments)
		if !r.IsError {
			t.Errorf("%s %v: got %q, want an error", tt.tool, tt.arguments, said)
		}
		want(t, fmt.Sprint(tt.tool, tt.arguments), said, tt.want...)
	}
	if _, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: manualURI + "/nonsense.md"}); err == nil {
		t.Error("a resource that is not there: got no error")
	}
	want(t, "after all that", c.cell("1 + 1"), "2\n")
}

// TestCancel stops a cell that has told that it runs.
func TestCancel(t *testing.T) {
	c := connect(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "run_cell", Arguments: map[string]any{"code": "count := 7\nfmt.Println(\"it runs\")\ntime.Sleep(time.Hour)"}}
		p.SetProgressToken("mine")
		_, err := c.CallTool(ctx, p)
		ended <- err
	}()
	if p := <-c.progress; p.ProgressToken != "mine" || p.Message != "it runs" || p.Progress <= 0 {
		t.Errorf("got progress %+v, want the line and the token", p)
	}
	cancel()
	if err := <-ended; err == nil {
		t.Error("the call that was cancelled returned no error")
	}
	want(t, "the next cell", c.cell("count"), "7\n", "action 2")
}

// TestEnd ends the server while a cell runs, and so the cell; another call waits.
func TestEnd(t *testing.T) {
	c := connect(t)
	ended := make(chan error, 2)
	for range 2 {
		go func() {
			p := &mcp.CallToolParams{Name: "run_cell", Arguments: map[string]any{"code": "fmt.Println(\"it runs\")\ntime.Sleep(time.Hour)"}}
			p.SetProgressToken("mine")
			_, err := c.CallTool(context.Background(), p)
			ended <- err
		}()
	}
	<-c.progress
	c.stop()
	for range 2 {
		<-ended
	}
}

func TestUndoVariables(t *testing.T) {
	c := connect(t)
	undo := func(arguments map[string]any) string {
		t.Helper()
		said, r := c.call("undo", arguments)
		if r.IsError {
			t.Fatalf("undo %v: %s", arguments, said)
		}
		return said
	}
	if said, r := c.call("undo", nil); !r.IsError || !strings.Contains(said, "there is nothing to undo") {
		t.Errorf("nothing was done: got %q, want that there is nothing to undo", said)
	}
	for _, code := range []string{"x := 1", "x = 2", "x = 3"} { // 1 to 3
		c.cell(code)
	}
	look := func(want string) {
		t.Helper()
		said, r := c.call("describe", map[string]any{"name": "%who"})
		if r.IsError {
			t.Fatal(said)
		}
		out := newOutput()
		if e := c.notebook.Execute(t.Context(), request("fmt.Println(x)"), out).Err; e != nil {
			t.Fatalf("got %v, want x = %s", e, want)
		}
		if got := strings.TrimSpace(textIn(&mcp.CallToolResult{Content: out.content("", "")})); got != want {
			t.Errorf("got x = %s, want %s", got, want)
		}
	}
	want(t, "undo", undo(nil), "as they were before action 3 (run_cell x = 3)", "action 4") // x = 2
	look("2")
	want(t, "undo again", undo(nil), "before action 2") // x = 1; action 5
	look("1")
	want(t, "undo of the undo", undo(map[string]any{"action": 5}), "before action 5 (undo of 2)") // x = 2; action 6
	look("2")
	want(t, "and on", undo(nil), "before action 2") // x = 1; action 7
	look("1")
	undo(map[string]any{"action": 4}) // before the first undo: x = 3; action 8
	look("3")
	for range depth { // 9 to 18
		c.cell("x++")
	}
	if said, r := c.call("undo", map[string]any{"action": 8}); !r.IsError || !strings.Contains(said, "the newest 10 are kept") {
		t.Errorf("an action that is too old: got %q", said)
	}
	undo(map[string]any{"action": 9})
	look("3")
}

// TestRuns lists the runs of a folder, and says where there is none.
func TestRuns(t *testing.T) {
	c := connect(t)
	said, r := c.call("list_runs", nil)
	if want(t, "no folder", said, `"runs":[]`, "train with log=runs/NAME"); r.IsError {
		t.Errorf("no folder: got the error %s", said)
	}
	if said, r = c.call("list_runs", map[string]any{"folder": "nowhere"}); !r.IsError || !strings.Contains(said, "nowhere") {
		t.Errorf("a folder that is not there: got %s, want an error with its name", said)
	}
	l, err := runs.Begin(filepath.Join(c.notebook.Dir, "runs", "first"), runs.Run{Name: "runs/first", Net: "cnn", Settings: map[string]string{"epochs": "2"}, Code: "secret"})
	if err == nil {
		err = l.End(&result.History{}, nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	said, r = c.call("list_runs", nil)
	if want(t, "a run", said, `"name":"first"`, `"net":"cnn"`, `"state":"done"`, `"epochs":"2"`); r.IsError || strings.Contains(said, "secret") {
		t.Errorf("a run: got %s, want it without its code", said)
	}
	code, err := trainCell(trainIn{Net: "net", Data: "train", Epochs: 2, Log: "runs/a b"})
	if want := `must((net).Fit(train, fit.Train{Epochs: 2, Log: "runs/a b"}))`; err != nil || code != want {
		t.Errorf("train: got %s, %v, want %s", code, err, want)
	}
	code, err = trainCell(trainIn{Net: "net", Data: "live/train", Validation: `"a b"`})
	if want := `must((net).Fit(must((net).Data("live/train")), fit.Train{Validation: must((net).Data("a b"))}))`; err != nil || code != want {
		t.Errorf("train by names: got %s, %v, want %s", code, err, want)
	}
}

// TestManual reads all of it, and what describes the library.
func TestManual(t *testing.T) {
	c := connect(t)
	r, err := c.ListResources(t.Context(), nil)
	if err != nil || len(r.Resources) != len(pages.Names)+1 {
		t.Fatalf("got %d resources, %v, want %d", len(r.Resources), err, len(pages.Names)+1)
	}
	for _, resource := range r.Resources {
		read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: resource.URI})
		if err != nil || len(read.Contents) != 1 || !strings.Contains(read.Contents[0].Text, "# ") || resource.Title == "" {
			t.Errorf("%s: got %v, want a page with a title", resource.URI, err)
		}
	}
	said, _ := c.call("read_manual", nil)
	want(t, "the list", said, "quick-start.md: Quick start\n")
	said, _ = c.call("read_manual", map[string]any{"page": "quick-start.md"})
	want(t, "a page", said, "# Quick start")
	for name, part := range map[string]string{"fit": "package fit", "fit.Train": "type Train struct", "fit/step": "package step", "fit.Net.Fit": "func (n *Net) Fit", "%env": "%env [NAME", "gaiden/lib/timing": "package timing"} {
		said, _ = c.call("describe", map[string]any{"name": name})
		want(t, name, said, part)
	}
}

// TestTools holds that each tool says what it changes and how that is undone.
func TestTools(t *testing.T) {
	c := connect(t)
	l, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range l.Tools {
		names = append(names, tool.Name)
		if says := strings.Contains(tool.Description, "Changes nothing."); says != tool.Annotations.ReadOnlyHint || !says && !strings.Contains(strings.ToLower(tool.Description), "to undo:") && tool.Name != "undo" {
			t.Errorf("%s: %q says neither that it changes nothing nor how to undo it", tool.Name, tool.Description)
		}
		if schema, err := json.Marshal(tool.InputSchema); err != nil || !strings.Contains(string(schema), `"additionalProperties":false`) {
			t.Errorf("%s: got schema %s, %v, want one that refuses other arguments", tool.Name, schema, err)
		}
	}
	slices.Sort(names)
	page, err := pages.Page("agents.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if !strings.Contains(page, "| `"+name+"` |") {
			t.Errorf("agents.md does not have the tool %s", name)
		}
	}
}
