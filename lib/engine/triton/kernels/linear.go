package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Linear is a dense layer forwards: y = act(x·w + bias).
//
//	inputs:  x [batch in], w [in out] float32, bias [out] float32 unless NoBias
//	outputs: y [batch out]
//
// With Classes it begins the last layer of a classifier, too, for HeadReduce to finish:
// each block multiplies the columns of y that it has by their weights there.
//
//	inputs:  those above, and the last layer's weights [out classes] float32
//	outputs: y, and parts [parts batch LargestHeadReduce] float32, which add up to the logits less their bias, and 0s
type Linear struct {
	Batch, In, Out int
	X, Y           dtypes.DType // elements of x and y; default: float32
	Compute        dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act            Act
	NoBias         bool
	Classes        int
	Tile           Tile
}

// Parts is how many parts of logits there are.
func (l Linear) Parts() int { return triton.Blocks(l.Out, l.tile().N) }

// tile is the one that Kernel uses.
func (l Linear) tile() Tile {
	return l.Tile.or(usual(l.Batch, l.Out, l.In, l.Compute)).fit(l.Batch, l.Out, l.In)
}

func (l Linear) Kernel() triton.Kernel {
	t, x, y := l.tile(), cmp.Or(l.X, dtypes.Float32), cmp.Or(l.Y, dtypes.Float32)
	in := []shapes.Shape{shapes.Make(x, l.Batch, l.In), shapes.Make(dtypes.Float32, l.In, l.Out)}
	if !l.NoBias {
		in = append(in, shapes.Make(dtypes.Float32, l.Out))
	}
	out := []shapes.Shape{shapes.Make(y, l.Batch, l.Out)}
	if l.Classes > 0 {
		in = append(in, shapes.Make(dtypes.Float32, l.Out, l.Classes))
		out = append(out, shapes.Make(dtypes.Float32, l.Parts(), l.Batch, LargestHeadReduce))
	}
	return triton.Kernel{
		Name: "linear_" + l.Act.String(), Grid: [3]int{triton.Blocks(l.Out, t.N), triton.Blocks(l.Batch, t.M)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: out,
		FLOPs: 2 * float64(l.Batch) * float64(l.In) * float64(l.Out),
		Body: func(b *triton.Block) {
			columns := stretch(b, b.ProgramID(0), t.N, l.Out)
			rows := stretch(b, b.ProgramID(1), t.M, l.Batch)
			n, nIn := columns.row()
			m, mIn := rows.column()
			// What comes after the product is on its way meanwhile.
			var bias, last triton.Value
			if !l.NoBias {
				bias = load(b.Input(2).At(n), nIn)
			}
			if l.Classes > 0 {
				last = l.last(b, b.Input(len(in)-1), columns)
			}
			sum := product(b, t, cmp.Or(l.Compute, dtypes.Float32),
				factor{b.Input(0), rows, l.In, 1},
				factor{b.Input(1), columns, 1, l.Out}, l.In)
			if !l.NoBias {
				sum = sum.Add(bias)
			}
			result := activate(l.Act, sum).To(y)
			store(b.Output(0).At(m.Mul(l.Out).Add(n)), result, mIn, nIn)
			if l.Classes > 0 {
				l.begin(b, t, last, rows, columns, result)
			}
		},
	}
}

// last are the last layer's weights for a block's columns of y.
func (l Linear) last(b *triton.Block, weights triton.Value, columns span) triton.Value {
	c, cIn := l.classes(b).row()
	k, kIn := columns.column()
	return load(weights.At(k.Mul(l.Classes).Add(c)), kIn, cIn)
}

func (l Linear) classes(b *triton.Block) span {
	return stretch(b, b.Zeros(dtypes.Int32), LargestHeadReduce, l.Classes)
}

// begin stores a block's part of the logits.
func (l Linear) begin(b *triton.Block, t Tile, last triton.Value, rows, columns span, y triton.Value) {
	c, _ := l.classes(b).row()
	m, mIn := rows.column()
	if _, nIn := columns.row(); !nIn.IsZero() { // what two blocks have counts once
		y = nIn.Select(y, 0)
	}
	part := b.Dot(y.To(cmp.Or(l.Compute, dtypes.Float32)), last.To(cmp.Or(l.Compute, dtypes.Float32)), b.Zeros(dtypes.Float32, t.M, LargestHeadReduce), t.Rounding)
	at := b.ProgramID(0).Mul(l.Batch).Add(m).Mul(LargestHeadReduce).Add(c)
	store(b.Output(1).At(at), part, mIn)
}

// LinearInput is a dense layer backwards: the gradient of its input, taken on
// through the activation that made the input.
//
//	inputs:  g [batch out], w [in out] float32, x [batch in] unless Act is Identity
//	outputs: d [batch in] = (g·wᵀ) · act'(x)
type LinearInput struct {
	Batch, In, Out int
	G, X, D        dtypes.DType // elements of g, x and d; default: float32
	Compute        dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act            Act          // what made x
	Tile           Tile
}

func (l LinearInput) tile() Tile {
	return l.Tile.or(usual(l.Batch, l.In, l.Out, l.Compute)).fit(l.Batch, l.In, l.Out)
}

func (l LinearInput) Kernel() triton.Kernel {
	t := l.tile()
	in := []shapes.Shape{shapes.Make(cmp.Or(l.G, dtypes.Float32), l.Batch, l.Out), shapes.Make(dtypes.Float32, l.In, l.Out)}
	if l.Act != Identity {
		in = append(in, shapes.Make(cmp.Or(l.X, dtypes.Float32), l.Batch, l.In))
	}
	return triton.Kernel{
		Name: "linear_input_" + l.Act.String(), Grid: [3]int{triton.Blocks(l.In, t.N), triton.Blocks(l.Batch, t.M)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{shapes.Make(cmp.Or(l.D, dtypes.Float32), l.Batch, l.In)},
		FLOPs: 2 * float64(l.Batch) * float64(l.In) * float64(l.Out),
		Body: func(b *triton.Block) {
			columns := stretch(b, b.ProgramID(0), t.N, l.In)
			rows := stretch(b, b.ProgramID(1), t.M, l.Batch)
			n, nIn := columns.row()
			m, mIn := rows.column()
			at := m.Mul(l.In).Add(n)
			var x triton.Value
			if l.Act != Identity { // on its way while the product is computed
				x = load(b.Input(2).At(at), mIn, nIn)
			}
			sum := product(b, t, cmp.Or(l.Compute, dtypes.Float32),
				factor{b.Input(0), rows, l.Out, 1},
				factor{b.Input(1), columns, l.Out, 1}, l.Out)
			if l.Act != Identity {
				sum = backward(l.Act, sum, x.To(dtypes.Float32))
			}
			store(b.Output(0).At(at), sum, mIn, nIn)
		},
	}
}
