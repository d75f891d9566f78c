package optim

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"
)

// TestClipped holds gradients that are clipped by value, by the norm of all, and by both.
func TestClipped(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	a, b := []float32{3, -4}, []float32{12} // a norm of 13
	for _, tt := range []struct {
		o     Clipped
		scale float64
		value float64
	}{
		{Clipped{Norm: 1}, 1 / 13.0, 100}, {Clipped{Norm: 13.1}, 1, 100}, {Clipped{Norm: 50}, 1, 100},
		{Clipped{Value: 3.5}, 1, 3.5}, {Clipped{Value: 3, Norm: 1}, 1 / math.Sqrt(27), 3},
	} {
		exec, err := NewExec(backend, func(g *Graph) []*Node { return tt.o.Clip([]*Node{Const(g, a), Const(g, b)}) })
		if err != nil {
			t.Fatal(err)
		}
		got, err := exec.Call()
		if err != nil {
			t.Fatal(err)
		}
		for i, in := range [][]float32{a, b} {
			for k, x := range got[i].Value().([]float32) {
				want := max(-tt.value, min(tt.value, float64(in[k]))) * tt.scale
				if math.Abs(float64(x)-want) > 1e-5 {
					t.Errorf("%+v: number %d of gradient %d is %v, want %v", tt.o, k, i, x, want)
				}
			}
		}
	}
	for _, tt := range []struct {
		o    Clipped
		want string
	}{
		{Clipped{}, "Optimizer of optim.Clipped is nil"}, {Clipped{Optimizer: Adam{}}, "want one of them"}, {Clipped{Optimizer: Adam{}, Norm: -1}, "Norm of optim.Clipped is -1"},
		{Clipped{Optimizer: Adam{}, Value: math.NaN()}, "Value of optim.Clipped is NaN"}, {Clipped{Optimizer: Adam{Beta1: 2}, Norm: 1}, "Beta1 of adam is 2"},
	} {
		if err := Check(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.o, err, tt.want)
		}
	}
}
