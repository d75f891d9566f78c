package kernels

import (
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
type ConvInput struct {
	Geometry
	G, X, D dtypes.DType // elements of g, x and d; default: float32
	Compute dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Act     Act          // what made x
	Tile    Tile         // M of pixels, N of input channels, K of output channels
}

func (c ConvInput) tile() Tile {
	usual := Tile{M: 32, N: 16, K: 16, Warps: 2, Stages: 3}
	if c.Out > 16 {
		usual = Tile{M: 16, N: 16, K: min(128, triton.Cover(c.Out, 16)), Warps: 4, Stages: 3}
	}
	if c.In > 16 && c.Batch*c.Height*c.Width >= many {
		usual = Tile{M: 128, N: 32, K: 64, Warps: 4, Stages: 3}
	}
	t := c.Tile.or(usual).fit(c.Batch*c.Height*c.Width, c.In, c.Out)
	t.Split = 1
	return t
}

// Key tells convolutions apart.
func (c ConvInput) Key() string {
	return key("conv input", c.key(), c.Act, short(c.G), short(c.X), short(c.D), short(c.Compute))
}

// Tiles are those worth trying.
func (c ConvInput) Tiles() []Tile {
	l := append([]Tile{{}, {M: 32, N: 16, K: 128, Warps: 4, Stages: 2}, {M: 128, N: 32, K: 64, Warps: 4, Stages: 3}, {M: 128, N: 32, K: 32, Warps: 8, Stages: 3}}, convolutions...)
	return distinct(l, func(t Tile) Tile { c.Tile = t; return c.tile() })
}

// With is the convolution with another tile.
func (c ConvInput) With(t Tile) Op { c.Tile = t; return c }

// Kernel is the kernel of these sizes.
func (c ConvInput) Kernel() triton.Kernel {
	t := c.tile()
	pixels, depth := c.Batch*c.Height*c.Width, c.Size*c.Size*c.Out
	in := []shapes.Shape{c.output(or32(c.G)), c.weights()}
	if c.Pool {
		in = append(in, c.output(dtypes.Uint8))
	}
	if c.Act != Identity {
		in = append(in, c.input(or32(c.X)))
	}
	return triton.Kernel{
		Name: "conv_input_" + c.Act.String(), Grid: [3]int{triton.Blocks(pixels, t.M), triton.Blocks(c.In, t.N)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{c.input(or32(c.D))},
		FLOPs: 2 * float64(pixels) * float64(depth) * float64(c.In),
		Body: func(b *triton.Block) {
			m, mIn := stretch(b, b.ProgramID(0), t.M, pixels).column()
			n, nIn := stretch(b, b.ProgramID(1), t.N, c.In).row()
			image, y, x := m.Div(c.Height*c.Width), m.Div(c.Width).Rem(c.Height), m.Rem(c.Width)
			chunks := triton.Blocks(c.Out, t.K) // of the channels of a tap
			sum := b.For(0, c.Size*c.Size*chunks, 1, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N)}, func(turn triton.Value, sums []triton.Value) []triton.Value {
				tap := turn.Div(chunks)
				channel := turn.Rem(chunks).Mul(t.K).Add(b.Range(t.K))
				column, row := channel.Expand(1), channel.Expand(0)
				var columnIn, rowIn triton.Value
				if c.Out%t.K != 0 {
					columnIn, rowIn = column.Less(c.Out), row.Less(c.Out)
				}
				w := load(b.Input(1).At(tap.Mul(c.In).Add(n).Mul(c.Out).Add(column)), columnIn, nIn)
				g := c.reaching(b, image, y.Sub(tap.Div(c.Size)).Add(c.Pad), x.Sub(tap.Rem(c.Size)).Add(c.Pad), row, mIn, rowIn)
				return []triton.Value{b.Dot(g.To(or32(c.Compute)), w.To(or32(c.Compute)), sums[0], t.Rounding)}
			})[0]
			at := m.Mul(c.In).Add(n)
			if c.Act != Identity {
				sum = c.Act.back(sum, load(b.Input(len(in)-1).At(at), mIn, nIn).To(dtypes.Float32))
			}
			store(b.Output(0).At(at), sum, mIn, nIn)
		},
	}
}

// reaching loads what comes back to pixels from one tap: the gradient of the
// results at row and column of the images, where there are such, and where they
// won their windows. channel is along the other axis.
func (c ConvInput) reaching(b *triton.Block, image, row, column, channel triton.Value, masks ...triton.Value) triton.Value {
	height, width := c.Result()
	reach := [2]int{height, width}
	if c.Pool {
		reach = [2]int{2 * height, 2 * width}
	}
	masks = append(masks, row.GreaterEqual(0).And(row.Less(reach[0])), column.GreaterEqual(0).And(column.Less(reach[1])))
	if !c.Pool {
		return load(b.Input(0).At(image.Mul(height).Add(row).Mul(width).Add(column).Mul(c.Out).Add(channel)), masks...)
	}
	at := image.Mul(height).Add(row.Div(2)).Mul(width).Add(column.Div(2)).Mul(c.Out).Add(channel)
	g, winner := load(b.Input(0).At(at), masks...), load(b.Input(2).At(at), masks...).To(dtypes.Int32)
	return winner.Equal(row.Rem(2).Mul(2).Add(column.Rem(2))).Select(g, 0)
}

// ConvGradient is the gradient of a convolution's weights and biases, in
// parts: Parts sums over a part of the results each, for [PartsUpdate] to add.
//
//	inputs:  x [batch height width in], g [batch height' width' out], winner, like g, uint8, with pooling
//	outputs: parts [parts taps+1 out] float32; the last row is that of the biases
//
// g is the gradient before the convolution's own activation and behind its
// pooling.
type ConvGradient struct {
	Geometry
	X, G    dtypes.DType // elements of x and g; default: float32
	Compute dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Tile    Tile         // M of taps, N of channels, K of results
	Parts   int          // default: one for each turn of the loop, at most 256
}

func (c ConvGradient) tile() Tile {
	usual := Tile{M: 64, N: 16, K: 64, Warps: 4, Stages: 2}
	if c.Out > 16 && c.taps() > 16 && c.rows() >= many {
		usual = Tile{M: 64, N: 64, K: 32, Warps: 8, Stages: 2}
	}
	t := c.Tile.or(usual).fit(c.taps(), c.Out, c.rows())
	t.Split = 1
	return t
}

func (c ConvGradient) parts() int {
	if c.Parts > 0 {
		return c.Parts
	}
	turns := triton.Blocks(c.rows(), c.tile().K)
	return min(turns, max(128, min(256, turns/4)))
}

// Shape is that of the parts.
func (c ConvGradient) Shape() shapes.Shape {
	return shapes.Make(dtypes.Float32, c.parts(), c.taps()+1, c.Out)
}

// Key tells convolutions apart.
func (c ConvGradient) Key() string {
	return key("conv gradient", c.key(), short(c.X), short(c.G), short(c.Compute))
}

// Tiles are those worth trying.
func (c ConvGradient) Tiles() []Tile {
	return distinct([]Tile{
		{},
		{M: 64, N: 16, K: 64, Warps: 4, Stages: 2},
		{M: 16, N: 16, K: 64, Warps: 4, Stages: 2},
		{M: 16, N: 16, K: 64, Warps: 2, Stages: 2},
		{M: 32, N: 16, K: 32, Warps: 2, Stages: 3},
		{M: 32, N: 64, K: 32, Warps: 4, Stages: 2},
		{M: 64, N: 64, K: 32, Warps: 8, Stages: 2},
		{M: 128, N: 64, K: 32, Warps: 8, Stages: 2},
		{M: 128, N: 16, K: 32, Warps: 8, Stages: 2},
		{M: 32, N: 32, K: 64, Warps: 4, Stages: 2},
		{M: 128, N: 64, K: 64, Warps: 8, Stages: 2},
	}, func(t Tile) Tile { c.Tile = t; return c.tile() })
}

// With is the gradient with another tile.
func (c ConvGradient) With(t Tile) Op { c.Tile = t; return c }

// Kernel is the kernel of these sizes.
func (c ConvGradient) Kernel() triton.Kernel {
	t := c.tile()
	in := []shapes.Shape{c.input(or32(c.X)), c.output(or32(c.G))}
	if c.Pool {
		in = append(in, c.output(dtypes.Uint8))
	}
	each := triton.Blocks(triton.Blocks(c.rows(), c.parts()), t.K) * t.K // results of a part
	return triton.Kernel{
		Name: "conv_gradient", Grid: [3]int{c.parts(), triton.Blocks(c.taps(), t.M), triton.Blocks(c.Out, t.N)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{c.Shape()},
		FLOPs: c.flops(),
		Body: func(b *triton.Block) {
			part, tap := b.ProgramID(0), b.ProgramID(1)
			k, kIn := stretch(b, tap, t.M, c.taps()).column()
			n, nIn := stretch(b, b.ProgramID(2), t.N, c.Out).row()
			first := part.Mul(each)
			sums := b.For(0, each, t.K, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N), b.Zeros(dtypes.Float32, t.K, t.N)}, func(i triton.Value, sums []triton.Value) []triton.Value {
				r := first.Add(i).Add(b.Range(t.K))
				row, column := r.Expand(0), r.Expand(1)
				rowIn, columnIn := row.Less(c.rows()), column.Less(c.rows())
				at := column.Mul(c.Out).Add(n)
				g := load(b.Input(1).At(at), columnIn, nIn)
				var winner triton.Value
				if c.Pool {
					winner = load(b.Input(2).At(at), columnIn, nIn).To(dtypes.Int32)
				}
				sum := sums[0]
				for q := range c.windows() {
					share := g
					if c.Pool {
						share = winner.Equal(q).Select(g, 0)
					}
					x := c.patch(b.Input(0), row, k, q, rowIn, kIn)
					sum = b.Dot(x.To(or32(c.Compute)), share.To(or32(c.Compute)), sum, t.Rounding)
				}
				return []triton.Value{sum, sums[1].Add(g.To(dtypes.Float32))}
			})
			start := part.Mul(c.taps() + 1)
			store(b.Output(0).At(start.Add(k).Mul(c.Out).Add(n)), sums[0], kIn, nIn)
			b.If(tap.Equal(0), func() {
				store(b.Output(0).At(start.Add(c.taps()).Mul(c.Out).Add(n)), sums[1].Sum(0).Expand(0), nIn)
			}, nil)
		},
	}
}

// PartsUpdate adds the parts of a gradient and takes the optimizer's step, in
// place.
//
//	inputs:  parts [parts taps+1 out] float32, w [… out] of taps·out elements and its moments,
//	         bias [out] and its moments, rate and t, float32 scalars
//	outputs: w and its moments, bias and its moments; the same memory
//
// With NoBias there is none, and parts are [parts taps out]. Without a Rule it has no state, rate and t, and its outputs are the gradients.
type PartsUpdate struct {
	Parts   int
	Weights shapes.Shape // of w; the last axis is out
	NoBias  bool
	Rule    Rule
	After   []shapes.Shape // of kernels that read the old weights
}

// manyParts is from how many on they are of another kernel than a few.
const manyParts = 256

// Kernel is the kernel of these sizes.
func (p PartsUpdate) Kernel() triton.Kernel {
	k := Group{Members: []Member{p}, Rule: p.Rule, After: p.After}.Kernel()
	k.Name = "parts_" + stepName(p.Rule)
	return k
}

func (p PartsUpdate) task(rule Rule) task {
	size, deep, warps := 128, min(triton.Cover(p.Parts, 1), 16), 4
	if p.Parts > manyParts { // the time goes by with waiting for parts: more blocks, and more loads on their way
		size, deep, warps = 8, min(triton.Cover(p.Parts, 1), 1024), 8
	}
	out := p.Weights.Dimensions[p.Weights.Rank()-1]
	weights := p.Weights.Size()
	blocks := triton.Blocks(weights, size)
	arrays, all, each := []shapes.Shape{p.Weights}, blocks, weights // each is the size of a part
	if !p.NoBias {
		arrays, all, each = append(arrays, shapes.Make(dtypes.Float32, out)), blocks+triton.Blocks(out, size), weights+out
	}
	return task{
		inputs: []shapes.Shape{shapes.Make(dtypes.Float32, p.Parts, each/out, out)},
		arrays: arrays, blocks: all, warps: warps, stages: 2,
		body: func(b *triton.Block, block triton.Value, in []triton.Value, update []step) {
			add := func(at span, first int, finish func(triton.Value)) {
				n, nIn := at.row()
				m := b.Range(deep).Expand(1)
				sum := b.For(0, p.Parts, deep, []triton.Value{b.Zeros(dtypes.Float32, deep, size)}, func(i triton.Value, c []triton.Value) []triton.Value {
					var some triton.Value
					if p.Parts%deep != 0 {
						some = i.Add(m).Less(p.Parts)
					}
					return []triton.Value{c[0].Add(load(in[0].At(i.Add(m).Mul(each).Add(n.Add(first))), some, nIn))}
				})[0]
				finish(sum.Sum(0).Expand(0))
			}
			main := func() {
				at := stretch(b, block, size, weights)
				n, nIn := at.row()
				add(at, 0, update[0](n, nIn))
			}
			if p.NoBias {
				main()
				return
			}
			b.If(block.Less(blocks), main, func() {
				at := stretch(b, block.Sub(blocks), size, out)
				n, nIn := at.row()
				add(at, weights, update[1](n, nIn))
			})
		},
	}
}
