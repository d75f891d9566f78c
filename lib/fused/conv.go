package fused

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
)

// Convolution is a convolution of stride 1 with square kernels, an activation,
// and, if Pool is set, max pooling of windows of 2×2 behind it.
type Convolution struct {
	Pad  int // zeros on each side of an image
	Pool bool
	Act  kernels.Act
}

// geometry are the sizes of a convolution of x [n height width in] with w
// [size size in out].
func (c Convolution) geometry(x, w *Node) kernels.Geometry {
	d, k := x.Shape().Dimensions, w.Shape().Dimensions
	if len(d) != 4 || len(k) != 4 || k[0] != k[1] || d[3] != k[2] {
		panic(fmt.Errorf("fused: Conv: got x %s and w %s, want [n height width in] and [size size in out]", x.Shape(), w.Shape()))
	}
	g := kernels.Geometry{Batch: d[0], Height: d[1], Width: d[2], In: d[3], Out: k[3], Size: k[0], Pad: c.Pad, Pool: c.Pool}
	if height, width := g.Result(); height < 1 || width < 1 || c.Pad < 0 || c.Pad >= g.Size {
		panic(fmt.Errorf("fused: Conv: got images of %d×%d for kernels of %d×%d and padding of %d, want larger images, and less padding than kernel", d[1], d[2], k[0], k[1], c.Pad))
	}
	return g
}

// Conv returns y [n height' width' out], of Compute's type, and, with pooling,
// which place of its window each maximum was at: winner, like y, uint8, 0 to 3.
func (o Ops) Conv(c Convolution, x, w, bias *Node) (y, winner *Node) {
	g := c.geometry(x, w)
	var got []*Node
	if op, is := choose(o, kernels.Conv{Geometry: g, X: x.DType(), Y: o.Compute, Compute: o.Compute, Act: c.Act}); is {
		got = o.call(op.Kernel(), x, w, bias)
	}
	switch len(got) {
	case 2:
		return got[0], got[1]
	case 1:
		return got[0], nil
	}
	y = Add(c.convolve(to(x, o.Compute), to(w, o.Compute)), ExpandLeftToRank(to(bias, o.Compute), 4))
	if c.Pool {
		flat := windows(y, g) // [n h w 4 out]
		winner = ConvertDType(ArgMax(flat, 3, dtypes.Int32), dtypes.Uint8)
		y = ReduceMax(flat, 3)
	}
	return activate(c.Act, y), winner
}

func (c Convolution) convolve(x, w *Node) *Node {
	return Convolve(x, w).PaddingPerDim([][2]int{{c.Pad, c.Pad}, {c.Pad, c.Pad}}).Done()
}

// windows puts the elements of each pooling window side by side.
func windows(y *Node, g kernels.Geometry) *Node {
	height, width := g.Result()
	y = Slice(y, AxisRange(), AxisRange(0, 2*height), AxisRange(0, 2*width), AxisRange())
	y = Reshape(y, g.Batch, height, 2, width, 2, g.Out)
	return Reshape(TransposeAllAxes(y, 0, 1, 3, 2, 4, 5), g.Batch, height, width, 4, g.Out)
}

// unpool puts a gradient where the winners of the windows were.
func unpool(d, winner *Node, g kernels.Geometry) *Node {
	if winner == nil {
		return d
	}
	height, width := g.Result()
	places := Iota(d.Graph(), shapes.Make(dtypes.Int32, 1, 1, 1, 4, 1), 3)
	won := Equal(BroadcastToDims(InsertAxes(ConvertDType(winner, dtypes.Int32), 3), g.Batch, height, width, 4, g.Out),
		BroadcastToDims(places, g.Batch, height, width, 4, g.Out))
	all := BroadcastToDims(InsertAxes(d, 3), g.Batch, height, width, 4, g.Out)
	all = Where(won, all, ZerosLike(all))
	all = TransposeAllAxes(Reshape(all, g.Batch, height, width, 2, 2, g.Out), 0, 1, 3, 2, 4, 5)
	all = Reshape(all, g.Batch, 2*height, 2*width, g.Out)
	h, w := g.Image()
	all = filled(filled(all, 1, h), 2, w)
	return all
}

// filled adds zeros at the end of an axis until it has the size: the rows or
// columns that fill no window.
func filled(x *Node, axis, size int) *Node {
	d := append([]int{}, x.Shape().Dimensions...)
	if d[axis] == size {
		return x
	}
	d[axis] = size - d[axis]
	return Concatenate([]*Node{x, Zeros(x.Graph(), shapes.Make(x.DType(), d...))}, axis)
}

// ConvInput is the gradient of the input x of a convolution, taken on through
// the activation before, that made x. d is the gradient of the convolution's
// result, before its own activation; winner is what Conv gave.
func (o Ops) ConvInput(c Convolution, d, winner, w, x *Node, before kernels.Act) *Node {
	g := c.geometry(x, w)
	op := kernels.ConvInput{Geometry: g, G: d.DType(), D: o.Compute, Compute: o.Compute, Act: before}
	in := []*Node{d, w}
	if winner != nil {
		in = append(in, winner)
	}
	if before != kernels.Identity {
		op.X = x.DType()
		in = append(in, x)
	}
	if chosen, is := choose(o, op); is {
		return o.call(chosen.Kernel(), in...)[0]
	}
	// A convolution with the kernels turned round. GoMLX v0.28.2 derives a wrong
	// one where the kernels' side is even.
	turned := TransposeAllAxes(Reverse(to(w, o.Compute), 0, 1), 0, 1, 3, 2)
	dx := Convolution{Pad: g.Size - 1 - c.Pad}.convolve(unpool(to(d, o.Compute), winner, g), turned)
	return slope(before, dx, to(x, o.Compute))
}

// ConvUpdate is a step of an optimizer on the weights and biases of a
// convolution of x; d and winner are as in ConvInput, and the rest is as in LinearUpdate.
func (o Ops) ConvUpdate(c Convolution, x, d, winner *Node, state, bias []*Node, rule kernels.Rule, rate, t *Node) (newState, newBias []*Node) {
	g := c.geometry(x, state[0])
	parts := o.convParts(c, x, d, winner, state[0])
	if parts == nil {
		at := Zeros(x.Graph(), shapes.Make(cmp.Or(o.Compute, dtypes.Float32), state[0].Shape().Dimensions...))
		y := c.convolve(to(x, o.Compute), at)
		dw := gradient.Final(ReduceAllSum(Mul(y, unpool(to(d, o.Compute), winner, g))), at)[0]
		db := ReduceSum(to(d, dtypes.Float32), 0, 1, 2)
		return gomlx.Update(rule, rate, t, state, to(dw, dtypes.Float32)), gomlx.Update(rule, rate, t, bias, db)
	}
	return o.PartsUpdate(parts, state, bias, rule, rate, t)
}

// PartsUpdate is a step of an optimizer on weights and biases whose gradient is the sum of
// parts: [parts taps+1 out] float32, the last of the rows that of the biases. The rest is
// as in LinearUpdate.
func (o Ops) PartsUpdate(parts *Node, state, bias []*Node, rule kernels.Rule, rate, t *Node) (newState, newBias []*Node) {
	op, is := choose(o, partsUpdate(parts, state[0], rule))
	if !is {
		g := ReduceSum(parts, 0)
		taps := g.Shape().Dimensions[0] - 1
		weights := Reshape(Slice(g, AxisRange(0, taps)), state[0].Shape().Dimensions...)
		return gomlx.Update(rule, rate, t, state, weights), gomlx.Update(rule, rate, t, bias, Reshape(Slice(g, AxisRange(taps)), bias[0].Shape().Dimensions...))
	}
	got := o.call(op.Kernel(), append(append(append([]*Node{parts}, state...), bias...), rate, t)...)
	return got[:len(state)], got[len(state):]
}

func partsUpdate(parts, w *Node, rule kernels.Rule) kernels.PartsUpdate {
	return kernels.PartsUpdate{Parts: parts.Shape().Dimensions[0], Weights: w.Shape(), Rule: rule}
}

// convParts are the parts of the gradient of a convolution's weights and
// biases; nil where the plain form is to be used.
func (o Ops) convParts(c Convolution, x, d, winner, w *Node) *Node {
	op, is := choose(o, kernels.ConvGradient{Geometry: c.geometry(x, w), X: x.DType(), G: d.DType(), Compute: o.Compute})
	if !is {
		return nil
	}
	in := []*Node{x, d}
	if winner != nil {
		in = append(in, winner)
	}
	return o.call(op.Kernel(), in...)[0]
}
