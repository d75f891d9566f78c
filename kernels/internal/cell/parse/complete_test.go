package parse

import "testing"

func TestComplete(t *testing.T) {
	tests := []struct {
		text   string
		main   int
		state  string
		indent string
	}{
		{"", 0, Whole, ""},
		{"1", 0, Whole, ""},
		{"x := 1\nx", 0, Whole, ""},
		{"func f() int {\n\treturn 1\n}", 0, Whole, ""},
		{"func f() {", 0, Partial, "\t"},
		{"func f() {\n\tif true {", 0, Partial, "\t\t"},
		{"func f() {\n\tif true {\n\t}", 0, Partial, "\t"},
		{"fmt.Println(", 0, Partial, "\t"},
		{"fmt.Println(1,", 0, Partial, "\t"},
		{"x := []int{\n\t1,", 0, Partial, "\t"},
		{"x := `abc", 0, Partial, ""},
		{"/* abc", 0, Partial, ""},
		{"type T struct {", 0, Partial, "\t"},
		{"import (", 0, Partial, "\t"},
		{"x :=", 0, Partial, ""},
		{"1 +", 0, Partial, ""},
		{"for i := range 3", 0, Broken, ""}, // the brace must stand on this line
		{"\nfor {", 1, Partial, "\t"},
		{"\nfmt.Println()", 1, Whole, ""},
		{"import = 7", 0, Broken, ""},
		{"x := 'abc'", 0, Broken, ""},
		{"func 3() {}", 0, Broken, ""},
		{"}", 0, Broken, ""},
		{"x := )", 0, Broken, ""},
		{"x := \"abc", 0, Broken, ""},
		{"var x int = = 3\nfunc f() {", 0, Broken, ""},
	}
	for _, tt := range tests {
		state, indent := Complete(Source{Text: tt.text, Main: tt.main})
		if state != tt.state || indent != tt.indent {
			t.Errorf("%q: got %s %q, want %s %q", tt.text, state, indent, tt.state, tt.indent)
		}
	}
}
