package device

import (
	"strings"
	"testing"

	"gaiden/lib/engine/gemm"
)

// TestMeasured holds on which processors products are package gemm's.
func TestMeasured(t *testing.T) {
	for _, tt := range []struct {
		vendor string
		bits   []int
		want   bool
	}{
		{"GenuineIntel", []int{512, 256}, true},
		{"GenuineIntel", []int{256}, false},
		{"AuthenticAMD", []int{256}, true},
		{"AuthenticAMD", []int{512, 256}, false},
		{"AuthenticAMD", nil, false},
		{"", []int{512, 256}, false},
		{"HygonGenuine", []int{256}, false},
	} {
		var handlers []gemm.Handler
		for _, bits := range tt.bits {
			handlers = append(handlers, gemm.Handler{Bits: bits})
		}
		if got := measured(tt.vendor, handlers); got != tt.want {
			t.Errorf("%s with %d: got %v, want %v", tt.vendor, tt.bits, got, tt.want)
		}
	}
}

// TestLacks holds that a program with products of another machine is refused with words,
// and no other.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		products int
		text     string
		want     string
	}{
		{0, `stablehlo.custom_call @gaiden.product(%0, %1)`, "AVX-512"},
		{0, `stablehlo.custom_call @gaiden.lstm(%0, %1)`, "AVX-512"},
		{2, `stablehlo.custom_call @gaiden.product(%0, %1)`, ""},
		{2, `stablehlo.custom_call @gaiden.lstm(%0, %1)`, ""},
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
