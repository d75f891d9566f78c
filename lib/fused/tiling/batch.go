package tiling

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
)

// take is the beginning of a step, or of some: their batches.
func take(k kernels.Gather) Form {
	whole := func(n, limit int) Input {
		return Input{Shape: shapes.Make(dtypes.Int32, n), Fill: Below, Limit: float64(limit)}
	}
	x := Input{Shape: shapes.Make(cmp.Or(k.X, dtypes.Float32), k.Examples, k.Size)}
	if k.X == dtypes.Uint8 {
		x.Fill, x.Limit = Below, 256
	}
	steps := max(1, k.Steps)
	return Form{
		// Poke is the order: it is short.
		Inputs: []Input{whole(k.Examples, k.Examples), x, whole(k.Examples, 10)},
		Build: func(o fused.Ops, in []*Node) []*Node {
			number := func(n int) *Node { return Const(in[0].Graph(), int32(n)) }
			source := fused.Source{X: in[1], Labels: in[2], Order: in[0], Place: number(0), Step: number(7), Batch: k.Batch}
			var out []*Node
			for _, b := range o.Take(source, number(0), steps) {
				out = append(out, b.Labels, b.Number, b.X)
			}
			return out
		},
		Bytes: float64(steps*k.Batch*k.Size) * float64(x.Shape.DType.Size()+cmp.Or(k.Y, dtypes.Float32).Size()),
	}
}

// softmax is the loss of logits that are there, and its gradient.
func softmax(s kernels.Softmax) Form {
	x := shapes.Make(cmp.Or(s.X, dtypes.Float32), s.Batch, s.Classes)
	return Form{
		Inputs: []Input{{Shape: x}, {Shape: shapes.Make(dtypes.Int32, s.Batch), Fill: Below, Limit: float64(s.Classes)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			loss, hit, g := o.Softmax(in[0], in[1])
			return []*Node{loss, hit, g}
		},
		Choices: []int{1}, Bytes: float64(s.Batch*s.Classes) * float64(cmp.Or(s.X, dtypes.Float32).Size()+cmp.Or(s.G, dtypes.Float32).Size()),
	}
}
