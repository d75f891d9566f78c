package device

import (
	"strings"
	"testing"

	"gaiden/lib/engine/lstm"
)

// TestMeasured holds on which processors LSTMs are package lstm's.
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
		var handlers []lstm.Handler
		for _, bits := range tt.bits {
			handlers = append(handlers, lstm.Handler{Bits: bits})
		}
		if got := measured(tt.vendor, handlers); got != tt.want {
			t.Errorf("%s with %d: got %v, want %v", tt.vendor, tt.bits, got, tt.want)
		}
	}
}

// TestLacks holds that a program with calls of another machine is refused with words,
// and no other.
func TestLacks(t *testing.T) {
	for _, tt := range []struct {
		threads int
		text    string
		want    string
	}{
		{0, `stablehlo.custom_call @gaiden.lstm(%0, %1)`, "AVX-512"},
		{2, `stablehlo.custom_call @gaiden.lstm(%0, %1)`, ""},
		{0, `stablehlo.dot_general %0, %1`, ""},
	} {
		w := &Worker{accelerators: accelerators{lstmThreads: tt.threads}}
		why := w.lacks([]byte(tt.text))
		if (why == nil) != (tt.want == "") {
			t.Errorf("%d threads, %s: got %v", tt.threads, tt.text, why)
		}
		if why != nil && (!strings.Contains(why.Error(), tt.want) || why.Hint() == "") {
			t.Errorf("%d threads, %s: got %v, hint %q", tt.threads, tt.text, why, why.Hint())
		}
	}
}
