package xla

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// TestExamplesLast holds which nets are computed with their examples along the last axis.
func TestExamplesLast(t *testing.T) {
	chain := func(in int, units ...int) models.Net {
		n := models.Net{Name: "chain", Input: []int{in}}
		for _, u := range units {
			n.Layers = append(n.Layers, models.Dense{Units: u, Act: models.ReLU})
		}
		return n
	}
	other := chain(2, 20, 5)
	other.Layers = append(other.Layers, models.Dropout{Rate: 0.5})
	images := chain(2, 5)
	images.Input = []int{4, 2}
	own, tanh := chain(2, 20, 5), chain(2, 20, 5)
	own.Layers = append(own.Layers, models.Dense{Units: 3, Act: func(x *Node) *Node { return Softmax(x, -1) }})
	tanh.Layers = append(tanh.Layers, models.Dense{Units: 3, Act: Tanh}, models.Dense{Units: 3, Act: Sigmoid}, models.Dense{Units: 1})
	for _, tt := range []struct {
		name string
		net  models.Net
		want bool
	}{
		{"Peaks", models.Peaks(), true},
		{"one layer", chain(5, 32), true},
		{"as wide as deep", chain(6, 6), false},
		{"a wide input", chain(33, 5, 1), false},
		{"wide in the middle", chain(2, 64, 64, 1), false},
		{"another kind of layer", other, false},
		{"activations that are known", tanh, true},
		{"an activation of your own", own, false},
		{"more axes", images, false},
		{"MLP", models.MLP(1000), false},
	} {
		if got := ExamplesLast(lower.Target{}, tt.net); got != tt.want {
			t.Errorf("%s: got %t", tt.name, got)
		}
		if ExamplesLast(lower.Target{Platform: "cuda"}, tt.net) {
			t.Errorf("%s: on a GPU, too", tt.name)
		}
	}
}

// TestMatmul holds that a matmul whose gradient transposes a matrix first has the same
// gradients as one that does not, and which ones do.
func TestMatmul(t *testing.T) {
	backend := cpu(t)
	for _, tt := range []struct {
		rows, in, out int
		want          bool
	}{
		{128, 16, 512, true}, {144, 1024, 128, true}, {128, 16, 496, false}, {128, 1008, 128, false}, {136, 16, 512, false}, {112, 16, 512, false},
	} {
		exec, err := NewExec(backend, func(g *Graph) []*Node {
			wave := func(step float64, dims ...int) *Node {
				return Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step))
			}
			x, w, v := wave(0.7, tt.rows, tt.in), wave(0.3, tt.in, tt.out), wave(0.9, tt.rows, tt.out)
			if got := lower.TransposesFirst(lower.Target{}, tt.rows, tt.in, tt.out); got != tt.want {
				t.Errorf("%+v: transposes first: %t", tt, got)
			}
			y := Lowering{}.matmul(x, w)
			out := append([]*Node{y}, gradient.Final(ReduceAllSum(Mul(y, v)), x, w)...)
			plain := MatMul(x, w)
			return append(out, append([]*Node{plain}, gradient.Final(ReduceAllSum(Mul(plain, v)), x, w)...)...)
		})
		if err != nil {
			t.Fatal(err)
		}
		out, err := exec.Call()
		if err != nil {
			t.Fatal(err)
		}
		for i, name := range []string{"matmul", "gradient of x", "gradient of the weights"} {
			out[i].MustConstFlatData(func(got any) {
				out[i+3].MustConstFlatData(func(want any) {
					for k, v := range want.([]float32) {
						if math.Abs(float64(got.([]float32)[k]-v)) > 1e-4 {
							t.Fatalf("%+v: number %d of the %s: got %g, want %g", tt, k, name, got.([]float32)[k], v)
						}
					}
				})
			})
		}
	}
}

// TestMatmuls holds gradients of several matmuls of one x, and those of a loss with a gradient in
// it, to those of each matmul.
func TestMatmuls(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	got := MustExecOnceN(backend, func(g *Graph) []*Node {
		wave := func(step float64, dims ...int) *Node {
			return Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step))
		}
		var all []*Node
		for _, target := range []lower.Target{{Platform: "cuda"}, {}} {
			x, ws := wave(0.7, 4, 3), []*Node{wave(0.3, 3, 5), wave(0.9, 3, 2), wave(0.5, 3, 2)}
			wrt := append([]*Node{x}, ws...)
			ys := Lowering{Target: target}.matmuls(x, ws)
			loss := func(ys ...*Node) *Node { return ReduceAllSum(Tanh(Concatenate(ys, 1))) }
			slope := Gradient(loss(ys...), x)[0]
			for _, of := range []*Node{loss(ys...), loss(ys[1:]...), Add(loss(ys...), ReduceAllSum(Square(slope)))} {
				all = append(append(all, gradient.Final(of, wrt...)...), gradient.Final(of, ws[1])...)
			}
		}
		return all
	})
	for i := range got[:len(got)/2] {
		if g, want := got[i], got[len(got)/2+i]; !g.InDelta(want, 1e-5) {
			t.Errorf("gradient %d: got %s, want %s", i, g, want)
		}
	}
}
