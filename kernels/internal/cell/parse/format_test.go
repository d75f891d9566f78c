package parse

import (
	"strings"
	"testing"
)

func TestFormat(t *testing.T) {
	tests := []struct {
		name, shown, want string
		main              int
	}{
		{"statements", "x:=1\nif x>0{\nfmt.Println( x )}", "x := 1\nif x > 0 {\n\tfmt.Println(x)\n}", 0},
		{"declarations and statements", "func f()int{return 1}\nx:=f( )\ntype T struct{A int;BCD string}", "func f() int { return 1 }\nx := f()\ntype T struct {\n\tA   int\n\tBCD string\n}", 0},
		{"imports in the middle", "x:=1\nimport (\"os\"\n\"fmt\")\nvar  y=2", "x := 1\nimport (\n\t\"fmt\"\n\t\"os\"\n)\nvar y = 2", 0},
		{"magics", "%env  A=1\nx:=1\n!ls   -l \\\n   /tmp\n\n\n%timeit   f( )\nfunc f(){\n!pwd  here\ng( )\n}", "%env  A=1\nx := 1\n!ls   -l \\\n   /tmp\n\n\n%timeit   f( )\nfunc f() {\n!pwd  here\n\tg()\n}", 0},
		{"a magic above a documented declaration", "// F is:\n// - one\n%env A\n// F does.\nfunc  F(){}", "// F is:\n// - one\n%env A\n// F does.\nfunc F() {}", 0},
		{"comments", "// first\n\n\n\n//second\nx:=1 // of x\n/* a\n   b */\ny:=2 /* of y */\n// last  \n", "// first\n\n//second\nx := 1 // of x\n/* a\n   b */\ny := 2 /* of y */\n// last", 0},
		{"the value is not wanted", "x:=1\nf( x );// quiet", "x := 1\nf(x); // quiet", 0},
		{"the value is wanted", "x+2 // shown", "x + 2 // shown", 0},
		{"main", "import \"fmt\"\nfunc f(){ }\n%%  -v 3\nfunc(){g( )}()\nx:=1\ntype T int", "import \"fmt\"\nfunc f() {}\n%%  -v 3\nfunc() { g() }()\nx := 1\ntype T int", 3},
		{"a function literal first", "func(){f( )}()\ngo func(){}()", "func() { f() }()\ngo func() {}()", 0},
		{"raw text", "s:=`a\n  %b\n\t!c  \n`\nf(s,  1)", "s := `a\n  %b\n\t!c  \n`\nf(s, 1)", 0},
		{"labels", "L:\nfor{\nbreak   L}", "L:\nfor {\n\tbreak L\n}", 0},
		{"a package clause", "package   main\nvar x  = 1", "package   main\nvar x = 1", 0},
		{"one line of two kinds", "x:=1; func f(){}; y:=2", "x := 1\nfunc f() {}\ny := 2", 0},
		{"lines of Windows", "x:=1\r\nfmt.Println(x)\r\n", "x := 1\nfmt.Println(x)", 0},
		{"methods", "func (t T)  M(){}\nT{}.M( )", "func (t T) M() {}\nT{}.M()", 0},
		{"only comments", "  // a  \n// b", "// a\n// b", 0},
		{"nothing", " \n", "", 0},
		{"only magics", "%info  \n\n!ls", "%info  \n\n!ls", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			shown := tt.shown
			for range 2 { // the second time nothing changes
				got, err := Format(Source{Text: goOf(shown), Main: tt.main}, shown)
				if err != nil || got != tt.want {
					t.Fatalf("got %q, %v\nwant %q", got, err, tt.want)
				}
				shown = got
			}
		})
	}
	if got, err := Format(Source{Text: "x := 1\ny := ("}, "x := 1\ny := ("); err == nil || got != "" || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("a syntax error: got %q, %v, want the line", got, err)
	}
}

// goOf blanks what is no Go, as package magic does for these cells.
func goOf(shown string) string {
	lines := strings.Split(shown, "\n")
	raw, more := false, false
	for i, line := range lines {
		if raw = raw != (strings.Count(line, "`") == 1); raw {
			continue
		}
		if command := more || strings.HasPrefix(line, "%") || strings.HasPrefix(line, "!"); command {
			more = strings.HasSuffix(line, "\\")
			lines[i] = ""
		}
	}
	return strings.Join(lines, "\n")
}
