package result

import (
	"slices"
	"testing"
)

func TestMostWrong(t *testing.T) {
	p := &Prediction{Width: 3, Classes: []int32{0, 1, 2, 2, 0}, Output: []float32{
		5, 0, 0, // right
		0, 1, 0, // wrong, a little
		0, 0, 9, // wrong, very
		0, 0, 4, // wrong
		3, 0, 0, // its label is ignored
	}}
	labels := []int32{0, 0, 0, 1, -1}
	for most, want := range [][]int{{}, {2}, {2, 3}, {2, 3, 1}, {2, 3, 1}} {
		if got := p.MostWrong(labels, most); !slices.Equal(got, want) {
			t.Errorf("at most %d: got %v, want %v", most, got, want)
		}
	}
	if got := (&Prediction{Width: 1, Output: []float32{1}}).MostWrong([]int32{1}, 3); got != nil {
		t.Errorf("of a net without classes: got %v, want none", got)
	}
}
