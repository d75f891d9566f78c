package device

import (
	"strings"
	"testing"
)

// TestLacks holds that a program with products of another machine is refused with words,
// and no other.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		products int
		text     string
		want     string
	}{
		{0, `stablehlo.custom_call @gaiden.product(%0, %1)`, "AVX-512"},
		{2, `stablehlo.custom_call @gaiden.product(%0, %1)`, ""},
		{0, `stablehlo.dot_general %0, %1`, ""},
	} {
		w := &Worker{products: tt.products}
		why := w.lacks([]byte(tt.text))
		if (why == nil) != (tt.want == "") {
			t.Errorf("%d threads, %s: got %v", tt.products, tt.text, why)
		}
		if why != nil && (!strings.Contains(why.Error(), tt.want) || why.Hint() == "") {
			t.Errorf("%d threads, %s: got %v, hint %q", tt.products, tt.text, why, why.Hint())
		}
	}
}
