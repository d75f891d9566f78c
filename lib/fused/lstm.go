package fused

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
)

// LSTM runs long short-term memory over a sequence: z [length n 4·units] is what
// the inputs give the gates (input, forget, cell, output) with their biases,
// recurrent is [units 4·units], both float32. The result is [length n units]. It
// has a gradient; with kernels, the whole sequence is one kernel each way.
//
// The plain form is unrolled, so that its text grows with the length: it is the
// reference. Layer models.LSTM has the loop for devices without kernels.
func (o Ops) LSTM(z, recurrent *Node) *Node {
	d := z.Shape().Dimensions
	if z.Rank() != 3 || recurrent.Rank() != 2 || d[2] != 4*recurrent.Shape().Dimensions[0] || d[2] != recurrent.Shape().Dimensions[1] {
		panic(fmt.Errorf("fused: LSTM: got z %s and recurrent %s, want [length n 4·units] and [units 4·units]", z.Shape(), recurrent.Shape()))
	}
	l := kernels.LSTM{Length: d[0], Batch: d[1], Units: d[2] / 4}
	if o.Plain || o.Builder == nil || l.Units > kernels.LargestUnits {
		return plainLSTM(l, z, recurrent)
	}
	out := o.call(l.Kernel(), z, recurrent)
	h, c, gates := out[0], out[1], out[2]
	return differentiable(h, []*Node{z, recurrent}, func(v *Node) []*Node {
		dz := o.call(kernels.LSTMBack{LSTM: l}.Kernel(), v, gates, c, recurrent)[0]
		if l.Length == 1 {
			return []*Node{dz, ZerosLike(recurrent)}
		}
		before, after := Slice(h, AxisRange(0, l.Length-1)), Slice(dz, AxisRange(1, l.Length))
		rows := (l.Length - 1) * l.Batch
		return []*Node{dz, Einsum("ru,rg->ug", Reshape(before, rows, l.Units), Reshape(after, rows, 4*l.Units))}
	})
}

func plainLSTM(l kernels.LSTM, z, recurrent *Node) *Node {
	g := z.Graph()
	state := shapes.Make(z.DType(), l.Batch, l.Units)
	h, c := Zeros(g, state), Zeros(g, state)
	var all []*Node
	for t := range l.Length {
		s := Add(Reshape(Slice(z, AxisElem(t)), l.Batch, 4*l.Units), MatMul(h, recurrent))
		gate := func(k int) *Node { return Slice(s, AxisRange(), AxisRange(k*l.Units, (k+1)*l.Units)) }
		c = Add(Mul(Sigmoid(gate(1)), c), Mul(Sigmoid(gate(0)), Tanh(gate(2))))
		h = Mul(Sigmoid(gate(3)), Tanh(c))
		all = append(all, h)
	}
	return Stack(all, 0)
}

// Norm is batch normalization of x [… channels] over all but the last axis, with
// an activation behind it: y of Compute's type, and mean and variance [channels]
// of the batch, which have no gradient. scale and offset are [channels] float32.
// epsilon is added to the variance; 0 is 1e-5.
func (o Ops) Norm(x, scale, offset *Node, epsilon float64, act kernels.Act) (y, mean, variance *Node) {
	d := x.Shape().Dimensions
	channels := d[len(d)-1]
	rows := x.Shape().Size() / channels
	flat := Reshape(x, rows, channels)
	l := kernels.Norm{Rows: rows, Channels: channels, X: x.DType(), Y: o.Compute, Epsilon: or(epsilon, 1e-5), Act: act}
	if o.Plain || o.Builder == nil {
		y, mean, variance = o.plainNorm(l, flat, scale, offset)
		return Reshape(y, d...), mean, variance
	}
	parts := o.call(l.Sums(), flat)[0]
	out := o.call(l.Apply(), flat, parts, scale, offset)
	y, mean, variance = out[0], out[1], out[2]
	y = differentiable(y, []*Node{flat, scale, offset}, func(g *Node) []*Node {
		g = to(g, o.Compute)
		parts := o.call(l.BackSums(), g, out[0], flat, mean, variance)[0]
		return o.call(l.BackApply(), g, out[0], flat, mean, variance, parts, scale)
	})
	return Reshape(y, d...), mean, variance
}

func (o Ops) plainNorm(l kernels.Norm, x, scale, offset *Node) (y, mean, variance *Node) {
	x = to(x, dtypes.Float32)
	mean = ReduceMean(x, 0)
	far := Sub(x, ExpandLeftToRank(mean, 2))
	variance = ReduceMean(Square(far), 0)
	y = Mul(far, ExpandLeftToRank(Div(scale, Sqrt(AddScalar(variance, l.Epsilon))), 2))
	y = to(activate(l.Act, Add(y, ExpandLeftToRank(offset, 2))), o.Compute)
	return y, StopGradient(mean), StopGradient(variance)
}
