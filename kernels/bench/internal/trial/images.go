package trial

import (
	"fmt"
	"math"

	"gaiden/lib/engine/ptx/convolution"
	"gaiden/lib/engine/triton/kernels"
)

// images are convolutions of the kernels that have an image in shared memory each, there
// and back, with the activation of the results and of what was before.
func images(g kernels.Geometry, act, before kernels.Act, bf16 bool) []operation {
	there := of(named("image conv", g, act.String()), convolution.Conv{Geometry: g, Act: act, Brain: bf16}, bf16)
	if g.Pool {
		height, width := g.Result()
		there.loose = map[int]float64{0: winners(g.Batch * height * width * g.Out)}
	}
	back := of(named("image conv back", g, before.String()), convolution.Back{Geometry: g, Act: before, Brain: bf16}, bf16)
	for _, c := range []operation{there, back} {
		if k, is := c.op.(interface{ Fits() bool }); !is || !k.Fits() {
			panic(fmt.Sprintf("%s: there is no such kernel", c.name))
		}
	}
	return []operation{there, back}
}

// winners is the limit for the error of n winners, each 0 to 3: who has won of two that are
// close is decided by rounding. Of a single image's few hundred three that differ by 3 are
// more than the tenth that is allowed of many.
func winners(n int) float64 { return max(0.1, math.Sqrt(3*9/(3.5*float64(n)))) }

// fewImages are the convolutions at batches at which nets do not use these kernels, since
// most processors would be without an image (see fused.Usual). The kernels take them: an
// image is a block, and they ask for one image at least.
func fewImages(bf16 bool) (l []operation) {
	for _, n := range []int{1, 8} {
		for _, c := range []struct {
			g           kernels.Geometry
			act, before kernels.Act
		}{
			{kernels.Geometry{Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true}, kernels.ReLU, kernels.ReLU},
			{kernels.Geometry{Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true}, kernels.Sigmoid, kernels.Sigmoid},
			{kernels.Geometry{Height: 9, Width: 7, In: 18, Out: 24, Size: 5, Pad: 2, Pool: true}, kernels.Tanh, kernels.Identity},
			{kernels.Geometry{Height: 5, Width: 8, In: 20, Out: 12, Size: 2}, kernels.Identity, kernels.Tanh},
		} {
			c.g.Batch = n
			l = append(l, images(c.g, c.act, c.before, bf16)...)
		}
	}
	return l
}
