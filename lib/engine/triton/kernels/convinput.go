package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// ConvInput is a convolution backwards: the gradient of its input, taken on
// through the activation that made the input.
//
//	inputs:  g [batch height' width' out], w [size size in out] float32,
//	         winner, like g, uint8, with pooling, x [batch height width in] unless Act is Identity
//	outputs: d [batch height width in]
//
// g is the gradient before the convolution's own activation and behind its
// pooling.
//
// Without pooling a block is one pixel of some images, so that all of it comes from
// the same results with the same weights, and no turn of the loop is spent on taps
// that reach outside. With pooling it is any pixels, and a turn is a tap: who has
// won a window cannot be read ahead, so that few long turns wait longer than many
// short ones.
type ConvInput struct {
	Geometry
	G, X, D dtypes.DType // elements of g, x and d; default: float32
	Compute dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act     Act          // what made x
	Tile    Tile         // M of pixels or images, N of input channels, K of what comes back to one
}

func (c ConvInput) tile() Tile {
	usual, rows, depth := Tile{M: 32, N: 16, K: 64, Warps: 2, Stages: 3}, c.Batch, c.Size*c.Size*c.Out
	if c.Pool {
		usual.K, rows, depth = 16, c.Batch*c.Height*c.Width, c.Out
	}
	if c.Out > 16 {
		usual = Tile{M: 16, N: 16, K: min(128, triton.Cover(c.Out, 16)), Warps: 4, Stages: 3}
	}
	if c.In > 16 && c.Batch*c.Height*c.Width >= many {
		usual = Tile{M: 128, N: 32, K: 64, Warps: 4, Stages: 3}
	}
	t := c.Tile.or(usual).fit(rows, c.In, depth)
	t.Split = 1
	return t
}

func (c ConvInput) Key() string {
	return key("conv input", c.Short(), c.Act, short(c.G), short(c.X), short(c.D), short(c.Compute))
}

func (c ConvInput) Tiles() []Tile {
	l := append([]Tile{
		{},
		{M: 16, N: 16, K: 32, Warps: 2, Stages: 3},
		{M: 16, N: 16, K: 64, Warps: 2, Stages: 3},
		{M: 16, N: 16, K: 128, Warps: 4, Stages: 3},
		{M: 32, N: 16, K: 128, Warps: 4, Stages: 2},
		{M: 64, N: 16, K: 64, Warps: 4, Stages: 3},
		{M: 128, N: 32, K: 64, Warps: 4, Stages: 3},
		{M: 128, N: 32, K: 32, Warps: 8, Stages: 3},
	}, convolutions...)
	return distinct(l, func(t Tile) Tile { c.Tile = t; return c.tile() })
}

func (c ConvInput) With(t Tile) Op { c.Tile = t; return c }

func (c ConvInput) Kernel() triton.Kernel {
	t := c.tile()
	in := []shapes.Shape{c.output(cmp.Or(c.G, dtypes.Float32)), c.weights()}
	if c.Pool {
		in = append(in, c.output(dtypes.Uint8))
	}
	if c.Act != Identity {
		in = append(in, c.input(cmp.Or(c.X, dtypes.Float32)))
	}
	blocks := triton.Blocks(c.Batch, t.M) * c.Height * c.Width
	if c.Pool {
		blocks = triton.Blocks(c.Batch*c.Height*c.Width, t.M)
	}
	return triton.Kernel{
		Name: "conv_input_" + c.Act.String(), Grid: [3]int{blocks, triton.Blocks(c.In, t.N)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{c.input(cmp.Or(c.D, dtypes.Float32))},
		FLOPs: c.flops(),
		Body: func(b *triton.Block) {
			n, nIn := stretch(b, b.ProgramID(1), t.N, c.In).row()
			sums := c.pixel
			if c.Pool {
				sums = c.pixels
			}
			pixel, pixelIn, sum := sums(b, t, n, nIn)
			at := pixel.Mul(c.In).Add(n)
			if c.Act != Identity {
				sum = backward(c.Act, sum, load(b.Input(len(in)-1).At(at), pixelIn, nIn).To(dtypes.Float32))
			}
			store(b.Output(0).At(at), sum, pixelIn, nIn)
		},
	}
}

// pixel is a block of one pixel of some images, without pooling.
func (c ConvInput) pixel(b *triton.Block, t Tile, n, nIn triton.Value) (at, in, sum triton.Value) {
	images := triton.Blocks(c.Batch, t.M)
	m, mIn := stretch(b, b.ProgramID(0).Rem(images), t.M, c.Batch).column()
	pixel := b.ProgramID(0).Div(images)
	height, width := c.Result()
	top, rows := c.results(pixel.Div(c.Width), height)
	left, columns := c.results(pixel.Rem(c.Width), width)
	across := columns.Max(1) // where there are none, nothing is divided
	depth := rows.Mul(columns).Mul(c.Out)
	sum = b.For(0, depth, t.K, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N)}, func(i triton.Value, sums []triton.Value) []triton.Value {
		k := i.Add(b.Range(t.K))
		place, channel, kIn := k.Div(c.Out), k.Rem(c.Out), k.Less(depth)
		row, column := top.Add(place.Div(across)), left.Add(place.Rem(across))
		tap := pixel.Div(c.Width).Add(c.Pad).Sub(row).Mul(c.Size).Add(pixel.Rem(c.Width).Add(c.Pad).Sub(column))
		w := load(b.Input(1).At(tap.Mul(c.In).Expand(1).Add(n).Mul(c.Out).Add(channel.Expand(1))), kIn.Expand(1), nIn)
		g := c.reaching(b, m, row.Expand(0), column.Expand(0), channel.Expand(0), mIn, kIn.Expand(0))
		return []triton.Value{b.Dot(g.To(cmp.Or(c.Compute, dtypes.Float32)), w.To(cmp.Or(c.Compute, dtypes.Float32)), sums[0], t.Rounding)}
	})[0]
	return m.Mul(c.Height * c.Width).Add(pixel), mIn, sum
}

// pixels is a block of pixels, with pooling.
func (c ConvInput) pixels(b *triton.Block, t Tile, n, nIn triton.Value) (at, in, sum triton.Value) {
	m, mIn := stretch(b, b.ProgramID(0), t.M, c.Batch*c.Height*c.Width).column()
	image, y, x := m.Div(c.Height*c.Width), m.Div(c.Width).Rem(c.Height), m.Rem(c.Width)
	height, width := c.Result()
	chunks := triton.Blocks(c.Out, t.K) // of the channels of a tap
	sum = b.For(0, c.Size*c.Size*chunks, 1, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N)}, func(turn triton.Value, sums []triton.Value) []triton.Value {
		tap := turn.Div(chunks)
		channel := turn.Rem(chunks).Mul(t.K).Add(b.Range(t.K))
		across, down := channel.Expand(0), channel.Expand(1)
		var acrossIn, downIn triton.Value
		if c.Out%t.K != 0 {
			acrossIn, downIn = across.Less(c.Out), down.Less(c.Out)
		}
		w := load(b.Input(1).At(tap.Mul(c.In).Add(n).Mul(c.Out).Add(down)), downIn, nIn)
		row, column := y.Sub(tap.Div(c.Size)).Add(c.Pad), x.Sub(tap.Rem(c.Size)).Add(c.Pad)
		there := row.GreaterEqual(0).And(row.Less(2 * height)).And(column.GreaterEqual(0).And(column.Less(2 * width)))
		g := c.reaching(b, image, row, column, across, mIn, acrossIn, there)
		return []triton.Value{b.Dot(g.To(cmp.Or(c.Compute, dtypes.Float32)), w.To(cmp.Or(c.Compute, dtypes.Float32)), sums[0], t.Rounding)}
	})[0]
	return m, mIn, sum
}

// results are those along one axis whose windows a pixel is in, of so many there
// are: the first, and how many.
func (c ConvInput) results(at triton.Value, there int) (first, count triton.Value) {
	first = at.Add(c.Pad + 1 - c.Size).Max(0)
	return first, at.Add(c.Pad + 1).Min(there).Sub(first).Max(0)
}

// reaching loads what comes back from results at row and column of images, where
// they won their windows.
func (c ConvInput) reaching(b *triton.Block, image, row, column, channel triton.Value, masks ...triton.Value) triton.Value {
	height, width := c.Result()
	if !c.Pool {
		return load(b.Input(0).At(image.Mul(height).Add(row).Mul(width).Add(column).Mul(c.Out).Add(channel)), masks...)
	}
	at := image.Mul(height).Add(row.Div(2)).Mul(width).Add(column.Div(2)).Mul(c.Out).Add(channel)
	g, winner := load(b.Input(0).At(at), masks...), load(b.Input(2).At(at), masks...).To(dtypes.Int32)
	return winner.Equal(row.Rem(2).Mul(2).Add(column.Rem(2))).Select(g, 0)
}
