package magic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func run(context.Context, Host, Command) error { return nil }

// table has one row of each role.
var table = Table{
	{Name: "%%", Aliases: []string{"%main"}, Args: "[arguments]", Role: Main, Help: "begins main"},
	{Name: "%exec", Args: "function [arguments]", Role: Exec, Help: "calls a function"},
	{Name: "%args", Args: "arguments", Role: Arguments, Help: "arguments of the program"},
	{Name: "%test", Args: "[flags]", Role: Test, Help: "runs tests"},
	{Name: "%env", Args: "NAME value", Help: "sets a variable", Run: run},
	{Name: "%help", Help: "lists <all>", More: "And more.", Run: run},
	{Name: "%%bash", Role: Body, Help: "runs bash", Run: run},
}

// show writes a plan down: commands, program, and the Go lines by number.
func show(p *Plan) string {
	var out []string
	for _, c := range p.Commands {
		name := c.Name
		if c.Kind == Magic {
			name = c.Row.Name
		}
		s := fmt.Sprintf("%d:%s%s", c.Line, [...]string{"", "!", "!*", "?"}[c.Kind], name)
		if c.Text != "" {
			s += "(" + c.Text + ")"
		}
		if c.Body != "" {
			s += fmt.Sprintf("{%s}", c.Body)
		}
		out = append(out, s)
	}
	if p.Main > 0 {
		out = append(out, fmt.Sprint("main ", p.Main))
	}
	if p.Call != "" {
		out = append(out, "call "+p.Call)
	}
	if p.Args != nil {
		out = append(out, fmt.Sprintf("args %q", p.Args))
	}
	if p.Test {
		out = append(out, "test")
	}
	for i, line := range strings.Split(p.Go, "\n") {
		if strings.TrimSpace(line) != "" {
			out = append(out, fmt.Sprintf("%d=%s", i+1, line))
		}
	}
	return strings.Join(out, "; ")
}

func TestParse(t *testing.T) {
	tests := []struct{ name, cell, want string }{
		{"nothing", "", ""},
		{"Go", "x := 1\nx", "1=x := 1; 2=x"},
		{"main", "%%\nf()", "main 1; 2=f()"},
		{"main with arguments", "var x int\n%main -a \"b c\"\nf()", `main 2; args ["-a" "b c"]; 1=var x int; 3=f()`},
		{"main behind GoNB's prefix", "//gonb:%%\nf()", "main 1; 2=f()"},
		{"main over two lines", "%% a \\\n b\nf()", `main 2; args ["a" "b"]; 3=f()`},
		{"arguments, main without", "%args 1 2\n%%\nf()", `main 2; args ["1" "2"]; 3=f()`},
		{"exec", "func f() {}\n%exec f -x", `call f; args ["-x"]; 1=func f() {}`},
		{"test", "%test -test.v\nfunc TestA(t *testing.T) {}", `args ["-test.v"]; test; 2=func TestA(t *testing.T) {}`},
		{"magic", "%env A b", "1:%env(A b)"},
		{"magic with a space", "% env A b", "1:%env(A b)"},
		{"question about nothing", "?\nx", "1:%help; 2=x"},
		{"shell", "!ls -l\nx := 1\n!!", "1:!(ls -l); 3:!(!); 2=x := 1"},
		{"module shell", "!*go get x@v1\n!* ls", "1:!*(go get x@v1); 2:!*(ls)"},
		{"nothing behind the mark", "!\n%\n!*\n% ", ""},
		{"continued", "!a \\\n  b \\\nc\nx", "1:!(a    b  c); 4=x"},
		{"continued at the end", "!a \\", "1:!(a \\)"},
		{"CRLF", "!ls\r\n%env A b\r\nx := 1\r\n", "1:!(ls); 2:%env(A b); 3=x := 1\r"},
		{"not at the beginning", " !ls\n\t%env", "1= !ls; 2=\t%env"},
		{"raw string", "x := `\n!ls\n%env\n`\n!pwd", "5:!(pwd); 1=x := `; 2=!ls; 3=%env; 4=`"},
		{"comment", "/*\n!ls\n*/ x\n!pwd // `", "4:!(pwd // `); 1=/*; 2=!ls; 3=*/ x"},
		{"line comment with a quote", "// don't `\n!ls", "2:!(ls); 1=// don't `"},
		{"string with a bracket", "x := \"(`\"\n!ls", "2:!(ls); 1=x := \"(`\""},
		{"rune with a quote", "x := '`'\n!ls", "2:!(ls); 1=x := '`'"},
		{"brackets", "f(\n!ok,\n)\n!ls", "4:!(ls); 1=f(; 2=!ok,; 3=)"},
		{"cell magic", "%%bash -x\n!a\n%b\nfor", "1:%%bash(-x){!a\n%b\nfor}"},
		{"cell magic below empty lines", "\n\n%%bash\na", "3:%%bash{a}"},
		{"cell magic behind GoNB's prefix", "//gonb:%%bash\na", "1:%%bash{a}"},
		{"question", "%env?\n?%env\nfmt.Println??\n??x", "1:?%env; 2:?%env; 3:?fmt.Println; 4:?x"},
		{"question about a cell magic", "%%bash?", "1:?%%bash"},
		{"no question", "x ? y", "1=x ? y"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := table.Parse(tt.cell)
			if err != nil {
				t.Fatal(err)
			}
			if got := show(p); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

func TestErrors(t *testing.T) {
	tests := []struct{ cell, want string }{
		{"%evn A", "%evn: no such magic; did you mean %env?"},
		{"%hlep", "%hlep: no such magic; did you mean %help?"},
		{"%%bsh\nx", "%%bsh: no such magic; did you mean %%bash?"},
		{"%something", "%something: no such magic"},
		{"x\n%%bash\ny", "%%bash: stands below the first line, want it first: the whole cell is its text"},
		{"%%\n%%", "%%: the cell has a main function already"},
		{"%exec", "%exec: got no function, want %exec function [arguments]"},
	}
	for _, tt := range tests {
		_, err := table.Parse(tt.cell)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q: got error %v, want %s", tt.cell, err, tt.want)
		}
	}
	_, err := table.Parse("x\n\n%evn")
	var unknown *UnknownError
	if !errors.As(err, &unknown) || unknown.Line != 3 {
		t.Errorf("got %#v, want an UnknownError at line 3", err)
	}
}

func TestSplit(t *testing.T) {
	tests := []struct {
		text string
		want []string
	}{
		{"", nil},
		{"  a\tb ", []string{"a", "b"}},
		{`--msg="hello world" x`, []string{"--msg=hello world", "x"}},
		{`"" a`, []string{"", "a"}},
		{`"a\"b\n\t\\"`, []string{"a\"b\n\t\\"}},
		{`a\b 'c d'`, []string{`a\b`, "'c", "d'"}},
		{`"open`, []string{"open"}},
		{`"open\`, []string{`open\`}},
	}
	for _, tt := range tests {
		if got := Split(tt.text); !slices.Equal(got, tt.want) {
			t.Errorf("Split(%s): got %q, want %q", tt.text, got, tt.want)
		}
	}
}

func TestTable(t *testing.T) {
	if got, want := strings.Join(table.Complete("%e"), " "), "%env %exec"; got != want {
		t.Errorf("Complete(%%e): got %s, want %s", got, want)
	}
	if got, want := strings.Join(table.Complete("%%"), " "), "%% %%bash"; got != want {
		t.Errorf("Complete(%%%%): got %s, want %s", got, want)
	}
	if got := table.Find("%main"); got == nil || got.Name != "%%" {
		t.Errorf("Find(%%main): got %v, want the row %%%%", got)
	}
	if got, want := table.Find("%%").String(), "%% [arguments]\n    begins main\n    also: %main"; got != want {
		t.Errorf("got help %q, want %q", got, want)
	}
	if got := table.String(); strings.Count(got, "\n") != len(table) {
		t.Errorf("got %d lines of help, want %d:\n%s", strings.Count(got, "\n"), len(table), got)
	}
	if got := table.HTML(); !strings.Contains(got, "lists &lt;all&gt;") {
		t.Errorf("got HTML %s, want its text escaped", got)
	}
}

func TestNearest(t *testing.T) {
	names := []string{"strings", "strconv", "sort", "fmt"}
	tests := []struct{ word, want string }{
		{"strngs", "strings"}, {"stirngs", "strings"}, {"srot", "sort"}, {"ftm", "fmt"},
		{"x", ""}, {"", ""}, {"database", ""}, {"fmt", ""},
	}
	for _, tt := range tests {
		if got := Nearest(tt.word, names); got != tt.want {
			t.Errorf("Nearest(%q): got %q, want %q", tt.word, got, tt.want)
		}
	}
}

// FuzzParse: whatever is typed, every line keeps its number.
func FuzzParse(f *testing.F) {
	for _, cell := range []string{"", "%%", "%%\nx", "!ls \\\n-l", "%%bash\nx", "`\n!x\n`", "%env?", "//gonb:%%", "\r\n!\r\n", "% ", "!*", "((\n!x", "%\\\n\\\n"} {
		f.Add(cell)
	}
	f.Fuzz(func(t *testing.T, cell string) {
		p, err := table.Parse(cell)
		if err != nil {
			return
		}
		if len(p.Commands) == 1 && p.Commands[0].Row != nil && p.Commands[0].Row.Role == Body {
			return
		}
		if got, want := strings.Count(p.Go, "\n"), strings.Count(cell, "\n"); got != want {
			t.Errorf("got %d line ends of Go, want %d", got, want)
		}
		for _, c := range p.Commands {
			if c.Line < 1 || c.Line > strings.Count(cell, "\n")+1 {
				t.Errorf("got a command at line %d of %d", c.Line, strings.Count(cell, "\n")+1)
			}
		}
	})
}
