package jupyter_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// TestReconnect asks as a page does that is connected again, while its cell runs: all that
// the cell has shown comes once more, as it stands, in place of what the page has of it.
func TestReconnect(t *testing.T) {
	named := func(id, s string) jupyter.MimeBundle {
		d := text(s)
		d.Transient = map[string]any{"display_id": id}
		return d
	}
	say := func(out jupyter.Output, s string) { out.Stream("stdout", []byte(s)) }
	clear := `clear_output {"wait":true}`
	for _, tt := range []struct {
		name string
		run  func(out jupyter.Output)
		want []string
	}{
		{"nothing", func(jupyter.Output) {}, nil},
		{"text", func(out jupyter.Output) {
			say(out, "1\n")
			time.Sleep(100 * time.Millisecond)
			say(out, "2\n")
			out.Stream("stderr", []byte("!"))
			say(out, "3")
		}, []string{clear, `stream {"name":"stdout","text":"1\n2\n"}`, `stream {"name":"stderr","text":"!"}`, `stream {"name":"stdout","text":"3"}`}},
		{"an update", func(out jupyter.Output) {
			out.Display(named("x", "1"))
			say(out, "a")
			out.Update(named("x", "2"))
			out.Update(named("other cell", "3"))
		}, []string{clear, `display_data {"data":{"text/plain":"2"},"metadata":{},"transient":{"display_id":"x"}}`, `stream {"name":"stdout","text":"a"}`,
			`update_display_data {"data":{"text/plain":"3"},"metadata":{},"transient":{"display_id":"other cell"}}`}},
		{"what was cleared", func(out jupyter.Output) {
			say(out, strings.Repeat("x", 600<<10))
			out.Clear(false)
			say(out, "a")
		}, []string{clear, `stream {"name":"stdout","text":"a"}`}},
		{"what will be cleared", func(out jupyter.Output) {
			say(out, "a")
			out.Clear(true)
		}, []string{clear, `stream {"name":"stdout","text":"a"}`, clear}},
		{"what came after it", func(out jupyter.Output) {
			say(out, "a")
			out.Clear(true)
			out.Display(text("b"))
		}, []string{clear, `display_data {"data":{"text/plain":"b"},"metadata":{},"transient":{}}`}},
		{"too much", func(out jupyter.Output) {
			out.Display(named("x", "1"))
			out.Update(named("x", strings.Repeat("x", 600<<10)))
		}, []string{`stream {"name":"stderr","text":"jupyter: the connection to this page was cut: the last output above may be incomplete. It cannot be sent again: it is more than 512 KiB.\n"}`}},
		{"controls", func(out jupyter.Output) {
			out.CommOpen(jupyter.Comm{ID: "line", Target: "t"})
			say(out, "a")
		}, []string{`stream {"name":"stderr","text":"jupyter: the connection to this page was cut: the last output above may be incomplete. It cannot be sent again: the cell has controls, which would be reset.\n"}`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			shown, end := make(chan bool), make(chan bool)
			c, _ := kernel(t, map[string]cell{"run": does(func(_ context.Context, out jupyter.Output) {
				tt.run(out)
				time.Sleep(100 * time.Millisecond) // longer than text waits for more
				close(shown)
				<-end
			})})
			id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "run"})
			<-shown
			if got := again(t, c, id, func() { answered(t, c, jupyter.Shell, "kernel_info_request", nil) }); !slices.Equal(got, tt.want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
			if got := again(t, c, id, func() { answered(t, c, jupyter.Control, "kernel_info_request", nil) }); got != nil {
				t.Errorf("a request on control brings %q, want nothing", got)
			}
			close(end)
			if a, err := c.Wait(within(t), id); err != nil || a.Status() != "ok" {
				t.Errorf("got %q, %v, want ok", a.Status(), err)
			}
		})
	}
}

// again lists what iopub has of a cell while ask asks.
func again(t *testing.T, c *frontend.Client, id string, ask func()) (got []string) {
	t.Helper()
	answered(t, c, jupyter.Control, "kernel_info_request", nil) // what was sent before has come
	n := len(c.IOPub())
	ask()
	answered(t, c, jupyter.Control, "kernel_info_request", nil)
	for _, m := range c.IOPub()[n:] {
		if m.ParentID() == id && frontend.State(m) != "busy" {
			got = append(got, m.Header.Type+" "+string(m.Content))
		}
	}
	return got
}

// TestReconnectAtTheEnd asks when the cell has ended: by a socket of its own, as Jupyter
// Server does for a page, it is told how; by the client's own, only at once.
func TestReconnectAtTheEnd(t *testing.T) {
	k := jupytertest.Start(t, &mock{cells: map[string]cell{"fail": failing}}, jupyter.Options{})
	c, server := jupytertest.Connect(t, k.Connection), jupytertest.Connect(t, k.Connection)
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "fail"})
	if _, err := c.Wait(within(t), id); err != nil {
		t.Fatal(err)
	}
	own := func() { answered(t, c, jupyter.Shell, "kernel_info_request", nil) }
	other := func() { answered(t, server, jupyter.Shell, "kernel_info_request", nil) }
	want := []string{`clear_output {"wait":true}`, `error {"ename":"Broken","evalue":"it is","traceback":["line 1","line 2"]}`, `status {"execution_state":"idle"}`}
	if got := again(t, c, id, own); !slices.Equal(got, want) {
		t.Errorf("at once: got %q, want %q", got, want)
	}
	if got := again(t, c, id, other); got != nil {
		t.Errorf("another page: got %q, want nothing", got)
	}
	time.Sleep(1100 * time.Millisecond)
	if got := again(t, c, id, own); got != nil {
		t.Errorf("after a second: got %q, want nothing", got)
	}
	server.Session = c.Session
	if got := again(t, c, id, other); !slices.Equal(got, want) {
		t.Errorf("the page's server: got %q, want %q", got, want)
	}
}

// TestReconnectTotal: of many cells that print much, the newest are shown again.
func TestReconnectTotal(t *testing.T) {
	c, k := kernel(t, map[string]cell{"run": does(func(_ context.Context, out jupyter.Output) {
		out.Stream("stdout", []byte(strings.Repeat("x", 500<<10)))
	})})
	var ids []string
	for range 20 {
		ids = append(ids, sent(t, c, jupyter.Shell, "execute_request", object{"code": "run"}))
	}
	if _, err := c.Wait(within(t), ids[19]); err != nil {
		t.Fatal(err)
	}
	server := jupytertest.Connect(t, k.Connection)
	server.Session = c.Session
	ask := func() { answered(t, server, jupyter.Shell, "kernel_info_request", nil) }
	if got := again(t, c, ids[19], ask); len(got) != 3 || !strings.HasPrefix(got[1], `stream {"name":"stdout","text":"xxx`) {
		t.Errorf("the newest: got %.80q, want its text", got)
	}
	if got := again(t, c, ids[0], ask); len(got) != 2 || !strings.Contains(got[0], "later cells have printed more than 8 MiB") || got[1] != `status {"execution_state":"idle"}` {
		t.Errorf("the oldest: got %.200q, want why it has no text", got)
	}
}
