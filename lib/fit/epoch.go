package fit

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fused"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
)

func itoa(n int) string { return strconv.Itoa(n) }

// epochProgram is some steps of an epoch:
//
//	state, step, x, y[, v], order [n], rate, where [place, replica, turns] →
//	state, step, results [Limit·turn+1 columns]
//
// The state is variables and moments, or packed. The batch of turn 0 begins at
// place in the order; turns is how many turns to do. The last row of the results
// is not 0 where a weight is not finite.
//
// A Single program does one turn, and takes and returns what is between two of
// its runs: results and begin, the number of the turn, after the step. The last
// row is then left to finishProgram. What it returns takes the memory of the
// parameters of the same names; see taken.
func (n *Net) epochProgram(s *Set, c plan.Part) (*hlo.Program, error) {
	return n.traceFor(c.Devices, fmt.Sprintf("epoch b%d", c.Batch), func(t *trace) []*Node {
		held, variables := t.held(c)
		step := Parameter(t.g, "step", n.layout.step.shape)
		shape := n.resultsOf(s, c)
		results, begin := Zeros(t.g, shape), t.scalar(int32(0))
		if c.Form.Single() {
			results = Parameter(t.g, "results", shape)
			begin = Parameter(t.g, "begin", shapes.Make(dtypes.Int32))
		}
		sources := t.sources(s)
		order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, s.N))
		rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
		where := Parameter(t.g, "where", shapes.Make(dtypes.Int32, 3))
		part := func(i int) *Node { return Reshape(Slice(where, AxisRange(i, i+1))) }
		place, replica, turns := part(0), part(1), part(2)
		stride := c.Batch
		switch {
		case c.OwnRows:
			stride = c.Share()
		case c.Split:
			place = Add(place, Mul(replica, t.scalar(int32(c.Share()))))
		}

		size, unroll := t.scalar(int32(stride)), t.scalar(int32(c.Unroll))
		zero, one := t.scalar(int32(0)), t.scalar(int32(1))
		numbers := make([]*Node, c.Unroll)
		for k := range numbers {
			numbers[k] = t.scalar(int32(k))
		}
		state := append(append([]*Node{}, held...), results)
		var source fused.Source
		planned := c.Kernels != nil && c.Kernels.Layers != nil
		if planned {
			var at *Node
			source, at = t.source(c, sources, order, place, step, begin)
			state = append(state, at) // a kernel counts
		}
		turn := func(i *Node, state []*Node) []*Node {
			if planned {
				return t.fused(state, len(held)-variables, c.Unroll, c.Kernels.Layers, source, rate)
			}
			for k := range c.Unroll {
				at := i
				if c.Unroll > 1 {
					at = Add(Mul(i, unroll), numbers[k])
				}
				t.mark("data/gather")
				pick := func(a *Node) *Node { return a } // all, as they lie: see run
				if c.Share() < s.N {
					pick = rows(DynamicSlice(order, []*Node{Add(place, Mul(at, size))}, []int{c.Share()}))
				}
				b := t.gather(c.Share(), s, sources, pick)
				number := Add(step, at)
				if c.Form.Single() {
					number = Add(step, numbers[k]) // step counts on from run to run
				}
				number = ConvertDType(Add(number, one), dtypes.Float32)
				var next []*Node
				var row *Node
				if n.config.Step != nil {
					next, row = t.trainStep(s, state[:variables], state[variables:len(held)], b, rate, number, c)
				} else if c.Packed {
					next, row = t.trainPacked(state[:len(held)], b, rate, number, s, c)
				} else {
					next, row = t.train(state[:variables], state[variables:len(held)], b, rate, number, s, c)
				}
				t.mark("fit/results")
				rows := DynamicUpdateSlice(state[len(held)], row, []*Node{at, zero})
				if c.Packed {
					rows = t.skipped(rows, next[len(next)-1])
				}
				state = append(next, rows)
			}
			return state
		}
		switch {
		case c.Form.Single():
			turns = one
			state = turn(begin, state)
		case c.Limit == 1:
			turns = one
			state = t.repeat(t.scalar(int32(c.Inner)), 1, state, turn)
		case c.Form == plan.Peeled:
			state = t.while(one, one, turns, turn(zero, state), turn)
		default:
			state = t.repeat(turns, c.Inner, state, turn)
		}
		steps := Mul(turns, t.scalar(int32(c.Turn())))
		last := len(held)
		if c.Packed {
			skipped := Slice(Sub(lastOf(state[last]), lastOf(results)), AxisRange(), AxisRange(0, 1))
			steps = Sub(steps, ConvertDType(Reshape(skipped), dtypes.Int32))
		}
		out := append(state[:last:last], Add(step, steps))
		switch {
		case c.Form.Single():
			return append(out, state[last], Add(begin, one))
		case c.Packed:
			return append(out, state[last])
		}
		return append(out, t.checked(state[:variables], state[last], c))
	})
}

// startProgram copies what a chunk of Single programs changes in place, while the
// old state is kept: the slots that copied names → the same, empty results, begin.
func (n *Net) startProgram(s *Set, c plan.Part) (*hlo.Program, error) {
	return n.traceFor(c.Devices, "start", func(t *trace) []*Node {
		var slots []slot
		all := n.slots(c)
		for _, i := range n.copiedSlots(c) {
			slots = append(slots, all[i])
		}
		return append(t.slots(slots), Zeros(t.g, n.resultsOf(s, c)), t.scalar(int32(0)))
	})
}

// copiedSlots are the indices, in the net's state, of what a chunk's Single programs
// change in place.
func (n *Net) copiedSlots(c plan.Part) []int {
	var l []int
	for i, v := range n.slots(c) {
		if c.Form == plan.InPlace && !c.Packed || c.Form == plan.Fresh && v.path == rng {
			l = append(l, i)
		}
	}
	return l
}

// finishProgram checks the state after a chunk of Single programs: variables,
// results → results. Packed programs do it themselves.
func (n *Net) finishProgram(s *Set, c plan.Part) (*hlo.Program, error) {
	return n.traceFor(c.Devices, "finish", func(t *trace) []*Node {
		return []*Node{t.checked(t.variables(), Parameter(t.g, "results", n.resultsOf(s, c)), c)}
	})
}

// checked makes the last row of the results other than 0 where a weight is not
// finite.
func (t *trace) checked(variables []*Node, results *Node, c plan.Part) *Node {
	t.mark("fit/results")
	wrong := t.scalar(float32(0))
	for _, i := range t.net.layout.trained {
		wrong = Max(wrong, t.anyNotFinite(variables[i]))
	}
	at := []*Node{t.scalar(int32(c.Limit * c.Turn())), t.scalar(int32(0))}
	return DynamicUpdateSlice(results, BroadcastToDims(wrong, 1, results.Shape().Dimensions[1]), at)
}

// skipped counts a step that was not taken in the last row of the results.
func (t *trace) skipped(results, halted *Node) *Node {
	row := Add(lastOf(results), BroadcastToDims(halted, 1, results.Shape().Dimensions[1]))
	return DynamicUpdateSlice(results, row, []*Node{t.scalar(int32(results.Shape().Dimensions[0] - 1)), t.scalar(int32(0))})
}

// lastOf is the last row of results [1 columns].
func lastOf(results *Node) *Node { return Slice(results, AxisRange(results.Shape().Dimensions[0]-1)) }

// resultsOf is the shape of what a chunk's steps gave.
func (n *Net) resultsOf(s *Set, c plan.Part) shapes.Shape {
	return shapes.Make(dtypes.Float32, c.Limit*c.Turn()+1, n.columns(s))
}

// held are the parameters of a chunk's programs that hold the state, without
// the step, and how many of them are variables where it is not packed.
func (t *trace) held(c plan.Part) (state []*Node, variables int) {
	if c.Packed {
		l := t.net.packed()
		return t.slots(l[:len(l)-1]), 0
	}
	state = t.variables()
	return append(state, t.slots(t.net.layout.moments)...), len(state)
}

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
	if c.Kernels != nil {
		net = t.withKernels()
	} else if !t.net.target.CPU() && net.HasBatchNorm() {
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

// order begins to make the program of orderProgram ready.
func (n *Net) order(examples int, shuffle bool, devices int) *future {
	return n.prepare(fmt.Sprintf("order/%d/%t/%d", examples, shuffle, devices), func() (*hlo.Program, error) { return n.orderProgram(examples, shuffle, devices) }, nil)
}

// orderProgram is the order of an epoch's examples: step → order [n]. It is a
// shuffle by the seed and the number of steps done.
func (n *Net) orderProgram(examples int, shuffle bool, devices int) (*hlo.Program, error) {
	return n.traceFor(devices, "order", func(t *trace) []*Node {
		step := Parameter(t.g, "step", n.layout.step.shape)
		return []*Node{t.order(step, examples, shuffle)}
	})
}

func (t *trace) order(step *Node, examples int, shuffle bool) *Node {
	index := Iota(t.g, shapes.Make(dtypes.Int32, examples), 0)
	if !shuffle {
		return index
	}
	seed := t.scalar([]uint64{uint64(t.net.config.Seed), 0x6f72646572}) // "order": not the numbers of dropout
	state := Concatenate([]*Node{seed, Reshape(ConvertDType(step, dtypes.Uint64), 1)}, 0)
	_, keys := RandomUniform(state, shapes.Make(dtypes.Float64, examples))
	less := NewClosure(t.g, func(g *Graph) []*Node {
		a, b := Parameter(g, "a", shapes.Make(dtypes.Float64)), Parameter(g, "b", shapes.Make(dtypes.Float64))
		Parameter(g, "i", shapes.Make(dtypes.Int32))
		Parameter(g, "j", shapes.Make(dtypes.Int32))
		return []*Node{LessThan(a, b)}
	})
	return SortFunc(less, 0, true, keys, index)[1]
}
