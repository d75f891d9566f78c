package kernels

import (
	"cmp"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
	"gaiden/lib/engine/triton"
)

// Activation adds biases to rows and applies an activation. Results have some 3 correct digits:
// they are for types of 16 bits.
//
//	inputs:  x [rows width], biases [width] of x's type unless NoBias
//	outputs: y [rows width], of x's type
type Activation struct {
	Rows, Width int
	Act         Act
	NoBias      bool
	X           dtypes.DType
	// Tile has M rows and N columns of a block, and the warps.
	Tile Tile
}

// ActivationGradient is the gradient of Activation. Each block takes some columns of rows from
// all over the array and adds up its share of the gradients of the biases, so that sums have one
// order.
//
//	inputs:  x [rows width], biases [width] unless NoBias, dy [rows width], all of x's type
//	outputs: dx [rows width], of x's type, and unless NoBias [parts width] float32: parts of the biases' gradients
type ActivationGradient struct{ Activation }

// tile is the one that Kernel uses: 16 numbers for each thread.
func (a Activation) tile() Tile { return a.filled(Tile{M: 2, N: 512}, 16) }

// tile is the one that Kernel uses. K is how many blocks there are for each of 132 processors.
func (a ActivationGradient) tile() Tile {
	t := a.filled(Tile{M: 8, N: 256, K: 4}, 8)
	t.K = max(1, t.K)
	return t
}

// filled is the tile with what it lacks: that of usual, and warps whose threads have so many numbers each.
func (a Activation) filled(usual Tile, each int) Tile {
	t := a.Tile.or(usual)
	t.M, t.N, t.Stages = min(t.M, triton.Cover(a.Rows, 1)), min(t.N, triton.Cover(a.Width, 1)), 1
	if t.Warps == 0 {
		t.Warps = min(8, max(1, t.M*t.N/(32*each)))
	}
	return t
}

// Parts is how many parts the sums of ActivationGradient's kernel have.
func (a ActivationGradient) Parts() int {
	t := a.tile()
	return min(triton.Blocks(a.Rows, t.M), max(1, 132*t.K/triton.Blocks(a.Width, t.N)))
}

func (a Activation) Key() string {
	return key("activation", a.Rows, a.Width, a.Act, !a.NoBias, short(a.X))
}

func (a ActivationGradient) Key() string {
	return key("activation gradient", a.Rows, a.Width, a.Act, !a.NoBias, short(a.X))
}

// tiles are blocks of several sizes.
func (a Activation) tiles(parts ...int) []Tile {
	tiles := []Tile{{}}
	for _, n := range []int{128, 256, 512} {
		for _, size := range []int{1024, 2048, 4096} {
			for _, numbers := range []int{8, 16} { // of a thread
				for _, k := range parts {
					tiles = append(tiles, Tile{M: size / n, N: n, Warps: size / (32 * numbers), K: k})
				}
			}
		}
	}
	return tiles
}

func (a Activation) Tiles() []Tile {
	return distinct(a.tiles(0), func(t Tile) Tile { a.Tile = t; return a.tile() })
}

func (a ActivationGradient) Tiles() []Tile {
	return distinct(a.tiles(4, 8, 16), func(t Tile) Tile { a.Tile = t; return a.tile() })
}

func (a Activation) With(t Tile) Op         { a.Tile = t; return a }
func (a ActivationGradient) With(t Tile) Op { a.Tile = t; return a }

// shapes are those of x, and of the inputs before dy.
func (a Activation) shapes() (all shapes.Shape, in []shapes.Shape) {
	x := cmp.Or(a.X, dtypes.Float32)
	all = shapes.Make(x, a.Rows, a.Width)
	if in = []shapes.Shape{all}; !a.NoBias {
		in = append(in, shapes.Make(x, a.Width))
	}
	return all, in
}

// biased is what adds the biases of some columns to a tile of x, in float32.
func (a Activation) biased(b *triton.Block, c, cIn triton.Value) func(x triton.Value) triton.Value {
	if a.NoBias {
		return func(x triton.Value) triton.Value { return x.To(dtypes.Float32) }
	}
	biases := load(b.Input(1).At(c), cIn).To(dtypes.Float32)
	return func(x triton.Value) triton.Value { return x.To(dtypes.Float32).Add(biases) }
}

func (a Activation) Kernel() triton.Kernel {
	t := a.tile()
	all, in := a.shapes()
	return triton.Kernel{
		Name: "activation", Nameless: true, Grid: [3]int{triton.Blocks(a.Width, t.N), triton.Blocks(a.Rows, t.M)}, Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{all},
		Body: func(b *triton.Block) {
			c, cIn := stretch(b, b.ProgramID(0), t.N, a.Width).row()
			m, mIn := stretch(b, b.ProgramID(1), t.M, a.Rows).column()
			at := m.Mul(a.Width).Add(c)
			x := a.biased(b, c, cIn)(load(b.Input(0).At(at), mIn, cIn))
			store(b.Output(0).At(at), activations.Apply[triton.Value](roundedOps{}, a.Act, x), mIn, cIn)
		},
	}
}

func (a ActivationGradient) Kernel() triton.Kernel {
	t, parts := a.tile(), a.Parts()
	all, in := a.shapes()
	k := triton.Kernel{
		Name: "activation_gradient", Nameless: true, Grid: [3]int{triton.Blocks(a.Width, t.N), parts}, Warps: t.Warps, Stages: t.Stages,
		Inputs: append(in, all), Outputs: []shapes.Shape{all},
	}
	if !a.NoBias {
		k.Outputs = append(k.Outputs, shapes.Make(dtypes.Float32, parts, a.Width))
	}
	k.Body = func(b *triton.Block) {
		columns, part := stretch(b, b.ProgramID(0), t.N, a.Width), b.ProgramID(1)
		c, cIn := columns.row()
		at := func(i triton.Value) (at, mIn triton.Value) {
			m, mIn := stretch(b, i, t.M, a.Rows).column()
			return m.Mul(a.Width).Add(c), mIn
		}
		read := func(i triton.Value) []triton.Value {
			at, mIn := at(i)
			return []triton.Value{load(b.Input(0).At(at), mIn, cIn), load(b.Input(len(in)).At(at), mIn, cIn)}
		}
		biased, last := a.biased(b, c, cIn), triton.Blocks(a.Rows, t.M)-1
		state := append(read(part), b.Zeros(dtypes.Float32, t.M, t.N))
		state = b.For(part, last+1, parts, state, func(i triton.Value, s []triton.Value) []triton.Value {
			next := read(i.Add(parts).Min(last)) // on its way meanwhile
			dx := activations.BackFrom[triton.Value](roundedOps{}, a.Act, s[1].To(dtypes.Float32), biased(s[0]))
			at, mIn := at(i)
			store(b.Output(0).At(at), dx, mIn, cIn)
			return append(next, s[2].Add(dx))
		})
		if !a.NoBias {
			store(b.Output(1).At(part.Mul(a.Width).Add(columns.at)), state[2].Sum(0), columns.mask())
		}
	}
	return k
}

// roundedOps are operations on tiles of float32 whose results are rounded to 16 bits.
type roundedOps struct{ tileOps }

// Apply has the error function to 1.5e-7 (Abramowitz and Stegun, 7.1.26), in a third of the
// instructions of CUDA's. Its derivative has the same exponential.
func (o roundedOps) Apply(op elementwise.Op, x ...triton.Value) triton.Value {
	switch op {
	case elementwise.Exp:
		return x[0].Mul(math.Log2E).Exp2()
	case elementwise.Erf:
		t := x[0].Abs().Mul(0.3275911).Add(1).Reciprocal()
		sum := t.Mul(1.061405429)
		for _, k := range []float64{-1.453152027, 1.421413741, -0.284496736, 0.254829592} {
			sum = sum.Add(k).Mul(t)
		}
		rest := sum.Mul(o.Apply(elementwise.Exp, x[0].Mul(x[0]).Neg()))
		return x[0].Less(0).Select(rest.Add(-1), rest.Neg().Add(1))
	}
	return o.tileOps.Apply(op, x...)
}
