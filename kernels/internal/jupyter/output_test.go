package jupyter_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"gaiden/kernels/internal/jupyter"
	"gaiden/kernels/internal/jupyter/frontend"
	"gaiden/kernels/internal/jupyter/jupytertest"
)

// does makes a cell of a function that has no result.
func does(f func(ctx context.Context, out jupyter.Output)) cell {
	return func(ctx context.Context, _ jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
		f(ctx, out)
		return jupyter.ExecuteResult{}
	}
}

func text(s string) jupyter.MimeBundle {
	return jupyter.MimeBundle{Data: map[string]any{"text/plain": s}}
}

func TestOutput(t *testing.T) {
	say := func(out jupyter.Output, name string, parts ...string) {
		for _, p := range parts {
			out.Stream(name, []byte(p))
		}
	}
	tests := []struct {
		name string
		run  func(ctx context.Context, out jupyter.Output)
		want []string // what iopub has between execute_input and idle
	}{
		{"nothing", func(context.Context, jupyter.Output) {}, nil},
		{"empty writes", func(_ context.Context, out jupyter.Output) { say(out, "stdout", "", "") }, nil},
		{"small writes are gathered", func(_ context.Context, out jupyter.Output) { say(out, "stdout", "a", "b", "c") },
			[]string{`stream {"name":"stdout","text":"abc"}`}},
		{"streams keep their order", func(_ context.Context, out jupyter.Output) {
			say(out, "stdout", "a")
			say(out, "stderr", "b")
			say(out, "stdout", "c")
		}, []string{`stream {"name":"stdout","text":"a"}`, `stream {"name":"stderr","text":"b"}`, `stream {"name":"stdout","text":"c"}`}},
		{"a character in three parts", func(_ context.Context, out jupyter.Output) { say(out, "stdout", "x\xf0\x9f", "\x98", "\x80y") },
			[]string{`stream {"name":"stdout","text":"x😀y"}`}},
		{"a character in two parts, long apart", func(_ context.Context, out jupyter.Output) {
			say(out, "stdout", "x\xe2\x82")
			time.Sleep(120 * time.Millisecond)
			say(out, "stdout", "\xac")
		}, []string{`stream {"name":"stdout","text":"x"}`, `stream {"name":"stdout","text":"€"}`}},
		{"a character with the other stream between", func(_ context.Context, out jupyter.Output) {
			say(out, "stdout", "x\xe2")
			say(out, "stderr", "!")
			say(out, "stdout", "\x82\xac")
		}, []string{`stream {"name":"stdout","text":"x"}`, `stream {"name":"stderr","text":"!"}`, `stream {"name":"stdout","text":"€"}`}},
		{"a character that never ends", func(_ context.Context, out jupyter.Output) { say(out, "stdout", "x\xe2\x82") },
			[]string{`stream {"name":"stdout","text":"x"}`, "stream {\"name\":\"stdout\",\"text\":\"\\ufffd\\ufffd\"}"}},
		{"bytes that are no text", func(_ context.Context, out jupyter.Output) { say(out, "stdout", "a\xff\xc0b<&>") },
			[]string{`stream {"name":"stdout","text":"a\ufffd\ufffdb<&>"}`}},
		{"displays come after the text before them", func(_ context.Context, out jupyter.Output) {
			say(out, "stdout", "before")
			out.Display(text("d"))
			say(out, "stdout", "after")
			out.Result(text("r"))
		}, []string{
			`stream {"name":"stdout","text":"before"}`,
			`display_data {"data":{"text/plain":"d"},"metadata":{},"transient":{}}`,
			`stream {"name":"stdout","text":"after"}`,
			`execute_result {"data":{"text/plain":"r"},"execution_count":1,"metadata":{},"transient":{}}`}},
		{"bytes become base64", func(_ context.Context, out jupyter.Output) {
			out.Display(jupyter.MimeBundle{Data: map[string]any{"image/png": []byte{1, 2, 3}}, Metadata: map[string]any{"w": 1}})
		}, []string{`display_data {"data":{"image/png":"AQID"},"metadata":{"w":1},"transient":{}}`}},
		{"update", func(_ context.Context, out jupyter.Output) {
			d := text("1")
			d.Transient = map[string]any{"display_id": "x"}
			out.Display(d)
			out.Update(d)
		}, []string{
			`display_data {"data":{"text/plain":"1"},"metadata":{},"transient":{"display_id":"x"}}`,
			`update_display_data {"data":{"text/plain":"1"},"metadata":{},"transient":{"display_id":"x"}}`}},
		{"clear", func(_ context.Context, out jupyter.Output) {
			say(out, "stdout", "a")
			out.Clear(true)
			out.Clear(false)
		},
			[]string{`stream {"name":"stdout","text":"a"}`, `clear_output {"wait":true}`, `clear_output {"wait":false}`}},
		{"what is no JSON is told", func(_ context.Context, out jupyter.Output) {
			out.Display(jupyter.MimeBundle{Data: map[string]any{"x": make(chan int)}})
		}, []string{`stream {"name":"stderr","text":"jupyter: display_data: json: unsupported type: chan int\n"}`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c, _ := kernel(t, map[string]cell{"run": does(tt.run)})
			var got []string
			for _, m := range executed(t, c, "run").IOPub {
				if name := m.Header.Type; name != "status" && name != "execute_input" {
					got = append(got, name+" "+string(m.Content))
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("iopub has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(tt.want, "\n"))
			}
		})
	}
}

// TestStreamSoon looks that text does not wait for the cell's end.
func TestStreamSoon(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"run": does(func(ctx context.Context, out jupyter.Output) {
		out.Stream("stdout", []byte("early"))
		<-ctx.Done()
	})})
	begin := time.Now()
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "run"})
	if err := c.Seen(within(t), id, "stream"); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(begin); took > 5*time.Second {
		t.Errorf("text came after %v, want about 50 ms", took)
	}
}

// TestDisplaysAtTheEnd sends 200 displays in a cell's last millisecond, 50 times:
// all arrive, in order, before idle.
func TestDisplaysAtTheEnd(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"run": does(func(_ context.Context, out jupyter.Output) {
		for i := range 200 {
			out.Display(text(fmt.Sprint(i)))
		}
	})})
	var want []string
	for i := range 200 {
		want = append(want, fmt.Sprint(i))
	}
	for run := range 50 {
		a := executed(t, c, "run")
		if got := a.Shown("display_data", "text/plain"); !slices.Equal(got, want) {
			t.Fatalf("run %d: got %d displays: %v, want 0 to 199", run, len(got), got)
		}
		if types := a.Types(); types[len(types)-1] != "idle" || slices.Index(types, "idle") != len(types)-1 {
			t.Fatalf("run %d: idle is not last", run)
		}
	}
}

// flood makes size bytes of characters of one to four bytes.
func flood(size int) []byte {
	b := make([]byte, 0, size+4)
	r := rand.New(rand.NewPCG(1, 2))
	letters := []rune("aé€😀\n\"\\ z")
	for len(b) < size {
		b = append(b, string(letters[r.IntN(len(letters))])...)
	}
	return b
}

// TestFlood sends 100 MB of multi-byte characters, cut anywhere, to two front
// ends: they arrive byte for byte, and in few messages.
func TestFlood(t *testing.T) {
	size := 100 << 20
	if testing.Short() {
		size = 10 << 20
	}
	data := flood(size)
	c, k := kernel(t, map[string]cell{"run": does(func(_ context.Context, out jupyter.Output) {
		r := rand.New(rand.NewPCG(3, 4))
		for rest := data; len(rest) > 0; {
			n := min(len(rest), 1+r.IntN(64<<10))
			out.Stream("stdout", rest[:n])
			rest = rest[n:]
		}
	})})
	other := jupytertest.Connect(t, k.Connection)
	begin := time.Now()
	id := sent(t, c, jupyter.Shell, "execute_request", object{"code": "run"})
	for i, c := range []*frontend.Client{c, other} {
		a, err := c.WaitIdle(within(t), id)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("front end %d: %d MiB in %d messages, %v", i, len(data)>>20, len(a.Messages("stream")), time.Since(begin).Round(time.Millisecond))
		if got := a.Stream("stdout"); sha256.Sum256([]byte(got)) != sha256.Sum256(data) {
			t.Errorf("front end %d: got %d bytes, want the %d sent", i, len(got), len(data))
		}
		if n, most := len(a.Messages("stream")), 2*size>>20+100; n > most {
			t.Errorf("front end %d: %d messages, want %d at most", i, n, most)
		}
	}
}

// TestConcurrentOutput writes from many goroutines at once.
func TestConcurrentOutput(t *testing.T) {
	c, _ := kernel(t, map[string]cell{"run": does(func(_ context.Context, out jupyter.Output) {
		var wg sync.WaitGroup
		for i := range 20 {
			wg.Go(func() {
				for range 50 {
					out.Stream([]string{"stdout", "stderr"}[i%2], []byte("€\n"))
					out.Display(text("x"))
				}
			})
		}
		wg.Wait()
	})})
	a := executed(t, c, "run")
	for _, name := range []string{"stdout", "stderr"} {
		if got, want := a.Stream(name), strings.Repeat("€\n", 500); got != want {
			t.Errorf("%s has %d bytes, want %d", name, len(got), len(want))
		}
	}
	if got := len(a.Messages("display_data")); got != 1000 {
		t.Errorf("%d displays, want 1000", got)
	}
}

func TestInput(t *testing.T) {
	log := &record{}
	ask := map[string]cell{
		"ask": func(ctx context.Context, req jupyter.ExecuteRequest, out jupyter.Output) jupyter.ExecuteResult {
			out.Stream("stdout", []byte("before "))
			line, err := out.Input(ctx, "name? ", strings.HasSuffix(req.Code, "password"))
			if errors.Is(err, jupyter.ErrNoStdin) {
				err = errors.New("no stdin")
			}
			out.Stream("stdout", []byte(fmt.Sprintf("%q %v", line, err)))
			return jupyter.ExecuteResult{}
		},
	}
	k := jupytertest.Start(t, &mock{cells: ask}, jupyter.Options{Log: slog.New(slog.NewTextHandler(log, nil))})
	c := jupytertest.Connect(t, k.Connection)
	// stray sends an answer that must be dropped, and waits until it was.
	stray := func(c *frontend.Client, content object) {
		const dropped = "no cell waits for it"
		before := strings.Count(log.String(), dropped)
		sent(t, c, jupyter.Stdin, "input_reply", content)
		for deadline := time.Now().Add(time.Minute); strings.Count(log.String(), dropped) == before; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Errorf("the answer %v was not dropped", content)
				return
			}
		}
	}
	c.OnInput(func(prompt string, password bool) string { return fmt.Sprint("é ", prompt, password) })
	silent := jupytertest.Connect(t, k.Connection) // takes questions, never answers
	for _, tt := range []struct {
		name   string
		client *frontend.Client
		code   string
		allow  bool
		do     func(id string)
		want   string
	}{
		{"a line", c, "ask", true, nil, `before "é name? false" <nil>`},
		{"a password", c, "ask password", true, nil, `before "é name? true" <nil>`},
		{"not allowed", c, "ask", false, nil, `before "" no stdin`},
		{"interrupted", silent, "ask", true, func(id string) {
			if err := silent.Seen(within(t), id, "stream"); err != nil {
				t.Error(err)
			}
			stray(c, object{"value": "from another front end"})
			stray(silent, object{"status": "no value"})
			answered(t, c, jupyter.Control, "interrupt_request", nil)
		}, `before "" context canceled`},
		{"an answer nobody waits for", c, "ask", false, func(string) { stray(c, object{"value": "x"}) }, `before "" no stdin`},
		{"the next line after all that", c, "ask", true, nil, `before "é name? false" <nil>`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := sent(t, tt.client, jupyter.Shell, "execute_request", object{"code": tt.code, "allow_stdin": tt.allow})
			if tt.do != nil {
				tt.do(id)
			}
			a, err := tt.client.Wait(within(t), id)
			if err != nil {
				t.Fatal(err)
			}
			if got := a.Stream("stdout"); got != tt.want {
				t.Errorf("the cell printed %q, want %q", got, tt.want)
			}
		})
	}
}

// TestInputGone closes the front end that was asked: the cell must not wait for
// ever.
func TestInputGone(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits 5 s for the front end to come back; run without -short")
	}
	asked := make(chan error, 1)
	_, k := kernel(t, map[string]cell{"ask": does(func(ctx context.Context, out jupyter.Output) {
		_, err := out.Input(ctx, "?", false)
		asked <- err
	})})
	gone := jupytertest.Connect(t, k.Connection)
	id := sent(t, gone, jupyter.Shell, "execute_request", object{"code": "ask"})
	if err := gone.Seen(within(t), id, "execute_input"); err != nil {
		t.Fatal(err)
	}
	gone.Close()
	select {
	case err := <-asked:
		if !errors.Is(err, jupyter.ErrNoStdin) {
			t.Errorf("the question ended with %v, want %v", err, jupyter.ErrNoStdin)
		}
	case <-time.After(15 * time.Second):
		t.Error("the cell still waits")
	}
}
