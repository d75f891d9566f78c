package notebook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/cell/complete"
	"gaiden/kernels/internal/magic"
)

// at returns the code without the mark |, and where it stood, in code points.
func at(marked string) (code string, cursor int) {
	i := strings.Index(marked, "|")
	return marked[:i] + marked[i+1:], len([]rune(marked[:i]))
}

// assistCells are declared before the questions are asked.
const assistCells = "// Greet greets.\nfunc Greet(name string) string { return \"hi \" + name }\n\ntype Box struct{ Width, Height int }\n\nvar theBox Box\n\nvar net = strings.NewReader(\"x\")\n\nvar size = net.Size()"

func TestComplete(t *testing.T) {
	n := newNotebook(t)
	os.WriteFile(filepath.Join(n.Dir, "data.csv"), nil, 0o600)
	os.Mkdir(filepath.Join(n.Dir, "dataset"), 0o700)
	n.Magics = clocks(n)
	(&runner{t: t, n: n}).must(assistCells)
	tests := []struct {
		name   string
		marked string
		match  string // one that must be among them
		start  int    // where the replaced text begins, from the front
		gopls  bool   // only gopls knows
	}{
		{"package function", "fmt.Printl|", "Println", 4, false},
		{"behind it", "fmt.Printl|n(1)", "Println", 4, false},
		{"package of the library", "greeting.He|", "Hello", 9, false},
		{"package name", "strin|", "strings", 0, false},
		{"remembered function", "x := Gre|", "Greet", 5, false},
		{"name that every cell has", "x := mus|", "must", 5, false},
		{"the cell's context", "ct|", "ctx", 0, false},
		{"its methods", "ctx.Do|", "Done", 4, true},
		{"remembered field", "theBox.Wi|", "Width", 7, true},
		{"method of a variable that is named as a package", "net.Le|", "Len", 4, true},
		{"own variable", "%%\ncounter := 1\ncoun|", "counter", 16, false},
		{"own variable's method", "var b strings.Builder\nb.Wri|", "WriteString", 24, true},
		{"inside a function", "func f() {\n\tos.Getw|\n}", "Getwd", 15, false},
		{"between statements", "a := 1\nstrings.ToUp|\n_ = a", "ToUpper", 15, false},
		{"nothing typed yet", "strings.|", "ToUpper", 8, false},
		{"not ASCII before it", "s := \"世界\"; strings.ToUp|", "ToUpper", 19, false},
		{"magic", "%hel|", "%help", 0, false},
		{"cell magic", "%%ba|", "%%bash", 0, false},
		{"magic behind GoNB's prefix", "//gonb:%hel|", "%help", 7, false},
		{"Go that begins as a command", "v := []bool{\n!strings.Cont|", "Contains", 22, false},
		{"file for a shell", "!cat da|", "data.csv", 5, false},
		{"directory for a magic", "%cd data|", "dataset/", 4, false},
		{"option of a magic", "%capture -|", "-a", 9, false},
		{"choice of a magic", "%cost o|", "off", 6, false},
		{"function for a magic", "%exec Gre|", "Greet", 6, false},
		{"below a magic", "%cost on\nstrings.ToUp|\nfmt.Println(1)", "ToUpper", 17, false},
		{"declaration for a magic", "%del theB|", "theBox", 5, false},
		{"import", "import \"encoding/js|", "encoding/json", 8, false},
		{"import, its first element", "import \"enco|", "encoding/", 8, false},
		{"import in brackets", "import (\n\t\"fmt\"\n\tj \"encoding/j|", "encoding/json", 20, false},
		{"import of the library", "fmt.Print(1)\nimport \"gaiden/|", "gaiden/lib/", 21, false},
		{"code of a magic", "%clock -n 3 -q strings.ToUp|", "ToUpper", 23, false},
		{"name in a magic's code", "%clock Gre|", "Greet", 7, false},
		{"option of a magic with code", "%clock -|", "-n", 7, false},
		{"below a cell magic", "%%clock\nx := 1\nstrings.ToUp|\n_ = x", "ToUpper", 23, false},
		{"what a cell magic's line defines", "%%clock -n 3 counter := 1\ncoun|", "counter", 26, false},
	}
	for _, kind := range []struct {
		name, path string
	}{{"gopls", ""}, {"names", "/nonexistent/gopls"}} {
		t.Run(kind.name, func(t *testing.T) {
			if kind.path == "" {
				needGopls(t)
			} else {
				n = newNotebook(t)
				n.Gopls, n.Magics = kind.path, clocks(n)
				os.WriteFile(filepath.Join(n.Dir, "data.csv"), nil, 0o600)
				os.Mkdir(filepath.Join(n.Dir, "dataset"), 0o700)
				(&runner{t: t, n: n}).must(assistCells)
			}
			if got := n.Complete(t.Context(), "net.L", 5); slices.Contains(got.Matches, "Listen") {
				t.Errorf("the variable net: got %q, want nothing of package net", got.Matches)
			}
			for _, tt := range tests {
				if tt.gopls && kind.path != "" {
					continue
				}
				code, cursor := at(tt.marked)
				got := n.Complete(t.Context(), code, cursor)
				for end := time.Now().Add(30 * time.Second); tt.gopls && !slices.Contains(got.Matches, tt.match) && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
					got = n.Complete(t.Context(), code, cursor) // gopls may still be starting; names are known at once
				}
				if !slices.Contains(got.Matches, tt.match) {
					t.Errorf("%s: %q: got %.10q, want %q among them", tt.name, tt.marked, got.Matches, tt.match)
				}
				if got.Start != tt.start || got.End != cursor {
					t.Errorf("%s: %q: got [%d:%d], want [%d:%d]", tt.name, tt.marked, got.Start, got.End, tt.start, cursor)
				}
			}
		})
	}
}

// needGopls skips a test where gopls is not installed.
func needGopls(t *testing.T) {
	t.Helper()
	n := newNotebook(t)
	if err := n.open(); err != nil {
		t.Fatal(err)
	}
	if !n.gopls.Installed() {
		t.Skip("gopls is not installed, so what it knows is not tested; go install golang.org/x/tools/gopls@v0.21.1")
	}
}

// TestNamedLate: who knows the names may take its time; Tab does not.
func TestNamedLate(t *testing.T) {
	n := newNotebook(t)
	end := make(chan struct{})
	defer close(end)
	n.Named = func(context.Context, string) []string { <-end; return []string{"late"} }
	began := time.Now()
	n.Complete(t.Context(), `%arrays l`, 9)
	if took := time.Since(began); took > 10*time.Second { // a machine may stall; the names never come
		t.Errorf("got an answer after %v, want one within %v", took, tabPatience)
	}
}

// clocks are the magics and two that are given Go code.
func clocks(n *Notebook) magic.Table {
	nothing := func(context.Context, magic.Host, magic.Command) error { return nil }
	return append(Magics(n), magic.Row{Name: "%clock", Args: "[-n N] [-q] statement", Code: true, Run: nothing},
		magic.Row{Name: "%%clock", Args: "[-n N] [set-up]", Code: true, Role: magic.Body, Run: nothing})
}

// TestArguments: what may follow an option is not what may follow the magic.
func TestArguments(t *testing.T) {
	n := newNotebook(t)
	n.Named = func(_ context.Context, call string) []string {
		return map[string][]string{"%take": {"known"}}[call]
	}
	n.Magics = append(Magics(n), magic.Row{Name: "%grow", Args: "[-phi relu|tanh] [-n N] NET"}, magic.Row{Name: "%take", Args: "[-n N] NAME"})
	(&runner{t: t, n: n}).must("var net = 1\nvar note = 2")
	for _, tt := range []struct{ marked, want string }{
		{"%grow |", "net note"},
		{"%grow n|", "net note"},
		{"%grow -|", "-n -phi"},
		{"%grow -phi |", "relu tanh"},
		{"%grow -phi t|", "tanh"},
		{"%grow -phi tanh n|", "net note"},
		{"%grow -n 3 no|", "note"},
		{"%take |", "known"},
		{"%take -n 3 |", "known"},
	} {
		code, cursor := at(tt.marked)
		if got := n.Complete(t.Context(), code, cursor); strings.Join(got.Matches, " ") != tt.want {
			t.Errorf("%q: got %q, want %q", tt.marked, got.Matches, tt.want)
		}
	}
	for _, marked := range []string{"%grow -n |", "%take -n |"} {
		code, cursor := at(marked)
		if got := n.Complete(t.Context(), code, cursor); slices.Contains(got.Matches, "net") || slices.Contains(got.Matches, "known") {
			t.Errorf("%q: got %q, want no names where a number stands", code, got.Matches)
		}
	}
}

// TestNamed: names in quotes are those that the function takes which is called.
func TestNamed(t *testing.T) {
	n := newNotebook(t)
	n.Named = func(_ context.Context, call string) []string {
		return map[string][]string{"Array": {"cnn/w", "cnn/b", "x"}, "Data": {"train", "test"}, "%arrays": {"cnn/w"}}[call]
	}
	for _, tt := range []struct {
		name, marked, want string // matches, separated by spaces
		start              int
	}{
		{"method", `s.Array("cn|`, "cnn/b cnn/w", 9},
		{"closed already", `s.Array("cn|")`, "cnn/b cnn/w", 9},
		{"nothing typed", `net.Data("|`, "test train", 10},
		{"second argument", `f.Data(g(1, "a"), "tr|`, "train", 19},
		{"raw string", "s.Array(`x|", "x", 9},
		{"inside another call", `must(net.Data("te|`, "test", 15},
		{"after statements", "x := 1\nmust(net.Data(\"te|", "test", 22},
		{"not ASCII before it", `y := "世界"; s.Array("x|`, "x", 20},
		{"another function", `s.Other("cn|`, "", 0},
		{"behind the string", `s.Array("cnn/w"|`, "", 0},
		{"magic", "%arrays cn|", "cnn/w", 8},
	} {
		code, cursor := at(tt.marked)
		got := n.Complete(t.Context(), code, cursor)
		if tt.want == "" {
			if slices.Contains(got.Matches, "cnn/w") {
				t.Errorf("%s: %q: got %q, want no names of arrays", tt.name, tt.marked, got.Matches)
			}
			continue
		}
		if strings.Join(got.Matches, " ") != tt.want || got.Start != tt.start || got.End != cursor {
			t.Errorf("%s: %q: got %q [%d:%d], want %q [%d:%d]", tt.name, tt.marked, got.Matches, got.Start, got.End, tt.want, tt.start, cursor)
		}
	}
}

func TestInspect(t *testing.T) {
	n := newNotebook(t)
	n.Magics = clocks(n)
	r := &runner{t: t, n: n}
	r.must(assistCells)
	tests := []struct {
		name   string
		marked string
		want   string // part of the text; empty = not found
		gopls  bool
	}{
		{"magic", "%en|v", "sets an environment variable", false},
		{"magic with code", "%cl|ock fmt.Println(1)", "[-n N] [-q] statement", false},
		{"code of a magic", "%clock -n 3 fmt.Print|ln(1)", "Println formats using the default formats", true},
		{"below a cell magic", "%%clock\nfmt.Print|ln(1)", "Println formats using the default formats", true},
		{"remembered function", "Gre|et(\"x\")", "func", false},
		{"name that every cell has", "x := mus|t(os.Open(\"x\"))", "must returns v. If the error behind it is not nil, the cell fails", false},
		{"the cell's context", "<-ct|x.Done()", "var ctx context.Context", true},
		{"its documentation", "<-ct|x.Done()", "ends when Stop is pressed", true},
		{"documentation", "fmt.Print|ln(1)", "Println formats using the default formats", true},
		{"behind the bracket", "fmt.Println(|1)", "Println formats using the default formats", true},
		{"own documentation", "y := Greet|(\"x\")", "Greet greets.", true},
		{"package", "strin|gs.ToUpper(\"\")", "package strings", true},
		{"field", "theBox.Wid|th", "field Width int", true},
		{"method of a variable that is named as a package", "net.Le|n()", "func (r *strings.Reader) Len() int", true},
		{"and in a cell that declares it anew", "var net = &theBox\nnet.Wid|th = 1", "field Width int", true},
		{"nothing", "1 + |1", "", false},
		{"inside a literal", "x := http.Cookie{|}", "type Cookie struct", true},
		{"between its fields", "x := http.Cookie{Name: \"a\", | Path: \"/\"}", "HttpOnly", true},
		{"inside a literal of your own", "b := Box{|}", "Width, Height int", true},
		{"what a type does not export", "x := http.Server{|}", "// and what is not exported\n}", true},
		{"package's page", "strin|gs.ToUpper(\"\")", "func ToUpper(s string) string", false},
		{"package's page, its name alone", "strings|", "func ToUpper(s string) string", false},
		{"package of the library", "greet|ing.Hello", "package greeting", false},
		{"a parameter that is named as a package", "func f(strings []int) { _ = strin|gs }", "strings []int", true},
	}
	needsGopls := n.gopls.Installed()
	for _, tt := range tests {
		if tt.gopls && !needsGopls {
			continue
		}
		code, cursor := at(tt.marked)
		var got string
		for end := time.Now().Add(time.Minute); got == "" || !strings.Contains(got, tt.want); { // gopls may still be starting
			inspection := n.Inspect(t.Context(), code, cursor, 0)
			got, _ = inspection.Data["text/plain"].(string)
			if !tt.gopls || time.Now().After(end) {
				break
			}
		}
		if !strings.Contains(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("%s: %q: got %q, want %q in it", tt.name, tt.marked, got, tt.want)
		}
	}
	if !needsGopls {
		t.Skip("gopls is not installed, so documentation is not tested; go install golang.org/x/tools/gopls@v0.21.1")
	}
}

func TestQuestions(t *testing.T) {
	n := newNotebook(t)
	n.Gopls = "/nonexistent/gopls"
	r := &runner{t: t, n: n}
	r.must("func answer() int { return 42 }")
	tests := []struct{ code, want, fails string }{
		{"%env?", "%env", ""},
		{"?%env", "%env", ""},
		{"answer?", "func answer() int", ""},
		{"must?", "must returns v.", ""},
		{"%evn?", "", "did you mean %env?"},
		{"nobody?", "", "nobody: nothing of this name is known\n    without gopls"},
	}
	for _, tt := range tests {
		r.count++
		result := n.Execute(t.Context(), request(tt.code, r.count), &recorder{})
		if tt.fails != "" {
			if result.Err == nil || !strings.Contains(strings.Join(result.Err.Traceback, "\n"), tt.fails) {
				t.Errorf("%s: got error %v, want %q", tt.code, result.Err, tt.fails)
			}
			continue
		}
		if result.Err != nil || len(result.Payload) != 1 {
			t.Errorf("%s: got error %v and %d pages, want one page", tt.code, result.Err, len(result.Payload))
			continue
		}
		data, _ := result.Payload[0]["data"].(map[string]any)
		if text, _ := data["text/plain"].(string); !strings.Contains(text, tt.want) {
			t.Errorf("%s: got page %q, want %q in it", tt.code, text, tt.want)
		}
	}
}

// TestQuestionsOfMethods asks gopls for them in the ways in which they are written.
func TestQuestionsOfMethods(t *testing.T) {
	needGopls(t)
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	r.must(assistCells)
	for _, code := range []string{"net.Len?", "?net.Len", "?strings.Reader.Len"} {
		r.count++
		result := n.Execute(t.Context(), request(code, r.count), &recorder{})
		if result.Err != nil || len(result.Payload) != 1 || !strings.Contains(fmt.Sprint(result.Payload[0]), "Len returns the number of bytes") {
			t.Errorf("%s: got error %v and %v, want the method's page", code, result.Err, result.Payload)
		}
	}
}

func TestIsComplete(t *testing.T) {
	n := newNotebook(t)
	tests := []struct{ code, want string }{
		{"!ls", "complete"},
		{"!ls \\", "incomplete"},
		{"%%\nfor {", "incomplete"},
		{"%%bash\nfor i in", "complete"},
		{"%nothing", "invalid"},
		{"x := 1", "complete"},
	}
	for _, tt := range tests {
		if got := n.IsComplete(tt.code).Status; got != tt.want {
			t.Errorf("%q: got %s, want %s", tt.code, got, tt.want)
		}
	}
}

// TestGoplsDies: when gopls is killed, the next question starts another one.
func TestGoplsDies(t *testing.T) {
	needGopls(t)
	n := newNotebook(t)
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()
	for round := range 2 {
		var got []string
		for ; !slices.Contains(got, "WriteString") && ctx.Err() == nil; time.Sleep(20 * time.Millisecond) { // it may still be starting
			got = n.Complete(ctx, "var b strings.Builder\nb.WriteStr", 32).Matches
		}
		if !slices.Contains(got, "WriteString") {
			t.Fatalf("round %d: got %q, want WriteString among them", round, got)
		}
		for _, p := range alive(n.mark + ".gopls") {
			pid, _, _ := strings.Cut(p, " ")
			kill(t, pid)
		}
	}
}

// TestExported: of what belongs to a package a reader sees what it exports.
func TestExported(t *testing.T) {
	text := "```go\ntype T struct {\n\t// A is {a number.\n\tA int\n\n\t// b is hidden.\n\tb, c int\n\tsync.Mutex\n\tconn\n\tD struct {\n\t\tx int\n\t}\n\te struct {\n\t\tF int\n\t}\n\tÜber int\n}\n```\n\nT is\n\tnice."
	want := "```go\ntype T struct {\n\t// A is {a number.\n\tA int\n\tsync.Mutex\n\tD struct {\n\t\tx int\n\t}\n\tÜber int\n\t// and what is not exported\n}\n```\n\nT is\n\tnice."
	if got := exported(text); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if all := "```go\ntype T struct {\n\tA int\n}\n```"; exported(all) != all {
		t.Errorf("got %q, want it as it was", exported(all))
	}
}

// TestLoading: while gopls is starting, Tab behind a dot that only gopls knows says so, in
// a list that changes nothing, and Shift-Tab says so, too.
func TestLoading(t *testing.T) {
	n := newNotebook(t)
	silent := filepath.Join(t.TempDir(), "gopls") // one that never answers
	if err := os.WriteFile(silent, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	n.Gopls = silent
	(&runner{t: t, n: n}).must(assistCells)
	for _, marked := range []string{"theBox.Wi|", "var b strings.Builder\nb.Wri|", "a.b.C|", "f().|", "net.L|"} {
		code, cursor := at(marked)
		got := n.Complete(t.Context(), code, cursor)
		types, _ := got.Metadata["_jupyter_types_experimental"].([]any)
		if len(got.Matches) != 2 || len(types) != 2 || !strings.HasSuffix(got.Matches[0], "gopls is loading") {
			t.Errorf("%q: got %.10q, want two that say that gopls is loading", marked, got.Matches)
			continue
		}
		for _, c := range types {
			if word := code[got.Start:got.End]; c.(map[string]any)["text"] != word {
				t.Errorf("%q: got %q inserted, want %q, which changes nothing", marked, c.(map[string]any)["text"], word)
			}
		}
	}
	if got := n.Complete(t.Context(), "strings.ToUp", 12); !slices.Contains(got.Matches, "ToUpper") {
		t.Errorf("a package: got %q, want its names", got.Matches)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if got, _ := n.describe(ctx, "theBox.Width", 10).Data["text/plain"].(string); !strings.Contains(got, "gopls is loading") {
		t.Errorf("got documentation %q, want a word that gopls is loading", got)
	}
}

// TestFirstTab: while gopls is starting, completion answers with the names that
// are known, before front ends have stopped waiting.
func TestFirstTab(t *testing.T) {
	n := newNotebook(t)
	(&runner{t: t, n: n}).must("1 + 1")
	n.Complete(t.Context(), "fmt.", 4) // reads what packages export, once
	n.gopls.Close()
	n.gopls = &complete.Gopls{Path: n.Gopls, Module: n.module, Mark: n.mark + ".gopls"}
	for range 3 {
		began := time.Now()
		got := n.Complete(t.Context(), "fmt.Printl", 10)
		if took := time.Since(began); took > tabPatience+5*time.Second { // a machine may stall; gopls takes as long
			t.Errorf("completion took %v, want at most %v", took, tabPatience)
		}
		if !slices.Contains(got.Matches, "Println") {
			t.Errorf("got %q, want Println among them", got.Matches)
		}
	}
}
