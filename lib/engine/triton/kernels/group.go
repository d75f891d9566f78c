package kernels

import (
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Group is several updates in one kernel, one after the other along the grid:
// no kernel takes less than about a microsecond, and the small ones fill the
// device while the large one ends.
//
//	inputs:  those of the members, in order, without rate and t; then rate and t, float32 scalars
//	outputs: those of the members, in order
//
// Without a Rule there are no rate and t, and the outputs are gradients.
type Group struct {
	Members []Member
	Rule    Rule
	After   []shapes.Shape // of kernels that read the old weights
}

// Member is what a Group may hold: LinearUpdate, PartsUpdate and Tally. Their
// own Rule does not matter there.
type Member interface {
	task(rule Rule) task
}

// task is a member's part of a kernel.
type task struct {
	inputs []shapes.Shape // without states
	arrays []shapes.Shape // which a rule updates in place
	plain  []shapes.Shape // outputs that are no states
	place  map[int]int    // of plain outputs that take the memory of inputs: their number, the input's
	blocks int
	warps  int
	partly bool // plain outputs in place are stored in part
	stages int
	flops  float64
	// body is what a block does. in are the inputs; update has a step for each
	// array, and then for each plain output.
	body func(b *triton.Block, block triton.Value, in []triton.Value, update []step)
}

// step loads a tile of an optimizer's state and returns what stores it after a
// step. The loads stand where step is called: before the gradient is there, so
// that they are on their way while it is computed. Of an output that is no state
// it stores what it is given.
type step func(at triton.Value, masks ...triton.Value) (finish func(g triton.Value))

// stepName is a word for a rule.
func stepName(r Rule) string {
	if r == nil {
		return "gradient"
	}
	return r.Name()
}

// Kernel is the kernel of all members.
func (g Group) Kernel() triton.Kernel {
	k := triton.Kernel{Name: "group_" + stepName(g.Rule), Warps: 1, Stages: 1, After: g.After}
	tasks := make([]task, len(g.Members))
	aliases := map[int]int{}
	for i, m := range g.Members {
		t := m.task(g.Rule)
		tasks[i] = t
		first := len(k.Inputs)
		k.Inputs = append(k.Inputs, t.inputs...)
		for _, s := range t.arrays {
			for range g.each() {
				if g.Rule != nil {
					aliases[len(k.Outputs)] = len(k.Inputs)
					k.Inputs = append(k.Inputs, s)
				}
				k.Outputs = append(k.Outputs, s)
			}
		}
		for out, in := range t.place {
			aliases[len(k.Outputs)+out] = first + in
			if t.partly {
				k.Partly = append(k.Partly, len(k.Outputs)+out)
			}
		}
		k.Outputs = append(k.Outputs, t.plain...)
		k.Grid[0] += t.blocks
		k.Warps, k.Stages, k.FLOPs = max(k.Warps, t.warps), max(k.Stages, t.stages), k.FLOPs+t.flops
	}
	if g.Rule != nil {
		scalar := shapes.Make(dtypes.Float32)
		k.Inputs = append(k.Inputs, scalar, scalar)
	}
	if len(aliases) > 0 {
		k.Aliases = aliases
	}
	slices.Sort(k.Partly)
	k.Body = func(b *triton.Block) {
		var rate, number triton.Value
		if g.Rule != nil {
			rate, number = b.Input(len(k.Inputs)-2).Load(), b.Input(len(k.Inputs)-1).Load()
		}
		g.branch(b, b.ProgramID(0), tasks, 0, 0, rate, number)
	}
	return k
}

// each is how many arrays a state has.
func (g Group) each() int {
	if g.Rule == nil {
		return 1
	}
	return 1 + g.Rule.Moments()
}

// branch writes the tasks from the first on, whose inputs and outputs begin at
// in and out, for the blocks from 0 on.
func (g Group) branch(b *triton.Block, block triton.Value, tasks []task, in, out int, rate, number triton.Value) {
	t := tasks[0]
	var inputs []triton.Value
	for i := range t.inputs {
		inputs = append(inputs, b.Input(in+i))
	}
	nextIn, nextOut := in+len(t.inputs), out
	var update []step
	for range t.arrays {
		var old, next []triton.Value
		for range g.each() {
			if g.Rule != nil {
				old = append(old, b.Input(nextIn))
				nextIn++
			}
			next = append(next, b.Output(nextOut))
			nextOut++
		}
		update = append(update, stepOf(g.Rule, rate, number, old, next))
	}
	for range t.plain {
		update = append(update, stepOf(nil, rate, number, nil, []triton.Value{b.Output(nextOut)}))
		nextOut++
	}
	run := func() { t.body(b, block, inputs, update) }
	if len(tasks) == 1 {
		run()
		return
	}
	b.If(block.Less(t.blocks), run, func() {
		g.branch(b, block.Sub(t.blocks), tasks[1:], nextIn, nextOut, rate, number)
	})
}

func stepOf(rule Rule, rate, number triton.Value, old, next []triton.Value) step {
	return func(at triton.Value, masks ...triton.Value) func(g triton.Value) {
		if rule == nil {
			return func(g triton.Value) { store(next[0].At(at), g, masks...) }
		}
		state := make([]triton.Value, len(old))
		for i, p := range old {
			state[i] = load(p.At(at), masks...)
		}
		return func(g triton.Value) {
			for i, x := range ruleStep(rule, rate, number, state, g) {
				store(next[i].At(at), x, masks...)
			}
		}
	}
}

// Tally adds up what Head says of a batch, writes mean loss, number of examples and sum of
// the hits into a row of a table, and counts. With NoHits nothing is right.
//
//	inputs:  loss and, but for NoHits, hit [batch] float32, rows [Rows 3] float32, at, an int32 scalar: the row to write
//	outputs: rows and at+1; the same memory
type Tally struct {
	Batch, Rows int
	NoHits      bool
}

func (t Tally) task(Rule) task {
	each, rows, at := shapes.Make(dtypes.Float32, t.Batch), shapes.Make(dtypes.Float32, t.Rows, 3), shapes.Make(dtypes.Int32)
	vectors := []shapes.Shape{each, each}
	if t.NoHits {
		vectors = vectors[:1]
	}
	v := len(vectors)
	k := task{inputs: append(vectors, rows, at), plain: []shapes.Shape{rows, at}, place: map[int]int{0: v, 1: v + 1}, partly: true, blocks: 1, warps: 1, stages: 1}
	k.body = func(b *triton.Block, _ triton.Value, in []triton.Value, update []step) {
		size := min(triton.Cover(t.Batch, 1), 1024)
		zero := b.Zeros(dtypes.Float32, size)
		sums := b.For(0, t.Batch, size, slices.Repeat([]triton.Value{zero}, v), func(i triton.Value, c []triton.Value) []triton.Value {
			at := i.Add(b.Range(size))
			some := at.Less(t.Batch)
			next := make([]triton.Value, v)
			for k := range next {
				next[k] = c[k].Add(in[k].At(at).LoadIf(some, 0))
			}
			return next
		})
		at := in[v+1].Load()
		first := at.Mul(3)
		update[1](b.Zeros(dtypes.Int32))(at.Add(1))
		update[0](first)(sums[0].Sum(0).Mul(1 / float64(t.Batch)))
		update[0](first.Add(1))(b.Full(dtypes.Float32, float64(t.Batch)))
		if t.NoHits {
			update[0](first.Add(2))(b.Zeros(dtypes.Float32))
			return
		}
		update[0](first.Add(2))(sums[1].Sum(0))
	}
	return k
}
