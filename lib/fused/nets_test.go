package fused

import (
	"fmt"
	"testing"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// TestNets holds nets whose norms, residual sums, biases and gradients are kernels to the same nets
// in GoMLX's operations: values, gradients of several losses in one graph, and of a loss with a
// gradient in it.
func TestNets(t *testing.T) {
	norm := func(name string) models.Layer { return models.LayerNorm{Name: name} }
	dense := func(name string, units int) models.Layer { return models.Dense{Name: name, Units: units} }
	residual := func(layers ...models.Layer) models.Layer { return models.Residual{Main: layers} }
	block := func(name string) models.Layer { return models.TransformerBlock{Name: name, Heads: 2, RoPE: 100} }
	gated := models.TransformerBlock{Name: "g", Heads: 2, KVHeads: 1, RMSNorm: true, Gated: true, Act: models.SiLU, NoBias: true}
	for _, tt := range []struct {
		name   string
		input  []int
		layers []models.Layer
	}{
		{"blocks", []int{3, 4}, []models.Layer{dense("in", 4), block("a"), block("b"), norm("end"), dense("out", 2)}},
		{"gated blocks", []int{3, 4}, []models.Layer{gated, models.RMSNorm{Name: "end", PlusOne: true}, dense("out", 2)}},
		{"recomputed", []int{3, 4}, []models.Layer{dense("in", 4), models.Repeat{Name: "r", Times: 2, Recompute: true, Layer: models.TransformerBlock{Heads: 2, RoPE: 100}}, norm("end")}},
		{"recomputed in a sum", []int{4}, []models.Layer{dense("in", 4), residual(models.Repeat{Name: "r", Times: 1, Recompute: true, Layer: models.Sequential{Layers: []models.Layer{norm("n"), dense("d", 4)}}}), norm("end")}},
		{"reshaped", []int{2, 3}, []models.Layer{dense("in", 3), residual(norm("n"), models.Flatten{Name: "f"}, dense("d", 6), models.Unflatten{Name: "u", Dims: []int{2, 3}}), norm("end")}},
		{"no norm first", []int{4}, []models.Layer{dense("in", 4), residual(dense("d", 4)), norm("end")}},
		{"itself", []int{4}, []models.Layer{dense("in", 4), residual(models.Activation{Name: "a"}), norm("m"), residual(models.Activation{Name: "b"}), norm("end")}},
		{"sums of sums", []int{4}, []models.Layer{dense("in", 4), residual(residual(norm("n"), dense("d", 4)), norm("m"), dense("e", 4)), norm("end")}},
		{"several readers", []int{4}, []models.Layer{dense("in", 4), residual(norm("n"), dense("d", 4)), models.Residual{Main: []models.Layer{norm("m"), dense("e", 4)}, Skip: []models.Layer{norm("o"), dense("f", 4)}}, norm("end")}},
		{"masked", []int{3, 4}, []models.Layer{models.Masking{Name: "mask"}, dense("in", 4), block("a"), norm("end")}},
		{"one layer twice", []int{4}, []models.Layer{dense("in", 4), twice{residual(norm("n"), dense("d", 4))}, norm("end")}},
		{"activated", []int{4}, []models.Layer{dense("in", 4), models.Residual{Main: []models.Layer{norm("n"), models.Dense{Name: "d", Units: 4, Act: Tanh}}, Act: models.SiLU}, norm("end")}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			net := models.Net{Name: "net", Input: tt.input, Layers: tt.layers}
			weights := variables(t, net)
			in := []*tensors.Tensor{random(1, f32(append([]int{2}, tt.input...)...), 1, 0)}
			for i, w := range weights {
				in = append(in, random(uint64(20+i), w.shape, 0.5, 0))
			}
			build := func(o Ops, in []*Node) []*Node {
				lowering := xla.Lowering{}
				if o.Builder != nil {
					lowering.Target = lower.Target{Platform: "cuda", Triton: true}
					lowering.Calls, lowering.Shared = Calls{Ops: o}, xla.NewShared()
				}
				onHost.lowering = lowering
				defer func() { onHost.lowering = models.Plain{} }()
				g, store := in[0].Graph(), model.NewStore()
				model.SetStore(g, store)
				store.SetTraining(g, true)
				for i, w := range weights {
					store.VariableWithShape(w.path, w.shape, Zeros).SetNodeValue(in[1+i])
				}
				var output, input *Node // of a bucket of layers, as in package fit
				y := net.Build(store.RootScope(), models.Inputs{"x": in[0]}, func(string) {}, func(i int, y *Node) *Node {
					if i != 1 {
						return y
					}
					output, input = y, Identity(y)
					return input
				})
				all := []*Node{y}
				derive := func(loss *Node, wrt ...*Node) { all = append(all, gradient.Final(loss, wrt...)...) }
				first := ReduceAllSum(Mul(Sin(IotaFull(g, shapes.Make(y.DType(), y.Shape().Dimensions...))), y))
				derive(first, in...)
				derive(ReduceAllSum(Square(y)), in...)
				derive(first, in[1])
				derive(first, in[len(in)-1])
				derive(first, input)
				derive(ReduceAllSum(Mul(output, StopGradient(all[len(all)-1]))), in...)
				slope := Gradient(first, in[0])[0]
				derive(Add(ReduceAllSum(Square(slope)), first), in...)
				return all
			}
			got, ran := emulated(t, Ops{}, in, build)
			want := plainly(t, in, func(in []*Node) []*Node { return build(Ops{}, in) })
			if len(ran) == 0 {
				t.Error("no kernel ran")
			}
			for i := range want {
				near(t, fmt.Sprint("output ", i), got[i], want[i], 1e-4)
			}
		})
	}
}

// twice applies one layer, with its weights, to what it has made.
type twice struct{ models.Layer }

func (l twice) Apply(scope *model.Scope, x *Node) *Node {
	return l.Layer.Apply(scope.ResetVisited(), l.Layer.Apply(scope, x))
}
