package kernels

import (
	"cmp"

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
	Tile           Tile
}

// tile is the one that Kernel uses. With factors of half the bytes a turn is twice as
// deep.
func (l LinearUpdate) tile() Tile {
	usual := updates[0]
	if cmp.Or(l.Compute, dtypes.Float32) == dtypes.BFloat16 {
		usual = updates[1]
	}
	return l.Tile.or(usual).fit(l.In, l.Out, l.Batch)
}

func (l LinearUpdate) Kernel() triton.Kernel {
	k := Group{Members: []Member{l}, Rule: l.Rule}.Kernel()
	k.Name = "linear_" + stepName(l.Rule)
	return k
}

func (l LinearUpdate) task(rule Rule) task {
	t := l.tile()
	columns, rows := triton.Blocks(l.Out, t.N), triton.Blocks(l.In, t.M)
	arrays := []shapes.Shape{shapes.Make(dtypes.Float32, l.In, l.Out)}
	blocks := columns * rows
	if !l.NoBias {
		arrays = append(arrays, shapes.Make(dtypes.Float32, l.Out))
		blocks += columns
	}
	return task{
		inputs: []shapes.Shape{shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Batch, l.In), shapes.Make(cmp.Or(l.G, dtypes.Float32), l.Batch, l.Out)},
		arrays: arrays, blocks: blocks, warps: t.Warps, stages: t.Stages,
		flops: 2 * float64(l.Batch) * float64(l.In) * float64(l.Out),
		body: func(b *triton.Block, block triton.Value, in []triton.Value, update []step) {
			columns, row := stretch(b, block.Rem(columns), t.N, l.Out), block.Div(columns)
			main := func() {
				inputs := stretch(b, row, t.M, l.In)
				m, mIn := inputs.column()
				n, nIn := columns.row()
				finish := update[0](m.Mul(l.Out).Add(n), mIn, nIn)
				finish(product(b, t, cmp.Or(l.Compute, dtypes.Float32),
					factor{in[0], inputs, 1, l.In},
					factor{in[1], columns, 1, l.Out}, l.Batch))
			}
			if l.NoBias {
				main()
				return
			}
			b.If(row.Less(rows), main, func() {
				n, nIn := columns.row()
				finish := update[1](n, nIn)
				finish(columnSums(b, in[1], columns, l.Batch, l.Out))
			})
		},
	}
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
