package tiling

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/gradient"
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
	y, steps := whole(k.Examples, 10), max(1, k.Steps)
	if k.Targets > 0 {
		y = Input{Shape: f32(k.Examples, k.Targets)}
	}
	return Form{
		// Poke is the order: it is short.
		Inputs: []Input{whole(k.Examples, k.Examples), x, y},
		Build: func(o fused.Ops, in []*Node) []*Node {
			number := func(n int) *Node { return Const(in[0].Graph(), int32(n)) }
			source := fused.Source{X: in[1], Y: in[2], Order: in[0], Place: number(0), Step: number(7), Batch: k.Batch}
			var out []*Node
			for _, b := range o.Take(source, number(0), steps) {
				out = append(out, b.Y, b.Number, b.X)
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

// norm is normalization of rows, or its gradients.
func norm(n kernels.Norm, back bool) Form {
	x := Input{Shape: shapes.Make(cmp.Or(n.X, dtypes.Float32), n.Rows, n.Width)}
	in, passes := []Input{x, {Shape: f32(n.Width)}, {Shape: f32(n.Width)}, x}, 2
	if back {
		passes = 3
	}
	if n.Sum {
		return normOfSum(n, back, append(in, x, x), 4)
	}
	return Form{
		Inputs: in, Bytes: float64(passes) * float64(x.Shape.ByteSize()),
		Build: func(o fused.Ops, in []*Node) []*Node {
			wrt := []*Node{Identity(StopGradient(in[0])), Identity(StopGradient(in[1]))} // see recurrenceBack
			var offset *Node
			if n.Offset {
				offset = Identity(StopGradient(in[2]))
				wrt = append(wrt, offset)
			}
			y := o.Norm(wrt[0], wrt[1], offset, n.Epsilon)
			if !back {
				return []*Node{y}
			}
			return gradient.Final(weighed(y, in[3]), wrt...)
		},
	}
}

// normOfSum is norm for x + z, which others read too: then inputs are x, scale, offset, the gradient
// of the norm, z, and the gradient of the sum for its other readers.
func normOfSum(n kernels.Norm, back bool, in []Input, passes int) Form {
	return Form{
		Inputs: in, Bytes: float64(passes) * float64(in[0].Shape.ByteSize()),
		Build: func(o fused.Ops, in []*Node) []*Node {
			x, scale, offset := Identity(StopGradient(in[0])), Identity(StopGradient(in[1])), Identity(StopGradient(in[2])) // see recurrenceBack
			wrt := []*Node{x, scale, offset}
			if !n.Offset {
				wrt, offset = wrt[:2], nil
			}
			sum, biases := Add(x, in[4]), (*Node)(nil)
			if n.Biases {
				biases = ConvertDType(in[1], sum.DType())
				sum = Add(sum, InsertAxes(biases, 0))
			}
			y, kept, columns := o.NormOfSum(sum, x, in[4], biases, scale, offset, n.Epsilon)
			if !back {
				return []*Node{y, kept}
			}
			all := gradient.Final(Add(weighed(y, in[3]), weighed(kept, in[5])), wrt...)
			if columns == nil {
				return append(all, ReduceSum(ConvertDType(all[0], dtypes.Float32), 0))
			}
			_, sums := columns()
			return append(all, sums)
		},
	}
}

// activation is biases and an activation, or their gradients.
func activation(a kernels.Activation, back bool) Form {
	x := shapes.Make(cmp.Or(a.X, dtypes.Float32), a.Rows, a.Width)
	passes := 2
	if back {
		passes = 3
	}
	return Form{
		Inputs: []Input{{Shape: x}, {Shape: shapes.Make(x.DType, a.Width)}, {Shape: x}}, Bytes: float64(passes) * float64(x.ByteSize()),
		Build: func(o fused.Ops, in []*Node) []*Node {
			wrt := []*Node{Identity(StopGradient(in[0]))} // see recurrenceBack
			var biases *Node
			if !a.NoBias {
				biases = Identity(StopGradient(in[1]))
				wrt = append(wrt, biases)
			}
			y := o.Activate(wrt[0], biases, a.Act)
			if !back {
				return []*Node{y}
			}
			return gradient.Final(weighed(y, in[2]), wrt...)
		},
	}
}

// crossEntropy is the loss of logits of many classes.
func crossEntropy(e kernels.CrossEntropy) Form {
	x := shapes.Make(cmp.Or(e.X, dtypes.Float32), e.Rows, e.Classes)
	rows := func(labels *Node) func(x *Node) *Node {
		return func(x *Node) *Node {
			loss, _, _ := fused.Ops{}.Softmax(x, labels)
			return loss
		}
	}
	f := Form{
		Inputs: []Input{{Shape: x}, {Shape: shapes.Make(dtypes.Int32, e.Rows), Fill: Below, Limit: float64(e.Classes)}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			loss, hit := o.CrossEntropy(in[0], in[1], rows(in[1]))
			return []*Node{loss, hit}
		},
		Choices: []int{1}, Bytes: float64(x.ByteSize()),
	}
	if e.Gradient {
		f.Inputs, f.Bytes = append(f.Inputs, Input{Shape: f32(e.Rows)}), 2*f.Bytes
		f.Build = func(o fused.Ops, in []*Node) []*Node {
			if loss, hit, slopes, ok := o.CrossEntropyGradient(in[0], in[1], in[2]); ok {
				return []*Node{loss, hit, slopes}
			}
			loss, hit := o.CrossEntropy(in[0], in[1], rows(in[1]))
			p := Softmax(ConvertDType(in[0], dtypes.Float32))
			slopes := Mul(Sub(p, OneHot(in[1], e.Classes, dtypes.Float32)), InsertAxes(in[2], -1))
			return []*Node{loss, hit, ConvertDType(slopes, x.DType)}
		}
	}
	return f
}
