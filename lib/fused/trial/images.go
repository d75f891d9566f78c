package main

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
)

// images are convolutions of the kernels that have an image in shared memory each, with
// the activation of the results and of what was before.
func images(g kernels.Geometry, act, before kernels.Act, bf16 bool) []operation {
	there := conv(g, act, bf16)
	there.name, there.op = "image "+there.name, nil
	build := there.Build
	there.Build = func(o fused.Ops, in []*Node) []*Node {
		o.Resident = true
		return build(o, in)
	}
	return []operation{there, imageBack(g, before, bf16)}
}

// imageBack is a convolution backwards: the gradients of its input, its weights and its
// biases.
func imageBack(g kernels.Geometry, before kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	height, width := g.Result()
	image, result := shapes.Make(k, g.Batch, g.Height, g.Width, g.In), shapes.Make(k, g.Batch, height, width, g.Out)
	c := operation{name: named("image conv back", g, before.String()) + " " + word(bf16), bf16: bf16}
	c.Form = tiling.Form{Poke: -1, Inputs: []tiling.Input{{Shape: image}, {Shape: f32(g.Size, g.Size, g.In, g.Out), Fill: tiling.Small}, {Shape: result}}}
	if g.Pool {
		c.Inputs = append(c.Inputs, tiling.Input{Shape: shapes.Make(dtypes.Uint8, g.Batch, height, width, g.Out), Fill: tiling.Below, Limit: 4})
	}
	how := fused.Convolution{Pad: g.Pad, Pool: g.Pool}
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		o.Resident = true
		x, w, d := in[0], in[1], in[2]
		var winner *Node
		if g.Pool {
			winner = in[3]
		}
		if below, parts := o.ConvBack(how, d, winner, w, x, before); parts != nil {
			sum := ReduceSum(parts, 0)
			taps := g.Size * g.Size * g.In
			return []*Node{below, Slice(sum, AxisRange(0, taps)), Slice(sum, AxisRange(taps))}
		}
		o.Plain = true
		nothing, one := Zeros(x.Graph(), f32(g.Size, g.Size, g.In, g.Out)), Const(x.Graph(), float32(-1))
		dw, db := o.ConvUpdate(how, x, d, winner, []*Node{nothing}, []*Node{Zeros(x.Graph(), f32(g.Out))}, kernels.SGD{}, one, one)
		return []*Node{o.ConvInput(how, d, winner, w, x, before), Reshape(dw[0], -1, g.Out), Reshape(db[0], 1, g.Out)}
	}
	return c
}
