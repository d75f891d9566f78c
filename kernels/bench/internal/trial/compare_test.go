package trial

import (
	"math"
	"testing"
)

// TestBad holds what fails a case: above all a kernel that does nothing where a
// step's change is small beside what it changes.
func TestBad(t *testing.T) {
	good := func() value {
		return value{Kernel: []float64{1e-4, 0.05}, Plain: []float64{1e-4, 1e-4}, Limit: 1e-3, Again: true, loose: map[int]float64{1: 0.1}, Moved: map[int]float64{0: 0.02}}
	}
	for _, tt := range []struct {
		name   string
		change func(v *value)
		bad    bool
	}{
		{"all as it should be", func(v *value) {}, false},
		{"beyond the limit", func(v *value) { v.Kernel[0] = 2e-3 }, true},
		{"so many times as far as the plain form", func(v *value) { v.Kernel[0], v.Plain[0], v.Times = 2e-3, 1.1e-3, 2 }, false},
		{"a limit of its own", func(v *value) { v.Kernel[1] = 0.2 }, true},
		{"no number", func(v *value) { v.Kernel[0] = number(math.NaN()) }, true},
		{"other bits the second time", func(v *value) { v.Again = false }, true},
		{"an error", func(v *value) { v.Note = "after 0.1 s: lost" }, true},
		{"a kernel that did nothing", func(v *value) { v.Moved[0] = 1 }, true},
		{"farther from a change than most may be", func(v *value) { v.Moved[0] = 0.2 }, true},
		{"a limit of its own for a change", func(v *value) { v.Moved[0], v.moves = 0.2, map[int]float64{0: 0.3} }, false},
		{"and beyond that", func(v *value) { v.Moved[0], v.moves = 0.4, map[int]float64{0: 0.3} }, true},
		{"as far as the plain form", func(v *value) { v.Moved[0], v.MovedBeside, v.Times = 0.18, map[int]float64{0: 0.15}, 2 }, false},
	} {
		v := good()
		tt.change(&v)
		if v.Bad() != tt.bad {
			t.Errorf("%s: got bad %t, want %t", tt.name, v.Bad(), tt.bad)
		}
	}
}
