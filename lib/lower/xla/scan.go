package xla

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Scan is a loop over time steps, whose gradient is a loop in the other direction: text and
// compile time do not grow with the length of a sequence. The first loop keeps the states and
// the matmuls of dense layers where training needs them; the second one computes the rest of
// the cell once more from them. What the weights of dense layers get is computed after it.
//
// GoMLX makes each scalar constant once in a graph, and one made inside a loop is out of
// sight after it. So the cell and its gradient are first written before the loops, for the
// first time step; XLA removes what nothing uses.
func (l Lowering) Scan(cell models.Cell, start []*Node, x *Node, weights []*Node, training bool) *Node {
	length := x.Shape().Dimensions[0]
	first := Reshape(Slice(x, AxisElem(0)), x.Shape().Dimensions[1:]...)
	next, y, products := l.forwardCell(cell, stopped(start), StopGradient(first), weights)
	_, factors := l.cellGradient(cell, start, first, weights, products, next, y)

	every := func(one *Node) *Node { // room for each time step's
		d := append([]int{length}, one.Shape().Dimensions...)
		return Zeros(x.Graph(), shapes.Make(one.DType(), d...))
	}
	count := len(start)
	state := append(stopped(start), StopGradient(x), every(y))
	if training {
		for _, s := range append(slices.Clone(start), products...) {
			state = append(state, every(s))
		}
	}
	end := timeSteps(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		// alone: XLA makes no vector code of functions that read a place which the loop counts
		next, y, products := l.forwardCell(cell, s[:count], alone(at(s[count])), weights)
		after := append(slices.Clone(next), s[count], put(s[count+1], y))
		if training {
			for i, one := range append(slices.Clone(s[:count]), products...) {
				after = append(after, put(s[count+2+i], alone(one)))
			}
		}
		return after
	}, false)
	all, kept := end[count+1], end[count+2:]
	if !training {
		return all
	}
	wrt := append(append(slices.Clone(start), x), weights...)
	return gradient.Define(all, wrt, func(v *Node) []*Node {
		var state []*Node // gradients of the state, of x, of the weights
		for _, w := range wrt {
			state = append(state, ZerosLike(w))
		}
		// Then what the loop reads: x, v, the states; and the dense layers' products, in whose
		// place it puts their gradients, with the layers' inputs.
		results, inputs := len(state), map[int]int{}
		state = append(append(state, StopGradient(x), v), kept...)
		for i, f := range factors {
			if f.v != nil && place(f.x, start, first) < 0 {
				inputs[i] = len(state)
				state = append(state, every(f.x))
			}
		}
		products := results + 2 + count
		end := timeSteps(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
			before := make([]*Node, count)
			for i := range before {
				before[i] = at(s[results+2+i])
			}
			old := make([]*Node, len(factors))
			for i := range old {
				old[i] = alone(at(s[products+i]))
			}
			got, here := l.cellGradient(cell, before, at(s[results]), weights, old, s[:count], at(s[results+1]))
			after := append(slices.Clone(got[:count]), put(s[count], got[count]))
			for i, g := range got[count+1:] {
				after = append(after, Add(s[count+1+i], g))
			}
			after = append(after, s[results:]...)
			for i, f := range here {
				if f.v != nil {
					after[products+i] = put(s[products+i], alone(f.v))
				}
				if at, is := inputs[i]; is {
					after[at] = put(s[at], f.x)
				}
			}
			return after
		}, true)
		for i, f := range factors {
			if f.v == nil {
				continue
			}
			in, own := inputs[i]
			if !own {
				in = results + 2 + place(f.x, start, first)
				if in == products {
					in = results // x
				}
			}
			l.addFactor(end[:results], end[in], end[products+i], f, weights, count+1)
		}
		return end[:results]
	})
}

// place is the number of the state that a dense layer's input is, or their number for x; -1: it
// is neither.
func place(input *Node, start []*Node, x *Node) int {
	return slices.Index(append(slices.Clone(start), x), input)
}

// addFactor adds to the gradients of weights, from number at on, what a dense layer's inputs x
// [length n in] and gradients v [length n out] give.
func (l Lowering) addFactor(gradients []*Node, x, v *Node, f factor, weights []*Node, at int) {
	rows := func(x *Node) *Node {
		d := x.Shape().Dimensions
		return Reshape(x, d[0]*d[1], d[2])
	}
	x, v = rows(x), rows(v)
	c := cell{weights: weights}
	add := func(w, g *Node) {
		i := at + c.variable(w)
		gradients[i] = Add(gradients[i], ConvertDType(g, gradients[i].DType()))
	}
	add(f.w, l.weightsOf(x, v))
	if f.biases != nil {
		add(f.biases, ReduceSum(float(v), 0))
	}
}

// forwardCell is one time step, with the products of the cell's dense layers.
func (l Lowering) forwardCell(write models.Cell, state []*Node, x *Node, weights []*Node) (next []*Node, y *Node, products []*Node) {
	c := &cell{weights: weights}
	l.Cells.within(c, func() { next, y = write(state, x) })
	return next, y, c.products
}

// cellGradient is the gradient for a cell's state, its input and weights, where next and y
// are those of what it returns. The weights of dense layers are left out: factors are what
// theirs is made of.
func (l Lowering) cellGradient(write models.Cell, state []*Node, x *Node, weights, products, next []*Node, y *Node) (gradients []*Node, factors []factor) {
	c := &cell{weights: weights, products: products, backward: true}
	l.Cells.within(c, func() {
		after, given := write(state, x)
		sum := ReduceAllSum(Mul(given, y))
		for i, s := range after {
			sum = Add(sum, ReduceAllSum(Mul(s, next[i])))
		}
		gradients = Gradient(sum, append(append(slices.Clone(state), x), weights...)...)
	})
	return gradients, c.factors
}

func stopped(l []*Node) []*Node {
	all := make([]*Node, len(l))
	for i, x := range l {
		all[i] = StopGradient(x)
	}
	return all
}
