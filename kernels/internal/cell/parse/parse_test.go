package parse

import (
	"errors"
	"strings"
	"testing"
)

// TestParse shows how a cell is taken apart: "kind names" of each declaration,
// what is left as statements, and what the last expression is.
func TestParse(t *testing.T) {
	tests := []struct {
		name  string
		text  string
		main  int
		decls string
		body  string // with spaces squeezed
		last  string
	}{
		{"nothing", "", 0, "", "", ""},
		{"import", "import \"fmt\"\nimport m \"math\"", 0, "import fmt; import math", "", ""},
		{"import group", "import (\n\t\"fmt\"\n\t_ \"embed\"\n)", 0, "import fmt; import embed", "", ""},
		{"var group", "var (\n\ta = 1\n\tb, c = 2, 3\n)", 0, "var a; var b c", "", ""},
		{"const group", "const (\n\ta = 1\n\tb = 2\n)", 0, "const a; const b", "", ""},
		{"const that counts", "const (\n\ta = iota\n\tb\n)", 0, "const a b", "", ""},
		{"types", "type (\n\tA int\n\tB = string\n\tC[T any] []T\n)", 0, "type A; type B; type C", "", ""},
		{"functions", "func f() {}\nfunc (t *T) m() {}\nfunc (c C[K]) m() {}\nfunc g[T any](t T) {}", 0, "func f; method T.m; method C.m; func g", "", ""},
		{"mixed", "x := 1\nvar y = 2\nx + y", 0, "var y", "x := 1 x + y", "x + y"},
		{"one line", "var y = 2; x := y; x", 0, "var y", "; x := y; x", "x"},
		{"literal that is called", "func() {}()", 0, "", "func() {}()", "func() {}()"},
		{"literal with a result", "func(a int) int { return a }(3)", 0, "", "func(a int) int { return a }(3)", "func(a int) int { return a }(3)"},
		{"semicolon behind", "f();", 0, "", "f();", ""},
		{"for", "for i := 0; i < 3; i++ { f(i) }\ng()", 0, "", "for i := 0; i < 3; i++ { f(i) } g()", "g()"},
		{"if else if", "if a := 1; a > 0 {\n} else if b := 2; b > 0 {\n}\nfunc f() {}", 0, "func f", "if a := 1; a > 0 { } else if b := 2; b > 0 { }", ""},
		{"switch", "switch x := 1; {\ncase x > 0:\n}\nvar y int", 0, "var y", "switch x := 1; { case x > 0: }", ""},
		{"composite", "p := T{\n\tA: 1,\n}\np", 0, "", "p := T{ A: 1, } p", "p"},
		{"chain", "a.\n\tb().\n\tc()", 0, "", "a. b(). c()", "a.\n\tb().\n\tc()"},
		{"receive", "ch := make(chan int, 1)\n<-ch", 0, "", "ch := make(chan int, 1) <-ch", "<-ch"},
		{"package clause", "package p\nvar x int\nx", 0, "var x", "x", "x"},
		{"comment behind", "x // why\n/* because */", 0, "", "x // why /* because */", "x"},
		{"comment above a declaration", "f()\n// doc\nvar x int", 0, "var x", "f()", ""},
		{"GoNB main", "var a int\n%%\nvar b = a\nb", 2, "var a", "var b = a b", "b"},
		{"GoNB main, call", "%%\nf()", 1, "", "f()", ""},
		{"own main", "func main() { f() }", 0, "", "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := strings.Replace(tt.text, "%%", "", 1)
			u, err := Parse(Source{ID: 1, Text: text, Main: tt.main})
			if err != nil {
				t.Fatal(err)
			}
			var decls []string
			for _, im := range u.Imports {
				decls = append(decls, "import "+im.Path)
			}
			for _, d := range u.Decls {
				decls = append(decls, d.Kind.String()+" "+strings.Join(d.Names, " "))
			}
			if got := strings.Join(decls, "; "); got != tt.decls {
				t.Errorf("got declarations %q, want %q", got, tt.decls)
			}
			if got := strings.Join(strings.Fields(u.Body), " "); got != tt.body {
				t.Errorf("got statements %q, want %q", got, tt.body)
			}
			var last string
			if u.Last != nil && !u.Last.Silent {
				last = u.Text[u.Last.Start:u.Last.End]
			}
			if last != tt.last {
				t.Errorf("got last expression %q, want %q", last, tt.last)
			}
		})
	}
}

// TestPlaces: every complaint about syntax stands where the mistake is.
func TestPlaces(t *testing.T) {
	tests := []struct {
		text         string
		main         int
		line, column int
		part         string
	}{
		{"x := ", 0, 1, 5, "found the end of the cell"},
		{"a()\nb(\nc()", 0, 3, 4, "missing ','"},
		{"var x =\n\n\nvar y = 1", 0, 4, 1, "expected operand"},
		{"func f() {\n\treturn 1 +\n}", 0, 3, 1, "expected operand"},
		{"\n\n)", 0, 3, 1, ") closes nothing"},
		{"f()\n}\ng()", 0, 2, 1, "} closes nothing"},
		{"%%\nif {", 1, 2, 4, "missing condition"},
		{"x := `abc", 0, 1, 6, "raw string literal not terminated"},
		{"x := \"äöü\" 'a", 0, 1, 15, "rune literal not terminated"},
		{"type T struct {\n\ta int b\n}", 0, 2, 8, "expected ';'"},
		{"func (x) f() {}\nfunc (3) g() {}", 0, 2, 7, "expected ')'"},
	}
	for _, tt := range tests {
		_, err := Parse(Source{ID: 7, Text: strings.Replace(tt.text, "%%", "", 1), Main: tt.main})
		var be *BuildError
		if !errors.As(err, &be) {
			t.Errorf("%q: got error %v, want a BuildError", tt.text, err)
			continue
		}
		d := be.Diagnostics[0]
		if d.Cell != 7 || d.Line != tt.line || d.Column != tt.column || !strings.Contains(d.Message, tt.part) {
			t.Errorf("%q: got cell %d, %d:%d: %s; want cell 7, %d:%d: %s", tt.text, d.Cell, d.Line, d.Column, d.Message, tt.line, tt.column, tt.part)
		}
	}
}

func TestExcerpt(t *testing.T) {
	tests := []struct {
		line, column int
		text, want   string
	}{
		{5, 3, "a b", "    5 | a b\n      |   ^"},
		{12, 2, "\tx", "   12 | \tx\n      | \t^"},
		{1, 7, "größe", "    1 | größe\n      |     ^"},
		{1, 0, "x", "    1 | x"},
		{1, 99, "x", "    1 | x\n      |  ^"},
	}
	for _, tt := range tests {
		if got := Excerpt(tt.line, tt.column, tt.text); got != tt.want {
			t.Errorf("Excerpt(%d, %d, %q)\ngot\n%s\nwant\n%s", tt.line, tt.column, tt.text, got, tt.want)
		}
	}
}

// TestExcerptWidth: wherever a long line is complained about, the caret stands below
// the right character, and the part that is shown is as wide as a page.
func TestExcerptWidth(t *testing.T) {
	var text []rune
	for i := range 250 {
		text = append(text, rune('à'+i))
	}
	for at := range text {
		column := len(string(text[:at])) + 1
		shown, mark, _ := strings.Cut(Excerpt(1, column, string(text)), "\n")
		line, caret := []rune(shown), len([]rune(mark))-1
		if line[caret] != text[at] {
			t.Fatalf("column %d: the caret stands below %c, want %c\n%s\n%s", column, line[caret], text[at], shown, mark)
		}
		if got, want := len(line), len("    1 | ")+excerptWidth; got != want {
			t.Fatalf("column %d: got %d characters, want %d\n%s", column, got, want, shown)
		}
	}
}

// FuzzParse: whatever is typed, Parse answers, and takes nothing away: each
// declaration's text stands in the cell where it says.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "x := 1\nx", "func f() {}", "var a, b = 1, 2", "const (a = iota; b)", "for ;; {", "}{", "package p;import \"C\"",
		"type T struct{}\nfunc (T) m() {}", "`", "/*", "\xff", "func (", "a: b: c", "//line x:1\nvar y int", "%%\nx"} {
		f.Add(text, 0)
		f.Add(text, 1)
	}
	f.Fuzz(func(t *testing.T, text string, main int) {
		if main < 0 {
			main = 0
		}
		u, err := Parse(Source{ID: 1, Text: text, Main: main})
		if err != nil {
			_ = err.Error()
			return
		}
		for _, d := range u.Decls {
			if d.Start < 0 || d.Start > len(u.Text) || d.Line < 1 || d.Line > strings.Count(u.Text, "\n")+1 {
				t.Errorf("%v stands at offset %d, line %d of a cell of %d bytes", d.Names, d.Start, d.Line, len(u.Text))
			}
		}
		if u.Body != "" && len(u.Body) != len(u.Text) {
			t.Errorf("got %d bytes of statements, want %d as in the cell", len(u.Body), len(u.Text))
		}
	})
}
