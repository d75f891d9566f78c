package convolution

import (
	"fmt"

	"gaiden/lib/engine/triton/kernels"
)

// Both kernels are a kernels.Op, so that they can be chosen, with one tiling: their
// own.

// Key tells convolutions apart.
func (k Conv) Key() string { return "image conv " + form(k).key() }

// Key tells convolutions apart.
func (k Back) Key() string { return "image conv back " + form(k).key() }

// Tiles is the one there is.
func (k Conv) Tiles() []kernels.Tile { return []kernels.Tile{{}} }

// Tiles is the one there is.
func (k Back) Tiles() []kernels.Tile { return []kernels.Tile{{}} }

// With is the kernel as it is.
func (k Conv) With(kernels.Tile) kernels.Op { return k }

// With is the kernel as it is.
func (k Back) With(kernels.Tile) kernels.Op { return k }

func (k form) key() string {
	element := "f32"
	if k.Brain {
		element = "bf16"
	}
	return fmt.Sprintf("%+v %s %s", k.Geometry, k.Act, element)
}
