package fit

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

// stepResult is the result of a step's batch: the mean loss, the number it
// was divided by, right answers, gradients of what is trained, and all variables
// as the forward pass has left them. Gradients may be joined: then they are those of all
// devices, and sums are what they were taken out of.
type stepResult struct {
	mean, weight, right  *Node
	measured             *Node // sums of metrics, or nil
	gradients, variables []*Node
	numbers              []*Node // of the optimizer's step, for each gradient; nil: the same for all
	joined               []bool
	sums                 []*Node
	skip, skipped        *Node // whether the step is left out, and how many were before it; nil: none is
}

// row is the result of a step [1 columns].
func (f stepResult) row() *Node { return row(f.mean, f.weight, f.right, f.measured) }

// shared are what devices that share a batch add up besides gradients.
func (f stepResult) shared() []*Node {
	if f.measured != nil {
		return []*Node{f.mean, f.right, f.measured}
	}
	return []*Node{f.mean, f.right}
}

// setShared takes the first of what devices have added up.
func (f *stepResult) setShared(l []*Node) {
	if f.mean, f.right = l[0], l[1]; f.measured != nil {
		f.measured = l[2]
	}
}

// derive is the forward and the backward pass. Of a batch that is shared, it is this device's
// part.
func (t *trace) derive(variables []*Node, b batch, s *Set, c plan.Part) stepResult {
	if c.Accumulate > 1 {
		return t.accumulated(variables, b, s, c)
	}
	t.set(variables)
	net := t.net.model
	t.w.options.RecurrentKernels = c.Kernels != nil
	if c.Kernels == nil && !t.net.target.CPU() && net.HasBatchNorm() {
		t.w.options.Recompute = lower.RecomputeBytes
	}
	buckets := t.net.buckets(c)
	out := t.applyNet(net, b.in, true, splitAt(buckets))
	sum, weight, right, measured := t.results(s, out, b, nil)
	if c.Split {
		if weight.IsConstantExpression() {
			weight = t.scalar(float32(c.Batch))
		} else {
			weight = t.allReduce(weight)
		}
	}
	mean := t.mean(sum, weight)
	v := t.buffers(variables)
	t.mark("loss/backward")
	gradients, joined, sums := t.gradients(t.scaled(mean, variables), variables, buckets)
	f := stepResult{mean: mean, weight: weight, right: right, measured: measured, gradients: gradients, variables: v, joined: joined, sums: sums}
	if t.net.target.CPU() {
		// Without this barrier XLA copies each weight, since a later gradient may read
		// it after it has changed.
		f.gradients = OptimizationBarriers(gradients...)
	}
	return f
}

// train is one step: variables and moments after it, and its result
// [1 columns]. Devices that share a batch add up their gradients, and the means
// that batch norm has taken.
func (t *trace) train(variables, moments []*Node, b batch, rate, number *Node, s *Set, c plan.Part) (next []*Node, row *Node) {
	f := t.derive(variables, b, s, c)
	if c.Split {
		t.reduce(&f, c.Devices)
	}
	t.unscale(&f)
	v, m := t.update(f, t.net.layout.each(), moments, rate, number)
	return append(v, m...), f.row()
}

// reduce adds up the results over the devices, in place.
func (t *trace) reduce(f *stepResult, devices int) {
	all := append(append([]*Node{}, f.gradients...), f.shared()...)
	var means []int
	for i, v := range t.net.layout.variables {
		if !v.trainable && !v.frozen && v.shape.DType.IsFloat() {
			means, all = append(means, i), append(all, f.variables[i])
		}
	}
	f.sums = t.allReduceFlat(all, f.joined, f.sums)
	k := copy(f.gradients, all)
	f.setShared(all[k:])
	k += len(f.shared())
	for j, i := range means {
		f.variables[i] = DivScalar(all[k+j], float64(devices))
	}
}

// update gives some trained variables, those that f has gradients of, and their moments their
// next values.
func (t *trace) update(f stepResult, trained []int, moments []*Node, rate, number *Node) (v, m []*Node) {
	l := &t.net.layout
	title, _ := optim.Title(t.net.config.Optimizer)
	t.mark(title + "/update")
	v = append([]*Node(nil), f.variables...)
	gradients := optim.ClipGradients(t.net.config.Optimizer, f.gradients)
	if f.skip != nil { // the optimizer counts the steps that are taken
		number = MaxScalar(Sub(number, f.skipped), 1)
	}
	m = slices.Clone(moments)
	for at, k := range trained {
		i, old := l.trained[k], momentsOf(l, k, moments)
		if f.numbers != nil {
			number = f.numbers[at]
		}
		w, next := optim.Update(l.optimizer[k], rate, number, v[i], gradients[at], old)
		if f.skip != nil {
			w = Where(f.skip, v[i], w)
			for j := range next {
				next[j] = Where(f.skip, old[j], next[j])
			}
		}
		v[i] = w
		copy(momentsOf(l, k, m), next)
	}
	return v, m
}
