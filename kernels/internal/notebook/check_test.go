package notebook

import (
	"fmt"
	"testing"
)

// TestCheck: what is wrong is found at its place, and nothing else is, without running anything.
func TestCheck(t *testing.T) {
	n := newNotebook(t)
	found, err := n.Check(t.Context(), []string{
		"x := 6\ntype point struct{ a, b int }\nfmt.Println(x)",
		"panic(\"not run\")\n",
		"%who",
		"!ls",
		"func twice(s string) string { return s + s }\np := point{1, 2}\nf := func() int { return p.a }",
		"fmt.Println(twice(x), f())",       // twice wants a string
		"y := unknown + 1\nfunc g() {}",    // unknown
		"fmt.Println(y)\ng()",              // y is not held against it
		"x = \"a\"",                        // x is an int
		"for i := range 3 {\n\tif i > \n}", // syntax
		"fmt.Println(later, p.c)",          // later may have been defined there; p has no c
		"%nonsense",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, d := range found {
		got = append(got, fmt.Sprintf("%d:%d:%d %s", d.Cell, d.Line, d.Column, d.Message))
	}
	want := []string{
		"6:1:19 cannot use x (variable of type int) as string value in argument to twice",
		"7:1:6 undefined: unknown",
		`9:1:5 cannot use "a" (untyped string constant) as int value in assignment`,
		"10:3:1 syntax error: expected operand, found '}'",
		"11:1:22 p.c undefined (type point has no field or method c)",
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}
