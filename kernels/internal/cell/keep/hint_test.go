package keep

import "testing"

func TestBriefly(t *testing.T) {
	for _, tt := range []struct{ message, want string }{
		{"undefined: x", "undefined: x"},
		{"cannot use a (variable of type *github.com/gomlx/gomlx/core/graph.Node) as gopkg.in/yaml.v3.Node value", "cannot use a (variable of type *graph.Node) as yaml.v3.Node value"},
		{"invalid operation: a / b.c (mismatched types int and float64)", "invalid operation: a / b.c (mismatched types int and float64)"},
		{"f does not satisfy F (f missing in a/b.A | a/b.B)", "f does not satisfy F (f missing in b.A | b.B)"},
		{"f does not satisfy F (f missing in A | B | C | D | E | G)", "f does not satisfy F (f missing in A | B | C | D | and 2 more)"},
	} {
		if got := briefly(tt.message); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.message, got, tt.want)
		}
	}
}
