package kernels

import (
	"cmp"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// CachedAttention is causal attention of one new token of each sequence to those before it, whose
// keys and values are in a cache, which gets those of the new token. A block has the queries of
// one group of heads, and reads the cache once, with a softmax whose maximum and sum are corrected
// from turn to turn (Milakov and Gimelshein, 2018).
//
//	inputs:  q [rows heads·size]; k and v [rows groups·size]; keys and values [rows groups slots size], all of one type;
//	         at [rows slots], the position of the token in each slot, or -1; position [rows] and slot [], those of the new token, int32
//	outputs: y [rows heads·size]; keys and values, in their place
type CachedAttention struct {
	Rows, Heads, Groups, Size, Slots int

	Window         int // keys at a distance of Window or more are not seen; 0: all are
	Scale, SoftCap float64
	X              dtypes.DType // default: float32
	// Tile has the M slots of a turn, and the warps.
	Tile Tile
}

// MostQueries is how many heads of a group CachedAttention takes.
const MostQueries = 16

func (c CachedAttention) tile() Tile {
	wide := triton.Cover(c.Size, 1)
	t := c.Tile.or(Tile{M: max(16, 8192/wide), Warps: 4})
	t.M, t.N, t.K, t.Stages, t.Split = min(t.M, triton.Cover(c.Slots, 1)), wide, 1, 1, 1
	return t
}

func (c CachedAttention) Key() string {
	return key("cached attention", c.Rows, c.Heads, c.Groups, c.Size, c.Slots, c.Window > 0, c.SoftCap > 0, short(c.X))
}

// Tiles are turns of several lengths.
func (c CachedAttention) Tiles() []Tile {
	tiles, wide := []Tile{{}}, triton.Cover(c.Size, 1)
	for _, size := range []int{2048, 4096, 8192, 16384} {
		for _, warps := range []int{4, 8} {
			tiles = append(tiles, Tile{M: max(1, size/wide), Warps: warps})
		}
	}
	return distinct(tiles, func(t Tile) Tile { c.Tile = t; return c.tile() })
}

func (c CachedAttention) With(t Tile) Op { c.Tile = t; return c }

func (c CachedAttention) Kernel() triton.Kernel {
	t, each := c.tile(), c.Heads/c.Groups
	of := func(dims ...int) shapes.Shape { return shapes.Make(cmp.Or(c.X, dtypes.Float32), dims...) }
	number := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }
	cache, one := of(c.Rows, c.Groups, c.Slots, c.Size), of(c.Rows, c.Groups*c.Size)
	return triton.Kernel{
		Name: "cached_attention", Nameless: true, Grid: [3]int{c.Rows * c.Groups}, Warps: t.Warps, Stages: t.Stages,
		Inputs:  []shapes.Shape{of(c.Rows, c.Heads*c.Size), one, one, cache, cache, number(c.Rows, c.Slots), number(c.Rows), number()},
		Outputs: []shapes.Shape{of(c.Rows, c.Heads*c.Size), cache, cache},
		Aliases: map[int]int{1: 3, 2: 4}, Partly: []int{1, 2},
		FLOPs: 4 * float64(c.Rows*c.Heads*c.Slots) * float64(c.Size),
		Body: func(b *triton.Block) {
			pair := b.ProgramID(0)
			row := pair.Div(c.Groups)
			width := stretch(b, b.Zeros(dtypes.Int32), t.N, c.Size)
			s, sIn := width.row()
			position, slot := b.Input(6).At(row).Load(), b.Input(7).Load()
			begin := pair.Mul(c.Slots * c.Size)
			// The new ones, as the cache has them.
			var fresh [2]triton.Value
			for i := range fresh {
				fresh[i] = load(b.Input(1+i).At(pair.Mul(c.Size).Add(width.at)), width.mask())
				store(b.Output(1+i).At(begin.Add(slot.Mul(c.Size)).Add(width.at)), fresh[i], width.mask())
			}
			query := make([]triton.Value, each)
			var state []triton.Value // of each query: maximum and sum, and the sum of values
			for h := range query {
				query[h] = load(b.Input(0).At(pair.Mul(each).Add(h).Mul(c.Size).Add(width.at)), width.mask()).To(dtypes.Float32).Mul(c.Scale).Expand(0)
				state = append(state, b.Full(dtypes.Float32, -math.MaxFloat32), b.Zeros(dtypes.Float32), b.Zeros(dtypes.Float32, t.N))
			}
			state = b.For(0, slot.Add(1), t.M, state, func(i triton.Value, old []triton.Value) (next []triton.Value) {
				slots := i.Add(b.Range(t.M))
				var in, inColumn triton.Value
				if c.Slots%t.M != 0 {
					in = slots.Less(c.Slots)
					inColumn = in.Expand(1)
				}
				at := load(b.Input(5).At(row.Mul(c.Slots).Add(slots)), in)
				seen := at.GreaterEqual(0).And(at.LessEqual(position)).And(slots.LessEqual(slot))
				if c.Window > 0 {
					seen = seen.And(at.Greater(position.Sub(c.Window)))
				}
				here := slots.Equal(slot).Expand(1).Spread(t.M, t.N)
				read := func(i int) triton.Value {
					x := load(b.Input(3+i).At(begin.Add(slots.Expand(1).Mul(c.Size)).Add(s)), inColumn, sIn)
					return here.Select(fresh[i].Expand(0).Spread(t.M, t.N), x).To(dtypes.Float32)
				}
				keys, values := read(0), read(1)
				for h := range query {
					most, total, sum := old[3*h], old[3*h+1], old[3*h+2]
					score := keys.Mul(query[h]).Sum(1)
					if c.SoftCap > 0 {
						score = score.Mul(1 / c.SoftCap).Tanh().Mul(c.SoftCap)
					}
					now := most.Max(seen.Select(score, -math.MaxFloat32).Largest(0))
					weight := seen.Select(score.Sub(now).Exp(), 0)
					again := most.Sub(now).Exp()
					next = append(next, now, total.Mul(again).Add(weight.Sum(0)), sum.Mul(again).Add(weight.Expand(1).Mul(values).Sum(0)))
				}
				return next
			})
			for h := range query {
				total := state[3*h+1]
				y := state[3*h+2].Div(total.Greater(0).Select(total, 1))
				store(b.Output(0).At(pair.Mul(each).Add(h).Mul(c.Size).Add(width.at)), y, width.mask())
			}
		},
	}
}
