package fit

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// A packed state is a few vectors in place of a net's many arrays: all that is
// trained, each kind of moment, the running means, and the rest as it is. To
// run a program costs the host about 2 µs for each array that goes in and comes
// out of it, and one launch for each weight that is updated: half of the time
// of a step of ResNet152, whose 1,240 arrays are 6 when they are packed.
//
// Packed programs work in place: there is no second copy of the state to go back
// to. A step that would leave a weight that is not finite leaves the state as it
// was, and so do all after it. The net's names follow every half second, at an
// epoch's test and at the end of a run.

// packed is the state in the order in which packed programs take it.
func (n *Net) packed() []slot {
	l := []slot{{name: "packed/trained", shape: shapes.Make(dtypes.Float32, n.layout.sizeOf(n.layout.trained))}}
	_, moments := n.config.Optimizer.Title()
	for _, m := range moments {
		l = append(l, slot{name: "packed/" + m, shape: l[0].shape})
	}
	means, others := n.layout.untrained()
	if len(means) > 0 {
		l = append(l, slot{name: "packed/means", shape: shapes.Make(dtypes.Float32, n.layout.sizeOf(means))})
	}
	for _, i := range others {
		l = append(l, n.layout.variables[i])
	}
	return append(l, slot{name: "packed/halted", shape: shapes.Make(dtypes.Float32)}, n.layout.step)
}

// sizeOf is how many numbers some variables have.
func (l *layout) sizeOf(variables []int) int {
	size := 0
	for _, i := range variables {
		size += l.variables[i].shape.Size()
	}
	return size
}

// untrained are the variables that are float32, the means of batch norm, and
// the others, the state of random numbers.
func (l *layout) untrained() (means, others []int) {
	for i, v := range l.variables {
		switch {
		case v.trainable:
		case v.shape.DType == dtypes.Float32:
			means = append(means, i)
		default:
			others = append(others, i)
		}
	}
	return means, others
}

// slots is the state as the programs of a chunk take it.
func (n *Net) slots(c chunk) []slot {
	if c.Packed {
		return n.packed()
	}
	return n.layout.all()
}

// heavy is the number of arrays from which a state is packed.
const heavy = 100

// packs says whether a run packs the state: where steps are heavy, arrays many,
// and an optimizer is known to treat all elements alike.
func (n *Net) packs(r *run) bool {
	if n.packing {
		return true
	}
	if n.platform == "cpu" || r.work < light || r.main.Fused > 0 || len(n.layout.all()) < heavy || ruleOf(n.config.Optimizer) == nil ||
		n.config.Loop == LoopedSteps || len(n.carried()) > 0 {
		return false
	}
	for _, i := range n.layout.trained {
		if n.layout.variables[i].shape.DType != dtypes.Float32 {
			return false
		}
	}
	return true
}

// vector is arrays one after another.
func vector(l []*Node) *Node {
	flat := make([]*Node, len(l))
	for i, x := range l {
		flat[i] = Reshape(x, x.Shape().Size())
	}
	return Concatenate(flat, 0)
}

// pieces takes variables, or what has their shapes, out of a vector.
func (t *trace) pieces(v *Node, variables []int, out []*Node) {
	at := 0
	for _, i := range variables {
		s := t.net.layout.variables[i].shape
		out[i] = Reshape(Slice(v, AxisRange(at, at+s.Size())), s.Dimensions...)
		at += s.Size()
	}
}

// unpack takes the variables out of a packed state.
func (t *trace) unpack(state []*Node) []*Node {
	variables := make([]*Node, len(t.net.layout.variables))
	var paths []string
	for _, v := range t.net.layout.variables {
		paths = append(paths, v.path)
	}
	t.w.builder.Absent(paths...) // what the net takes is in the vectors
	_, moments := t.net.config.Optimizer.Title()
	means, others := t.net.layout.untrained()
	t.pieces(state[0], t.net.layout.trained, variables)
	at := 1 + len(moments)
	if len(means) > 0 {
		t.pieces(state[at], means, variables)
		at++
	}
	for k, i := range others {
		variables[i] = state[at+k]
	}
	return variables
}

// trainPacked is train for a packed state, without the step's number. All that
// the optimizer does is one operation on vectors. The last of the state, halted,
// is 1 when the step was not taken.
func (t *trace) trainPacked(state []*Node, b batch, rate, number *Node, l Loss, c chunk) (next []*Node, row *Node) {
	n := t.net
	means, others := n.layout.untrained()
	f := t.derive(t.unpack(state), b, l, c)
	took := make([]*Node, len(means))
	for k, i := range means {
		took[k] = f.variables[i]
	}
	var gradient, now *Node
	if c.Split {
		t.mark("devices/all_reduce")
		sum := t.allReduce(vector(append(append(append([]*Node{}, f.gradients...), took...), f.mean, f.right)))
		size, rest := n.layout.sizeOf(n.layout.trained), n.layout.sizeOf(means)
		at := func(from, to int) *Node { return Slice(sum, AxisRange(from, to)) }
		gradient, f.mean, f.right = at(0, size), Reshape(at(size+rest, size+rest+1)), Reshape(at(size+rest+1, size+rest+2))
		if rest > 0 {
			now = DivScalar(at(size, size+rest), float64(c.Devices))
		}
	} else {
		t.mark("fit/pack")
		gradient = vector(f.gradients)
		if len(took) > 0 {
			now = vector(took)
		}
	}
	title, moments := n.config.Optimizer.Title()
	t.mark(title + "/update")
	w, m := n.config.Optimizer.Update(rate, number, state[0], gradient, state[1:1+len(moments)])
	next = append([]*Node{w}, m...)
	if now != nil {
		next = append(next, now)
	}
	for _, i := range others {
		next = append(next, f.variables[i])
	}
	last := len(state) - 1
	halted := Max(state[last], Max(t.infinite(w), t.infinite(f.mean)))
	going := Equal(halted, t.scalar(float32(0)))
	for k, x := range next {
		next[k] = Where(BroadcastToShape(going, shapes.Make(dtypes.Bool, x.Shape().Dimensions...)), x, state[k])
	}
	return append(next, halted), f.row()
}

// infinite is 1 if some of the numbers are not finite, else 0.
func (t *trace) infinite(x *Node) *Node {
	return ReduceAllMax(ConvertDType(LogicalNot(IsFinite(x)), dtypes.Float32))
}

// packProgram packs the net's state.
func (n *Net) packProgram() (*hlo.Program, error) {
	return n.trace("pack", func(t *trace) []*Node {
		all := t.slots(n.layout.all())
		of := func(variables []int) []*Node {
			var l []*Node
			for _, i := range variables {
				l = append(l, all[i])
			}
			return l
		}
		out := []*Node{vector(of(n.layout.trained))}
		_, moments := n.config.Optimizer.Title()
		for k := range moments {
			var l []*Node
			for i := range n.layout.trained {
				l = append(l, all[len(n.layout.variables)+i*len(moments)+k])
			}
			out = append(out, vector(l))
		}
		means, others := n.layout.untrained()
		if len(means) > 0 {
			out = append(out, vector(of(means)))
		}
		return append(append(out, of(others)...), t.scalar(float32(0)), all[len(all)-1])
	})
}

// unpackProgram is the way back.
func (n *Net) unpackProgram() (*hlo.Program, error) {
	return n.trace("unpack", func(t *trace) []*Node {
		state := t.slots(n.packed())
		out := t.unpack(state)
		_, titles := n.config.Optimizer.Title()
		moments := make([][]*Node, len(titles))
		for k := range moments {
			moments[k] = make([]*Node, len(n.layout.variables))
			t.pieces(state[1+k], n.layout.trained, moments[k])
		}
		for _, i := range n.layout.trained {
			for _, m := range moments {
				out = append(out, m[i])
			}
		}
		return append(out, state[len(state)-1])
	})
}

// pack makes the portions of a run packed ones. A program is run for each of
// their steps.
func (r *run) pack() {
	for _, p := range []*portion{&r.main, &r.odd, &r.tail} {
		p.Packed, p.Fresh = true, false
		p.Single = p.Single || r.net.platform != "cpu"
	}
	r.net.prepare("pack", r.net.packProgram, nil)
	r.net.prepare("unpack", r.net.unpackProgram, nil)
}

// spread packs the state, if it is to be, and copies it to the other devices.
func (r *run) spread() error {
	n := r.net
	if r.main.Packed {
		p, err := n.wait(r.ctx, "pack", n.prepare("pack", n.packProgram, nil), func() { r.tell("compile") })
		if err != nil {
			return err
		}
		packed, err := run1(p, r.state)
		if err != nil {
			return err
		}
		r.state.free()
		r.state = packed
	}
	all, err := n.replicate(r.state[0], r.devices)
	if err != nil {
		return err
	}
	r.state = all
	return r.apart()
}

// apart gives devices that share batches random numbers of their own.
func (r *run) apart() error {
	n, at := r.net, slices.IndexFunc(r.net.slots(r.main.chunk), func(s slot) bool { return s.path == rng })
	if r.devices == 1 || at < 0 {
		return nil
	}
	key := fmt.Sprintf("apart/%d", r.devices)
	p, err := n.wait(r.ctx, key, n.prepare(key, func() (*hlo.Program, error) { return n.apartProgram(r.devices) }, nil), func() { r.tell("compile") })
	if err != nil {
		return err
	}
	replicas := make(copies, r.devices)
	for d := range replicas {
		if replicas[d], err = n.integers(d, d); err != nil {
			return err
		}
	}
	defer replicas.free()
	own, err := run1(p, r.state.cut(at, at+1), replicas)
	if err != nil {
		return err
	}
	for d := 1; d < r.devices; d++ { // that of device 0 is as it was
		r.state[d][at].Finalize()
		r.state[d][at] = own[d][0]
	}
	free(own[0]...)
	return nil
}

// unpacked is the net's state of device 0, as the net's names want it. A run that
// was stopped needs it, too.
func (r *run) unpacked() ([]*session.Array, error) {
	n, ctx := r.net, context.WithoutCancel(r.ctx)
	p, err := n.wait(ctx, "unpack", n.prepare("unpack", n.unpackProgram, nil), func() { r.tell("compile") })
	if err != nil {
		return nil, err
	}
	out, err := run1(p, r.state[:1])
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// naming is between two times that a packed state is given its names, which takes
// milliseconds.
const naming = 500 * time.Millisecond

// name gives the state of a packed run its names.
func (r *run) name() error {
	if r.named {
		return nil
	}
	arrays, err := r.unpacked()
	if err != nil {
		return err
	}
	r.named, r.last = true, time.Now()
	defer free(arrays...)
	if err := arrays[len(arrays)-1].Values(make([]int32, 1)); err != nil { // names are for arrays that are there
		return err
	}
	return r.net.bind(r.net.layout.all(), arrays)
}
