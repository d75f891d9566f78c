package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// MostRows is how many rows FewRows takes: more are a matmul, which cuBLAS does faster.
const MostRows = 4

// FewRows is up to three dense layers of few rows, as when a text is generated: what counts is
// how fast the weights are read, and how few kernels there are. It normalizes the rows first with
// Norm, as kernels.Norm does, and adds a residual to what the only layer gives.
//
//	inputs:  x [rows in]; scale [in] if Norm, and offset [in] if Offset; for each layer its weights [in units],
//	         and biases [units] if Biases; residual [rows units] of x's type if Residual
//	outputs: y [rows units] of x's type for each layer
//
// Factors have the type of the weights, and their products are float32.
type FewRows struct {
	Rows, In     int
	Units        [3]int // 0: there are fewer layers
	Norm, Offset bool
	Epsilon      float64 // added to the mean squares
	Biases       bool
	Residual     bool
	Act          Act
	X, W, Scale  dtypes.DType // types of rows and results, of weights and biases, and of scale and offset; default: float32
	// Tile has N columns of a block and K rows of weights that it reads at a time.
	Tile Tile
}

// layers are the units of those that there are.
func (f FewRows) layers() (l []int) {
	for _, n := range f.Units {
		if n > 0 {
			l = append(l, n)
		}
	}
	return l
}

// blocks is how many there are of n columns each.
func (f FewRows) blocks(n int) (count int) {
	for _, units := range f.layers() {
		count += triton.Blocks(units, n)
	}
	return count
}

// tile is the one that Kernel uses: narrow, where wider ones would leave most processors without a
// block, and as deep as registers allow.
func (f FewRows) tile() Tile {
	usual := Tile{N: 32, K: 512, Warps: 8}
	if f.blocks(32) < 64 {
		usual = Tile{N: 16, K: 1024, Warps: 8}
	}
	if f.Rows > 1 {
		usual.K /= 2
	}
	t := f.Tile.or(usual)
	t.M, t.K, t.Split, t.Stages = f.Rows, min(t.K, triton.Cover(f.In, 16)), 1, 1
	return t
}

func (f FewRows) Key() string {
	return key("few rows", f.Rows, f.In, f.Units, f.Norm, f.Offset, f.Biases, f.Residual, f.Act, short(f.X), short(f.W), short(f.Scale))
}

// Tiles are blocks of several sizes.
func (f FewRows) Tiles() []Tile {
	tiles := []Tile{{}}
	for _, n := range []int{16, 32, 64} {
		for _, numbers := range []int{16, 32, 64} { // of weights, that a thread reads at a time
			for _, warps := range []int{4, 8} {
				tiles = append(tiles, Tile{N: n, K: 32 * warps * numbers / n, Warps: warps})
			}
		}
	}
	return distinct(tiles, func(t Tile) Tile { f.Tile = t; return f.tile() })
}

func (f FewRows) With(t Tile) Op { f.Tile = t; return f }

func (f FewRows) Kernel() triton.Kernel {
	t := f.tile()
	x, w, vector := cmp.Or(f.X, dtypes.Float32), cmp.Or(f.W, dtypes.Float32), shapes.Make(cmp.Or(f.Scale, dtypes.Float32), f.In)
	k := triton.Kernel{
		Name: "few_rows", Nameless: true, Grid: [3]int{f.blocks(t.N)}, Warps: t.Warps, Stages: t.Stages,
		Inputs: []shapes.Shape{shapes.Make(x, f.Rows, f.In)},
	}
	if f.Norm {
		k.Inputs = append(k.Inputs, vector)
		if f.Offset {
			k.Inputs = append(k.Inputs, vector)
		}
	}
	first := len(k.Inputs)
	for _, units := range f.layers() {
		if k.Inputs = append(k.Inputs, shapes.Make(w, f.In, units)); f.Biases {
			k.Inputs = append(k.Inputs, shapes.Make(w, units))
		}
		k.Outputs = append(k.Outputs, shapes.Make(x, f.Rows, units))
		k.FLOPs += 2 * float64(f.Rows*f.In) * float64(units)
	}
	if f.Residual {
		k.Inputs = append(k.Inputs, k.Outputs[0])
	}
	k.Body = func(b *triton.Block) {
		block, begin, input := b.ProgramID(0), 0, first
		var parts []part
		for i, units := range f.layers() {
			count := triton.Blocks(units, t.N)
			own := block.Sub(begin)
			mine := own.GreaterEqual(0).And(own.Less(count))
			p := part{
				mine: mine, columns: stretch(b, own.Max(0).Min(count-1), t.N, units), units: units, weights: b.Input(input), output: b.Output(i),
				limit: mine.Select(b.Full(dtypes.Int32, float64(f.In)), 0),
			}
			input++
			if f.Biases {
				p.biases = load(b.Input(input).At(p.columns.at), p.columns.mask()).To(dtypes.Float32)
				input++
			}
			p.first = f.read(b, p, b.Zeros(dtypes.Int32)) // on its way while the rows are normalized
			begin += count
			parts = append(parts, p)
		}
		values := f.values(b)
		for _, p := range parts {
			for r, sum := range f.sums(b, p, values) {
				y := sum
				if f.Biases {
					y = y.Add(p.biases)
				}
				y = activate(f.Act, y)
				at, there := p.columns.at.Add(r*p.units), []triton.Value{p.mine.Spread(t.N), p.columns.mask()}
				if f.Residual {
					y = y.To(x).To(dtypes.Float32).Add(load(b.Input(input).At(at), there...).To(dtypes.Float32))
				}
				store(p.output.At(at), y, there...)
			}
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
func (f FewRows) read(b *triton.Block, p part, k triton.Value) triton.Value {
	depth := k.Add(b.Range(f.tile().K))
	n, nIn := p.columns.row()
	return load(p.weights.At(depth.Expand(1).Mul(p.units).Add(n)), depth.Less(p.limit).Expand(1), nIn)
}

// values normalizes the rows. They are what it returns: a row's from a depth on, as factors.
func (f FewRows) values(b *triton.Block) func(r int, depth, in triton.Value) triton.Value {
	var less, factor []triton.Value // of each row: its mean, and what it is multiplied by
	if f.Norm {
		all := stretch(b, b.Zeros(dtypes.Int32), triton.Cover(f.In, 1), f.In)
		for r := range f.Rows {
			x := load(b.Input(0).At(all.at.Add(r*f.In)), all.mask()).To(dtypes.Float32)
			mean := x.Like(0).Sum(0)
			if f.Offset {
				mean = x.Sum(0).Mul(1 / float64(f.In))
				if x = x.Sub(mean); !all.mask().IsZero() {
					x = all.mask().Select(x, 0)
				}
			}
			square := x.Mul(x).Sum(0).Mul(1 / float64(f.In)).Add(f.Epsilon)
			less, factor = append(less, mean), append(factor, square.Like(1).Div(square.Sqrt()))
		}
	}
	return func(r int, depth, in triton.Value) triton.Value {
		x := load(b.Input(0).At(depth.Add(r*f.In)), in).To(dtypes.Float32)
		if f.Norm {
			x = x.Sub(less[r]).Mul(factor[r]).Mul(load(b.Input(1).At(depth), in).To(dtypes.Float32))
			if f.Offset {
				x = x.Add(load(b.Input(2).At(depth), in).To(dtypes.Float32))
			}
		}
		return x.To(cmp.Or(f.W, dtypes.Float32)).To(dtypes.Float32)
	}
}

// sums multiplies each row by tiles of weights, the next of which is on its way meanwhile.
func (f FewRows) sums(b *triton.Block, p part, values func(r int, depth, in triton.Value) triton.Value) (sums []triton.Value) {
	t := f.tile()
	state := []triton.Value{p.first}
	for range f.Rows {
		state = append(state, b.Zeros(dtypes.Float32, t.K, t.N))
	}
	state = b.For(0, p.limit, t.K, state, func(k triton.Value, s []triton.Value) []triton.Value {
		next := []triton.Value{f.read(b, p, k.Add(t.K))}
		depth := k.Add(b.Range(t.K))
		w := s[0].To(dtypes.Float32)
		for r, sum := range s[1:] {
			next = append(next, values(r, depth, depth.Less(p.limit)).Expand(1).Spread(t.K, t.N).MulAdd(w, sum))
		}
		return next
	})
	for _, sum := range state[1:] {
		sums = append(sums, sum.Sum(0))
	}
	return sums
}
