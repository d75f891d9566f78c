package magic

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
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
		{"elements of a literal", "v := []bool{\n!true,\n!false,\n}\n!ls", "5:!(ls); 1=v := []bool{; 2=!true,; 3=!false,; 4=}"},
		{"values of a map", "m := map[string]bool{\"a\":\n!true}\n!ls", "3:!(ls); 1=m := map[string]bool{\"a\":; 2=!true}"},
		{"literal of a literal", "x := []T{{\n!a}, {b,\n!c}}", "1=x := []T{{; 2=!a}, {b,; 3=!c}}"},
		{"literal of a struct", "x := struct{ ok bool }{\n!a}", "1=x := struct{ ok bool }{; 2=!a}"},
		{"literal in a block", "if a {\nx = T{\n!b}\n!ls\n}", "4:!(ls); 1=if a {; 2=x = T{; 3=!b}; 5=}"},
		{"literal in a header", "for _, x := range []bool{\n!a} {\n!ls\n}\n!pwd", "3:!(ls); 5:!(pwd); 1=for _, x := range []bool{; 2=!a} {; 4=}"},
		{"literal of structs in a header", "for _, x := range []struct{ ok bool }{\n{\n!a}} {\n!ls\n}\n!pwd",
			"4:!(ls); 6:!(pwd); 1=for _, x := range []struct{ ok bool }{; 2={; 3=!a}} {; 5=}"},
		{"literal without a comma", "v := []bool{\na\n!b}", "1=v := []bool{; 2=a; 3=!b}"},
		{"operator above", "ok := 1 == 2 ||\n!false\n!ls", "3:!(ls); 1=ok := 1 == 2 ||; 2=!false"},
		{"operator and comments above", "ok := a && // b\n/* c\n*/\n!d\n!ls", "5:!(ls); 1=ok := a && // b; 2=/* c; 3=*/; 4=!d"},
		{"assignment above", "var ok bool =\n!a\nok =\n!b\nok :=\n!c", "1=var ok bool =; 2=!a; 3=ok =; 4=!b; 5=ok :=; 6=!c"},
		{"header", "if 1 == 1 &&\n!false { fmt.Println(1) }\n!ls", "3:!(ls); 1=if 1 == 1 &&; 2=!false { fmt.Println(1) }"},
		{"header alone", "if\n!a {\n!ls\n} else if\n!b {\n}", "3:!(ls); 1=if; 2=!a {; 4=} else if; 5=!b {; 6=}"},
		{"parts of a header", "for i := 0;\n!done; i++ {\n!ls\n}\n!pwd", "3:!(ls); 5:!(pwd); 1=for i := 0;; 2=!done; i++ {; 4=}"},
		{"header with a literal first", "if x := []int{1};\n!ok(x) {\n!ls\n}", "3:!(ls); 1=if x := []int{1};; 2=!ok(x) {; 4=}"},
		{"switch", "switch {\ncase\n!a:\n!ls\ndefault:\n!pwd\n}\n!id", "4:!(ls); 6:!(pwd); 8:!(id); 1=switch {; 2=case; 3=!a:; 5=default:; 7=}"},
		{"block", "{\n!ls\nx()\n!pwd\n}", "2:!(ls); 4:!(pwd); 1={; 3=x(); 5=}"},
		{"function", "func f(a []bool) []bool {\n!ls\nreturn []bool{\n!a[0]}\n}\n!pwd", "2:!(ls); 6:!(pwd); 1=func f(a []bool) []bool {; 3=return []bool{; 4=!a[0]}; 5=}"},
		{"method", "func (t T) f() bool {\n!ls\nreturn a &&\n!t.ok\n}", "2:!(ls); 1=func (t T) f() bool {; 3=return a &&; 4=!t.ok; 5=}"},
		{"function that is an argument", "do(func() {\n!ls\n},\n!a)", "2:!(ls); 1=do(func() {; 3=},; 4=!a)"},
		{"function that is called", "func() {\n!ls\n}()\n!pwd", "2:!(ls); 4:!(pwd); 1=func() {; 3=}()"},
		{"label", "again:\n!ls\nfor {\nbreak again }", "2:!(ls); 1=again:; 3=for {; 4=break again }"},
		{"index", "x := a[\n!b]\n!ls", "3:!(ls); 1=x := a[; 2=!b]"},
		{"argument of a call in a literal", "x := []bool{f(\n!a)}", "1=x := []bool{f(; 2=!a)}"},
		{"after a semicolon", "x := 1;\n!ls", "2:!(ls); 1=x := 1;"},
		{"struct", "type T struct {\n!ls\nx int\n}", "2:!(ls); 1=type T struct {; 3=x int; 4=}"},
		{"unequal", "a\n!= b", "1=a; 2=!= b"},
		{"remainder in a literal", "x := []int{\n7\n% 3}", "1=x := []int{; 2=7; 3=% 3}"},
		{"magic in a block", "if a {\n%env A b\n}", "2:%env(A b); 1=if a {; 3=}"},
		{"magics behind an operator", "x := 1 +\n%env A b\n2", "2:%env(A b); 1=x := 1 +; 3=2"},
		{"raw string that is an element", "x := []string{`\n!a\n%b`,\n!c}", "1=x := []string{`; 2=!a; 3=%b`,; 4=!c}"},
		{"raw string with a carriage return", "x := `\r\n!a\r\n`\r\n!ls\r\n", "4:!(ls); 1=x := `\r; 2=!a\r; 3=`\r"},
		{"comment that hides a bracket", "x := 1 // (\n!ls", "2:!(ls); 1=x := 1 // ("},
		{"comment above a command", "/* a */\n// b\n!ls", "3:!(ls); 1=/* a */; 2=// b"},
		{"quote in a command", "!echo 'it`s'\nx := `a`\n!echo (", "1:!(echo 'it`s'); 3:!(echo (); 2=x := `a`"},
		{"module command below an operand", "x\n!*go version", "2:!*(go version); 1=x"},
		{"module command that is Go", "ok := a ||\n!*p", "1=ok := a ||; 2=!*p"},
		{"main with an operator", "%%\nok := a ||\n!b\n!ls", "4:!(ls); main 1; 2=ok := a ||; 3=!b"},
		{"generic literal", "x := list[bool]{\n!a}\n!ls", "3:!(ls); 1=x := list[bool]{; 2=!a}"},
		{"pointer to a literal", "x := &T{\n!a,\n}", "1=x := &T{; 2=!a,; 3=}"},
		{"channel", "c <-\n!a\n!ls", "3:!(ls); 1=c <-; 2=!a"},
		{"select", "select {\ncase c <-\n!a:\n!ls\n}\n!pwd", "4:!(ls); 6:!(pwd); 1=select {; 2=case c <-; 3=!a:; 5=}"},
		{"type switch", "switch x := v.(type) {\ncase int:\n!ls\n}\n!pwd", "3:!(ls); 5:!(pwd); 1=switch x := v.(type) {; 2=case int:; 4=}"},
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
		{"x := 7\n% 3", "%3: no such magic"},
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

// TestLarge: the time grows with the cell, not with its square.
func TestLarge(t *testing.T) {
	tests := []struct{ name, head, line, tail string }{
		{"garbage", "", "@#$ ", ""},
		{"elements", "v := []bool{\n", "!true,\n", "}"},
		{"commands", "", "!ls\n", ""},
		{"operands", "ok := a ||\n", "!b ||\n", "c"},
		{"raw string", "x := `", "!ls\n", "`"},
		{"open brackets", "", "(\n!a", ""},
		{"lines of spaces", "", strings.Repeat(" ", 1000) + "\n", ""},
	}
	for _, tt := range tests {
		took := func(lines int) time.Duration {
			cell := tt.head + strings.Repeat(tt.line, lines) + tt.tail
			began := time.Now()
			if _, err := table.Parse(cell); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			return time.Since(began)
		}
		// Eight times the lines take eight times as long, or 64 times where each is
		// compared with all.
		if small, large := took(4000), took(32000); large > 30*small+time.Second {
			t.Errorf("%s: 4,000 lines take %v, 32,000 take %v: want about 8 times as long", tt.name, small, large)
		}
	}
}

// FuzzParse: whatever is typed, every line keeps its number.
func FuzzParse(f *testing.F) {
	for _, cell := range []string{"", "%%", "%%\nx", "!ls \\\n-l", "%%bash\nx", "`\n!x\n`", "%env?", "//gonb:%%", "\r\n!\r\n", "% ", "!*", "((\n!x", "%\\\n\\\n", "x := []T{\n!a}", "if a ||\n!b {\n!ls\n}", "func f() {\n!ls", "switch {\ncase\n!a:"} {
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
