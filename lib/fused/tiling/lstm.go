package tiling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/gradient"
)

// lstm is an LSTM forwards: what comes out. The kernel also writes what the backward pass
// needs, and the plain form does not.
func lstm(l kernels.LSTM) Form {
	all := l.Length * l.Batch * l.Units
	return Form{
		Inputs: []Input{{Shape: f32(l.Length, l.Batch, 4*l.Units)}, {Shape: f32(l.Units, 4*l.Units), Fill: Small}},
		Build:  func(o fused.Ops, in []*Node) []*Node { return []*Node{o.LSTM(in[0], in[1])} },
		Loops:  true, FLOPs: 8 * float64(all*l.Units), Bytes: 4 * 10 * float64(all),
	}
}

// lstmBack is an LSTM both ways, as there is no way back without the other. Forwards it
// has the usual tiling, so that tilings differ by the backward pass alone.
func lstmBack(l kernels.LSTMBack) Form {
	f := lstm(l.LSTM)
	f.Inputs = append(f.Inputs, Input{Shape: f32(l.Length, l.Batch, l.Units)})
	f.FLOPs, f.Bytes = 3*f.FLOPs, 2*f.Bytes
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		// What the repetition before has made of them is none of its gradient's, and
		// where a gradient is stopped GoMLX gives none.
		z, recurrent := Identity(StopGradient(in[0])), Identity(StopGradient(in[1]))
		h := o.LSTM(z, recurrent)
		return append([]*Node{h}, gradient.Final(weighed(h, in[2]), z, recurrent)...)
	}
	return f
}

// weighed is a loss whose gradient by y is v.
func weighed(y, v *Node) *Node {
	return ReduceAllSum(Mul(ConvertDType(y, dtypes.Float32), ConvertDType(v, dtypes.Float32)))
}
