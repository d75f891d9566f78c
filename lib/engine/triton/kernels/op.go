package kernels

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// Op is a kernel whose tiling can be chosen.
type Op interface {
	// Key tells ops apart that may want different tilings.
	Key() string
	// Tiles are those worth trying on a device; the first is the default.
	Tiles() []Tile
	// With is the op with another tile.
	With(t Tile) Op
	// Kernel is the kernel.
	Kernel() triton.Kernel
}

func key(name string, sizes ...any) string {
	for _, s := range sizes {
		name += fmt.Sprint(" ", s)
	}
	return name
}

// short names an element type.
func short(d dtypes.DType) string {
	switch or32(d) {
	case dtypes.BFloat16:
		return "bf16"
	case dtypes.Float16:
		return "f16"
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
	{M: 64, N: 32, K: 32, Split: 4, Warps: 4, Stages: 3},
	{M: 64, N: 32, K: 32, Split: 4, Warps: 8, Stages: 3},
	{M: 64, N: 16, K: 32, Split: 4, Warps: 4, Stages: 4},
	{M: 128, N: 16, K: 32, Split: 4, Warps: 4, Stages: 2},
	{M: 128, N: 16, K: 64, Split: 1, Warps: 4, Stages: 4},
	{M: 32, N: 32, K: 64, Split: 2, Warps: 4, Stages: 3},
	{M: 64, N: 32, K: 64, Split: 2, Warps: 4, Stages: 3},
	{M: 32, N: 32, K: 128, Split: 1, Warps: 4, Stages: 3},
	{M: 64, N: 32, K: 64, Split: 1, Warps: 4, Stages: 4},
	{M: 64, N: 64, K: 64, Split: 1, Warps: 4, Stages: 3},
	{M: 128, N: 64, K: 32, Split: 1, Warps: 8, Stages: 3},
	{M: 128, N: 128, K: 32, Split: 1, Warps: 8, Stages: 3},
	{M: 16, N: 32, K: 64, Split: 4, Warps: 4, Stages: 3},
	{M: 16, N: 16, K: 64, Split: 4, Warps: 4, Stages: 3},
	{M: 16, N: 16, K: 64, Split: 8, Warps: 8, Stages: 2},
}

// Key tells layers apart.
func (l Linear) Key() string {
	return key("linear", l.Batch, l.In, l.Out, l.Act, short(l.X), short(l.Y), short(l.Compute), !l.NoBias)
}

// Tiles are those worth trying.
func (l Linear) Tiles() []Tile {
	return distinct(products, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

// With is the layer with another tile.
func (l Linear) With(t Tile) Op { l.Tile = t; return l }

// Key tells layers apart.
func (l LinearInput) Key() string {
	return key("linear input", l.Batch, l.In, l.Out, l.Act, short(l.G), short(l.X), short(l.D), short(l.Compute))
}

// Tiles are those worth trying.
func (l LinearInput) Tiles() []Tile {
	return distinct(products, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

// With is the layer with another tile.
func (l LinearInput) With(t Tile) Op { l.Tile = t; return l }

// Key tells layers apart.
func (l LinearUpdate) Key() string {
	rule := "gradient"
	if l.Rule != nil {
		rule = l.Rule.Name()
	}
	return key("linear update", l.Batch, l.In, l.Out, rule, short(l.X), short(l.G), short(l.Compute), !l.NoBias)
}

// updates are the tiles tried where the result is as large as the weights.
var updates = []Tile{
	{M: 64, N: 64, K: 32, Warps: 8, Stages: 3},
	{M: 32, N: 64, K: 32, Warps: 4, Stages: 3},
	{M: 64, N: 32, K: 32, Warps: 4, Stages: 3},
	{M: 32, N: 128, K: 32, Warps: 8, Stages: 3},
	{M: 32, N: 128, K: 16, Warps: 8, Stages: 4},
	{M: 64, N: 64, K: 16, Warps: 8, Stages: 4},
	{M: 64, N: 128, K: 32, Warps: 8, Stages: 3},
	{M: 32, N: 32, K: 32, Warps: 4, Stages: 3},
	{M: 64, N: 64, K: 32, Warps: 4, Stages: 3},
	{M: 32, N: 64, K: 128, Warps: 4, Stages: 2},
	{M: 16, N: 128, K: 32, Warps: 4, Stages: 3},
	{M: 16, N: 16, K: 32, Split: 4, Warps: 4, Stages: 2},
}

// Tiles are those worth trying.
func (l LinearUpdate) Tiles() []Tile {
	return distinct(updates, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

// With is the layer with another tile.
func (l LinearUpdate) With(t Tile) Op { l.Tile = t; return l }

// Key tells heads apart.
func (h Head) Key() string {
	return key("head", h.Batch, h.In, h.Classes, short(h.X), short(h.G), short(h.Compute), !h.NoBias)
}

// Tiles are those worth trying.
func (h Head) Tiles() []Tile {
	return distinct([]Tile{
		{M: 16, N: 16, K: 64, Split: 4, Warps: 4, Stages: 3},
		{M: 16, N: 16, K: 64, Split: 8, Warps: 8, Stages: 2},
		{M: 16, N: 16, K: 128, Split: 4, Warps: 4, Stages: 2},
		{M: 32, N: 16, K: 64, Split: 4, Warps: 4, Stages: 3},
	}, func(t Tile) Tile { h.Tile = t; return h.tile() })
}

// With is the head with another tile.
func (h Head) With(t Tile) Op { h.Tile = t; return h }
