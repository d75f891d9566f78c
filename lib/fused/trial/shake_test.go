package main

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
