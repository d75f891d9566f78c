package kernels

import (
	"cmp"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Norm is batch normalization of [rows channels] arrays while a net is trained,
// with what stands behind it: another array that is added (the other branch of a
// residual block), and an activation. It is two kernels each way: the first adds
// up parts of the rows, the second puts the parts together and goes over all
// elements. Images are rows as they lie in memory.
//
// In passes over an array of that size, forwards they read 1, then read 1 and
// write 1. Backwards the result y is computed again from x instead of read: they
// read 2, then read 2 and write 1. With Skip one more is read forwards; y is then
// read backwards, and the gradient before the activation written, which is that
// of the other branch.
//
// Statistics are float32 whatever X is. A part's squares are those of the
// distances from its first row, so that nothing cancels where a channel is far
// from 0.
type Norm struct {
	Rows, Channels int
	X, Y           dtypes.DType // elements of what goes in and comes out; default: float32
	Epsilon        float64      // added to the variance; default: 1e-5
	Skip           bool         // an array like y is added before the activation
	Act            Act
	// Terms is how many gradients of y are added up; default: 1. More than one
	// want Skip.
	Terms int
	// Tile has the rows M and channels N of a turn, and the warps; the rest of it
	// does not matter.
	Tile Tile
	// Parts of the rows are summed by a block each, and Blocks of them normalized;
	// default: as many as give a GPU 256 and 512 blocks.
	Parts, Blocks int
}

func (l Norm) tile() Tile {
	t := l.Tile.or(Tile{M: 128, N: 32, K: 1, Warps: 8, Stages: 1})
	t.M, t.N = min(t.M, triton.Cover(l.Rows, 16)), min(t.N, triton.Cover(l.Channels, 16))
	return t
}

func (l Norm) parts() int { return l.stretches(l.Parts, 256) }

// stretches is how many parts the rows are in: a number that was set, or
// what gives so many blocks.
func (l Norm) stretches(asked, blocks int) int {
	t := l.tile()
	if asked == 0 {
		asked = max(1, blocks/triton.Blocks(l.Channels, t.N))
	}
	return min(asked, triton.Blocks(l.Rows, t.M))
}

func (l Norm) epsilon() float64 { return cmp.Or(l.Epsilon, 1e-5) }

func (l Norm) array(d dtypes.DType) shapes.Shape {
	return shapes.Make(cmp.Or(d, dtypes.Float32), l.Rows, l.Channels)
}

func (l Norm) vector() shapes.Shape { return shapes.Make(dtypes.Float32, l.Channels) }

// Shape is that of the parts: two sums for each part and channel.
func (l Norm) Shape() shapes.Shape {
	return shapes.Make(dtypes.Float32, l.parts(), 2, l.Channels)
}

func (l Norm) Key() string {
	return key("norm", l.Rows, l.Channels, l.Act, l.Skip, short(l.X), short(l.Y))
}

func (l Norm) Tiles() []Tile {
	return distinct([]Tile{
		{},
		{M: 128, N: 32, Warps: 4},
		{M: 64, N: 32, Warps: 4},
		{M: 256, N: 32, Warps: 8},
		{M: 64, N: 64, Warps: 8},
		{M: 128, N: 64, Warps: 8},
		{M: 32, N: 128, Warps: 8},
	}, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l Norm) With(t Tile) Op { l.Tile = t; return l }

// Kernel is Sums; the other three come after it.
func (l Norm) Kernel() triton.Kernel { return l.Sums() }

// norming is a block of one of the kernels at work: on some channels of a
// stretch of the rows.
type norming struct {
	Norm
	*triton.Block
	place  triton.Value // of the stretch
	each   int          // rows of a stretch
	n, nIn triton.Value // the channels
}

func (l Norm) kernel(name string, stretches int, in, out []shapes.Shape, body func(b *norming)) triton.Kernel {
	t := l.tile()
	each := triton.Blocks(triton.Blocks(l.Rows, stretches), t.M) * t.M
	return triton.Kernel{
		Name: name, Nameless: true, Grid: [3]int{stretches, triton.Blocks(l.Channels, t.N)}, Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: out, FLOPs: 4 * float64(l.Rows*l.Channels),
		Body: func(b *triton.Block) {
			n, nIn := stretch(b, b.ProgramID(1), t.N, l.Channels).row()
			body(&norming{l, b, b.ProgramID(0), each, n, nIn})
		},
	}
}

// over goes over the block's rows: f gets a tile's positions and mask, and what the
// turn before returned.
func (b *norming) over(carried []triton.Value, f func(at, in triton.Value, c []triton.Value) []triton.Value) []triton.Value {
	t, first := b.tile(), b.place.Mul(b.each)
	return b.For(0, b.each, t.M, carried, func(i triton.Value, c []triton.Value) []triton.Value {
		m := first.Add(i).Add(b.Range(t.M)).Expand(1)
		in, _ := and(m.Less(b.Rows), b.nIn)
		return f(m.Mul(b.Channels).Add(b.n), in.Spread(t.M, t.N), c)
	})
}

// tileOf reads a tile of an input.
func (b *norming) tileOf(input int, at, in triton.Value) triton.Value {
	return b.Input(input).At(at).LoadIf(in, 0).To(dtypes.Float32)
}

// sum is two sums over the block's rows, of tiles that f makes.
func (b *norming) sum(f func(at, in triton.Value) (x, y triton.Value)) (x, y triton.Value) {
	t := b.tile()
	zero := b.Zeros(dtypes.Float32, t.M, t.N)
	all := b.over([]triton.Value{zero, zero}, func(at, in triton.Value, c []triton.Value) []triton.Value {
		x, y := f(at, in)
		return []triton.Value{c[0].Add(x), c[1].Add(y)}
	})
	return all[0].Sum(0).Expand(0), all[1].Sum(0).Expand(0)
}

// part stores the two sums of the block's part.
func (b *norming) part(output int, x, y triton.Value) {
	at := b.place.Mul(2 * b.Channels).Add(b.n)
	store(b.Output(output).At(at), x, b.nIn)
	store(b.Output(output).At(at.Add(b.Channels)), y, b.nIn)
}

// allParts reads all parts' two sums, [parts channels], zeros beyond the last, and
// the numbers of the parts as a column.
func (b *norming) allParts(input int) (x, y, number triton.Value) {
	s := stretch(b.Block, b.Full(dtypes.Int32, 0), triton.Cover(b.parts(), 1), b.parts())
	number, in := s.column()
	at := number.Mul(2 * b.Channels).Add(b.n)
	x = load(b.Input(input).At(at), in, b.nIn)
	y = load(b.Input(input).At(at.Add(b.Channels)), in, b.nIn)
	return x, y, number
}

// rowsOf is how many rows a part of the sums has, float32.
func (b *norming) rowsOf(part triton.Value) triton.Value {
	t := b.tile()
	each := triton.Blocks(triton.Blocks(b.Rows, b.parts()), t.M) * t.M
	return part.Mul(each).Neg().Add(b.Rows).Min(each).Max(0).To(dtypes.Float32)
}

// Sums is the first kernel forwards.
//
//	inputs:  x [rows channels]
//	outputs: parts [parts 2 channels] float32: mean, and sum of squared distances from it
func (l Norm) Sums() triton.Kernel {
	return l.kernel("norm_sums", l.parts(), []shapes.Shape{l.array(l.X)}, []shapes.Shape{l.Shape()}, func(b *norming) {
		first := b.place.Mul(b.each)
		pivot := load(b.Input(0).At(first.Min(l.Rows-1).Mul(l.Channels).Add(b.n)), b.nIn).To(dtypes.Float32)
		sum, squares := b.sum(func(at, in triton.Value) (x, y triton.Value) {
			d := in.Select(b.tileOf(0, at, in).Sub(pivot), 0)
			return d, d.Mul(d)
		})
		off := sum.Div(b.rowsOf(b.place).Max(1))
		b.part(0, pivot.Add(off), squares.Sub(sum.Mul(off)).Max(0))
	})
}

// statistics joins the parts: mean and variance of the channels.
func (b *norming) statistics(parts int) (mean, variance triton.Value) {
	means, far, number := b.allParts(parts)
	rows := b.rowsOf(number)
	mean = means.Mul(rows).Sum(0).Div(float64(b.Rows)).Expand(0)
	d := means.Sub(mean)
	variance = far.Add(d.Mul(d).Mul(rows)).Sum(0).Div(float64(b.Rows)).Expand(0)
	return mean, variance
}

// Apply is the second kernel forwards.
//
//	inputs:  x, parts, scale and offset [channels] float32, with Skip the array to add, like y
//	outputs: y [rows channels], mean and variance [channels] float32, of the population
func (l Norm) Apply() triton.Kernel {
	name, in := "norm_", []shapes.Shape{l.array(l.X), l.Shape(), l.vector(), l.vector()}
	if l.Skip {
		name, in = "norm_skip_", append(in, l.array(l.Y))
	}
	return l.kernel(name+l.Act.String(), l.blocks(), in, []shapes.Shape{l.array(l.Y), l.vector(), l.vector()}, func(b *norming) {
		mean, variance := b.statistics(1)
		scale := load(b.Input(2).At(b.n), b.nIn).Mul(b.rstd(variance))
		offset := load(b.Input(3).At(b.n), b.nIn)
		b.If(b.place.Equal(0), func() {
			store(b.Output(1).At(b.n), mean, b.nIn)
			store(b.Output(2).At(b.n), variance, b.nIn)
		}, nil)
		b.over(nil, func(at, in triton.Value, _ []triton.Value) []triton.Value {
			y := b.tileOf(0, at, in).Sub(mean).Mul(scale).Add(offset)
			if l.Skip {
				y = y.Add(b.tileOf(4, at, in))
			}
			store(b.Output(0).At(at), activate(l.Act, y), in)
			return nil
		})
	})
}

func (l Norm) blocks() int { return l.stretches(l.Blocks, 512) }

func (b *norming) rstd(variance triton.Value) triton.Value {
	return b.Full(dtypes.Float32, 1).Div(variance.Add(b.epsilon()).Sqrt())
}

// normal is what the kernels backwards know of the channels: the mean, one over
// the deviation, scale and offset. They are inputs 0 to 3.
type normal struct{ mean, rstd, scale, offset triton.Value }

func (b *norming) normal() normal {
	of := func(input int) triton.Value { return load(b.Input(input).At(b.n), b.nIn) }
	return normal{of(0), b.rstd(of(1)), of(2), of(3)}
}

// BackSums is the first kernel backwards.
//
//	inputs:  mean, variance, scale, offset [channels] float32; x [rows channels];
//	         Terms gradients of y, like y; with Skip, y
//	outputs: parts [parts 2 channels] float32: sums of the gradient before the
//	         activation, and of it times the normalized x; with Skip, that
//	         gradient [rows channels], like y
func (l Norm) BackSums() triton.Kernel {
	in, out := l.backwards(), []shapes.Shape{l.Shape()}
	terms := max(1, l.Terms)
	for range terms {
		in = append(in, l.array(l.Y))
	}
	if l.Skip {
		in, out = append(in, l.array(l.Y)), append(out, l.array(l.Y))
	}
	return l.kernel("norm_back_sums_"+l.Act.String(), l.parts(), in, out, func(b *norming) {
		c := b.normal()
		sum, product := b.sum(func(at, in triton.Value) (_, _ triton.Value) {
			x := b.tileOf(4, at, in).Sub(c.mean)
			g := b.tileOf(5, at, in)
			for i := 1; i < terms; i++ {
				g = g.Add(b.tileOf(5+i, at, in))
			}
			if l.Skip {
				g = backward(l.Act, g, b.tileOf(5+terms, at, in)).To(cmp.Or(l.Y, dtypes.Float32))
				store(b.Output(1).At(at), g, in)
				g = g.To(dtypes.Float32)
			} else {
				g = b.through(c, g, x)
			}
			return g, g.Mul(in.Select(x.Mul(c.rstd), 0))
		})
		b.part(0, sum, product)
	})
}

// backwards are the first inputs of both kernels.
func (l Norm) backwards() []shapes.Shape {
	return []shapes.Shape{l.vector(), l.vector(), l.vector(), l.vector(), l.array(l.X)}
}

// through takes a gradient through the activation, whose result is computed from
// x, less the mean, by the same operations as forwards.
func (b *norming) through(c normal, g, x triton.Value) triton.Value {
	if b.Act == Identity {
		return g
	}
	return backward(b.Act, g, activate(b.Act, x.Mul(c.scale.Mul(c.rstd)).Add(c.offset)))
}

// BackApply is the second kernel backwards.
//
//	inputs:  mean, variance, scale, offset [channels] float32; x [rows channels];
//	         g [rows channels], the gradient of y, or with Skip what BackSums has
//	         made of it; the parts
//	outputs: d [rows channels], the gradient of x, like x; of scale and of offset [channels] float32
func (l Norm) BackApply() triton.Kernel {
	if l.Skip {
		l.Act = Identity // BackSums has been through it
	}
	in := append(l.backwards(), l.array(l.Y), l.Shape())
	return l.kernel("norm_back_"+l.Act.String(), l.blocks(), in, []shapes.Shape{l.array(l.X), l.vector(), l.vector()}, func(b *norming) {
		c := b.normal()
		x, y, _ := b.allParts(6)
		sum, product := x.Sum(0).Expand(0), y.Sum(0).Expand(0)
		b.If(b.place.Equal(0), func() {
			store(b.Output(1).At(b.n), product, b.nIn)
			store(b.Output(2).At(b.n), sum, b.nIn)
		}, nil)
		share := 1 / float64(l.Rows)
		sum, product = sum.Mul(share), product.Mul(share).Mul(c.rstd)
		factor := c.scale.Mul(c.rstd)
		b.over(nil, func(at, in triton.Value, _ []triton.Value) []triton.Value {
			x := b.tileOf(4, at, in).Sub(c.mean)
			g := b.through(c, b.tileOf(5, at, in), x)
			store(b.Output(0).At(at), g.Sub(sum).Sub(x.Mul(product)).Mul(factor), in)
			return nil
		})
	})
}
