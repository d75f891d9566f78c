package tiling

import (
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/ptx/convolution"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/optim"
)

func half(brain bool) dtypes.DType {
	if brain {
		return dtypes.BFloat16
	}
	return dtypes.Float32
}

// images is a form whose convolutions are of the kernels that have an image in shared
// memory each, where Ops have kernels at all.
func images(f Form) Form {
	build := f.Build
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		o.Images = true
		return build(o, in)
	}
	return f
}

// imageBack is a convolution backwards: its step by SGD, and the gradient of its input.
func imageBack(k convolution.Back) Form {
	g, d := k.Geometry, half(k.Brain)
	f := ConvUpdate(kernels.ConvGradient{Geometry: g, X: d, G: d}, optim.SGD{}.Rule())
	f.FLOPs, f.Bytes = 2*f.FLOPs, f.Bytes+float64(image(g, d).Size()*d.Size())
	f.Build = func(o fused.Ops, in []*Node) []*Node {
		c, x, g, winner, w := fused.Convolution{Pad: k.Pad, Pool: k.Pool}, in[0], in[1], in[2], in[3]
		if !k.Pool {
			winner = nil
		}
		below, parts := o.ConvBack(c, g, winner, w, x, k.Act)
		if parts == nil {
			below = o.ConvInput(c, g, winner, w, x, k.Act)
		}
		weights, bias := o.ConvUpdate(c, x, g, winner, parts, in[3:4], in[4:5], optim.SGD{}.Rule(), in[5], in[6], below)
		return append(append(weights, bias...), below)
	}
	return images(f)
}
