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
	"gaiden/lib/lower/plan"
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
// parameters of the same names; see donated.
func (n *Net) epochProgram(s *Set, c plan.Part) (*hlo.Program, error) {
	return n.traceFor(c.Devices, fmt.Sprintf("epoch b%d", c.Batch), func(t *trace) []*Node {
		e := t.epoch(s, c)
		zero, one, turns := e.zero, e.one, e.turns
		state := append(slices.Clone(e.held), e.results)
		if e.at != nil {
			state = append(state, e.at)
		}
		switch {
		case c.Form.Single():
			turns = one
			state = e.turn(e.begin, state)
		case c.Limit == 1:
			turns = one
			state = t.repeat(t.scalar(int32(c.Inner)), 1, state, e.turn)
		case c.Form == plan.Peeled:
			state = t.while(one, one, turns, e.turn(zero, state), e.turn)
		default:
			state = t.repeat(turns, c.Inner, state, e.turn)
		}
		steps := Mul(turns, t.scalar(int32(c.Turn())))
		last := len(e.held)
		if c.Packed {
			skipped := Slice(Sub(lastOf(state[last]), lastOf(e.results)), AxisRange(), AxisRange(0, 1))
			steps = Sub(steps, ConvertDType(Reshape(skipped), dtypes.Int32))
		}
		out := append(state[:last:last], Add(e.step, steps))
		switch {
		case c.Form.Single():
			return append(out, state[last], Add(e.begin, one))
		case c.Packed:
			return append(out, state[last])
		}
		return append(out, t.checked(state[:e.variables], state[last], c))
	})
}

// epochWriter writes the turns of an epoch's program.
type epochWriter struct {
	t *trace
	epochParameters
	set       *Set
	part      plan.Part
	numbers   []*Node // of the steps of a turn
	size      *Node   // of a step's place in the order
	unroll    *Node
	zero, one *Node
	source    fused.Source // of planned kernels
	at        *Node        // what a kernel counts; nil: none is planned
}

// epochParameters are what an epoch's program takes.
type epochParameters struct {
	held           []*Node // state without step; the first are variables, none if it is packed
	variables      int
	step, rate     *Node
	results, begin *Node
	sources        []*Node
	order          *Node
	place, turns   *Node
}

// epoch makes the parameters of an epoch's program.
func (t *trace) epoch(s *Set, c plan.Part) *epochWriter {
	e := &epochWriter{t: t, set: s, part: c}
	e.held, e.variables = t.held(c)
	e.step = Parameter(t.g, "step", t.net.layout.step.shape)
	shape := t.net.resultsOf(s, c)
	e.results, e.begin = Zeros(t.g, shape), t.scalar(int32(0))
	if c.Form.Single() {
		e.results = Parameter(t.g, "results", shape)
		e.begin = Parameter(t.g, "begin", shapes.Make(dtypes.Int32))
	}
	e.sources = t.sources(s)
	e.order = Parameter(t.g, "order", shapes.Make(dtypes.Int32, s.N))
	e.rate = Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
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
	e.place, e.turns = place, turns
	e.size, e.unroll = t.scalar(int32(stride)), t.scalar(int32(c.Unroll))
	e.zero, e.one = t.scalar(int32(0)), t.scalar(int32(1))
	for k := range c.Unroll {
		e.numbers = append(e.numbers, t.scalar(int32(k)))
	}
	if c.Kernels != nil && c.Kernels.Layers != nil {
		e.source, e.at = t.source(c, e.sources, e.order, place, e.step, e.begin)
	}
	return e
}

// turn writes the steps of turn number i.
func (e *epochWriter) turn(i *Node, state []*Node) []*Node {
	c := e.part
	if e.at != nil {
		return e.fused(state)
	}
	for k := range c.Unroll {
		at := i
		if c.Unroll > 1 {
			at = Add(Mul(i, e.unroll), e.numbers[k])
		}
		e.t.mark("data/gather")
		pick := func(a *Node) *Node { return a } // all, as they lie: see checked
		if c.Share() < e.set.N {
			pick = rows(DynamicSlice(e.order, []*Node{Add(e.place, Mul(at, e.size))}, []int{c.Share()}))
		}
		b := e.t.gather(c.Share(), e.set, e.sources, pick)
		number := Add(e.step, at)
		if c.Form.Single() {
			number = Add(e.step, e.numbers[k]) // step counts on from run to run
		}
		number = ConvertDType(Add(number, e.one), dtypes.Float32)
		state = e.trainOn(b, number, at, state)
	}
	return state
}

// trainOn writes a step on a batch, whose result is row at of the results.
func (e *epochWriter) trainOn(b batch, number, at *Node, state []*Node) []*Node {
	held := len(e.held)
	variables, moments := state[:e.variables], state[e.variables:held]
	var next []*Node
	var row *Node
	switch {
	case e.t.net.config.Step != nil:
		next, row = e.t.trainStep(e.set, variables, moments, b, e.rate, number, e.part)
	case e.part.Packed:
		next, row = e.t.trainPacked(state[:held], b, e.rate, number, e.set, e.part)
	default:
		next, row = e.t.train(variables, moments, b, e.rate, number, e.set, e.part)
	}
	e.t.mark("fit/results")
	rows := DynamicUpdateSlice(state[held], row, []*Node{at, e.zero})
	if e.part.Packed {
		rows = e.t.skipped(rows, next[len(next)-1])
	}
	return append(next, rows)
}

// startProgram copies what a chunk of Single programs changes in place, while the
// old state is kept: the slots of copiedSlots → the same, empty results, begin.
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
