package models

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Lowering writes the operations of layers whose best form depends on what a program is
// for. A graph's backend that has one, by a method Lowering() Lowering, is asked; without
// one the operations are GoMLX's own.
type Lowering interface {
	// Convolve is the convolution of images [n height width in] with weights
	// [kernel kernel in out].
	Convolve(x, w *Node, c Convolution) *Node
	// Depthwise is the function [Depthwise].
	Depthwise(x, w *Node, c Convolution) *Node
	// MaxPool is max pooling of images; settings of l that have a default are filled in.
	// again computes x a second time, if it is not nil.
	MaxPool(x *Node, l MaxPool2D, again Again) *Node
	// Dense is what some dense layers make of rows [n in].
	Dense(x *Node, layers ...Linear) []*Node
	// AddBiases adds biases [channels] to y [… channels].
	AddBiases(y, biases *Node) *Node
	// LSTM runs the recurrence over z [length·n 4·units], what the inputs give the gates
	// without biases, from outputs h0 and cells c0 [n units]. It returns all outputs, which
	// have a gradient, and cells [length n units].
	LSTM(z, biases, recurrent, h0, c0 *Node, training bool) (h, c *Node)
	// Recurrence is a better form of a recurrence than LSTM and Scan, [length n units]; nil: there
	// is none.
	Recurrence(r Recurrence) *Node
	// Scan runs a recurrent cell over the first axis of x [length …], from start. It returns
	// what the cell gives at all time steps, [length …], which has a gradient for start, x
	// and weights: all nodes that the cell reads besides.
	Scan(cell Cell, start []*Node, x *Node, weights []*Node, training bool) *Node
	// Attend is attention: see the function [Attend].
	Attend(q, k, v *Node, a Attending) *Node
	// AttendCached is causal attention of one new time step of each sequence, q [n 1 heads size], to
	// those in a cache, which k and v [n 1 groups size] join: keys and values [n groups slots
	// size]. It has no gradient. y is nil where the plain form is to be used.
	AttendCached(q, k, v, keys, values *Node, at CachePlace, a Attending) (y, newKeys, newValues *Node)
	// Lookup are rows of a table [n units], [… units] for ids […].
	Lookup(table, ids *Node) *Node
	// Norm normalizes the last axis of x: (x - mean)/√(variance + epsilon)·scale + offset, of
	// float32 vectors; without an offset, x/√(mean square + epsilon)·scale.
	Norm(x, scale, offset *Node, epsilon float64) *Node
	// Fork says that x is read by layers that begin with a norm, and that Join is to add what
	// they return to x: kernels of norms add up too.
	Fork(x *Node)
	Join(x, y *Node) *Node
	// Recomputes says whether a batch norm's output of so many bytes is computed again on
	// the backward pass rather than kept.
	Recomputes(bytes int64) bool
}

// Linear is a dense layer: Act(x·W + Biases) of weights [in out]. Biases and Act may be nil.
type Linear struct {
	W, Biases *Node
	Act       Act
}

// Convolution is how a convolution's kernels slide.
type Convolution struct {
	Stride   int
	Dilation int       // of a Depthwise; 0: 1
	Pads     [2][2]int // of height and width, before and after
	Again    Again     // computes the images a second time; nil: they are kept
}

// Again computes a layer's output a second time for the backward pass, and not before v is
// there.
type Again func(v *Node) *Node

// loweringOf is that of a graph.
func loweringOf(g *Graph) Lowering {
	if b, is := g.Backend().(interface{ Lowering() Lowering }); is {
		return b.Lowering()
	}
	return Plain{}
}

// Plain is a lowering in GoMLX's own operations, with the gradients that GoMLX derives, and theirs.
type Plain struct{}

// Lookup has a gradient that adds up in no fixed order on a GPU.
func (Plain) Lookup(table, ids *Node) *Node { return Gather(table, InsertAxes(ids, -1), false) }

// Convolve adds zeros to the images and to kernels of an even size: GoMLX v0.28.2 has no
// gradient for much padding, and shifts the one of an even kernel by one place.
func (Plain) Convolve(x, w *Node, c Convolution) *Node {
	even := 1 - w.Shape().Dimensions[0]%2
	for i, p := range c.Pads {
		x = padded(x, 1+i, p[0], p[1]+even)
		w = padded(w, i, 0, even)
	}
	return Convolve(x, w).Strides(c.Stride).Done()
}

// Depthwise slides kernels w [kernel kernel channels] over images [n height width channels], each
// over its channel, in GoMLX's own operations.
func Depthwise(x, w *Node, c Convolution) *Node {
	k, channels := w.Shape().Dimensions[0], w.Shape().Dimensions[2]
	w = Reshape(w, k*k, channels)
	var y *Node
	for i, view := range (window{size: k, stride: c.Stride, dilation: c.Dilation, pads: c.Pads[:]}).views(x) {
		if part := Mul(view, Reshape(Slice(w, AxisElem(i)), 1, 1, 1, channels)); y == nil {
			y = part
		} else {
			y = Add(y, part)
		}
	}
	return y
}

// Depthwise is [Lowering]'s.
func (Plain) Depthwise(x, w *Node, c Convolution) *Node { return Depthwise(x, w, c) }

// padded is x with zeros before and after it on an axis. GoMLX has no gradient of Pad.
func padded(x *Node, axis, before, after int) *Node {
	parts := []*Node{x}
	zeros := func(n int) *Node {
		d := x.Shape().Clone()
		d.Dimensions[axis] = n
		return Zeros(x.Graph(), d)
	}
	if before > 0 {
		parts = append([]*Node{zeros(before)}, parts...)
	}
	if after > 0 {
		parts = append(parts, zeros(after))
	}
	if len(parts) == 1 {
		return x
	}
	return Concatenate(parts, axis)
}

// MaxPool is [Lowering]'s.
func (Plain) MaxPool(x *Node, l MaxPool2D, _ Again) *Node {
	if l.Gradient == Mask { // it has a second gradient
		return poolWindow{l.Window, l.Stride, l.Pad}.over(x, firstMax, 1)
	}
	return MaxPool(x).Window(l.Window).Strides(l.Stride).PaddingPerDim([][2]int{{l.Pad, l.Pad}, {l.Pad, l.Pad}}).Done()
}

// Dense is [Lowering]'s.
func (p Plain) Dense(x *Node, layers ...Linear) (all []*Node) {
	for _, l := range layers {
		y := MatMul(x, l.W)
		if l.Biases != nil {
			y = p.AddBiases(y, l.Biases)
		}
		all = append(all, l.Act.of(y))
	}
	return all
}

// AddBiases is [Lowering]'s.
func (Plain) AddBiases(y, biases *Node) *Node { return Add(y, ExpandLeftToRank(biases, y.Rank())) }

// LSTM is unrolled: GoMLX has no gradient of a loop.
func (Plain) LSTM(z, biases, recurrent, h, c *Node, _ bool) (outputs, cells *Node) {
	n, u := h.Shape().Dimensions[0], h.Shape().Dimensions[1]
	length := z.Shape().Dimensions[0] / n
	if biases != nil {
		z = Add(z, ExpandLeftToRank(biases, 2))
	}
	var all [2][]*Node
	for i := range length {
		got := Add(Slice(z, AxisRange(i*n, (i+1)*n)), MatMul(h, recurrent))
		gate := func(k int) *Node { return Slice(got, AxisRange(), AxisRange(k*u, (k+1)*u)) }
		c = Add(Mul(Sigmoid(gate(1)), c), Mul(Sigmoid(gate(0)), Tanh(gate(2))))
		h = Mul(Sigmoid(gate(3)), Tanh(c))
		all[0], all[1] = append(all[0], h), append(all[1], c)
	}
	return Stack(all[0], 0), Stack(all[1], 0)
}

// Recurrence is [Lowering]'s.
func (Plain) Recurrence(Recurrence) *Node { return nil }

// Scan is unrolled, too.
func (Plain) Scan(cell Cell, state []*Node, x *Node, _ []*Node, _ bool) *Node {
	var all []*Node
	for i := range x.Shape().Dimensions[0] {
		var y *Node
		state, y = cell(state, Reshape(Slice(x, AxisElem(i)), x.Shape().Dimensions[1:]...))
		all = append(all, y)
	}
	return Stack(all, 0)
}

// Attend is [Lowering]'s.
func (Plain) Attend(q, k, v *Node, a Attending) *Node { return Attend(q, k, v, a) }

// AttendCached is [Lowering]'s.
func (Plain) AttendCached(_, _, _, _, _ *Node, _ CachePlace, _ Attending) (y, keys, values *Node) {
	return nil, nil, nil
}

// Recomputes is [Lowering]'s.
func (Plain) Recomputes(int64) bool { return false }

// Fork does nothing: Join needs no preparation.
func (Plain) Fork(*Node) {}

// Join is x + y.
func (Plain) Join(x, y *Node) *Node { return Add(x, y) }
