package tiling

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
)

// norm is batch normalization both ways. With Skip, two gradients arrive at its
// result, as in a residual net.
func norm(l kernels.Norm) Form {
	in, out := shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Rows, l.Channels), shapes.Make(cmp.Or(l.Y, dtypes.Float32), l.Rows, l.Channels)
	f := Form{
		Inputs: []Input{{Shape: in}, {Shape: f32(l.Channels)}, {Shape: f32(l.Channels)}, {Shape: out}},
		// Poke is x: the sums of one that stays would leave the loop. Its gradient is the next x:
		// without an activation the last output, that of the shift, is a sum of what stays, and
		// so would be every number that is poked, and XLA's own form would leave the loop.
		Chain: map[int]int{3: 0},
		Bytes: 4*float64(in.ByteSize()) + 4*float64(out.ByteSize()),
	}
	if l.Skip {
		f.Inputs = append(f.Inputs, Input{Shape: out}, Input{Shape: out})
		f.Bytes += 4 * float64(out.ByteSize())
	}
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		var skip *Node
		wrt := in[:3:3]
		if l.Skip {
			skip, wrt = in[4], append(wrt, in[4])
		}
		y, mean, variance := o.Norm(in[0], in[1], in[2], skip, l.Epsilon, l.Act)
		loss := weighed(y, in[3])
		if l.Skip {
			loss = Add(loss, weighed(y, in[5]))
		}
		return append([]*Node{y, mean, variance}, Gradient(loss, wrt...)...)
	}
	return f
}

// weighed is a loss whose gradient by y is v.
func weighed(y, v *Node) *Node {
	return ReduceAllSum(Mul(ConvertDType(y, dtypes.Float32), ConvertDType(v, dtypes.Float32)))
}
