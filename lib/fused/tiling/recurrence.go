package tiling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// recurrence is a recurrent cell over a sequence, forwards: what comes out. The kernel also
// writes what the backward pass needs, and the plain form does not.
func recurrence(l kernels.Recurrence) Form {
	all := l.Length * l.Batch * l.Units
	r, gates := models.Recurrence{Kind: "LSTM"}, 4
	switch l.Cell {
	case kernels.GRU:
		r, gates = models.Recurrence{Kind: "GRU"}, 3
	case kernels.RNN:
		r, gates = models.Recurrence{Kind: "SimpleRNN", Act: models.Acts[l.Act.Name()]}, 1
	}
	f := Form{
		Inputs: []Input{{Shape: f32(l.Length, l.Batch, gates*l.Units)}, {Shape: f32(l.Units, gates*l.Units), Fill: Small}},
		Build: func(o fused.Ops, in []*Node) []*Node {
			r := r
			if r.Z, r.Recurrent = in[0], in[1]; r.Kind != "LSTM" {
				r.Biases = in[2]
			}
			return []*Node{o.Recurrence(r)}
		},
		Loops: true, FLOPs: 2 * float64(gates*all*l.Units), Bytes: 4 * float64(2*gates+2) * float64(all),
	}
	if l.Cell != kernels.LSTM {
		f.Inputs = append(f.Inputs, Input{Shape: f32(gates * l.Units), Fill: Small})
	}
	return f
}

// recurrenceBack is a recurrence both ways, as there is no way back without the other. Forwards
// it has the usual tiling, so that tilings differ by the backward pass alone.
func recurrenceBack(l kernels.RecurrenceBack) Form {
	f := recurrence(l.Recurrence)
	forward, last := f.Build, len(f.Inputs)
	f.Inputs = append(f.Inputs, Input{Shape: f32(l.Length, l.Batch, l.Units)})
	f.FLOPs, f.Bytes = 3*f.FLOPs, 2*f.Bytes
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		// What the repetition before has made of them is none of its gradient's, and
		// where a gradient is stopped GoMLX gives none.
		var wrt []*Node
		for _, x := range in[:last] {
			wrt = append(wrt, Identity(StopGradient(x)))
		}
		h := forward(o, wrt)[0]
		return append([]*Node{h}, gradient.Final(weighed(h, in[last]), wrt...)...)
	}
	return f
}

// weighed is a loss whose gradient by y is v.
func weighed(y, v *Node) *Node {
	return ReduceAllSum(Mul(ConvertDType(y, dtypes.Float32), ConvertDType(v, dtypes.Float32)))
}
