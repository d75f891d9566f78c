package fit

import (
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

// A packed state has one vector in place of a net's many small arrays of each kind: weights,
// moments, running means. Each array that goes into a program or comes out of it costs the
// host time, and each weight that is updated a kernel launch.
//
// Packed programs work in place: there is no second copy of the state to go back to. A step
// whose loss or gradients are not finite, or so large that weights might not be after it, leaves
// the state as it was, and so do all after it. Of an optimizer that is not [optim.Bounded] the
// weights are checked too, before one is written. The state is bound to
// the net's names now and then, at an epoch's test and at the end of a run. It is unpacked for
// that right after the chunk is requested, while the devices work on the chunk, since that takes
// the host milliseconds.

// Where a net computes in 16 bits, each matrix is there in them, too: the update writes both,
// and the next step reads these only.

// packed is the state in the order in which packed programs take it: the parts
// of what is trained, those of each moment, means, others, matrices in 16 bits, whether the run
// has halted, and the step.
func (n *Net) packed() []slot {
	var l []slot
	_, moments := optim.Title(n.config.Optimizer)
	for _, kind := range append([]string{"trained"}, moments...) {
		for k, part := range n.layout.parts() {
			l = append(l, slot{name: fmt.Sprintf("packed/%s/%d", kind, k), shape: n.layout.shapeOf(part)})
		}
	}
	means, others := n.layout.untrained()
	if len(means) > 0 {
		l = append(l, slot{name: "packed/means", shape: n.layout.shapeOf(means)})
	}
	for _, i := range others {
		l = append(l, n.layout.variables[i])
	}
	for _, k := range n.narrowParts() {
		l = append(l, slot{name: fmt.Sprintf("packed/narrow/%d", k), shape: shapes.Make(n.config.float(), n.layout.shapeOf(n.layout.parts()[k]).Dimensions...)})
	}
	return append(l, slot{name: "packed/halted", shape: shapes.Make(dtypes.Float32)}, n.layout.step)
}

// narrowParts are the parts that a packed state has in 16 bits, too.
func (n *Net) narrowParts() (l []int) {
	if !n.config.narrows() {
		return nil
	}
	for k, part := range n.layout.parts() {
		if len(part) == 1 && n.layout.variables[part[0]].shape.Rank() > 1 {
			l = append(l, k)
		}
	}
	return l
}

// slots is the state as the programs of a chunk take it.
func (n *Net) slots(c plan.Part) []slot {
	if c.Packed {
		return n.packed()
	}
	return n.layout.all()
}

// vector is arrays one after another.
func vector(l []*Node) *Node {
	flat := make([]*Node, len(l))
	for i, x := range l {
		flat[i] = Reshape(x, x.Shape().Size())
	}
	return Concatenate(flat, 0)
}

// pack makes one array of those that belong to the variables of a part.
func pack(part []int, of func(variable int) *Node) *Node {
	if len(part) == 1 {
		return of(part[0])
	}
	l := make([]*Node, len(part))
	for k, i := range part {
		l[k] = of(i)
	}
	return vector(l)
}

// unpackPart takes what belongs to the variables of a part out of it.
func (t *trace) unpackPart(x *Node, part []int, out []*Node) {
	if len(part) == 1 {
		out[part[0]] = x
		return
	}
	at := 0
	for _, i := range part {
		s := t.net.layout.variables[i].shape
		out[i] = Reshape(Slice(x, AxisRange(at, at+s.Size())), s.Dimensions...)
		at += s.Size()
	}
}

// unpack takes the variables out of a packed state.
func (t *trace) unpack(state []*Node) []*Node {
	l := &t.net.layout
	variables := make([]*Node, len(l.variables))
	var paths []string
	for _, v := range l.variables {
		paths = append(paths, v.path)
	}
	t.w.HLO.Absent(paths...) // what the net takes is in the state
	parts := l.parts()
	for k, part := range parts {
		t.unpackPart(state[k], part, variables)
	}
	_, moments := optim.Title(t.net.config.Optimizer)
	at := len(parts) * (1 + len(moments))
	means, others := l.untrained()
	if len(means) > 0 {
		t.unpackPart(state[at], means, variables)
		at++
	}
	for k, i := range others {
		variables[i] = state[at+k]
	}
	return variables
}

// trainPacked is train for a packed state, without the step's number. The last
// of the state, halted, is 1 when the step was not taken.
func (t *trace) trainPacked(state []*Node, b batch, rate, number *Node, s *Set, c plan.Part) (next []*Node, row *Node) {
	n := t.net
	parts := n.layout.parts()
	means, others := n.layout.untrained()
	known, narrow := slices.Clone(state), n.narrowParts()
	for i, k := range narrow {
		known[k] = t.converted(state[k], state[len(state)-1-len(narrow)+i])
	}
	f := t.derive(t.unpack(known), b, s, c)
	gradient := make([]*Node, len(f.variables))
	for k, i := range n.layout.trained {
		gradient[i] = f.gradients[k]
	}
	t.mark("fit/pack")
	var gradients []*Node
	for _, part := range parts {
		gradients = append(gradients, pack(part, func(i int) *Node { return gradient[i] }))
	}
	var now []*Node // the means, packed
	if len(means) > 0 {
		now = []*Node{pack(means, func(i int) *Node { return f.variables[i] })}
	}
	sums := slices.Clone(gradients) // all gradients, and more if devices have added them up
	if c.Split {
		joined := make([]bool, len(parts))
		for p, part := range parts {
			joined[p] = f.joined[slices.Index(n.layout.trained, part[0])] // vectors never are
		}
		all := append(append(gradients, now...), f.shared()...)
		sums = t.allReduceFlat(all, joined, f.sums)
		gradients = all[:len(parts)]
		f.setShared(all[len(all)-len(f.shared()):])
		if now != nil {
			now[0] = DivScalar(all[len(parts)], float64(c.Devices))
		}
	}
	title, moments := optim.Title(n.config.Optimizer)
	t.mark(title + "/update")
	gradients = optim.ClipGradients(n.config.Optimizer, gradients)
	next = make([]*Node, len(parts)*(1+len(moments)))
	halted := Max(Max(state[len(state)-1], t.anyNotFinite(f.mean)), t.tooLarge(sums, rate))
	bounded := optim.Bounded(n.config.Optimizer)
	var lost []*Node // weights that the optimizer makes infinite, of finite gradients
	for k := range parts {
		var m []*Node
		for i := range moments {
			m = append(m, state[(1+i)*len(parts)+k])
		}
		next[k], m = optim.Update(n.config.Optimizer, rate, number, state[k], gradients[k], m)
		for i := range moments {
			next[(1+i)*len(parts)+k] = m[i]
		}
		if !bounded {
			lost = append(lost, someOf(LogicalNot(IsFinite(next[k]))))
		}
	}
	if !bounded {
		halted = Max(halted, ReduceAllMax(Concatenate(lost, 0)))
	}
	next = append(next, now...)
	for _, i := range others {
		next = append(next, f.variables[i])
	}
	going := Equal(halted, ZerosLike(halted))
	for k, x := range next {
		next[k] = Where(BroadcastToShape(going, shapes.Make(dtypes.Bool, x.Shape().Dimensions...)), x, state[k])
	}
	for _, k := range narrow {
		next = append(next, ConvertDType(next[k], n.config.float()))
	}
	return append(next, halted), f.row()
}

// converted is x, of which narrow is known to be the same in the type that the net computes in.
func (t *trace) converted(x, narrow *Node) *Node {
	t.w.HLO.ReplaceNext(func(f *hlo.Function, operands []compute.Value) ([]compute.Value, error) {
		return operands[:1], f.Converted(operands[0], operands[1])
	})
	return OptimizationBarriers(x, narrow)[0]
}

// tooLarge is 1 where gradients are not finite, or so large that the steps of this rate
// might not be, else 0. It reads gradients, and not weights after their step: those would have
// to be written before it is known whether they count.
func (t *trace) tooLarge(gradients []*Node, rate *Node) *Node {
	limit := Scalar(t.g, dtypes.Float32, 1e30) // float32 ends at 3e38; steps may be the sum of many
	all := []*Node{someOf(LogicalNot(LessThan(Abs(rate), limit)))}
	limit = Div(limit, MaxScalar(Abs(rate), 1))
	byShape := map[string][]*Node{}
	for _, g := range gradients {
		shape := g.Shape().String()
		byShape[shape] = append(byShape[shape], LogicalNot(LessThan(Abs(g), BroadcastToDims(limit, g.Shape().Dimensions...))))
	}
	for _, shape := range slices.Sorted(maps.Keys(byShape)) {
		for group := range slices.Chunk(byShape[shape], checkedTogether) {
			large := group[0]
			for _, other := range group[1:] {
				large = LogicalOr(large, other)
			}
			all = append(all, someOf(large))
		}
	}
	return ReduceAllMax(Concatenate(all, 0))
}

// checkedTogether is how many gradients of one shape a kernel checks, which then has so many
// inputs: one for each gradient would cost a GPU more time to launch than to read them.
const checkedTogether = 16

// someOf are numbers of which one is 1 where some of x are true; else all are 0. There are as
// many as XLA's first kernel of a reduction makes, which saves the second one for each array.
func someOf(x *Node) *Node {
	const parts = 512
	x = ConvertDType(x, dtypes.Float32)
	if n := x.Shape().Size(); n%parts == 0 && n > 16*parts {
		return ReduceMax(Reshape(x, parts, n/parts), 1)
	}
	return Reshape(ReduceAllMax(x), 1)
}

// anyNotFinite is 1 if some of the numbers are not finite, else 0. On a CPU a sum is several
// times as fast as the maximum of what IsFinite says of each. It is one of zeros, and of NaN for
// numbers that are not finite; they are differences, since XLA's CPU compiler makes an array of
// zeros for a product with 0.
func (t *trace) anyNotFinite(x *Node) *Node {
	return ConvertDType(LogicalNot(IsFinite(ReduceAllSum(Sub(x, x)))), dtypes.Float32)
}

// packProgram packs the net's state.
func (n *Net) packProgram() (*hlo.Program, error) {
	return n.trace("pack", func(t *trace) []*Node {
		all := t.slots(n.layout.all())
		_, titles := optim.Title(n.config.Optimizer)
		place := map[int]int{} // of a variable's moments
		for k, i := range n.layout.trained {
			place[i] = len(n.layout.variables) + k*len(titles)
		}
		variable := func(i int) *Node { return all[i] }
		var out []*Node
		for _, part := range n.layout.parts() {
			out = append(out, pack(part, variable))
		}
		for k := range titles {
			for _, part := range n.layout.parts() {
				out = append(out, pack(part, func(i int) *Node { return all[place[i]+k] }))
			}
		}
		means, others := n.layout.untrained()
		if len(means) > 0 {
			out = append(out, pack(means, variable))
		}
		for _, i := range others {
			out = append(out, all[i])
		}
		for _, k := range n.narrowParts() {
			out = append(out, ConvertDType(out[k], n.config.float()))
		}
		return append(out, t.scalar(float32(0)), all[len(all)-1])
	})
}

// unpackProgram unpacks it.
func (n *Net) unpackProgram() (*hlo.Program, error) {
	return n.trace("unpack", func(t *trace) []*Node {
		state := t.slots(n.packed())
		out := t.unpack(state)
		parts := n.layout.parts()
		_, titles := optim.Title(n.config.Optimizer)
		moments := make([][]*Node, len(titles))
		for k := range moments {
			moments[k] = make([]*Node, len(n.layout.variables))
			for i, part := range parts {
				t.unpackPart(state[(1+k)*len(parts)+i], part, moments[k])
			}
		}
		for _, i := range n.layout.trained {
			for _, m := range moments {
				out = append(out, m[i])
			}
		}
		return append(out, state[len(state)-1])
	})
}
