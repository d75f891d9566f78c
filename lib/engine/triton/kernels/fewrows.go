package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// MostRows is how many rows FewRows takes, and MostNormalRows how many it normalizes.
const (
	MostRows       = 32
	MostNormalRows = 4
)

// FewRows is up to three dense layers of few rows, as when a text is generated: what counts is
// how fast the weights are read, and how few kernels there are. It normalizes the rows first with
// Norm, as kernels.Norm does, and adds a residual to what the only layer gives.
//
//	inputs:  x [rows in]; scale [in] if Norm, and offset [in] if Offset; for each layer its weights [in units],
//	         and biases [units] if Biases; residual [rows units] of x's type if Residual
//	outputs: y [rows units] of x's type for each layer
//
// Up to MostNormalRows rows are multiplied in float32. More are a matmul whose factors have the
// type of the weights; of float32 they are TF32.
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

// tile is the one that Kernel uses. There are as many blocks as leave few processors without one.
func (f FewRows) tile() Tile {
	n := 64
	for n > 16 && f.blocks(n) < 96 {
		n /= 2
	}
	usual := Tile{N: n, K: 16384 / n, Warps: 8, Stages: 1}
	switch {
	case f.Rows > MostNormalRows:
		usual = Tile{N: n, K: 256, Warps: 4, Stages: 3}
	case f.Rows > 1:
		usual.K = 8192 / n
	}
	t := f.Tile.or(usual)
	t.M = triton.Cover(f.Rows, 16)
	t.K = min(t.K, triton.Cover(f.In, 16))
	if f.Rows <= MostNormalRows {
		t.M, t.Split, t.Stages = f.Rows, 1, 1
	}
	t.Split = 1
	return t
}

func (f FewRows) Key() string {
	return key("few rows", f.Rows, f.In, f.Units, f.Norm, f.Offset, f.Biases, f.Residual, f.Act, short(f.X), short(f.W), short(f.Scale))
}

// Tiles are blocks of several sizes.
func (f FewRows) Tiles() []Tile {
	tiles := []Tile{{}}
	for _, n := range []int{16, 32, 64} {
		if f.Rows > MostNormalRows {
			for _, k := range []int{64, 128, 256} {
				tiles = append(tiles, Tile{N: n, K: k, Warps: 4, Stages: 3}, Tile{N: n, K: k, Warps: 8, Stages: 3}, Tile{N: n, K: k, Warps: 4, Stages: 4})
			}
			continue
		}
		for _, numbers := range []int{16, 32, 64} { // of weights, that a thread reads at a time
			for _, warps := range []int{4, 8, 16} {
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
			if f.Rows <= MostNormalRows {
				p.first = f.read(b, p, b.Zeros(dtypes.Int32)) // on its way while the rows are normalized
			}
			begin += count
			parts = append(parts, p)
		}
		multiply := f.together
		if f.Rows <= MostNormalRows {
			multiply = f.oneByOne(b)
		}
		for _, p := range parts {
			for _, s := range multiply(b, p) {
				at, c, stored := s.row.Mul(p.units), p.columns.at, []triton.Value{p.mine.Spread(t.N), p.columns.mask()}
				y, biases := s.sum, p.biases
				if s.wide { // [rows columns]
					var in triton.Value
					c, in = p.columns.row()
					if stored = []triton.Value{p.mine.Spread(1, 1), s.in, in}; f.Biases {
						biases = biases.Expand(0)
					}
				}
				if f.Biases {
					y = y.Add(biases)
				}
				y = activate(f.Act, y)
				if f.Residual {
					y = y.To(x).To(dtypes.Float32).Add(load(b.Input(input).At(at.Add(c)), stored...).To(dtypes.Float32))
				}
				store(p.output.At(at.Add(c)), y, stored...)
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

// rowSum is the sums of a row, [columns], or those of all rows, [rows columns].
type rowSum struct {
	row, in triton.Value // of the output; in is the zero Value where all rows exist
	sum     triton.Value
	wide    bool
}

// oneByOne multiplies each row by tiles of weights, whose next one is on its way meanwhile.
func (f FewRows) oneByOne(b *triton.Block) func(b *triton.Block, p part) []rowSum {
	t := f.tile()
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
	// values are a row's from a depth on, as factors.
	values := func(r int, depth, in triton.Value) triton.Value {
		x := load(b.Input(0).At(depth.Add(r*f.In)), in).To(dtypes.Float32)
		if f.Norm {
			x = x.Sub(less[r]).Mul(factor[r]).Mul(load(b.Input(1).At(depth), in).To(dtypes.Float32))
			if f.Offset {
				x = x.Add(load(b.Input(2).At(depth), in).To(dtypes.Float32))
			}
		}
		return x.To(cmp.Or(f.W, dtypes.Float32)).To(dtypes.Float32)
	}
	return func(b *triton.Block, p part) (sums []rowSum) {
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
		for r, sum := range state[1:] {
			sums = append(sums, rowSum{row: b.Full(dtypes.Int32, float64(r)), sum: sum.Sum(0)})
		}
		return sums
	}
}

// together multiplies all rows at once.
func (f FewRows) together(b *triton.Block, p part) []rowSum {
	t := f.tile()
	rows := stretch(b, b.Zeros(dtypes.Int32), t.M, f.Rows)
	m, mIn := rows.column()
	n, nIn := p.columns.row()
	sum := b.For(0, p.limit, t.K, []triton.Value{b.Zeros(dtypes.Float32, t.M, t.N)}, func(k triton.Value, s []triton.Value) []triton.Value {
		depth := k.Add(b.Range(t.K))
		var inRow, inColumn triton.Value
		if f.In%t.K != 0 {
			in := depth.Less(f.In)
			inRow, inColumn = in.Expand(0), in.Expand(1)
		}
		x := load(b.Input(0).At(m.Mul(f.In).Add(depth.Expand(0))), mIn, inRow).To(cmp.Or(f.W, dtypes.Float32))
		w := load(p.weights.At(depth.Expand(1).Mul(p.units).Add(n)), inColumn, nIn)
		return []triton.Value{b.Dot(x, w, s[0], t.Rounding)}
	})[0]
	return []rowSum{{row: m, in: mIn, sum: sum, wide: true}}
}
