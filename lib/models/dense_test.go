package models

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
)

// TestNarrow holds which nets are computed with their examples along the last axis.
func TestNarrow(t *testing.T) {
	chain := func(in int, units ...int) Net {
		n := Net{Name: "chain", Input: []int{in}}
		for _, u := range units {
			n.Layers = append(n.Layers, Dense{Units: u, Act: ReLU})
		}
		return n
	}
	other := chain(2, 20, 5)
	other.Layers = append(other.Layers, Dropout{Rate: 0.5})
	images := chain(2, 5)
	images.Input = []int{4, 2}
	own, tanh := chain(2, 20, 5), chain(2, 20, 5)
	own.Layers = append(own.Layers, Dense{Units: 3, Act: func(x *Node) *Node { return Softmax(x, -1) }})
	tanh.Layers = append(tanh.Layers, Dense{Units: 3, Act: Tanh}, Dense{Units: 3, Act: Sigmoid}, Dense{Units: 1})
	for _, tt := range []struct {
		name string
		net  Net
		want bool
	}{
		{"Peaks", Peaks(), true},
		{"one layer", chain(5, 32), true},
		{"as wide as deep", chain(6, 6), false},
		{"a wide input", chain(33, 5, 1), false},
		{"wide in the middle", chain(2, 64, 64, 1), false},
		{"another kind of layer", other, false},
		{"activations that are known", tanh, true},
		{"an activation of one's own", own, false},
		{"more axes", images, false},
		{"MLP", MLP(1000), false},
	} {
		if got := tt.net.narrow(); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
	}
}
