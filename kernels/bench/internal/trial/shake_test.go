package trial

import (
	"math"
	"slices"
	"testing"
)

// TestNudged holds that every weight but 0 is another, by its last bit.
func TestNudged(t *testing.T) {
	before := []float32{1, -1, 0, 0.3, -0.3, 1e-30}
	var both [2][]float32
	for draw := range both {
		w := slices.Clone(before)
		nudged(w, draw)
		for i, x := range w {
			by := math.Abs(float64(x)/float64(before[i]) - 1)
			if before[i] == 0 && x != 0 || before[i] != 0 && (by == 0 || by > 1.2e-7) {
				t.Errorf("%g: got %g", before[i], x)
			}
		}
		both[draw] = w
	}
	if slices.Equal(both[0], both[1]) {
		t.Errorf("got %v by both draws", both[0])
	}
}

// TestShaken holds that weights are rounded to what products take, or moved as far the other way.
func TestShaken(t *testing.T) {
	before := []float32{1, -1, 0, 0.3, -0.3, 1e-30, 0.7}
	for _, tt := range []struct {
		bf16 bool
		bits int // of a fraction
	}{{false, 10}, {true, 7}} {
		near, far := slices.Clone(before), slices.Clone(before)
		shaken(near, tt.bf16, false)
		shaken(far, tt.bf16, true)
		for i, x := range before {
			if left := math.Float32bits(near[i]) << (9 + tt.bits); left != 0 {
				t.Errorf("%g to %d bits: got %g, with bits left", x, tt.bits, near[i])
			}
			up, down := float64(near[i])-float64(x), float64(x)-float64(far[i])
			if most := math.Abs(float64(x)) * math.Ldexp(1, -1-tt.bits); math.Abs(up) > most || math.Abs(up-down) > 1e-7*math.Abs(float64(x)) {
				t.Errorf("%g to %d bits: got %g and %g, want both sides, at most %g away", x, tt.bits, near[i], far[i], most)
			}
		}
		if near[3] == before[3] || slices.Equal(near, far) {
			t.Errorf("got %v and %v of %v", near, far, before)
		}
	}
}

// TestAgree holds when curves do: by their noise, by 1 %, or by another reason.
func TestAgree(t *testing.T) {
	for _, tt := range []struct {
		name         string
		fused, noise float64
		or           float64
		note         string
		want         bool
	}{
		{"nearer than the noise", 0.02, 0.03, 0, "", true},
		{"four times as far", 0.11, 0.03, 0, "", true},
		{"farther", 0.13, 0.03, 0, "", false},
		{"by less than 1 %", 0.009, 1e-6, 0, "", true},
		{"as far as bfloat16 is from float32", 0.13, 0.03, 0.2, "", true},
		{"noise that was none", 0, 0, 0, "", false},
		{"a failure", 0.02, 0.03, 0, "lost", false},
	} {
		noise := []*curve{{Apart: tt.noise / 2}, {Apart: tt.noise}}
		if got := agree(&curve{}, &curve{Apart: tt.fused, Note: tt.note}, noise, tt.or); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
	}
}
