package xla

import (
	"slices"

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
	next, y := cell(each(start, StopGradient), StopGradient(first))
	r := recurrence{length: length, weights: weights, written: true, cell: func(state, xs []*Node) (next, ys []*Node) {
		next, y := cell(state, xs[0])
		return next, []*Node{y}
	}}
	r.slopes(start, []*Node{first}, next, []*Node{y}, gradient.Final)

	every := func(one *Node) *Node { // room for each time step's
		d := append([]int{length}, one.Shape().Dimensions...)
		return Zeros(x.Graph(), shapes.Make(one.DType(), d...))
	}
	count := len(start)
	state := append(each(start, StopGradient), StopGradient(x), every(y))
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
	return gradient.Define(all, slices.Concat(start, []*Node{x}, weights), func(v *Node) []*Node {
		return r.gradients(r.kept(start, []*Node{x}, kept), []*Node{x}, each(start, ZerosLike), []*Node{v})
	})
}

// recurrence is a loop over time steps that has gradients of any order: its gradient is a
// recurrence in the other direction, over the states that the first one keeps.
type recurrence struct {
	length  int
	cell    func(state, xs []*Node) (next, ys []*Node)
	weights []*Node // which the cell reads besides
	reverse bool
	written bool // the cell and its gradient are in the graph already, and with them their constants
}

// run returns the states after all time steps, and what the cell gives at each. That is as
// large as room, if the cell is written already.
func (r recurrence) run(start, xs, room []*Node) (ends, ys []*Node) {
	if !r.written { // before the loop: see Scan
		first := func() ([]*Node, []*Node) {
			return each(start, ZerosLike), each(xs, func(x *Node) *Node { return Zeros(x.Graph(), shapes.Make(x.DType(), x.Shape().Dimensions[1:]...)) })
		}
		next, one := r.cell(first())
		room = each(one, func(y *Node) *Node {
			return Zeros(y.Graph(), shapes.Make(y.DType(), append([]int{r.length}, y.Shape().Dimensions...)...))
		})
		state, x := first()
		r.slopes(state, x, each(next, ZerosLike), each(one, ZerosLike), Gradient)
	}
	count, last := len(start), len(start)+len(room)
	state := timeSteps(r.length, slices.Concat(each(start, StopGradient), room, each(xs, StopGradient)), func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		next, ys := r.cell(s[:count:count], each(s[last:], at))
		for i, y := range ys {
			next = append(next, put(s[count+i], y))
		}
		return append(next, s[last:]...)
	}, r.reverse)
	return state[:count], state[count:last]
}

// kept are the states before each time step: those that were kept, or others with gradients.
func (r recurrence) kept(start, xs, kept []*Node) []*Node {
	if len(kept) == len(start) && !gradient.Again(xs[0].Graph()) {
		return kept
	}
	_, ys := r.differentiable(start, xs)
	return ys[len(ys)-len(start):]
}

// differentiable is run with gradients. After what the cell gives come the states before each
// time step.
func (r recurrence) differentiable(start, xs []*Node) (ends, ys []*Node) {
	cell := r.cell
	r.cell = func(state, xs []*Node) (next, ys []*Node) {
		next, ys = cell(state, xs)
		return next, append(ys, state...)
	}
	r.written = false
	ends, ys = r.run(start, xs, nil)
	count := len(ends)
	all := gradient.DefineAll(append(ends, ys...), slices.Concat(start, xs, r.weights), func(v []*Node) []*Node {
		return r.gradients(ys[len(ys)-len(start):], xs, v[:count], v[count:])
	})
	ends, ys = all[:count], all[count:] // ys in the closure has gradients, too
	return ends, ys
}

// gradients are those for the start, xs and weights, from those of the states at the end and
// of what the cell gives. kept are the states before each time step.
func (r recurrence) gradients(kept, xs, ends, ys []*Node) []*Node {
	states, inputs := len(ends), len(xs)
	start := append(slices.Clone(ends), each(r.weights, ZerosLike)...)
	again := gradient.Again(xs[0].Graph())
	back := recurrence{length: r.length, weights: r.weights, reverse: !r.reverse, written: r.written && !again, cell: func(state, all []*Node) (next, ys []*Node) {
		got := r.slopes(all[:states], all[states:states+inputs], state[:states], all[states+inputs:], Gradient)
		next = got[:states:states]
		for i, g := range got[states+inputs:] {
			next = append(next, Add(state[states+i], g))
		}
		return next, got[states : states+inputs]
	}}
	over := slices.Concat(kept, xs, ys)
	var end, got []*Node
	if again {
		end, got = back.differentiable(start, over)
	} else {
		end, got = back.run(start, over, each(xs, ZerosLike))
	}
	return slices.Concat(end[:states], got[:inputs], end[states:])
}

// slopes is the gradient for a cell's state, its inputs and weights, where next and ys are
// those of what it returns.
func (r recurrence) slopes(state, xs, next, ys []*Node, derive func(y *Node, wrt ...*Node) []*Node) []*Node {
	after, given := r.cell(state, xs)
	sum := ReduceAllSum(Mul(given[0], ys[0]))
	for i, y := range given[1:] {
		sum = Add(sum, ReduceAllSum(Mul(y, ys[1+i])))
	}
	for i, s := range after {
		sum = Add(sum, ReduceAllSum(Mul(s, next[i])))
	}
	return derive(sum, slices.Concat(state, xs, r.weights)...)
}

func each(l []*Node, of func(*Node) *Node) []*Node {
	all := make([]*Node, len(l))
	for i, x := range l {
		all[i] = of(x)
	}
	return all
}
