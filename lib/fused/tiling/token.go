package tiling

import (
	"cmp"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/lower/xla"
	"gaiden/lib/models"
)

// oneRow is dense layers of one row.
func oneRow(f kernels.OneRow) Form {
	x, w, vector := cmp.Or(f.X, dtypes.Float32), cmp.Or(f.W, dtypes.Float32), cmp.Or(f.Scale, dtypes.Float32)
	all := []Input{{Shape: shapes.Make(x, 1, f.In)}}
	of := xla.OneRow{X: &Node{}, Epsilon: f.Epsilon}
	input := func(there bool, fill Fill, d dtypes.DType, dims ...int) *Node {
		if !there {
			return nil
		}
		all = append(all, Input{Shape: shapes.Make(d, dims...), Fill: fill})
		return of.X
	}
	of.Scale, of.Offset = input(f.Norm, Normal, vector, f.In), input(f.Offset, Normal, vector, f.In)
	var act models.Act
	if f.Act != kernels.Identity {
		act = models.Acts[f.Act.Name()]
	}
	bytes, flops := 0.0, 0.0
	for _, units := range f.Units {
		if units > 0 {
			of.Layers = append(of.Layers, models.Linear{W: input(true, Small, w, f.In, units), Biases: input(f.Biases, Normal, w, units), Act: act})
			bytes, flops = bytes+float64(f.In*units*w.Size()), flops+2*float64(f.In)*float64(units)
		}
	}
	of.Residual = input(f.Residual, Normal, x, 1, f.Units[0])
	return Form{Inputs: all, Bytes: bytes, FLOPs: flops, Build: func(o fused.Ops, in []*Node) []*Node {
		if got := o.OneRow(of.With(slices.Clone(in))); got != nil {
			return got
		}
		return of.With(slices.Clone(in)).Plain()
	}}
}

// cachedAttention is attention of a token to a cache that is full but for its end.
func cachedAttention(c kernels.CachedAttention) Form {
	x := cmp.Or(c.X, dtypes.Float32)
	cache := Input{Shape: shapes.Make(x, c.Rows, c.Groups, c.Slots, c.Size)}
	one := func(heads int) Input { return Input{Shape: shapes.Make(x, c.Rows, 1, heads, c.Size)} }
	place := c.Slots * 3 / 4
	number := func(dims ...int) Input {
		return Input{Shape: shapes.Make(dtypes.Int32, dims...), Fill: Below, Limit: 1}
	}
	return Form{
		Inputs: []Input{one(c.Heads), one(c.Groups), one(c.Groups), cache, cache, number(c.Rows), number()},
		Bytes:  2 * float64(cache.Shape.ByteSize()) * 3 / 4, FLOPs: 4 * float64(c.Rows*c.Heads*place*c.Size),
		Build: func(o fused.Ops, in []*Node) []*Node {
			g := in[0].Graph()
			slots := Iota(g, shapes.Make(dtypes.Int32, c.Rows, c.Slots), 1)
			at := models.CachePlace{
				Position: AddScalar(in[5], float64(place)), Slot: AddScalar(in[6], float64(place)),
				At: Where(LessOrEqual(slots, FillScalar(g, slots.Shape(), float64(place))), slots, FillScalar(g, slots.Shape(), -1)),
			}
			a := models.Attending{Scale: c.Scale, SoftCap: c.SoftCap, Window: c.Window}
			if y, keys, values := o.AttendCached(in[0], in[1], in[2], in[3], in[4], at, a); y != nil {
				return []*Node{y, keys, values}
			}
			y, keys, values := fused.PlainCached(in[0], in[1], in[2], in[3], in[4], at, a)
			return []*Node{y, keys, values}
		},
	}
}
