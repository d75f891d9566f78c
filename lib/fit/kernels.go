package fit

import (
	"errors"
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

// refuses says whether err is that of a device that cannot do a program, and not of
// one that has something else to do.
func refuses(err error) bool {
	return errors.Is(err, wire.CompileError) || errors.Is(err, wire.Unsupported)
}

// without continues with XLA's kernels where the device does not take those of package
// fused: an LSTM's of 65 to 128 units want 136 KiB of shared memory, which the GPUs of
// data centers have, and others do not. Later runs know it once ready has found that
// XLA's are taken: else the error is not the kernels'.
func (r *run) without(why error, ready func() error) error {
	n := r.net
	var batches []int
	for _, p := range []*portion{&r.main, &r.odd, &r.tail, &r.final, &r.cut} {
		if p.Kernels == nil {
			continue
		}
		batches = append(batches, p.Batch)
		p.Part, p.steps = p.WithoutKernels(r.plan.Settings), nil
	}
	if err := ready(); err != nil {
		return err
	}
	r.note(fmt.Sprintf("with XLA's kernels, as this device does not take Gaiden's for %s: %v", n.model.Name, why))
	n.refused(why, batches...) // if it cannot be saved the next process asks the device again
	return nil
}

// refused notes that the device does not take the kernels of steps of such batches.
func (n *Net) refused(why error, batches ...int) error {
	table := n.tilings()
	for _, batch := range batches {
		table.Set(n.stepKey(batch), tiling.Entry{Refused: why.Error()})
	}
	return table.Save()
}

// source is where a chunk's batches come from, and the number of its first step.
// Single programs get the number of steps done before each run; here it is
// counted from the chunk's beginning.
func (t *trace) source(c plan.Part, sources []*Node, order, place, step, begin *Node) (s fused.Source, at *Node) {
	at = begin
	if c.Unroll > 1 {
		at = Mul(at, t.scalar(int32(c.Unroll)))
	}
	if c.Form.Single() {
		step = Sub(step, at)
	}
	y := sources[1]
	if y.DType() == dtypes.Float32 {
		y = Reshape(y, y.Shape().Dimensions[0], y.Shape().Size()/y.Shape().Dimensions[0])
	}
	return fused.Source{X: sources[0], Y: y, Order: order, Place: place, Step: step, Batch: c.Batch}, at
}

// fused is a turn of an epoch's loop with kernels. The state is variables, moments, results and the number of the next step.
func (e *epochWriter) fused(state []*Node) []*Node {
	t, n, s, moments := e.t, e.t.net, e.source, len(e.held)-e.variables
	o := t.ops()
	t.w.options.RecurrentKernels = true
	if n.config.BF16 {
		o.Compute = dtypes.BFloat16
	}
	variables := len(state) - moments - 2
	t.mark("data/gather")
	for _, b := range o.Take(s, state[variables+moments+1], e.part.Unroll) {
		v, m := state[:variables:variables], state[variables:variables+moments]
		journal := &fused.Journal{Rows: state[variables+moments], At: state[variables+moments+1]}
		t.set(v)
		step := fused.Step{Ops: o, Rule: optim.RuleOf(n.config.Optimizer), Rate: e.rate, T: b.Number, Journal: journal, Mark: t.mark,
			X: Reshape(b.X, append([]int{s.Batch}, n.model.Input...)...)}
		e.loss(&step, b.Y)
		v, m = t.follow(e.part.Kernels.Layers, step, v, m)
		state = append(append(v, m...), journal.Rows, journal.At)
	}
	return state
}

// loss gives a step with kernels the loss of its net, for targets as [fused.Source.Take] has them.
func (e *epochWriter) loss(step *fused.Step, y *Node) {
	t, l := e.t, e.t.net.lossOf(e.set)
	if c, is := l.(losses.CrossEntropy); is && c.Plain() {
		step.Labels = y
		return
	}
	a := e.set.arrays[1]
	b := batch{y: Reshape(y, append([]int{e.part.Batch}, t.net.dimsOf(a, e.set)...)...)}
	step.Loss = func(out *Node) (loss, hit *Node) {
		loss, _, hit = t.classified(l, out, b)
		return loss, t.hits(out, b, hit)
	}
}

// ops are the fused operations of the program.
func (t *trace) ops() fused.Ops {
	if t.net.config.Kernels == plainOps {
		return fused.Ops{}
	}
	return fused.Ops{Builder: t.w.HLO, Choose: t.net.tilings().Choose}
}

// follow is a step as layers write it: variables and moments after it.
func (t *trace) follow(layers *fused.Plan, step fused.Step, variables, moments []*Node) (v, m []*Node) {
	n, each := t.net, step.Rule.Moments()
	states := map[string][]*Node{}
	for k, i := range n.layout.trained {
		states[n.layout.variables[i].name] = append([]*Node{variables[i]}, moments[k*each:(k+1)*each]...)
	}
	t.store.SetTraining(t.g, true)
	step.State = func(name string) []*Node { return states[name] }
	step.Plain = func(i int, x *Node) (y *Node, names []string, weights []*Node) {
		name := n.model.Names()[i]
		for k, v := range n.layout.variables {
			if v.trainable && strings.HasPrefix(v.name, name+"/") {
				names, weights = append(names, v.name), append(weights, variables[k])
			}
		}
		return n.model.Layer(i, name, t.store.RootScope(), x, nil), names, weights
	}
	next := layers.Train(step)
	v = t.buffers(variables)
	for _, i := range n.layout.trained {
		state := next[n.layout.variables[i].name]
		v[i], m = state[0], append(m, state[1:]...)
	}
	return v, m
}
