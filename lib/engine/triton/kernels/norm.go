package kernels

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Norm is batch normalization of [rows channels] arrays while a net is trained,
// with the activation behind it, in two kernels each way: the first adds up
// parts of the rows, the second puts the parts together and goes over all
// elements. Images are rows as they lie in memory.
//
// Statistics are float32 whatever X is; the variance is the mean of the squares
// of the distances from the part's own mean, so that nothing cancels.
type Norm struct {
	Rows, Channels int
	X, Y           dtypes.DType // elements of what goes in and comes out; default: float32
	Epsilon        float64      // added to the variance; default: 1e-5
	Act            Act
	Parts          int // of the rows; default: one for 256 rows, at most 64
}

const (
	normRows     = 32 // of a turn
	normChannels = 32 // of a block
)

func (l Norm) parts() int {
	if l.Parts > 0 {
		return l.Parts
	}
	return min(64, triton.Blocks(l.Rows, 256))
}

// each is the number of rows of a part.
func (l Norm) each() int {
	return triton.Blocks(triton.Blocks(l.Rows, l.parts()), normRows) * normRows
}

func (l Norm) epsilon() float64 { return or(l.Epsilon, 1e-5) }

func (l Norm) array(d dtypes.DType) shapes.Shape { return shapes.Make(or32(d), l.Rows, l.Channels) }

func (l Norm) vector() shapes.Shape { return shapes.Make(dtypes.Float32, l.Channels) }

// Shape is that of the parts: two sums for each part and channel.
func (l Norm) Shape() shapes.Shape {
	return shapes.Make(dtypes.Float32, l.parts(), 2, l.Channels)
}

// over goes over a block's part of the rows: f gets a tile's addresses, its mask
// and what the turn before returned.
func (l Norm) over(b *triton.Block, part triton.Value, n, nIn triton.Value, carried []triton.Value, f func(at, in triton.Value, c []triton.Value) []triton.Value) []triton.Value {
	first := part.Mul(l.each())
	return b.For(0, l.each(), normRows, carried, func(i triton.Value, c []triton.Value) []triton.Value {
		m := first.Add(i).Add(b.Range(normRows)).Expand(1)
		in, _ := and(m.Less(l.Rows), nIn)
		return f(m.Mul(l.Channels).Add(n), in.Spread(normRows, normChannels), c)
	})
}

func (l Norm) kernel(name string, in, out []shapes.Shape, body func(b *triton.Block, part, n, nIn triton.Value)) triton.Kernel {
	return triton.Kernel{
		Name: name, Grid: [3]int{l.parts(), triton.Blocks(l.Channels, normChannels)}, Inputs: in, Outputs: out,
		FLOPs: 4 * float64(l.Rows*l.Channels),
		Body: func(b *triton.Block) {
			n, nIn := stretch(b, b.ProgramID(1), normChannels, l.Channels).row()
			body(b, b.ProgramID(0), n, nIn)
		},
	}
}

// Sums is the first kernel forwards.
//
//	inputs:  x [rows channels]
//	outputs: parts [parts 2 channels] float32: mean, and sum of squared distances from it
func (l Norm) Sums() triton.Kernel {
	return l.kernel("norm_sums", []shapes.Shape{l.array(l.X)}, []shapes.Shape{l.Shape()}, func(b *triton.Block, part, n, nIn triton.Value) {
		zero := b.Zeros(dtypes.Float32, normRows, normChannels)
		sum := l.over(b, part, n, nIn, []triton.Value{zero}, func(at, in triton.Value, c []triton.Value) []triton.Value {
			return []triton.Value{c[0].Add(b.Input(0).At(at).LoadIf(in, 0).To(dtypes.Float32))}
		})[0]
		mean := sum.Sum(0).Div(l.count(b, part)).Expand(0)
		far := l.over(b, part, n, nIn, []triton.Value{zero}, func(at, in triton.Value, c []triton.Value) []triton.Value {
			d := in.Select(b.Input(0).At(at).LoadIf(in, 0).To(dtypes.Float32).Sub(mean), 0)
			return []triton.Value{c[0].Add(d.Mul(d))}
		})[0]
		at := part.Mul(2 * l.Channels).Add(n)
		store(b.Output(0).At(at), mean, nIn)
		store(b.Output(0).At(at.Add(l.Channels)), far.Sum(0).Expand(0), nIn)
	})
}

// count is how many rows a part has, at least 1.
func (l Norm) count(b *triton.Block, part triton.Value) triton.Value {
	return b.Full(dtypes.Int32, float64(l.Rows)).Sub(part.Mul(l.each())).Min(l.each()).Max(0).To(dtypes.Float32).Max(1)
}

// statistics joins the parts: mean and variance of the channels.
func (l Norm) statistics(b *triton.Block, parts, n, nIn triton.Value) (mean, variance triton.Value) {
	start := b.Zeros(dtypes.Float32, 1, normChannels)
	all := b.For(0, l.parts(), 1, []triton.Value{b.Zeros(dtypes.Float32), start, start}, func(i triton.Value, c []triton.Value) []triton.Value {
		at := i.Mul(2 * l.Channels).Add(n)
		rows := b.Full(dtypes.Int32, float64(l.Rows)).Sub(i.Mul(l.each())).Min(l.each()).Max(0).To(dtypes.Float32)
		total := c[0].Add(rows)
		share := rows.Div(total)
		d := load(parts.At(at), nIn).Sub(c[1])
		far := load(parts.At(at.Add(l.Channels)), nIn)
		return []triton.Value{total, c[1].Add(d.Mul(share)), c[2].Add(far).Add(d.Mul(d).Mul(c[0].Mul(share)))}
	})
	return all[1], all[2].Div(float64(l.Rows))
}

// Apply is the second kernel forwards.
//
//	inputs:  x, parts, scale and offset [channels] float32
//	outputs: y [rows channels], mean and variance [channels] float32, of the population
func (l Norm) Apply() triton.Kernel {
	return l.kernel("norm_"+l.Act.String(), []shapes.Shape{l.array(l.X), l.Shape(), l.vector(), l.vector()}, []shapes.Shape{l.array(l.Y), l.vector(), l.vector()}, func(b *triton.Block, part, n, nIn triton.Value) {
		mean, variance := l.statistics(b, b.Input(1), n, nIn)
		one := b.Full(dtypes.Float32, 1)
		scale := load(b.Input(2).At(n), nIn).Mul(one.Div(variance.Add(l.epsilon()).Sqrt()))
		offset := load(b.Input(3).At(n), nIn)
		b.If(part.Equal(0), func() {
			store(b.Output(1).At(n), mean, nIn)
			store(b.Output(2).At(n), variance, nIn)
		}, nil)
		l.over(b, part, n, nIn, nil, func(at, in triton.Value, _ []triton.Value) []triton.Value {
			x := b.Input(0).At(at).LoadIf(in, 0).To(dtypes.Float32)
			store(b.Output(0).At(at), l.Act.of(x.Sub(mean).Mul(scale).Add(offset)), in)
			return nil
		})
	})
}

// BackSums is the first kernel backwards.
//
//	inputs:  g [rows channels], the gradient of y, like y; y, x, mean, variance
//	outputs: parts [parts 2 channels] float32: sums of the gradient, and of it times the normalized x
func (l Norm) BackSums() triton.Kernel {
	in := []shapes.Shape{l.array(l.Y), l.array(l.Y), l.array(l.X), l.vector(), l.vector()}
	return l.kernel("norm_back_sums", in, []shapes.Shape{l.Shape()}, func(b *triton.Block, part, n, nIn triton.Value) {
		mean, scale := l.normal(b, n, nIn)
		zero := b.Zeros(dtypes.Float32, normRows, normChannels)
		sums := l.over(b, part, n, nIn, []triton.Value{zero, zero}, func(at, in triton.Value, c []triton.Value) []triton.Value {
			g, x := l.back(b, at, in, mean, scale)
			return []triton.Value{c[0].Add(g), c[1].Add(g.Mul(x))}
		})
		at := part.Mul(2 * l.Channels).Add(n)
		store(b.Output(0).At(at), sums[0].Sum(0).Expand(0), nIn)
		store(b.Output(0).At(at.Add(l.Channels)), sums[1].Sum(0).Expand(0), nIn)
	})
}

// normal is what makes x normal: the mean, and one over the deviation.
func (l Norm) normal(b *triton.Block, n, nIn triton.Value) (mean, scale triton.Value) {
	mean, variance := load(b.Input(3).At(n), nIn), load(b.Input(4).At(n), nIn)
	return mean, b.Full(dtypes.Float32, 1).Div(variance.Add(l.epsilon()).Sqrt())
}

// back loads a tile's gradient, taken through the activation, and its
// normalized x.
func (l Norm) back(b *triton.Block, at, in, mean, scale triton.Value) (g, x triton.Value) {
	g = b.Input(0).At(at).LoadIf(in, 0).To(dtypes.Float32)
	if l.Act != Identity {
		g = l.Act.back(g, b.Input(1).At(at).LoadIf(in, 0).To(dtypes.Float32))
	}
	x = b.Input(2).At(at).LoadIf(in, 0).To(dtypes.Float32).Sub(mean).Mul(scale)
	return g, x
}

// BackApply is the second kernel backwards.
//
//	inputs:  those of BackSums, its parts, and scale [channels]
//	outputs: d [rows channels], the gradient of x, like x; of scale and of offset [channels] float32
func (l Norm) BackApply() triton.Kernel {
	in := []shapes.Shape{l.array(l.Y), l.array(l.Y), l.array(l.X), l.vector(), l.vector(), l.Shape(), l.vector()}
	return l.kernel("norm_back", in, []shapes.Shape{l.array(l.X), l.vector(), l.vector()}, func(b *triton.Block, part, n, nIn triton.Value) {
		mean, scale := l.normal(b, n, nIn)
		start := b.Zeros(dtypes.Float32, 1, normChannels)
		sums := b.For(0, l.parts(), 1, []triton.Value{start, start}, func(i triton.Value, c []triton.Value) []triton.Value {
			at := i.Mul(2 * l.Channels).Add(n)
			return []triton.Value{c[0].Add(load(b.Input(5).At(at), nIn)), c[1].Add(load(b.Input(5).At(at.Add(l.Channels)), nIn))}
		})
		b.If(part.Equal(0), func() {
			store(b.Output(1).At(n), sums[1], nIn)
			store(b.Output(2).At(n), sums[0], nIn)
		}, nil)
		share := 1 / float64(l.Rows)
		g0, g1 := sums[0].Mul(share), sums[1].Mul(share)
		factor := load(b.Input(6).At(n), nIn).Mul(scale)
		l.over(b, part, n, nIn, nil, func(at, in triton.Value, _ []triton.Value) []triton.Value {
			g, x := l.back(b, at, in, mean, scale)
			store(b.Output(0).At(at), g.Sub(g0).Sub(x.Mul(g1)).Mul(factor), in)
			return nil
		})
	})
}
