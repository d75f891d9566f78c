package notebook

import (
	"context"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestEnded: whoever looks after what programs leave behind hears of each, and
// is heard.
func TestEnded(t *testing.T) {
	var got []Ending
	var notes []string
	var failure error
	n := newNotebook(t)
	n.Ended = func(ctx context.Context, e Ending) ([]string, error) {
		got = append(got, e)
		if ctx.Err() != nil {
			t.Errorf("got a context that has ended: %v", ctx.Err())
		}
		return notes, failure
	}
	r := &runner{t: t, n: n}
	tests := []struct {
		name   string
		code   string
		notes  []string
		err    error
		ename  string // of the cell's error
		trace  string // part of it
		stderr string
		ends   int // programs that ended
	}{
		{name: "declaration", code: "func f() {}"},
		{name: "good", code: "fmt.Print(strings.ToUpper(\"a\"))", ends: 1},
		{name: "note", code: "fmt.Print(\"noted\")", notes: []string{"a note"}, stderr: "a note\n", ends: 1},
		{name: "error", code: "fmt.Print(\"lost\")", err: &hinted{}, ename: nameDevice, trace: "lost on the way\n    go back", ends: 1},
		{name: "error beside a panic", code: "panic(\"own\")", err: errors.New("late"), ename: namePanic, trace: "own", stderr: "late\n", ends: 1},
		{name: "hinted error beside a panic", code: "panic(\"other\")", err: &hinted{}, ename: namePanic, trace: "other", stderr: "lost on the way\n    go back\n", ends: 1},
		{name: "what it died of", code: "panic(\"cell 1: lost on the way\")", err: &hinted{}, ename: namePanic, trace: "    go back\n%tb", ends: 1},
		{name: "its own hint", code: "type lost string\nfunc (l lost) Error() string { return string(l) }\nfunc (lost) Hint() string { return \"look for it\" }\n" +
			"panic(fmt.Errorf(\"%w\", lost(\"my keys\")))", ename: namePanic, trace: "my keys\ncell 8, line 4, in main\n    4 | panic(fmt.Errorf(\"%w\", lost(\"my keys\")))\n    look for it\n%tb", ends: 1},
		{name: "not twice", code: "fmt.Print(\"again\")", ends: 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			got, notes, failure = nil, tt.notes, tt.err
			out, err := r.run(tt.code)
			if len(got) != tt.ends {
				t.Fatalf("got %d endings, want %d", len(got), tt.ends)
			}
			if (err != nil) != (tt.ename != "") {
				t.Fatalf("got error %v, want %q", err, tt.ename)
			}
			if err != nil && (err.Name != tt.ename || !strings.Contains(strings.Join(err.Traceback, "\n"), tt.trace)) {
				t.Errorf("got error %s: %q, want %s: %q", err.Name, err.Traceback, tt.ename, tt.trace)
			}
			if out.stream("stderr") != tt.stderr {
				t.Errorf("got stderr %q, want %q", out.stream("stderr"), tt.stderr)
			}
			if tt.ends > 0 && (got[0].PID <= 1 || got[0].Interrupted) {
				t.Errorf("got %+v, want a process that was not stopped", got[0])
			}
			if tt.ename == namePanic && !strings.Contains(tt.code, strconv.Quote(got[0].Panic)) {
				t.Errorf("got panic %q, want that of %s", got[0].Panic, tt.code)
			}
			if tt.name == "good" && !slices.Contains(got[0].Imports, "strings") {
				t.Errorf("got imports %q, want strings among them", got[0].Imports)
			}
		})
	}
	t.Run("stopped", func(t *testing.T) {
		got, notes, failure = nil, nil, nil
		ctx, stop := context.WithCancel(t.Context())
		time.AfterFunc(1500*time.Millisecond, stop)
		if err := r.runTo(ctx, &recorder{}, "for {\n\ttime.Sleep(time.Millisecond)\n}"); err == nil || err.Name != nameInterrupt {
			t.Fatalf("got error %v, want %s", err, nameInterrupt)
		}
		if len(got) != 1 || !got[0].Interrupted {
			t.Errorf("got %+v, want one ending, interrupted", got)
		}
	})
}

// TestCost: what the program has cost elsewhere stands below what it has cost here.
func TestCost(t *testing.T) {
	n := newNotebook(t)
	n.Ended = func(_ context.Context, e Ending) ([]string, error) {
		e.Spent("graph 4 ms")
		return nil, nil
	}
	r := &runner{t: t, n: n}
	if got := r.must("%cost").stream("stdout"); got != "no cell has run Go code yet\n" {
		t.Errorf("before the first cell: got %q", got)
	}
	shown := regexp.MustCompile(`^compose .* run .*\(direct\)\nsession: graph 4 ms\n$`)
	if got := r.must("fmt.Print(31415)").stream("stderr"); got != "" {
		t.Errorf("without %%cost on: got %q, want nothing", got)
	}
	if got := r.must("%cost").stream("stdout"); !shown.MatchString(got) {
		t.Errorf("the cell before: got %q", got)
	}
	if got := r.must("%cost on\nfmt.Print(27182)").stream("stderr"); !shown.MatchString(got) {
		t.Errorf("with %%cost on: got %q", got)
	}
}

type hinted struct{}

func (*hinted) Error() string { return "lost on the way" }
func (*hinted) Hint() string  { return "go back" }

// TestClear: the magic and what a program sends both clear, in order.
func TestClear(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct{ name, code, events string }{
		{"magic", "!echo a\n%clear\n!echo b", "stdout clear false stdout"},
		{"magic that waits", "%clear -w\nfmt.Print(1)", "clear true stdout"},
		{"program", "fmt.Print(1)\ngonbui.SendData(&protocol.DisplayData{Data: map[protocol.MIMEType]any{\"application/x-gaiden-clear\": true}})\ngonbui.Sync()\nfmt.Print(2)",
			"stdout clear true stdout"},
	}
	r.must("import \"github.com/janpfeifer/gonb/gonbui/protocol\"")
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			if got := strings.Join(r.must(tt.code).events, " "); got != tt.events {
				t.Errorf("got %q, want %q", got, tt.events)
			}
		})
	}
	if _, err := r.run("%clear now"); err == nil || !strings.Contains(err.Value, "want %clear [-w]") {
		t.Errorf("got error %v, want the usage", err)
	}
}

// What a cell waits for is said while it is built, and not after.
func TestWaiting(t *testing.T) {
	n := newNotebook(t)
	ended := false
	n.Waiting = func(ctx context.Context, say func(string)) {
		say("waiting")
		<-ctx.Done()
		ended = true
	}
	r := &runner{t: t, n: n}
	for _, code := range []string{"1 + 1", "1 +"} {
		ended = false
		if out, _ := r.run(code); out.stream("stderr") != "waiting\n" || !ended {
			t.Errorf("%s: got %q, ended %t, want one note and an end", code, out.stream("stderr"), ended)
		}
	}
}
