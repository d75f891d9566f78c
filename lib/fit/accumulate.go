package fit

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// accumulated is derive for a batch in parts, one after another: their gradients are added up
// in a loop, and the optimizer does one step. The sums of losses are derived, since the number
// to divide by is not known before the last part.
func (t *trace) accumulated(variables []*Node, b batch, s *Set, c plan.Part) stepResult {
	return t.addedUp(variables, b, s, c, t.net.layout.each(), func(now []*Node, p batch, by []*Node) stepResult {
		t.set(now)
		out := t.applyNet(t.net.model, p.in, true, nil)
		sum, weight, right, measured := t.results(s, out, p, nil)
		f := stepResult{mean: sum, weight: weight, right: right, measured: measured, variables: t.buffers(now)}
		hasGradient(sum, by)
		t.mark("loss/backward")
		f.gradients = gradient.Final(t.scaled(sum, variables), by...)
		return f
	})
}

// addedUp adds up what of makes of each part of a batch: its mean is the sum of losses, its
// gradients are those of some trained variables, whose values are the last argument.
func (t *trace) addedUp(variables []*Node, b batch, s *Set, c plan.Part, of []int, each func(now []*Node, p batch, by []*Node) stepResult) stepResult {
	n, l := t.net, &t.net.layout
	size := c.Share() / c.Accumulate
	var moved []int
	for i, v := range l.variables {
		if !v.trainable && !v.frozen {
			moved = append(moved, i)
		}
	}
	var trained []*Node
	for _, k := range of {
		trained = append(trained, variables[l.trained[k]])
	}
	part := func(i *Node) batch {
		from := MulScalar(i, float64(size))
		cut := func(x *Node) *Node {
			if x == nil {
				return nil
			}
			return window(from, size, ZerosLike(from))(x)
		}
		p := batch{in: models.Inputs{}, y: cut(b.y), v: cut(b.v)}
		for name, x := range b.in {
			p.in[name] = cut(x)
		}
		return p
	}
	// The state of the loop: sum, weight, right, gradients, moved variables, the trained ones,
	// which stay, and sums of metrics. GoMLX derives by nodes of the loop's body only.
	first, last := 3+len(trained), 3+2*len(trained)+len(moved)
	turn := func(i *Node, state []*Node) []*Node {
		now := append([]*Node{}, variables...)
		for k, v := range moved {
			now[v] = state[first+k]
		}
		by := state[first+len(moved) : last]
		for k, v := range of {
			now[l.trained[v]] = by[k]
		}
		f := each(now, part(i), by)
		next := []*Node{Add(state[0], f.mean), Add(state[1], f.weight), Add(state[2], f.right)}
		for k, g := range f.gradients {
			next = append(next, Add(state[3+k], g))
		}
		for _, v := range moved {
			next = append(next, f.variables[v])
		}
		if next = append(next, by...); f.measured != nil {
			next = append(next, Add(state[last], f.measured))
		}
		return next
	}
	state := []*Node{t.scalar(float32(0)), t.scalar(float32(0)), t.scalar(float32(0))}
	for _, x := range trained {
		state = append(state, ZerosLike(x))
	}
	for _, v := range moved {
		state = append(state, variables[v])
	}
	state = append(state, trained...)
	if sums := n.measured(s).size(); sums > 0 {
		state = append(state, Zeros(t.g, shapes.Make(dtypes.Float32, sums)))
	}
	// The first part is not in the loop: GoMLX has each constant once in a graph, and one that
	// is made in a loop cannot be used after it.
	zero, one, limit := t.scalar(int32(0)), t.scalar(int32(1)), t.scalar(int32(c.Accumulate))
	state = turn(zero, state)
	if plan.Unlooped(n.target, n.convolves) {
		for i := 1; i < c.Accumulate; i++ {
			state = turn(t.scalar(int32(i)), state)
		}
	} else {
		state = t.while(one, one, limit, state, turn)
	}
	f := stepResult{weight: state[1], right: state[2], variables: append([]*Node{}, variables...)}
	if c.Split {
		f.weight = t.allReduce(f.weight)
	}
	f.mean = t.mean(state[0], f.weight)
	divisor := Where(Equal(f.weight, ZerosLike(f.weight)), OnesLike(f.weight), f.weight)
	for k := range trained {
		f.gradients = append(f.gradients, Div(state[3+k], divisor))
	}
	for k, v := range moved {
		f.variables[v] = state[first+k]
	}
	if len(state) > last {
		f.measured = state[last]
	}
	f.joined = make([]bool, len(trained))
	t.set(f.variables)
	if n.target.CPU() {
		f.gradients = OptimizationBarriers(f.gradients...) // as in derive
	}
	return f
}
