package kernels

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Geometry is a convolution of stride 1 with square kernels, with or without
// max pooling of windows of 2×2 behind it. Images are [batch height width in],
// weights [size size in out].
type Geometry struct {
	Batch, Height, Width, In, Out int
	Size                          int // of the kernels, which are Size×Size
	Pad                           int // zeros on each side of the image
	Pool                          bool
}

// Image is height and width of what the convolution gives, before pooling.
func (g Geometry) Image() (height, width int) {
	return g.Height + 2*g.Pad - g.Size + 1, g.Width + 2*g.Pad - g.Size + 1
}

// Result is height and width of what comes out.
func (g Geometry) Result() (height, width int) {
	height, width = g.Image()
	if g.Pool {
		return height / 2, width / 2
	}
	return height, width
}

// windows is the number of elements of a pooling window: 4, or 1 without pooling.
func (g Geometry) windows() int {
	if g.Pool {
		return 4
	}
	return 1
}

// taps is how many numbers each result is a sum of.
func (g Geometry) taps() int { return g.Size * g.Size * g.In }

// side is of the square that a result looks at: with pooling, of all four elements
// of its window together.
func (g Geometry) side() int {
	if g.Pool {
		return g.Size + 1
	}
	return g.Size
}

// rows is the number of results of a channel.
func (g Geometry) rows() int {
	height, width := g.Result()
	return g.Batch * height * width
}

func (g Geometry) output(d dtypes.DType) shapes.Shape {
	height, width := g.Result()
	return shapes.Make(d, g.Batch, height, width, g.Out)
}

func (g Geometry) input(d dtypes.DType) shapes.Shape {
	return shapes.Make(d, g.Batch, g.Height, g.Width, g.In)
}

func (g Geometry) weights() shapes.Shape {
	return shapes.Make(dtypes.Float32, g.Size, g.Size, g.In, g.Out)
}

func (g Geometry) flops() float64 {
	return 2 * float64(g.rows()) * float64(g.windows()) * float64(g.taps()) * float64(g.Out)
}

// Short is a line for people: 128×28×28×1→32 3×3+1 pooled, of which +1 is the padding.
func (g Geometry) Short() string {
	s := fmt.Sprintf("%d×%d×%d×%d→%d %d×%d", g.Batch, g.Height, g.Width, g.In, g.Out, g.Size, g.Size)
	if g.Pad > 0 {
		s += fmt.Sprint("+", g.Pad)
	}
	if g.Pool {
		s += " pooled"
	}
	return s
}

// square is how many numbers a result looks at.
func (g Geometry) square() int { return g.side() * g.side() * g.In }

// number is where number k of a square of so many a side stands in it.
func (g Geometry) number(k triton.Value, side int) (row, column, channel triton.Value) {
	return k.Div(g.In * side), k.Div(g.In).Rem(side), k.Rem(g.In)
}

// patch loads the numbers k of the squares, of so many a side, that the results m
// look at from place q of their windows on: 0 outside of the image. m and k are
// spans of two axes of one tile.
func (g Geometry) patch(x triton.Value, m, k triton.Value, q, side int, masks ...triton.Value) triton.Value {
	height, width := g.Result()
	image, top, left := m.Div(height*width), m.Div(width).Rem(height), m.Rem(width)
	if g.Pool {
		top, left = top.Mul(2).Add(q/2), left.Mul(2).Add(q%2)
	}
	if g.Pad > 0 {
		top, left = top.Sub(g.Pad), left.Sub(g.Pad)
	}
	i, j, channel := g.number(k, side)
	start := image.Mul(g.Height).Add(top).Mul(g.Width).Add(left).Mul(g.In)
	at := start.Add(i.Mul(g.Width).Add(j).Mul(g.In).Add(channel))
	if g.Pad > 0 {
		row, column := top.Add(i), left.Add(j)
		masks = append(masks, row.GreaterEqual(0).And(row.Less(g.Height)), column.GreaterEqual(0).And(column.Less(g.Width)))
	}
	return load(x.At(at), masks...)
}

// Conv is a convolution with bias and activation, and with max pooling if
// Pool is set.
//
//	inputs:  x [batch height width in], w [size size in out] float32, bias [out] float32
//	outputs: y [batch height' width' out] and, with pooling,
//	         winner, like y, uint8: which place of its window, 0 to 3, was the largest
type Conv struct {
	Geometry
	X, Y    dtypes.DType // elements of x and y; default: float32
	Compute dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act     Act
	Tile    Tile // M of results, N of channels, K of taps
}

func (c Conv) tile() Tile {
	t := c.Tile.or(c.usual()).fit(c.rows(), c.Out, c.taps())
	t.Split = 1
	return t
}

// convolutions are the tiles tried.
var convolutions = []Tile{
	{M: 32, N: 16, K: 32, Warps: 4, Stages: 2},
	{M: 64, N: 16, K: 32, Warps: 4, Stages: 2},
	{M: 128, N: 16, K: 16, Warps: 4, Stages: 2},
	{M: 16, N: 16, K: 32, Warps: 2, Stages: 2},
	{M: 32, N: 16, K: 16, Warps: 2, Stages: 3},
	{M: 64, N: 16, K: 16, Warps: 4, Stages: 3},
	{M: 64, N: 16, K: 16, Warps: 2, Stages: 3},
	{M: 64, N: 32, K: 32, Warps: 4, Stages: 3},
	{M: 64, N: 64, K: 32, Warps: 8, Stages: 3},
	{M: 32, N: 64, K: 64, Warps: 8, Stages: 2},
	{M: 128, N: 64, K: 32, Warps: 8, Stages: 2},
}

// many is from how many rows on larger tiles still leave all processors busy.
const many = 132 * 128

// usual is the tile where nobody has tried any.
func (g Geometry) usual() Tile {
	if g.Out > 16 && g.taps() > 16 && g.rows() >= many {
		return Tile{M: 64, N: 64, K: 32, Warps: 8, Stages: 3}
	}
	t := convolutions[1]
	for t.M > 16 && triton.Blocks(g.rows(), t.M) < 132 {
		t.M /= 2
	}
	if t.M == 16 {
		t.Warps = 2
	}
	return t
}

func (c Conv) Key() string {
	return key("conv", c.Short(), c.Act, short(c.X), short(c.Y), short(c.Compute))
}

func (c Conv) Tiles() []Tile {
	return distinct(append([]Tile{{}}, convolutions...), func(t Tile) Tile { c.Tile = t; return c.tile() })
}

func (c Conv) With(t Tile) Op { c.Tile = t; return c }

func (c Conv) Kernel() triton.Kernel {
	t := c.tile()
	out := []shapes.Shape{c.output(cmp.Or(c.Y, dtypes.Float32))}
	if c.Pool {
		out = append(out, c.output(dtypes.Uint8))
	}
	return triton.Kernel{
		Name: "conv_" + c.Act.String(), Grid: [3]int{triton.Blocks(c.rows(), t.M), triton.Blocks(c.Out, t.N)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs:  []shapes.Shape{c.input(cmp.Or(c.X, dtypes.Float32)), c.weights(), shapes.Make(dtypes.Float32, c.Out)},
		Outputs: out,
		FLOPs:   c.flops(),
		Body: func(b *triton.Block) {
			m, mIn := stretch(b, b.ProgramID(0), t.M, c.rows()).column()
			n, nIn := stretch(b, b.ProgramID(1), t.N, c.Out).row()
			sums := make([]triton.Value, c.windows())
			for q := range sums {
				sums[q] = b.Zeros(dtypes.Float32, t.M, t.N)
			}
			// The weights are read once for the four elements of a window. The other way
			// round, one square and the weights elsewhere in it, took three times as
			// long: tensor cores want a second factor turned round.
			sums = b.For(0, c.taps(), t.K, sums, func(i triton.Value, sums []triton.Value) []triton.Value {
				k, row := i.Add(b.Range(t.K)).Expand(1), i.Add(b.Range(t.K)).Expand(0)
				var kIn, rowIn triton.Value
				if c.taps()%t.K != 0 {
					kIn, rowIn = k.Less(c.taps()), row.Less(c.taps())
				}
				w := load(b.Input(1).At(k.Mul(c.Out).Add(n)), kIn, nIn).To(cmp.Or(c.Compute, dtypes.Float32))
				for q := range sums {
					x := c.patch(b.Input(0), m, row, q, c.Size, mIn, rowIn).To(cmp.Or(c.Compute, dtypes.Float32))
					sums[q] = b.Dot(x, w, sums[q], t.Rounding)
				}
				return sums
			})
			best, winner := sums[0], b.Zeros(dtypes.Int32, t.M, t.N)
			for q, s := range sums[1:] {
				more := s.Greater(best)
				best, winner = more.Select(s, best), more.Select(q+1, winner)
			}
			// The activations never fall, so the largest result has the largest sum.
			y := activate(c.Act, best.Add(load(b.Input(2).At(n), nIn)))
			at := m.Mul(c.Out).Add(n)
			store(b.Output(0).At(at), y, mIn, nIn)
			if c.Pool {
				store(b.Output(1).At(at), winner, mIn, nIn)
			}
		},
	}
}
