package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
)

// matmuls are x·w for some w. Where lower.JoinsGradients says so, their gradients are one matmul
// for x and one for the weights: of all gradients, next to each other.
func (l Lowering) matmuls(x *Node, ws []*Node) (all []*Node) {
	bytes := 0
	for _, w := range ws {
		bytes = max(bytes, x.Shape().Dimensions[0]*w.Shape().Dimensions[1]*x.DType().Size())
	}
	if len(ws) < 2 || !lower.JoinsGradients(l.Target, bytes) {
		for _, w := range ws {
			all = append(all, l.matmul(x, w))
		}
		return all
	}
	j := &joint{l: l, vs: make([]*Node, len(ws))}
	// GoMLX comes to nodes in the reverse of their order: to x and the weights after the matmuls.
	for i, w := range ws {
		j.ws = append(j.ws, IdentityWithCustomGradient(w, func(_, v *Node) *Node {
			if j.compute(); j.dws == nil {
				return v
			}
			return Add(v, j.dws[i]) // v is of a gradient that is in the loss
		}))
	}
	j.x = IdentityWithCustomGradient(x, func(_, v *Node) *Node {
		if j.compute(); j.dx == nil {
			return v
		}
		return Add(v, j.dx)
	})
	for i, w := range j.ws {
		all = append(all, gradient.Define(MatMul(StopGradient(j.x), StopGradient(w)), []*Node{j.x, w}, func(v *Node) []*Node { return j.take(i, v) }))
	}
	return all
}

// joint is the gradients of some matmuls.
type joint struct {
	l    Lowering
	x    *Node
	ws   []*Node
	pass int     // that the rest is of
	vs   []*Node // gradients of the matmuls; nil: it does not count
	dx   *Node   // nil until the gradients are computed
	dws  []*Node // the same
}

// take is given the gradient of a matmul, and returns those of x and its weights, or nil while
// others are to come.
func (j *joint) take(i int, v *Node) []*Node {
	if pass := gradient.Pass(v.Graph()); pass != j.pass || j.dx != nil || gradient.Again(v.Graph()) {
		j.pass, j.vs, j.dx, j.dws = pass, make([]*Node, len(j.ws)), nil, nil
	}
	if gradient.Again(v.Graph()) {
		return []*Node{DotGeneral(v, []int{1}, nil, j.ws[i], []int{1}, nil), j.l.weightsOf(j.x, v)}
	}
	j.vs[i] = v
	return []*Node{nil, nil}
}

// compute makes the gradients, if they are to be and are not there yet.
func (j *joint) compute() {
	var vs, ws []*Node
	for i, v := range j.vs {
		if v != nil {
			vs, ws = append(vs, v), append(ws, StopGradient(j.ws[i]))
		}
	}
	if len(vs) == 0 || j.dx != nil || j.pass != gradient.Pass(j.x.Graph()) {
		return
	}
	x, v := StopGradient(j.x), alone(Concatenate(vs, 1)) // else XLA puts them next to each other for each matmul
	j.dx, j.dws = DotGeneral(v, []int{1}, nil, Concatenate(ws, 1), []int{1}, nil), make([]*Node, len(j.ws))
	all, at := j.l.weightsOf(x, v), 0
	for i, v := range j.vs {
		if v != nil {
			units := v.Shape().Dimensions[1]
			j.dws[i] = Slice(all, AxisRange(), AxisRange(at, at+units))
			at += units
		}
	}
}
