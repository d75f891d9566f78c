package tiling

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/optim"
)

// lstm is an LSTM forwards: what comes out. The kernel also writes what the way back
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
// has the usual tiling, so that tilings differ by the way back alone.
func lstmBack(l kernels.LSTMBack) Form {
	f := lstm(l.LSTM)
	f.Inputs = append(f.Inputs, Input{Shape: f32(l.Length, l.Batch, l.Units)})
	f.FLOPs, f.Bytes = 3*f.FLOPs, 2*f.Bytes
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		// What the repetition before has made of them is none of its gradient's, and
		// where a gradient is stopped GoMLX gives none.
		z, recurrent := Identity(StopGradient(in[0])), Identity(StopGradient(in[1]))
		h := o.LSTM(z, recurrent)
		return append([]*Node{h}, Gradient(weighed(h, in[2]), z, recurrent)...)
	}
	return f
}

// whole is a step of a small net, by gradient descent: op's kernel, whose inputs are given,
// and the update. Outputs are the weights and what the step says of its batch.
func whole(op kernels.Op, inputs []shapes.Shape, flops float64) Form {
	plan, names := fused.WholeOf(op)
	_, loops := op.(kernels.Sequence)
	examples, first := inputs[0].Dimensions[0], 6 // of the weights
	f := Form{
		Inputs: []Input{{Shape: inputs[0], Fill: Below, Limit: float64(examples)}, {Shape: inputs[4]}, {Shape: inputs[5]}, {Shape: f32(), Fill: Number, Limit: 0.01}},
		Chain:  map[int]int{}, Poke: -1, Loops: loops, FLOPs: flops,
	}
	for _, s := range inputs[4:first] {
		f.Bytes += 4 * float64(s.Size())
	}
	at := map[string]int{}
	for i, s := range inputs[first:] {
		at[names[i]] = len(f.Inputs)
		f.Chain[i] = len(f.Inputs)
		f.Inputs = append(f.Inputs, Input{Shape: s, Fill: Small})
		f.Bytes += 8 * float64(s.Size())
	}
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		g := in[0].Graph()
		number := func(n int) *Node { return Const(g, int32(n)) }
		// What is to come out is far from what does: where it is noise about that, TF32
		// decides of ReLUs that are nearly 0 as much as the kernel does.
		y := AddScalar(in[2], 2)
		states, row := plan.Train(fused.Step{Ops: o, Rule: optim.SGD{}.Rule(), Rate: in[3], State: func(name string) []*Node { return in[at[name] : at[name]+1] }},
			fused.Source{X: in[1], Labels: y, Order: in[0], Place: number(0), Step: number(3), Batch: batchOf(op)}, number(0))
		var out []*Node
		for _, name := range names {
			out = append(out, states[name]...)
		}
		return append(out, row)
	}
	return f
}

func batchOf(op kernels.Op) int {
	if l, is := op.(kernels.Sequence); is {
		return l.Batch
	}
	return op.(kernels.Stack).Batch
}
