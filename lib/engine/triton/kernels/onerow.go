package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LargestRow is how many units all layers of a OneRow may have: the weights of more keep the
// device busy, and a matmul reads them faster.
const LargestRow = 16384

// OneRow is up to three dense layers of one row, as when a text is generated: what counts is how
// fast the weights are read, and how few kernels there are. It normalizes the row first with Norm,
// as kernels.Norm does, and adds a residual to what the only layer gives. Two rows are a matmul,
// which cuBLAS does faster.
//
//	inputs:  x [1 in]; scale [in] if Norm, and offset [in] if Offset; for each layer its weights [in units],
//	         and biases [units] if Biases; residual [1 units] of x's type if Residual
//	outputs: y [1 units] of x's type for each layer
//
// Factors have the type of the weights, and their products are float32.
type OneRow struct {
	In           int
	Units        [3]int // 0: there are fewer layers
	Norm, Offset bool
	Epsilon      float64 // added to the mean squares
	Biases       bool
	Residual     bool
	Act          Act
	X, W, Scale  dtypes.DType // types of the row and the results, of weights and biases, and of scale and offset; default: float32
	// Tile has N columns of a block and K rows of weights that it reads at a time.
	Tile Tile
}

// layers are the units of those that there are.
func (o OneRow) layers() (l []int) {
	for _, n := range o.Units {
		if n > 0 {
			l = append(l, n)
		}
	}
	return l
}

// blocks is how many there are of n columns each.
func (o OneRow) blocks(n int) (count int) {
	for _, units := range o.layers() {
		count += triton.Blocks(units, n)
	}
	return count
}

// tile is the one that Kernel uses: narrow, where wider ones would leave most processors without a
// block, and as deep as registers allow.
func (o OneRow) tile() Tile {
	usual := Tile{N: 32, K: 512, Warps: 8}
	if o.blocks(32) < 64 {
		usual = Tile{N: 16, K: 1024, Warps: 8}
	}
	t := o.Tile.or(usual)
	t.M, t.K, t.Split, t.Stages = 1, min(t.K, triton.Cover(o.In, 16)), 1, 1
	return t
}

func (o OneRow) Key() string {
	return key("one row", o.In, o.Units, o.Norm, o.Offset, o.Biases, o.Residual, o.Act, short(o.X), short(o.W), short(o.Scale))
}

// Tiles are blocks of several sizes.
func (o OneRow) Tiles() []Tile {
	tiles := []Tile{{}}
	for _, n := range []int{16, 32, 64} {
		for _, numbers := range []int{16, 32, 64} { // of weights, that a thread reads at a time
			for _, warps := range []int{4, 8} {
				tiles = append(tiles, Tile{N: n, K: 32 * warps * numbers / n, Warps: warps})
			}
		}
	}
	return distinct(tiles, func(t Tile) Tile { o.Tile = t; return o.tile() })
}

func (o OneRow) With(t Tile) Op { o.Tile = t; return o }

func (o OneRow) Kernel() triton.Kernel {
	t := o.tile()
	x, w, vector := cmp.Or(o.X, dtypes.Float32), cmp.Or(o.W, dtypes.Float32), shapes.Make(cmp.Or(o.Scale, dtypes.Float32), o.In)
	k := triton.Kernel{
		Name: "one_row", Nameless: true, Grid: [3]int{o.blocks(t.N)}, Warps: t.Warps, Stages: t.Stages,
		Inputs: []shapes.Shape{shapes.Make(x, 1, o.In)},
	}
	if o.Norm {
		k.Inputs = append(k.Inputs, vector)
		if o.Offset {
			k.Inputs = append(k.Inputs, vector)
		}
	}
	first := len(k.Inputs)
	for _, units := range o.layers() {
		if k.Inputs = append(k.Inputs, shapes.Make(w, o.In, units)); o.Biases {
			k.Inputs = append(k.Inputs, shapes.Make(w, units))
		}
		k.Outputs = append(k.Outputs, shapes.Make(x, 1, units))
		k.FLOPs += 2 * float64(o.In) * float64(units)
	}
	if o.Residual {
		k.Inputs = append(k.Inputs, k.Outputs[0])
	}
	k.Body = func(b *triton.Block) {
		block, begin, input := b.ProgramID(0), 0, first
		var parts []part
		for i, units := range o.layers() {
			count := triton.Blocks(units, t.N)
			own := block.Sub(begin)
			mine := own.GreaterEqual(0).And(own.Less(count))
			p := part{
				mine: mine, columns: stretch(b, own.Max(0).Min(count-1), t.N, units), units: units, weights: b.Input(input), output: b.Output(i),
				limit: mine.Select(b.Full(dtypes.Int32, float64(o.In)), 0),
			}
			input++
			if o.Biases {
				p.biases = load(b.Input(input).At(p.columns.at), p.columns.mask()).To(dtypes.Float32)
				input++
			}
			p.first = o.read(b, p, b.Zeros(dtypes.Int32)) // on its way while the row is normalized
			begin += count
			parts = append(parts, p)
		}
		values := o.values(b)
		for _, p := range parts {
			y := o.sums(b, p, values)
			if o.Biases {
				y = y.Add(p.biases)
			}
			y = activate(o.Act, y)
			there := []triton.Value{p.mine.Spread(t.N), p.columns.mask()}
			if o.Residual {
				y = y.To(x).To(dtypes.Float32).Add(load(b.Input(input).At(p.columns.at), there...).To(dtypes.Float32))
			}
			store(p.output.At(p.columns.at), y, there...)
		}
	}
	return k
}

// part is a layer in a block. Blocks of other layers have no turns of its loop, and store nothing.
type part struct {
	mine                    triton.Value // the block is one of the layer's
	columns                 span
	units                   int
	weights, biases, output triton.Value
	limit                   triton.Value // rows of the weights; 0 if it is not
	first                   triton.Value // the first tile of them
}

// read is a tile of weights from a row on.
func (o OneRow) read(b *triton.Block, p part, k triton.Value) triton.Value {
	depth := k.Add(b.Range(o.tile().K))
	n, nIn := p.columns.row()
	return load(p.weights.At(depth.Expand(1).Mul(p.units).Add(n)), depth.Less(p.limit).Expand(1), nIn)
}

// values normalizes the row. They are what it returns: the row's from a depth on, as factors.
func (o OneRow) values(b *triton.Block) func(depth, in triton.Value) triton.Value {
	var less, factor triton.Value // the row's mean, and what it is multiplied by
	if o.Norm {
		all := stretch(b, b.Zeros(dtypes.Int32), triton.Cover(o.In, 1), o.In)
		x := load(b.Input(0).At(all.at), all.mask()).To(dtypes.Float32)
		if o.Offset {
			less = x.Sum(0).Mul(1 / float64(o.In))
			if x = x.Sub(less); !all.mask().IsZero() {
				x = all.mask().Select(x, 0)
			}
		}
		square := x.Mul(x).Sum(0).Mul(1 / float64(o.In)).Add(o.Epsilon)
		factor = square.Like(1).Div(square.Sqrt())
	}
	return func(depth, in triton.Value) triton.Value {
		x := load(b.Input(0).At(depth), in).To(dtypes.Float32)
		if o.Offset {
			x = x.Sub(less)
		}
		if o.Norm {
			x = x.Mul(factor).Mul(load(b.Input(1).At(depth), in).To(dtypes.Float32))
		}
		if o.Offset {
			x = x.Add(load(b.Input(2).At(depth), in).To(dtypes.Float32))
		}
		return x.To(cmp.Or(o.W, dtypes.Float32)).To(dtypes.Float32)
	}
}

// sums multiplies the row by tiles of weights, the next of which is on its way meanwhile.
func (o OneRow) sums(b *triton.Block, p part, values func(depth, in triton.Value) triton.Value) triton.Value {
	t := o.tile()
	state := []triton.Value{p.first, b.Zeros(dtypes.Float32, t.K, t.N)}
	return b.For(0, p.limit, t.K, state, func(k triton.Value, s []triton.Value) []triton.Value {
		next, depth := o.read(b, p, k.Add(t.K)), k.Add(b.Range(t.K))
		row := values(depth, depth.Less(p.limit)).Expand(1).Spread(t.K, t.N)
		return []triton.Value{next, row.MulAdd(s[0].To(dtypes.Float32), s[1])}
	})[1].Sum(0)
}
