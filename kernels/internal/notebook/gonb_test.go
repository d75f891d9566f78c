package notebook

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAsGoNB: what GoNB's notebooks rely on. All rows are cells of one notebook.
func TestAsGoNB(t *testing.T) {
	t.Setenv("GOPROXY", "off")
	r := &runner{t: t, n: newNotebook(t)}
	tests := []struct {
		name, code string
		want       string   // what it prints
		parts      []string // or parts of it, in this order
		not        string   // and what it does not
		said       string   // part of stderr
	}{
		{name: "test", code: "%test\nfunc TestA(t *testing.T) { fmt.Println(\"A\") }", parts: []string{"RUN   TestA", "A\n", "PASS: TestA"}},
		{name: "alone, the tests of earlier cells", code: "%test", parts: []string{"RUN   TestA", "PASS: TestA"}},
		{name: "only those of the cell", code: "%test\nfunc TestAB(t *testing.T) { fmt.Println(\"AB\") }\nfunc TestB(t *testing.T) { fmt.Println(\"B\") }",
			parts: []string{"PASS: TestAB", "PASS: TestB"}, not: "PASS: TestA "},
		{name: "all, with flags of the cell's own", code: "%test \"\"", parts: []string{"A\nAB\nB\nPASS"}, not: "RUN"},
		{name: "benchmarks", code: "%test\nfunc BenchmarkX(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}", parts: []string{"BenchmarkX", "PASS"}, not: "TestA"},
		{name: "one that is replaced", code: "%test\nfunc TestA(t *testing.T) { fmt.Println(\"new\") }", parts: []string{"new"}},
		{name: "a program after tests", code: "%%\nfmt.Println(1)", want: "1\n"},

		{name: "init_b", code: "func init_b() { fmt.Println(\"b\") }", want: "b\n"},
		{name: "init_a", code: "func init_a() { fmt.Println(\"a\") }", want: "a\nb\n"},
		{name: "init", code: "func init() { fmt.Println(\"v0\") }", want: "v0\na\nb\n"},
		{name: "init again", code: "func init() { fmt.Println(\"v1\") }", want: "v1\na\nb\n"},
		{name: "removed", code: "%rm init_a init_b", want: "removed func init_a\nremoved func init_b\n"},
		{name: "the rest", code: "%%\nfmt.Println(\"Done\")", want: "v1\nDone\n"},
		{name: "no init", code: "%rm init", want: "removed func init\n"},

		{name: "import that is not used", code: "import \"strings\"\nfmt.Println(2)", want: "2\n"},
		{name: "one that cannot be found", code: "import \"example.com/no/such\"\nfmt.Println(3)", want: "3\n", said: "import \"example.com/no/such\" is left out, for this cell does not use it"},
		{name: "neither does the next cell", code: "fmt.Println(4)", want: "4\n"},

		{name: "%track", code: "%track", said: "%track is not needed: "},
		{name: "%untrack", code: "%untrack x", said: "%untrack is not needed: "},
		{name: "%goworkfix", code: "%goworkfix", said: "%goworkfix is not needed: "},
		{name: "%with_inputs", code: "%with_inputs", said: "%with_inputs is not needed: "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r.t = t
			out := r.must(tt.code)
			got := out.stream("stdout")
			if tt.parts == nil && got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			rest := got
			for _, part := range tt.parts {
				_, after, found := strings.Cut(rest, part)
				if !found {
					t.Errorf("got %q, want %q in it", got, part)
				}
				rest = after
			}
			if tt.not != "" && strings.Contains(got, tt.not) {
				t.Errorf("got %q, want no %q", got, tt.not)
			}
			if said := out.stream("stderr"); !strings.Contains(said, tt.said) {
				t.Errorf("it says %q, want %q", said, tt.said)
			}
		})
	}
	if _, err := r.run("import \"example.com/no/such\""); err == nil {
		t.Error("an import for later cells: got no error, want one that names it")
	}
	if _, err := r.run("import \"example.com/no/such\"\nsuch.F()"); err == nil || !strings.Contains(strings.Join(err.Traceback, "\n"), "example.com/no/such") {
		t.Errorf("an import that is used: got error %v, want one that names it", err)
	}
}

// TestRequestInput: gonbui.RequestInput asks at once, each call for itself, whether
// the program reads or not.
func TestRequestInput(t *testing.T) {
	r := &runner{t: t, n: newNotebook(t)}
	var asked []string
	out := &recorder{}
	out.Answer = func(prompt string, password bool) (string, error) {
		asked = append(asked, fmt.Sprint(prompt, password))
		return fmt.Sprint(len(asked)), os.WriteFile(filepath.Join(r.n.Dir, "asked"+fmt.Sprint(len(asked))), nil, 0o600)
	}
	code := `import "github.com/janpfeifer/gonb/gonbui"
%%
gonbui.RequestInput("Name:", false)
gonbui.RequestInput("Pin:", true)
for {
	if _, err := os.Stat("asked2"); err == nil {
		break
	}
	time.Sleep(time.Millisecond)
}
var a, b, c int
fmt.Scan(&a, &b)
fmt.Scan(&c)
fmt.Print(a, b, c)`
	if err := r.runTo(t.Context(), out, code); err != nil {
		t.Fatal(err.Traceback)
	}
	if got := strings.Join(asked, " "); got != "Name:false Pin:true false" {
		t.Errorf("got asked %q, want Name, Pin as a password, and what is read without a prompt", got)
	}
	if got := out.stream("stdout"); !strings.Contains(got, "1 2 3") {
		t.Errorf("got %q, want 1 2 3", got)
	}
}
