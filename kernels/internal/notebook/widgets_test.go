package notebook

import (
	"context"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

const kernelID = "0b1e0e8a-0000-4000-8000-000000000000"

// A page is a front end with an open comm, as line.js opens it.
type page struct {
	t      *testing.T
	client *frontend.Client
	comm   string
}

func (p *page) send(kind string, content map[string]any) string {
	p.t.Helper()
	content["comm_id"] = p.comm
	id, err := p.client.Send(jupyter.Shell, kind, content)
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *page) open() {
	p.t.Helper()
	p.send("comm_open", map[string]any{"target_name": "gonb_comm", "data": map[string]any{}})
	p.wait("#comm_open_ack")
}

func (p *page) value(address string, value any) {
	p.t.Helper()
	p.send("comm_msg", map[string]any{"data": map[string]any{"address": address, "value": value}})
}

// wait waits until the page has got a message for the address, and returns its data.
func (p *page) wait(address string) (data map[string]any) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	for {
		for _, m := range p.client.IOPub() {
			content := frontend.Content(m)
			data, _ := content["data"].(map[string]any)
			if m.Header.Type == "comm_msg" && content["comm_id"] == p.comm && data["address"] == address {
				return data
			}
		}
		select {
		case <-ctx.Done():
			p.t.Fatalf("page %s got nothing for %s", p.comm, address)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// pages starts a kernel with two pages, which open their comms when a script is
// shown, as browsers do.
func pages(t *testing.T) (*jupytertest.Kernel, [2]*page) {
	t.Helper()
	n := newNotebook(t)
	n.Kernel = kernelID
	k := jupytertest.Start(t, n, jupyter.Options{})
	var both [2]*page
	for i, name := range []string{"a", "b"} {
		both[i] = &page{t, jupytertest.Connect(t, k.Connection), "page-" + name}
	}
	return k, both
}

// shown waits until the script of the line is shown to the page for the request.
func (p *page) shown(id string) {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 30*time.Second)
	defer cancel()
	if err := p.client.Seen(ctx, id, "display_data"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *page) begin(code string, stdin bool) string {
	p.t.Helper()
	id, err := p.client.Send(jupyter.Shell, "execute_request", map[string]any{"code": code, "allow_stdin": stdin})
	if err != nil {
		p.t.Fatal(err)
	}
	return id
}

func (p *page) end(id string) frontend.Answer {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), 60*time.Second)
	defer cancel()
	a, err := p.client.Wait(ctx, id)
	if err != nil {
		p.t.Fatal(err)
	}
	return a
}

// listening is a program that repeats three values of a page, and says so to it.
const listening = `import "github.com/janpfeifer/gonb/gonbui/comms"
%%
listen := comms.Listen[TYPE]("/in")
for i := range 3 {
	v := <-listen.C
	fmt.Println("got", v)
	comms.Send("/out", fmt.Sprintf("%d %v", i, v))
}`

// TestWidgetValues sends values of every kind to a program, which gets them and
// answers, while another cell waits behind it: the order of cells is not that of
// comms.
func TestWidgetValues(t *testing.T) {
	_, both := pages(t)
	a, b := both[0], both[1]
	tests := []struct {
		name, kind string
		value      any
		got, back  string
	}{
		{"number as int", "int", 3, "3", "0 3"},
		{"zero", "int", 0, "0", "0 0"},
		{"number", "float64", 2.5, "2.5", "0 2.5"},
		{"text", "string", "é\n", "é", "0 é\n"},
		{"text as number", "int", "42", "42", "0 42"},
		{"numbers", "[]float64", []any{1, 2.5}, "[1 2.5]", "0 [1 2.5]"},
		{"texts", "[]string", []any{"a", "b"}, "[a b]", "0 [a b]"},
		{"named numbers", "map[string]float64", map[string]any{"x": 1.5}, "map[x:1.5]", "0 map[x:1.5]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a.t, b.t = t, t
			a.comm, b.comm = "a "+tt.name, "b "+tt.name
			id := a.begin(strings.Replace(listening, "TYPE", tt.kind, 1), true)
			next := a.begin(`fmt.Println("next")`, true)
			third := a.begin(`fmt.Println("third")`, true)
			a.shown(id)
			a.open()
			b.open()
			a.value("/elsewhere", 1) // nobody subscribes to it
			a.value("/in", tt.value)
			b.value("/in", tt.value)
			a.value("/in", nil) // no value
			a.value("/in", tt.value)
			for _, p := range both {
				if got := p.wait("/out")["value"]; got != tt.back {
					t.Errorf("page %s got %q, want %q", p.comm, got, tt.back)
				}
			}
			answer := a.end(id)
			if got := answer.Stream("stdout"); strings.Count(got, "got "+tt.got) != 3 {
				t.Errorf("the program printed %q, want three times %q; stderr %q", got, "got "+tt.got, answer.Stream("stderr"))
			}
			if html := answer.Shown("update_display_data", "text/html"); len(html) != 1 || html[0] != "" {
				t.Errorf("the script was followed by %q, want one update to nothing", html)
			}
			if got := a.end(next).Stream("stdout") + a.end(third).Stream("stdout"); got != "next\nthird\n" {
				t.Errorf("the cells behind it printed %q", got)
			}
			a.send("comm_close", map[string]any{})
			b.send("comm_close", map[string]any{})
		})
	}
}

// TestWidgetLife: a page that was left is forgotten, one that has a line says so,
// one of another life of the kernel is told that its line is closed.
func TestWidgetLife(t *testing.T) {
	k, both := pages(t)
	a, b := both[0], both[1]
	info := func() any {
		id, err := a.client.Send(jupyter.Shell, "comm_info_request", map[string]any{})
		if err != nil {
			t.Fatal(err)
		}
		return frontend.Content(a.end(id).Reply)["comms"]
	}
	begin := func() string { return a.begin(strings.Replace(listening, "TYPE", "int", 1), true) }
	id := begin()
	a.shown(id)
	a.open()
	b.open()
	if got, ok := info().(map[string]any); !ok || len(got) != 2 {
		t.Errorf("comm_info has %v, want two comms", info())
	}
	b.send("comm_close", map[string]any{})
	for range 3 {
		a.value("/in", 1)
	}
	if got := a.end(id); got.Status() != "ok" {
		t.Fatalf("got %s: %s", got.Status(), got.Stream("stderr"))
	}
	if got, ok := info().(map[string]any); !ok || len(got) != 1 {
		t.Errorf("one page has gone: comm_info has %v, want one comm", info())
	}

	id = begin()
	a.shown(id)
	a.value("#gaiden/here", true)
	for range 3 {
		a.value("/in", 2)
	}
	if got := a.end(id); strings.Count(got.Stream("stdout"), "got 2") != 3 || got.Stream("stderr") != "" {
		t.Errorf("a page with a line: got %q, stderr %q", got.Stream("stdout"), got.Stream("stderr"))
	}
	for _, m := range b.client.IOPub() {
		if c := frontend.Content(m); m.Header.Type == "comm_msg" && c["comm_id"] == b.comm {
			if data, _ := c["data"].(map[string]any); data["value"] == "0 2" {
				t.Error("a page that was left got a value")
			}
		}
	}
	k.Stop()

	_, again := pages(t)
	again[0].comm = a.comm
	answer, err := again[0].client.WaitIdle(t.Context(), again[0].send("comm_msg", map[string]any{"data": map[string]any{"address": "/in", "value": 1}}))
	if err != nil || len(answer.Messages("comm_close")) != 1 {
		t.Errorf("a comm of another life: got %v, %v; want comm_close", answer.Types(), err)
	}
}

// TestWidgetsAlone: where no page answers, a program that waits is told, and where
// nobody can be asked, ended; what it has shown stands.
func TestWidgetsAlone(t *testing.T) {
	waits := "import \"github.com/janpfeifer/gonb/gonbui/widgets\"\n%%\nw := widgets.Slider(0, 10, 5).Done()\nfmt.Println(w.Value())"
	sends := "import \"github.com/janpfeifer/gonb/gonbui/comms\"\n%%\ncomms.Send(\"/out\", 1)\nfmt.Println(\"sent\")"
	hears := "import \"github.com/janpfeifer/gonb/gonbui/comms\"\n%%\nheard := make(chan string, 1)\nid := comms.Subscribe(\"#gaiden/alone\", func(_ string, yes string) { heard <- yes })\nfmt.Println(\"alone:\", <-heard)\ntime.Sleep(2500 * time.Millisecond) // as on a busy machine\ncomms.Unsubscribe(id)"
	tests := []struct {
		name, code, kernel string
		stdin              bool
		status, out, err   string // of the reply, and what is in stdout, and in stderr or the error
	}{
		{"sends, somebody there", sends, kernelID, true, "ok", "sent", "widget: no page has opened a channel to this kernel"},
		{"sends, nobody there", sends, "", false, "ok", "sent", ""},
		{"hears that nobody is there", hears, "", false, "ok", "alone: true", ""},
		{"hears that no page is there", hears, kernelID, true, "ok", "alone: true", "widget: no page"},
		{"waits, nobody there", waits, "", false, "error", "", "the cell waits for its widgets, and no page shows them"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := newNotebook(t)
			n.Kernel, n.line.Wait = tt.kernel, 100*time.Millisecond
			p := &page{t, jupytertest.Connect(t, jupytertest.Start(t, n, jupyter.Options{}).Connection), "none"}
			a := p.end(p.begin(tt.code, tt.stdin))
			value, _ := frontend.Content(a.Reply)["evalue"].(string)
			if a.Status() != tt.status || !strings.Contains(a.Stream("stdout"), tt.out) || !strings.Contains(a.Stream("stderr")+value, tt.err) {
				t.Errorf("got %s, %q, %q %q; want %s, %q, %q", a.Status(), a.Stream("stdout"), a.Stream("stderr"), value, tt.status, tt.out, tt.err)
			}
			if tt.status == "error" {
				if html := strings.Join(a.Shown("display_data", "text/html"), ""); !strings.Contains(html, `type="range"`) {
					t.Errorf("shown is %q, want the slider as it stands", html)
				}
			}
		})
	}
}
