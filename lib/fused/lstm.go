package fused

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// LSTM runs long short-term memory over a sequence: z [length n 4·units] is what
// the inputs give the gates (input, forget, cell, output) with their biases,
// recurrent is [units 4·units], both float32. The result is [length n units]. It
// has a gradient; with kernels, the whole sequence is one kernel each way. They have
// their own tilings, but where XLA's form is the faster one in one direction, it is in
// both: the backward pass needs the gates, which that form does not keep.
//
// The plain form is xla.Recurrence, the loop of layer models.LSTM, of Compute's type.
func (o Ops) LSTM(z, recurrent *Node) *Node {
	d := z.Shape().Dimensions
	if z.Rank() != 3 || recurrent.Rank() != 2 || d[2] != 4*recurrent.Shape().Dimensions[0] || d[2] != recurrent.Shape().Dimensions[1] {
		panic(fmt.Errorf("fused: LSTM: got z %s and recurrent %s, want [length n 4·units] and [units 4·units]", z.Shape(), recurrent.Shape()))
	}
	l := kernels.LSTM{Length: d[0], Batch: d[1], Units: d[2] / 4, Compute: o.Compute}
	if l.Units > kernels.LargestUnits {
		return o.plainLSTM(z, recurrent)
	}
	forward, is := choose(o, l)
	back, both := choose(o, kernels.LSTMBack{LSTM: l})
	if !is || !both {
		return o.plainLSTM(z, recurrent)
	}
	return gradient.Lowered([]*Node{z, recurrent}, func(in []*Node) *Node {
		z, recurrent := in[0], in[1]
		out := o.call(forward.Kernel(), z, recurrent)
		h, c, gates := out[0], out[1], out[2]
		return gradient.Define(h, []*Node{z, recurrent}, func(v *Node) []*Node {
			dz := o.call(back.Kernel(), v, gates, c, recurrent)[0]
			if l.Length == 1 {
				return []*Node{dz, ZerosLike(recurrent)}
			}
			before, after := Slice(h, AxisRange(0, l.Length-1)), Slice(dz, AxisRange(1, l.Length))
			rows := (l.Length - 1) * l.Batch
			return []*Node{dz, Einsum("ru,rg->ug", Reshape(before, rows, l.Units), Reshape(after, rows, 4*l.Units))}
		})
	}, func(in []*Node) *Node { return o.plainLSTM(in[0], in[1]) })
}

// plainLSTM is LSTM in GoMLX's ops: a loop, or place after place for a backend without
// DynamicSlice, which is the Go backend of tests.
func (o Ops) plainLSTM(z, recurrent *Node) *Node {
	recurrence := models.Recurrence
	if z.Graph().Backend().Capabilities().Operations[compute.OpTypeDynamicSlice] {
		recurrence = xla.Recurrence
	}
	return to(recurrence(to(z, o.Compute), to(recurrent, o.Compute)), dtypes.Float32)
}
