package kernels

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LinearUpdate is a dense layer's weights and biases after a step: their
// gradients xᵀ·g and Σg, and the optimizer's rule, in one kernel. The new state
// is written where the old one was.
//
//	inputs:  x [batch in], g [batch out],
//	         w [in out] and its moments, bias [out] and its moments unless NoBias,
//	         rate and t, float32 scalars
//	outputs: w and its moments, bias and its moments; the same memory
//
// Without a Rule it has no state, rate and t, and its outputs are the gradients
// of w and bias.
//
// The state is float32. Its tile's M and N are along in and out, its K along the
// batch. A last row of blocks does the biases.
type LinearUpdate struct {
	Batch, In, Out int
	X, G           dtypes.DType // elements of x and g; default: float32
	Compute        dtypes.DType // what the factors are rounded to; default: float32, as TF32
	NoBias         bool
	Rule           Rule
	After          []shapes.Shape // of kernels that read the old weights
	Tile           Tile
}

func (l LinearUpdate) tile() Tile {
	return l.Tile.or(updates[0]).fit(l.In, l.Out, l.Batch)
}

// Kernel is the kernel of these sizes.
func (l LinearUpdate) Kernel() triton.Kernel {
	t := l.tile()
	weights, biases := shapes.Make(dtypes.Float32, l.In, l.Out), shapes.Make(dtypes.Float32, l.Out)
	rows := triton.Blocks(l.In, t.M)
	k := triton.Kernel{
		Name: "linear_gradient", Grid: [3]int{triton.Blocks(l.Out, t.N), rows},
		Warps: t.Warps, Stages: t.Stages, After: l.After,
		Inputs: []shapes.Shape{shapes.Make(or32(l.X), l.Batch, l.In), shapes.Make(or32(l.G), l.Batch, l.Out)},
		FLOPs:  2 * float64(l.Batch) * float64(l.In) * float64(l.Out),
	}
	states := []shapes.Shape{weights}
	if !l.NoBias {
		k.Grid[1]++
		states = append(states, biases)
	}
	if l.Rule == nil {
		k.Outputs = states
	} else {
		k.Name = "linear_" + l.Rule.Name()
		withState(&k, l.Rule, states...)
	}
	k.Body = func(b *triton.Block) {
		update := steps(b, l.Rule, 2, len(states))
		columns := stretch(b, b.ProgramID(0), t.N, l.Out)
		row := b.ProgramID(1)
		main := func() {
			inputs := stretch(b, row, t.M, l.In)
			m, mIn := inputs.column()
			n, nIn := columns.row()
			finish := update[0](m.Mul(l.Out).Add(n), mIn, nIn)
			finish(product(b, t, or32(l.Compute),
				factor{b.Input(0), inputs, 1, l.In},
				factor{b.Input(1), columns, 1, l.Out}, l.Batch))
		}
		if l.NoBias {
			main()
			return
		}
		b.If(row.Less(rows), main, func() {
			n, nIn := columns.row()
			finish := update[1](n, nIn)
			finish(columnSums(b, b.Input(1), columns, l.Batch, l.Out))
		})
	}
	return k
}

// columnSums adds up the rows of g [rows width]: a row [1 n].
func columnSums(b *triton.Block, g triton.Value, columns span, rows, width int) triton.Value {
	n, nIn := columns.row()
	deep := min(triton.Cover(rows, 1), max(8, 4096/n.Dims()[1]))
	m := b.Range(deep).Expand(1)
	sum := b.For(0, rows, deep, []triton.Value{b.Zeros(dtypes.Float32, deep, n.Dims()[1])}, func(i triton.Value, c []triton.Value) []triton.Value {
		var in triton.Value
		if rows%deep != 0 {
			in = i.Add(m).Less(rows)
		}
		return []triton.Value{c[0].Add(load(g.At(i.Add(m).Mul(width).Add(n)), in, nIn).To(dtypes.Float32))}
	})[0]
	return sum.Sum(0).Expand(0)
}

// withState gives a kernel the inputs and outputs of an optimizer's arrays, in
// place, then rate and t.
func withState(k *triton.Kernel, r Rule, arrays ...shapes.Shape) {
	k.Aliases = map[int]int{}
	for _, s := range arrays {
		for range 1 + r.Moments() {
			k.Aliases[len(k.Outputs)] = len(k.Inputs)
			k.Inputs = append(k.Inputs, s)
			k.Outputs = append(k.Outputs, s)
		}
	}
	scalar := shapes.Make(dtypes.Float32)
	k.Inputs = append(k.Inputs, scalar, scalar)
}

// steps are the updates of the arrays that withState has put behind the first
// inputs: each loads a tile of one, and returns what ends the step. Without a
// rule the gradient itself is stored.
func steps(b *triton.Block, r Rule, first, arrays int) []func(at triton.Value, masks ...triton.Value) func(g triton.Value) {
	all := make([]func(triton.Value, ...triton.Value) func(triton.Value), arrays)
	if r == nil {
		for i := range all {
			all[i] = func(at triton.Value, masks ...triton.Value) func(triton.Value) {
				return func(g triton.Value) { store(b.Output(i).At(at), g, masks...) }
			}
		}
		return all
	}
	each := 1 + r.Moments()
	rate, t := scalar(b.Input(first+arrays*each)), scalar(b.Input(first+arrays*each+1))
	for i := range all {
		s := state{rule: r, rate: rate, t: t}
		for k := range each {
			s.in = append(s.in, b.Input(first+i*each+k))
			s.out = append(s.out, b.Output(i*each+k))
		}
		all[i] = s.step
	}
	return all
}
