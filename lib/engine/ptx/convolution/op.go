package convolution

import (
	"fmt"

	"gaiden/lib/engine/triton/kernels"
)

// Both kernels are a kernels.Op, so that they can be chosen. A tiling of theirs is how many
// warps a block has.

// Key tells convolutions apart.
func (k Conv) Key() string { return "image conv " + form(k).key() }

// Key tells convolutions apart.
func (k Back) Key() string { return "image conv back " + form(k).key() }

// Tiles are those worth trying.
func (k Conv) Tiles() []kernels.Tile {
	return tiles(func(warps int) bool { k.Warps = warps; return k.Fits() })
}

// Tiles are those worth trying.
func (k Back) Tiles() []kernels.Tile {
	return tiles(func(warps int) bool { k.Warps = warps; return k.Fits() })
}

// With is the convolution with the warps of a tile.
func (k Conv) With(t kernels.Tile) kernels.Op { k.Warps = t.Warps; return k }

// With is the convolution with the warps of a tile.
func (k Back) With(t kernels.Tile) kernels.Op { k.Warps = t.Warps; return k }

// tiles are the usual one and the others with which a kernel fits.
func tiles(fits func(warps int) bool) []kernels.Tile {
	l := []kernels.Tile{{Warps: usualWarps}}
	for _, warps := range []int{4, 8, 16, 24, 32} {
		if fits(warps) {
			l = append(l, kernels.Tile{Warps: warps})
		}
	}
	return l
}

func (k form) key() string {
	element := "f32"
	if k.Brain {
		element = "bf16"
	}
	return fmt.Sprintf("%s %s %s", k.Short(), k.Act, element)
}
