package kernels

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// Op is a kernel, or some with one tiling, which can be chosen. Each has a method
// Kernel, which is the kernel, or the first of several.
type Op interface {
	// Key tells ops apart that may want different tilings.
	Key() string
	// Tiles are those worth trying on a device; the first is the default.
	Tiles() []Tile
	// With is the op with another tile.
	With(t Tile) Op
}

func key(name string, sizes ...any) string {
	for _, s := range sizes {
		name += fmt.Sprint(" ", s)
	}
	return name
}

// short names an element type.
func short(d dtypes.DType) string {
	switch cmp.Or(d, dtypes.Float32) {
	case dtypes.BFloat16:
		return "bf16"
	case dtypes.Float16:
		return "f16"
	case dtypes.Uint8:
		return "u8"
	}
	return "f32"
}

// distinct drops tiles that fit makes equal.
func distinct(l []Tile, fit func(Tile) Tile) []Tile {
	seen := map[Tile]bool{}
	var some []Tile
	for _, t := range l {
		if t = fit(t); !seen[t] {
			seen[t] = true
			some = append(some, t)
		}
	}
	return some
}

// products are the tiles tried for products whose result is a batch of rows.
// The first ones are for few rows and much depth: many blocks, each of whose
// warps takes a stretch of the depth.
var products = []Tile{
	{M: 32, N: 32, K: 32, Split: 4, Warps: 4, Stages: 3},
	{M: 32, N: 32, K: 32, Split: 4, Warps: 4, Stages: 4},
	{M: 32, N: 32, K: 32, Split: 8, Warps: 8, Stages: 2},
	{M: 32, N: 32, K: 32, Split: 8, Warps: 8, Stages: 3},
	{M: 32, N: 32, K: 64, Split: 4, Warps: 4, Stages: 3},
	{M: 32, N: 32, K: 16, Split: 8, Warps: 8, Stages: 4},
	{M: 32, N: 16, K: 32, Split: 4, Warps: 4, Stages: 4},
	{M: 64, N: 16, K: 32, Split: 4, Warps: 4, Stages: 4},
	{M: 64, N: 32, K: 32, Split: 4, Warps: 4, Stages: 3},
	{M: 32, N: 32, K: 64, Split: 2, Warps: 4, Stages: 3},
	{M: 32, N: 32, K: 128, Split: 1, Warps: 4, Stages: 3},
	{M: 64, N: 32, K: 64, Split: 1, Warps: 4, Stages: 4},
	{M: 64, N: 64, K: 64, Split: 1, Warps: 4, Stages: 3},
	{M: 64, N: 64, K: 32, Split: 1, Warps: 4, Stages: 3},
	{M: 128, N: 64, K: 32, Split: 1, Warps: 8, Stages: 3},
	{M: 128, N: 128, K: 32, Split: 1, Warps: 8, Stages: 3},
	{M: 16, N: 32, K: 64, Split: 4, Warps: 4, Stages: 3},
	narrow,
	{M: 16, N: 16, K: 64, Split: 8, Warps: 8, Stages: 3},
	{M: 16, N: 16, K: 32, Split: 16, Warps: 16, Stages: 3},
	{M: 16, N: 16, K: 64, Split: 16, Warps: 16, Stages: 2},
}

// narrow is for results of few columns: their blocks are many, and the warps of
// each take parts of the depth.
var narrow = Tile{M: 16, N: 16, K: 64, Split: 4, Warps: 4, Stages: 3}

// usual is the tile for a product of m rows, n columns and depth k that nobody
// has tried: a block for each of the device's processors, if the result is large
// enough, and narrow ones with all their warps along the depth if it is not.
// Factors that are rounded to bfloat16 go through registers, which takes the
// gain from splitting the depth.
func usual(m, n, k int, compute dtypes.DType) Tile {
	t := products[0]
	if cmp.Or(compute, dtypes.Float32) == dtypes.BFloat16 {
		t.K *= 2
	}
	if triton.Blocks(m, 32)*triton.Blocks(n, 32) >= 1024 { // enough blocks for larger ones, which read less
		t = Tile{M: 64, N: 64, K: 32, Warps: 4, Stages: 3}
	}
	t = t.fit(m, n, k)
	if triton.Blocks(m, t.M)*triton.Blocks(n, t.N) < 66 {
		return narrow
	}
	return t
}

func (l Linear) Key() string {
	return key("linear", l.Batch, l.In, l.Out, l.Act, short(l.X), short(l.Y), short(l.Compute), !l.NoBias)
}

func (l Linear) Tiles() []Tile {
	return distinct(append([]Tile{{}}, products...), func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l Linear) With(t Tile) Op { l.Tile = t; return l }

func (l LinearInput) Key() string {
	return key("linear input", l.Batch, l.In, l.Out, l.Act, short(l.G), short(l.X), short(l.D), short(l.Compute))
}

func (l LinearInput) Tiles() []Tile {
	return distinct(append([]Tile{{}}, products...), func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l LinearInput) With(t Tile) Op { l.Tile = t; return l }

func (l LinearUpdate) Key() string {
	rule := "gradient"
	if l.Rule != nil {
		rule = l.Rule.Name()
	}
	return key("linear update", l.Batch, l.In, l.Out, rule, short(l.X), short(l.G), short(l.Compute), !l.NoBias)
}

// updates are the tiles tried where the result is as large as the weights. The first is
// usual, and the second where factors are bfloat16.
var updates = []Tile{
	{M: 32, N: 64, K: 32, Warps: 4, Stages: 3},
	{M: 32, N: 64, K: 64, Warps: 4, Stages: 2},
	{M: 64, N: 64, K: 32, Warps: 8, Stages: 3},
	{M: 64, N: 32, K: 32, Warps: 4, Stages: 3},
	{M: 32, N: 128, K: 32, Warps: 8, Stages: 3},
	{M: 32, N: 128, K: 16, Warps: 8, Stages: 4},
	{M: 32, N: 32, K: 32, Warps: 4, Stages: 3},
	{M: 32, N: 64, K: 128, Warps: 4, Stages: 2},
	{M: 16, N: 128, K: 32, Warps: 4, Stages: 3},
	{M: 16, N: 16, K: 32, Split: 4, Warps: 4, Stages: 2},
	{M: 32, N: 64, K: 32, Warps: 4, Stages: 4},
	{M: 32, N: 64, K: 64, Warps: 4, Stages: 3},
}

func (l LinearUpdate) Tiles() []Tile {
	return distinct(append([]Tile{{}}, updates...), func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l LinearUpdate) With(t Tile) Op { l.Tile = t; return l }

func (h Head) Key() string {
	return key("head", h.Batch, h.In, h.Classes, short(h.X), short(h.G), short(h.Compute), !h.NoBias)
}

func (h Head) Tiles() []Tile {
	return distinct([]Tile{
		narrow,
		{M: 16, N: 16, K: 64, Split: 8, Warps: 8, Stages: 3},
		{M: 16, N: 16, K: 32, Split: 16, Warps: 16, Stages: 3},
		{M: 16, N: 16, K: 64, Split: 16, Warps: 16, Stages: 2},
		{M: 32, N: 16, K: 64, Split: 4, Warps: 4, Stages: 3},
	}, func(t Tile) Tile { h.Tile = t; return h.tile() })
}

func (h Head) With(t Tile) Op { h.Tile = t; return h }
