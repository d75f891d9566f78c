package main

import (
	"fmt"

	"gaiden/lib/engine/ptx/convolution"
	"gaiden/lib/engine/triton/kernels"
)

// images are convolutions of the kernels that have an image in shared memory each, there
// and back, with the activation of the results and of what was before.
func images(g kernels.Geometry, act, before kernels.Act, bf16 bool) []operation {
	there := of(named("image conv", g, act.String()), convolution.Conv{Geometry: g, Act: act, Brain: bf16}, bf16)
	if g.Pool {
		there.loose = map[int]float64{0: 0.1} // who has won of two that are close
	}
	back := of(named("image conv back", g, before.String()), convolution.Back{Geometry: g, Act: before, Brain: bf16}, bf16)
	for _, c := range []operation{there, back} {
		if k, is := c.op.(interface{ Fits() bool }); !is || !k.Fits() {
			panic(fmt.Sprintf("%s: there is no such kernel", c.name))
		}
	}
	return []operation{there, back}
}
