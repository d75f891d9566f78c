package trial

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
)

// lstm is a sequence, forwards and backwards.
func lstm(length, n, units int) operation {
	c := operation{
		name: fmt.Sprintf("lstm %d×%d, %d units, both ways f32", length, n, units), limit: 5e-3,
		Form: tiling.Form{
			Inputs: []tiling.Input{{Shape: f32(length, n, 4*units)}, {Shape: f32(units, 4*units), Fill: tiling.Small}, {Shape: f32(length, n, units)}},
			Build: func(o fused.Ops, in []*Node) []*Node {
				// What the repetition before has made of them is none of its gradient's,
				// and where a gradient is stopped GoMLX gives none.
				z, recurrent := Identity(StopGradient(in[0])), Identity(StopGradient(in[1]))
				h := o.LSTM(z, recurrent)
				return append([]*Node{h}, Gradient(ReduceAllSum(Mul(h, in[2])), z, recurrent)...)
			},
			FLOPs: 3 * 8 * float64(length*n*units*units), Bytes: 4 * float64(length*n*units*14),
		},
	}
	if length == 1 {
		c.zeros = []int{2} // no output goes through the recurrent weights
	}
	return c
}

// norm is batch normalization, forwards and backwards.
func norm(rows, channels int, act kernels.Act, skip, bf16 bool) operation {
	k := kind(bf16)
	name := fmt.Sprintf("norm %d×%d %s", rows, channels, act)
	if skip {
		name += " of a sum"
	}
	c := of(name+", both ways", kernels.Norm{Rows: rows, Channels: channels, X: k, Y: k, Act: act, Skip: skip}, bf16)
	c.limit = 1e-3
	if rows == 1 {
		c.zeros = []int{2, 3, 4} // its variance is 0, and x and scale change nothing
	}
	if bf16 {
		c.limit = 3e-2
	}
	if act == kernels.ReLU {
		c.limit *= 3 // a number that is nearly 0 passes on one side and not on the other, and all of its gradient with it
	}
	return c
}

// resNet are the norms of ResNet50 and ResNet152 at a batch of images of 32×32: of the same
// sizes, as one has the other's stages with fewer blocks.
func resNet(batch int, bf16 bool) []operation {
	l := []operation{norm(batch*16*16, 64, kernels.ReLU, false, bf16)}
	for stage := range 4 {
		rows, width := batch*64>>(2*stage), 64<<stage
		l = append(l, norm(rows, width, kernels.ReLU, false, bf16), norm(rows, 4*width, kernels.ReLU, true, bf16), norm(rows, 4*width, kernels.Identity, false, bf16))
		if stage > 0 {
			l = append(l, norm(4*rows, width, kernels.ReLU, false, bf16))
		}
	}
	return l
}
