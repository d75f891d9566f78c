package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/parse"
	"gaiden/kernels/internal/notebook"
)

// host is a notebook that notes what it is given.
type host struct {
	out   bytes.Buffer
	texts []string
	kept  int // how many of them are the cell's own
	shown []map[string]any
	fail  func(text string) error
}

func (h *host) Stdout() io.Writer        { return &h.out }
func (h *host) Stderr() io.Writer        { return &h.out }
func (h *host) Show(data map[string]any) { h.shown = append(h.shown, data) }
func (h *host) Live() func(map[string]any, bool) {
	return func(data map[string]any, _ bool) { h.Show(data) }
}
func (h *host) Left() <-chan struct{}      { return nil }
func (h *host) Progress() []map[string]any { return nil }
func (h *host) Page(map[string]any)        {}
func (h *host) Next(string)                {}
func (h *host) Keep(ctx context.Context, text string) error {
	h.kept++
	return h.Go(ctx, text)
}
func (h *host) Go(_ context.Context, text string) error {
	h.texts = append(h.texts, text)
	if h.fail != nil {
		return h.fail(text)
	}
	return nil
}

// runMagic parses a cell and runs its first magic.
func runMagic(t *testing.T, h *host, text string) error {
	t.Helper()
	plan, err := timingMagics(&notebook.Notebook{}).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	c := plan.Commands[0]
	return c.Row.Run(t.Context(), h, c)
}

func TestTimeitFlags(t *testing.T) {
	tests := []struct {
		cell string
		want string // in the program
		err  string
	}{
		{"%timeit f()", "Timeit{Runs: 7, Loops: 0, Digits: 3, Quiet: false}", ""},
		{"%timeit -n 5 -r3 -t -q -p 6 f()", "Timeit{Runs: 3, Loops: 5, Digits: 6, Quiet: true}", ""},
		{"%timeit -- -x", "gaiden0_0 := -x", ""},
		{"%timeit -o f()", "}})", ""},
		{"%timeit f()", "}});", ""},
		{"%%timeit -n 10 x := 1\nf(x)", "Loops: 10", ""},
		{"%timeit -n 0 f()", "", `-n: got "0", want the number of calls in a run, from 1`},
		{"%timeit -r -1 f()", "", `-r: got "-1", want the number of runs, from 1`},
		{"%timeit -n", "", `-n: got "", want the number of calls in a run, from 1`},
		{"%timeit -n many f()", "", `-n: got "many"`},
		{"%timeit -n 1e3 f()", "", `-n: got "1e3"`},
		{"%timeit --repeat 3 f()", "", "did you mean -r?"},
		{"%timeit --quite f()", "", "did you mean -q?"},
		{"%timeit -N 3 f()", "", "did you mean -n?"},
		{"%timeit -c f()", "", "-c: processor time is not measured"},
		{"%timeit -(x)", "", "a statement that begins with - goes into brackets"},
		{"%timeit", "", `%timeit: got "", want %timeit [-n N]`},
		{"%%timeit x := 1\n  ", "", "%%timeit: got no lines below it, want the code there"},
		{"%%time\n", "", "%%time: got no lines below it"},
		{"%%profile", "", "%%profile: got no lines below it"},
		{"%time", "", `%time: got "", want %time statement`},
		{"%%time -n 3\nf()", "", "%%time: got \"-n 3\", want %%time"},
	}
	for _, tt := range tests {
		h := &host{}
		err := runMagic(t, h, tt.cell)
		switch {
		case tt.err == "" && (err != nil || !strings.Contains(strings.Join(h.texts, ""), tt.want)):
			t.Errorf("%q: got %q, %v, want a program with %q", tt.cell, h.texts, err, tt.want)
		case tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)):
			t.Errorf("%q: got %v, want an error with %q", tt.cell, err, tt.err)
		case tt.err != "" && len(h.texts) > 0:
			t.Errorf("%q: ran %q", tt.cell, h.texts)
		}
	}
}

// The text that a magic makes has the user's lines where the user has them.
func TestTimedLines(t *testing.T) {
	for _, text := range []string{"%%timeit x := 1\ny := x\n\nuse(y, x) // end", "\n\n%%timeit\na()\nb()", "%%time\na := 1\na", "\n%%time\nb"} {
		h := &host{}
		if err := runMagic(t, h, text); err != nil {
			t.Fatal(err)
		}
		got, want := strings.Split(h.texts[0], "\n"), strings.Split(text, "\n")
		for i, line := range want {
			if strings.HasPrefix(line, "%%") {
				_, line, _ = strings.Cut(line, " ")
			}
			// Every word of the line, in order: there may be something between.
			rest := got[i]
			for _, word := range strings.Fields(line) {
				_, after, found := strings.Cut(rest, word)
				if !found {
					t.Errorf("%q: line %d is %q, want %q in it", text, i+1, got[i], line)
					break
				}
				rest = after
			}
		}
	}
}

// What the type checker says of a call, the magic learns, and what it says of
// the rest comes back to the place where the user typed it.
func TestTimedLearns(t *testing.T) {
	h := &host{}
	complain := func(text, at, message string) *parse.BuildError {
		i := strings.Index(text, at)
		line, column, _ := lineAt(text, i)
		return &parse.BuildError{Diagnostics: []parse.Diagnostic{{Line: line, Column: column, Message: message, Text: "?"}}}
	}
	h.fail = func(text string) error {
		switch len(h.texts) {
		case 1:
			return complain(text, "none()", "none() (no value) used as value")
		case 2:
			return complain(text, "gaiden1_0", "assignment mismatch: 1 variable but two() returns 2 values")
		}
		return complain(text, "wrong", "undefined: wrong")
	}
	err := runMagic(t, h, "%%timeit\nnone(); two(); x := wrong(1)")
	if len(h.texts) != 3 || !strings.Contains(h.texts[2], "gaiden1_0, gaiden1_1 := two()") || strings.Contains(h.texts[2], ":= none()") {
		t.Errorf("got %q, want none() as it is and two values of two()", h.texts)
	}
	var build *parse.BuildError
	if !errors.As(err, &build) {
		t.Fatalf("got %v, want a BuildError", err)
	}
	want := parse.Diagnostic{Line: 2, Column: 21, Message: "undefined: wrong", Text: "none(); two(); x := wrong(1)"}
	if got := build.Diagnostics[0]; got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// What %time runs is the cell's own, what %timeit runs is not; and what Go says of
// the former comes with the cell's number.
func TestTimedKeeps(t *testing.T) {
	for text, want := range map[string]int{"%time x := 1": 1, "%%time\nx := 1": 1, "%timeit x := 1": 0, "%%timeit\nx := 1": 0, "%roofline": 0} {
		h := &host{}
		if err := runMagic(t, h, text); err != nil || h.kept != want || len(h.texts) != 1 {
			t.Errorf("%q: got %d of %d programs that are the cell's own, %v; want %d of 1", text, h.kept, len(h.texts), err, want)
		}
	}
	h := &host{}
	h.fail = func(text string) error {
		line, column, content := lineAt(text, strings.Index(text, "wrong"))
		return &parse.BuildError{Diagnostics: []parse.Diagnostic{{Cell: 3, Line: line, Column: column, Message: "undefined: wrong", Text: content}, {Cell: 2, Line: 1, Column: 9, Message: "an earlier cell's", Text: "earlier"}}}
	}
	err := runMagic(t, h, "%time x := wrong")
	var build *parse.BuildError
	if !errors.As(err, &build) {
		t.Fatalf("got %v, want a BuildError", err)
	}
	hint := "it sees what earlier cells declared, and not its own: %%time times a whole cell"
	want := []parse.Diagnostic{{Cell: 3, Line: 1, Column: 6, Message: "undefined: wrong", Text: "x := wrong", Hint: hint}, {Cell: 2, Line: 1, Column: 9, Message: "an earlier cell's", Text: "earlier"}}
	if got := build.Diagnostics; !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestTimedRefuses(t *testing.T) {
	tests := []struct{ cell, want string }{
		{"%%timeit\nx :=\n", "syntax error"},
		{"%%timeit\n}\n", "syntax error"},
		{"%%timeit\nfunc f() {}", "functions and imports go into a cell of their own"},
		{"%%timeit\nimport \"fmt\"\nfmt.Println()", "functions and imports go into a cell of their own"},
		{"%%timeit\nif x {\n return\n}", "this would leave the loop"},
		{"%%timeit\nif x { break }", "this would leave the loop"},
		{"%timeit break", "this would leave the loop"},
	}
	for _, tt := range tests {
		h := &host{}
		err := runMagic(t, h, tt.cell)
		if err == nil || !strings.Contains(err.Error(), tt.want) || len(h.texts) > 0 {
			t.Errorf("%q: got %v, want an error with %q before anything runs", tt.cell, err, tt.want)
		}
	}
	for _, text := range []string{"%%timeit\nfor { break }", "%%timeit\nswitch { case true: break }", "%%timeit\nfunc() { return }()", "%%timeit\nfor { for { }; continue }"} {
		if err := runMagic(t, &host{}, text); err != nil {
			t.Errorf("%q: got %v, want it to run", text, err)
		}
	}
}

func FuzzTimedBody(f *testing.F) {
	for _, s := range []string{"x := 1", "f(); g()", "_ = f()", "a, b := f() // c", "return", "\n\n}", "_=(1)", "x:=`\n`;x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, body string) {
		h := &host{}
		timed := &timed{body: body, line: 2, first: 1, before: "for {", after: "}"}
		if err := timed.run(t.Context(), h); err != nil {
			return
		}
		if got, want := strings.Count(h.texts[0], "\n"), strings.Count(body, "\n")+2; got != want {
			t.Errorf("%q became %q: got %d line ends, want %d", body, h.texts[0], got, want)
		}
	})
}
