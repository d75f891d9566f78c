package fit

import (
	"slices"

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

// partSums is the state of the loop over the parts of a batch.
type partSums struct {
	sum, weight, right *Node
	gradients          []*Node
	moved              []*Node // variables that have no gradients and change, such as means of batch norms
	trained            []*Node // those that stay: GoMLX derives by nodes of the loop's body only
	measured           []*Node // sums of metrics; empty: there are none
}

func (s partSums) nodes() []*Node {
	return slices.Concat([]*Node{s.sum, s.weight, s.right}, s.gradients, s.moved, s.trained, s.measured)
}

// with are sums of the same form, of other nodes.
func (s partSums) with(l []*Node) partSums {
	next := func(n int) (part []*Node) {
		part, l = l[:n:n], l[n:]
		return part
	}
	first := next(3)
	return partSums{first[0], first[1], first[2], next(len(s.gradients)), next(len(s.moved)), next(len(s.trained)), l}
}

// plus adds what a part has given; moved are the numbers of its variables of that kind.
func (s partSums) plus(f stepResult, moved []int) partSums {
	s.sum, s.weight, s.right = Add(s.sum, f.mean), Add(s.weight, f.weight), Add(s.right, f.right)
	s.gradients, s.moved, s.measured = slices.Clone(s.gradients), slices.Clone(s.moved), slices.Clone(s.measured)
	for k, g := range f.gradients {
		s.gradients[k] = Add(s.gradients[k], g)
	}
	for k, v := range moved {
		s.moved[k] = f.variables[v]
	}
	if f.measured != nil {
		s.measured[0] = Add(s.measured[0], f.measured)
	}
	return s
}

// part is a part of so many examples, number i.
func (b batch) part(i *Node, size int) batch {
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

// addedUp adds up what each makes of each part of a batch: its mean is the sum of losses, its
// gradients are those of some trained variables, whose values are the last argument.
func (t *trace) addedUp(variables []*Node, b batch, s *Set, c plan.Part, of []int, each func(now []*Node, p batch, by []*Node) stepResult) stepResult {
	n, l := t.net, &t.net.layout
	var moved []int
	for i, v := range l.variables {
		if !v.trainable && !v.frozen {
			moved = append(moved, i)
		}
	}
	begin := partSums{sum: t.scalar(float32(0)), weight: t.scalar(float32(0)), right: t.scalar(float32(0))}
	for _, k := range of {
		x := variables[l.trained[k]]
		begin.trained, begin.gradients = append(begin.trained, x), append(begin.gradients, ZerosLike(x))
	}
	for _, v := range moved {
		begin.moved = append(begin.moved, variables[v])
	}
	if sums := n.measured(s).size(); sums > 0 {
		begin.measured = []*Node{Zeros(t.g, shapes.Make(dtypes.Float32, sums))}
	}
	turn := func(i *Node, state []*Node) []*Node {
		sums, now := begin.with(state), slices.Clone(variables)
		for k, v := range moved {
			now[v] = sums.moved[k]
		}
		for k, v := range of {
			now[l.trained[v]] = sums.trained[k]
		}
		return sums.plus(each(now, b.part(i, c.Share()/c.Accumulate), sums.trained), moved).nodes()
	}
	// The first part is not in the loop: GoMLX has each constant once in a graph, and one that
	// is made in a loop cannot be used after it.
	zero, one, limit := t.scalar(int32(0)), t.scalar(int32(1)), t.scalar(int32(c.Accumulate))
	state := turn(zero, begin.nodes())
	if plan.Unlooped(n.target, n.convolves) {
		for i := 1; i < c.Accumulate; i++ {
			state = turn(t.scalar(int32(i)), state)
		}
	} else {
		state = t.while(one, one, limit, state, turn)
	}
	sums := begin.with(state)
	f := stepResult{weight: sums.weight, right: sums.right, variables: slices.Clone(variables), joined: make([]bool, len(of))}
	if c.Split {
		f.weight = t.allReduce(f.weight)
	}
	f.mean = t.mean(sums.sum, f.weight)
	divisor := Where(Equal(f.weight, ZerosLike(f.weight)), OnesLike(f.weight), f.weight)
	for _, g := range sums.gradients {
		f.gradients = append(f.gradients, Div(g, divisor))
	}
	for k, v := range moved {
		f.variables[v] = sums.moved[k]
	}
	if len(sums.measured) > 0 {
		f.measured = sums.measured[0]
	}
	t.set(f.variables)
	if n.target.CPU() {
		f.gradients = OptimizationBarriers(f.gradients...) // as in derive
	}
	return f
}
