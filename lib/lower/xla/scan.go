package xla

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Scan is a loop over time steps, whose gradient is a loop in the other direction: text and
// compile time do not grow with the length of a sequence. The first loop keeps the states
// where training needs them; the second one computes the cell once more from them.
//
// GoMLX makes each scalar constant once in a graph, and one made inside a loop is out of
// sight after it. So the cell and its gradient are first written before the loops, for the
// first time step; XLA removes what nothing uses.
func (l Lowering) Scan(cell models.Cell, start []*Node, x *Node, weights []*Node, training bool) *Node {
	length := x.Shape().Dimensions[0]
	first := Reshape(Slice(x, AxisElem(0)), x.Shape().Dimensions[1:]...)
	next, y := cell(stopped(start), StopGradient(first))
	cellGradient(cell, start, first, weights, next, y)

	every := func(one *Node) *Node { // room for each time step's
		d := append([]int{length}, one.Shape().Dimensions...)
		return Zeros(x.Graph(), shapes.Make(one.DType(), d...))
	}
	count := len(start)
	state := append(stopped(start), StopGradient(x), every(y))
	if training {
		for _, s := range start {
			state = append(state, every(s))
		}
	}
	end := timeSteps(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		// alone: XLA makes no vector code of functions that read a place which the loop counts
		next, y := cell(s[:count], alone(at(s[count])))
		after := append(append([]*Node{}, next...), s[count], put(s[count+1], y))
		for i, kept := range s[count+2:] {
			after = append(after, put(kept, alone(s[i])))
		}
		return after
	}, false)
	all, kept := end[count+1], end[count+2:]
	if !training {
		return all
	}
	wrt := append(append(append([]*Node{}, start...), x), weights...)
	return gradient.Define(all, wrt, func(v *Node) []*Node {
		var state []*Node // gradients of the state, of x, of the weights
		for _, s := range start {
			state = append(state, ZerosLike(s))
		}
		state = append(state, ZerosLike(x))
		for _, w := range weights {
			state = append(state, ZerosLike(w))
		}
		results := len(state)
		state = append(append(state, StopGradient(x), v), kept...)
		return timeSteps(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
			before := make([]*Node, count)
			for i := range before {
				before[i] = at(s[results+2+i])
			}
			here := at(s[results])
			got := cellGradient(cell, before, here, weights, s[:count], at(s[results+1]))
			after := append([]*Node{}, got[:count]...)
			after = append(after, put(s[count], got[count]))
			for i, g := range got[count+1:] {
				after = append(after, Add(s[count+1+i], g))
			}
			return append(after, s[results:]...)
		}, true)[:results]
	})
}

// cellGradient is the gradient for a cell's state, its input and weights, where next and y
// are those of what it returns.
func cellGradient(cell models.Cell, state []*Node, x *Node, weights, next []*Node, y *Node) []*Node {
	after, given := cell(state, x)
	sum := ReduceAllSum(Mul(given, y))
	for i, s := range after {
		sum = Add(sum, ReduceAllSum(Mul(s, next[i])))
	}
	return Gradient(sum, append(append(append([]*Node{}, state...), x), weights...)...)
}

func stopped(l []*Node) []*Node {
	all := make([]*Node, len(l))
	for i, x := range l {
		all[i] = StopGradient(x)
	}
	return all
}
