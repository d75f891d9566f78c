package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LargestNorm is how wide the rows of Norm and NormGradient may be: a block holds whole rows in
// registers.
const LargestNorm = 16384

// Norm normalizes rows by their root mean squares and scales them. With Offset it is layer
// normalization (Ba et al., 2016): the rows' means are subtracted first, and an offset is added
// at the end. Without, it is RMS normalization (Zhang and Sennrich, 2019).
//
// With Sum it normalizes x + z, as between the layers of a residual net, and with Biases those are
// added too.
//
//	inputs:  x [rows width], z [rows width] if Sum, biases [width] of x's type if Biases, scale [width] float32, offset [width] float32 if Offset
//	outputs: y [rows width], and the sum [rows width] if Sum
type Norm struct {
	Rows, Width int
	Offset      bool
	Sum, Biases bool
	Epsilon     float64      // added to the mean squares
	X           dtypes.DType // elements of x and y; default: float32
	// Tile has the rows M of a block, and the warps. N are all columns.
	Tile Tile
}

// NormGradient is the gradient of Norm, which computes the statistics of the rows again. Each
// block takes rows from all over the array and adds up its share of the gradients of scale and
// offset, so that sums have one order. With Sum, where other layers read x + z too, whose gradient
// is dz, that is added, and the rows of the sum are added up, which biases want.
//
//	inputs:  x (or x + z) [rows width], scale [width] float32, dy [rows width], dz [rows width] if Sum, all of x's type but scale
//	outputs: dx [rows width], of x's type, and [parts kinds width] float32: parts of the sums for scale, for offset if Offset, and of dx if Sum
type NormGradient struct{ Norm }

// tile is the one that Kernel uses: rows of some 1024 numbers, 32 for each thread, or 8 of sums,
// of which a thread has more to keep.
func (n Norm) tile() Tile {
	if n.Sum {
		return n.filled(1024, 8)
	}
	return n.filled(1024, 32)
}

// tile is the one that Kernel uses. K is how many blocks there are for each of 132 processors.
func (n NormGradient) tile() Tile {
	t := n.filled(2048, 32)
	if n.Sum {
		t = n.filled(1024, 8)
	}
	t.K = max(1, t.K)
	return t
}

// filled is the tile with what it lacks: blocks of so many numbers, and threads of so many each.
func (n Norm) filled(size, each int) Tile {
	wide := triton.Cover(n.Width, 1)
	t := n.Tile.or(Tile{M: max(1, size/wide), K: 4})
	t.M, t.N, t.Stages = min(triton.Cover(t.M, 1), triton.Cover(n.Rows, 1)), wide, 1
	if t.Warps == 0 {
		t.Warps = min(32, max(1, t.M*wide/(32*each)))
	}
	return t
}

// Parts is how many parts the sums of NormGradient's kernel have.
func (n NormGradient) Parts() int {
	t := n.tile()
	return min(triton.Blocks(n.Rows, t.M), 132*t.K)
}

func (n Norm) Key() string {
	return key("norm", n.Rows, n.Width, n.Offset, n.Sum, n.Biases, short(n.X))
}

func (n NormGradient) Key() string {
	return key("norm gradient", n.Rows, n.Width, n.Offset, n.Sum, short(n.X))
}

// tiles are blocks of several sizes.
func (n Norm) tiles(parts ...int) []Tile {
	tiles, wide := []Tile{{}}, triton.Cover(n.Width, 1)
	for _, size := range []int{1024, 2048, 4096} {
		for _, numbers := range []int{8, 16, 32} { // of a thread
			if warps := size / (32 * numbers); size >= wide && warps >= 1 && warps <= 32 {
				for _, k := range parts {
					tiles = append(tiles, Tile{M: size / wide, Warps: warps, K: k})
				}
			}
		}
	}
	return tiles
}

func (n Norm) Tiles() []Tile {
	return distinct(n.tiles(0), func(t Tile) Tile { n.Tile = t; return n.tile() })
}

func (n NormGradient) Tiles() []Tile {
	return distinct(n.tiles(2, 4, 8), func(t Tile) Tile { n.Tile = t; return n.tile() })
}

func (n Norm) With(t Tile) Op         { n.Tile = t; return n }
func (n NormGradient) With(t Tile) Op { n.Tile = t; return n }

func (n Norm) name() string {
	if n.Offset {
		return "layer_norm"
	}
	return "rms_norm"
}

// statistics are a tile of x less the rows' means if they count, 0 in columns that do not exist,
// and what it is multiplied by, [rows 1].
func (n Norm) statistics(x, columns triton.Value) (middle, factor triton.Value) {
	mean := func(x triton.Value) triton.Value { return x.Sum(1).Mul(1 / float64(n.Width)).Expand(1) }
	if n.Offset {
		if x = x.Sub(mean(x)); !columns.IsZero() {
			x = columns.Select(x, 0)
		}
	}
	square := mean(x.Mul(x)).Add(n.Epsilon)
	return x, square.Like(1).Div(square.Sqrt())
}

func (n Norm) Kernel() triton.Kernel {
	t := n.tile()
	all, column := shapes.Make(cmp.Or(n.X, dtypes.Float32), n.Rows, n.Width), shapes.Make(dtypes.Float32, n.Width)
	in, out := []shapes.Shape{all}, []shapes.Shape{all}
	if n.Sum {
		in, out = append(in, all), append(out, all)
	}
	if n.Biases {
		in = append(in, shapes.Make(all.DType, n.Width))
	}
	scale := len(in)
	if in = append(in, column); n.Offset {
		in = append(in, column)
	}
	return triton.Kernel{
		Name: n.name(), Nameless: true, Grid: [3]int{triton.Blocks(n.Rows, t.M)}, Warps: t.Warps, Stages: t.Stages,
		Inputs: in, Outputs: out,
		Body: func(b *triton.Block) {
			rows, columns := stretch(b, b.ProgramID(0), t.M, n.Rows), stretch(b, b.Zeros(dtypes.Int32), t.N, n.Width)
			m, mIn := rows.column()
			c, cIn := columns.row()
			at := m.Mul(n.Width).Add(c)
			x := load(b.Input(0).At(at), mIn, cIn).To(dtypes.Float32)
			if n.Sum {
				if x = x.Add(load(b.Input(1).At(at), mIn, cIn).To(dtypes.Float32)); n.Biases {
					x = x.Add(load(b.Input(2).At(c), cIn).To(dtypes.Float32))
				}
				x = x.To(all.DType)
				store(b.Output(1).At(at), x, mIn, cIn)
				x = x.To(dtypes.Float32) // the gradient has it rounded, too
			}
			x, factor := n.statistics(x, cIn)
			y := x.Mul(factor).Mul(load(b.Input(scale).At(c), cIn))
			if n.Offset {
				y = y.Add(load(b.Input(scale+1).At(c), cIn))
			}
			store(b.Output(0).At(at), y, mIn, cIn)
		},
	}
}

func (n NormGradient) Kernel() triton.Kernel {
	t, parts, kinds := n.tile(), n.Parts(), n.kinds()
	all := shapes.Make(cmp.Or(n.X, dtypes.Float32), n.Rows, n.Width)
	in, arrays := []shapes.Shape{all, shapes.Make(dtypes.Float32, n.Width), all}, []int{0, 2}
	if n.Sum {
		in, arrays = append(in, all), []int{0, 2, 3}
	}
	return triton.Kernel{
		Name: n.name() + "_gradient", Nameless: true, Grid: [3]int{parts}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  in,
		Outputs: []shapes.Shape{all, shapes.Make(dtypes.Float32, parts, kinds*n.Width)},
		Body: func(b *triton.Block) {
			part := b.ProgramID(0)
			columns := stretch(b, b.Zeros(dtypes.Int32), t.N, n.Width)
			c, cIn := columns.row()
			scale := load(b.Input(1).At(c), cIn)
			at := func(i triton.Value) (at, mIn triton.Value) {
				m, mIn := stretch(b, i, t.M, n.Rows).column()
				return m.Mul(n.Width).Add(c), mIn
			}
			read := func(i triton.Value) (l []triton.Value) {
				at, mIn := at(i)
				for _, k := range arrays {
					l = append(l, load(b.Input(k).At(at), mIn, cIn))
				}
				return l
			}
			mean := func(x triton.Value) triton.Value { return x.Sum(1).Mul(1 / float64(n.Width)).Expand(1) }
			last := triton.Blocks(n.Rows, t.M) - 1
			state := read(part)
			for range kinds {
				state = append(state, b.Zeros(dtypes.Float32, t.M, t.N))
			}
			state = b.For(part, last+1, parts, state, func(i triton.Value, s []triton.Value) []triton.Value {
				next := read(i.Add(parts).Min(last)) // on its way meanwhile
				dy := s[1].To(dtypes.Float32)
				x, factor := n.statistics(s[0].To(dtypes.Float32), cIn)
				x = x.Mul(factor)
				v := dy.Mul(scale)
				less := x.Mul(mean(v.Mul(x)))
				if n.Offset {
					less = less.Add(mean(v))
				}
				dx, sums := v.Sub(less).Mul(factor), s[len(arrays):]
				if n.Sum {
					dx = dx.Add(s[2].To(dtypes.Float32))
				}
				at, mIn := at(i)
				store(b.Output(0).At(at), dx, mIn, cIn)
				if next = append(next, sums[0].Add(dy.Mul(x))); n.Offset {
					next = append(next, sums[1].Add(dy))
				}
				if n.Sum {
					next = append(next, sums[kinds-1].Add(dx))
				}
				return next
			})
			for k, sum := range state[len(arrays):] {
				store(b.Output(1).At(part.Mul(kinds*n.Width).Add(k*n.Width).Add(columns.at)), sum.Sum(0), columns.mask())
			}
		},
	}
}

// kinds is how many sums over rows the kernel makes.
func (n NormGradient) kinds() int {
	k := 1
	for _, also := range []bool{n.Offset, n.Sum} {
		if also {
			k++
		}
	}
	return k
}
