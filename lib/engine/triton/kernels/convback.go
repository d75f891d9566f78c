package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// ConvGradient is the gradient of a convolution's weights and biases, in
// parts: Parts sums over a part of the results each, for [PartsUpdate] to add.
//
//	inputs:  x [batch height width in], g [batch height' width' out], winner, like g, uint8, with pooling
//	outputs: parts [parts taps+1 out] float32; the last row is that of the biases
//
// g is the gradient before the convolution's own activation and behind its
// pooling.
//
// With pooling the square that a window looks at is read once for its four elements:
// each is as many columns of the product as there are channels, and makes parts of
// its own.
type ConvGradient struct {
	Geometry
	X, G    dtypes.DType // elements of x and g; default: float32
	Compute dtypes.DType // what the factors are rounded to; default: float32, as TF32
	Tile    Tile         // M of the square, N of window elements and channels, K of results
	Blocks  int          // that share the results; default: one for each turn of the loop, at most 256
}

func (c ConvGradient) tile() Tile {
	usual := Tile{M: 128, N: 32, K: 64, Warps: 4, Stages: 2}
	if c.Out > 16 && c.taps() > 16 && c.rows() >= many {
		usual = Tile{M: 64, N: 64, K: 32, Warps: 8, Stages: 2}
	}
	t := c.Tile.or(usual).fit(c.square(), c.windows()*c.Out, c.rows())
	t.Split = 1
	return t
}

func (c ConvGradient) blocks() int {
	if c.Blocks > 0 {
		return c.Blocks
	}
	turns := triton.Blocks(c.rows(), c.tile().K)
	return min(turns, max(128, min(256, turns/4)))
}

func (c ConvGradient) parts() int { return c.blocks() * c.windows() }

func (c ConvGradient) Shape() shapes.Shape {
	return shapes.Make(dtypes.Float32, c.parts(), c.taps()+1, c.Out)
}

func (c ConvGradient) Key() string {
	return key("conv gradient", c.Short(), short(c.X), short(c.G), short(c.Compute))
}

func (c ConvGradient) Tiles() []Tile {
	return distinct([]Tile{
		{},
		{M: 64, N: 16, K: 64, Warps: 4, Stages: 2},
		{M: 64, N: 32, K: 32, Warps: 4, Stages: 2},
		{M: 64, N: 32, K: 64, Warps: 4, Stages: 2},
		{M: 128, N: 32, K: 32, Warps: 4, Stages: 2},
		{M: 128, N: 32, K: 32, Warps: 8, Stages: 2},
		{M: 128, N: 32, K: 64, Warps: 8, Stages: 2},
		{M: 16, N: 64, K: 64, Warps: 4, Stages: 2},
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

func (c ConvGradient) With(t Tile) Op { c.Tile = t; return c }

// tap is which one number k of a square is for place q of the window, and whether
// it is one; the zero Value if all are.
func (c ConvGradient) tap(k, q triton.Value) (tap, is triton.Value) {
	if !c.Pool {
		return k, triton.Value{}
	}
	i, j, channel := c.number(k, c.side())
	i, j = i.Sub(q.Div(2)), j.Sub(q.Rem(2))
	is = i.GreaterEqual(0).And(i.Less(c.Size)).And(j.GreaterEqual(0).And(j.Less(c.Size)))
	return i.Mul(c.Size).Add(j).Mul(c.In).Add(channel), is
}

func (c ConvGradient) Kernel() triton.Kernel {
	t := c.tile()
	in := []shapes.Shape{c.input(cmp.Or(c.X, dtypes.Float32)), c.output(cmp.Or(c.G, dtypes.Float32))}
	if c.Pool {
		in = append(in, c.output(dtypes.Uint8))
	}
	each := triton.Blocks(triton.Blocks(c.rows(), c.blocks()), t.K) * t.K // results of a block
	return triton.Kernel{
		Name: "conv_gradient", Grid: [3]int{c.blocks(), triton.Blocks(c.square(), t.M), triton.Blocks(c.windows()*c.Out, t.N)},
		Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: []shapes.Shape{c.Shape()},
		FLOPs: 2 * float64(c.rows()) * float64(c.square()) * float64(c.windows()*c.Out),
		Body: func(b *triton.Block) {
			block, part := b.ProgramID(0), b.ProgramID(1)
			k, kIn := stretch(b, part, t.M, c.square()).column()
			n, nIn := stretch(b, b.ProgramID(2), t.N, c.windows()*c.Out).row()
			q, channel := n.Div(c.Out), n.Rem(c.Out)
			first := block.Mul(each)
			sums := b.For(0, each, t.K, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N), b.Zeros(dtypes.Float32, t.K, t.N)}, func(i triton.Value, sums []triton.Value) []triton.Value {
				r := first.Add(i).Add(b.Range(t.K))
				row, column := r.Expand(0), r.Expand(1)
				rowIn, columnIn := row.Less(c.rows()), column.Less(c.rows())
				at := column.Mul(c.Out).Add(channel)
				g := load(b.Input(1).At(at), columnIn, nIn)
				if c.Pool {
					g = load(b.Input(2).At(at), columnIn, nIn).To(dtypes.Int32).Equal(q).Select(g, 0)
				}
				x := c.patch(b.Input(0), row, k, 0, c.side(), rowIn, kIn)
				return []triton.Value{b.Dot(x.To(cmp.Or(c.Compute, dtypes.Float32)), g.To(cmp.Or(c.Compute, dtypes.Float32)), sums[0], t.Rounding), sums[1].Add(g.To(dtypes.Float32))}
			})
			start := block.Mul(c.windows()).Add(q).Mul(c.taps() + 1)
			tap, isTap := c.tap(k, q)
			store(b.Output(0).At(start.Add(tap).Mul(c.Out).Add(channel)), sums[0], kIn, nIn, isTap)
			b.If(part.Equal(0), func() {
				store(b.Output(0).At(start.Add(c.taps()).Mul(c.Out).Add(channel)), sums[1].Sum(0).Expand(0), nIn)
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
// Without a Rule it has no state, rate and t, and its outputs are the gradients.
type PartsUpdate struct {
	Parts   int
	Weights shapes.Shape // of w; the last axis is out
	Rule    Rule
	Tile    Tile // N numbers of the gradient in a block, K parts at a time
}

func (p PartsUpdate) Kernel() triton.Kernel {
	k := Group{Members: []Member{p}, Rule: p.Rule}.Kernel()
	k.Name = "parts_" + stepName(p.Rule)
	return k
}

// tile is the one that Kernel uses.
func (p PartsUpdate) tile() Tile {
	usual := Tile{N: 128, K: 16, Warps: 4, Stages: 2}
	switch { // few numbers of many parts: more of them are loaded at once
	case p.Parts > 128:
		usual.N, usual.K = 32, 64
	case p.Parts > 16:
		usual.N = 32
	}
	t := p.Tile.or(usual)
	t.K = min(t.K, triton.Cover(p.Parts, 1))
	return t
}

func (p PartsUpdate) Key() string {
	return key("parts update", p.Parts, p.Weights.Dimensions, stepName(p.Rule))
}

// Tiles are those worth trying: a thread has four numbers of the parts at a time, or 16.
func (p PartsUpdate) Tiles() []Tile {
	tiles := []Tile{{}}
	for _, size := range []int{8, 32, 64, 128} {
		for _, warps := range []int{4, 8} {
			for _, each := range []int{4, 16} {
				tiles = append(tiles, Tile{N: size, K: each * 32 * warps / size, Warps: warps})
			}
		}
	}
	return distinct(tiles, func(t Tile) Tile { p.Tile = t; return p.tile() })
}

func (p PartsUpdate) With(t Tile) Op { p.Tile = t; return p }

func (p PartsUpdate) task(rule Rule) task {
	t := p.tile()
	size, deep := t.N, t.K
	out := p.Weights.Dimensions[p.Weights.Rank()-1]
	weights := p.Weights.Size()
	blocks := triton.Blocks(weights, size)
	each := weights + out // the size of a part
	return task{
		inputs: []shapes.Shape{shapes.Make(dtypes.Float32, p.Parts, each/out, out)},
		arrays: []shapes.Shape{p.Weights, shapes.Make(dtypes.Float32, out)}, blocks: blocks + triton.Blocks(out, size), warps: t.Warps, stages: t.Stages,
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
				finish(sum.SumTogether(0).Expand(0))
			}
			b.If(block.Less(blocks), func() {
				at := stretch(b, block, size, weights)
				n, nIn := at.row()
				add(at, 0, update[0](n, nIn))
			}, func() {
				at := stretch(b, block.Sub(blocks), size, out)
				n, nIn := at.row()
				add(at, weights, update[1](n, nIn))
			})
		},
	}
}
