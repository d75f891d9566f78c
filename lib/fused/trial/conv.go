package main

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
)

// geometries are the convolutions of SeedCNN, LeNet5 and Keras' net, and some
// odd ones.
var geometries = []kernels.Geometry{
	{Batch: 8, Height: 28, Width: 28, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true},
	{Batch: 100, Height: 32, Width: 32, In: 3, Out: 6, Size: 5, Pool: true},
	{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true},
	{Batch: 100, Height: 5, Width: 5, In: 16, Out: 120, Size: 4},
	{Batch: 128, Height: 28, Width: 28, In: 1, Out: 32, Size: 3},
	{Batch: 128, Height: 26, Width: 26, In: 32, Out: 64, Size: 3, Pool: true},
	{Batch: 1, Height: 7, Width: 9, In: 2, Out: 3, Size: 3, Pool: true},
	{Batch: 3, Height: 11, Width: 6, In: 5, Out: 33, Size: 3, Pad: 1},
	{Batch: 1025, Height: 8, Width: 8, In: 1, Out: 17, Size: 5, Pad: 2, Pool: true},
}

func named(what string, g kernels.Geometry, more string, bf16 bool) string {
	s := fmt.Sprintf("%s %d×%d×%d×%d→%d %d×%d", what, g.Batch, g.Height, g.Width, g.In, g.Out, g.Size, g.Size)
	if g.Pad > 0 {
		s += fmt.Sprint("+", g.Pad)
	}
	if g.Pool {
		s += " pooled"
	}
	return s + " " + more + " " + word(bf16)
}

func image(g kernels.Geometry, d dtypes.DType) shapes.Shape {
	return shapes.Make(d, g.Batch, g.Height, g.Width, g.In)
}

func result(g kernels.Geometry, d dtypes.DType) shapes.Shape {
	height, width := g.Result()
	return shapes.Make(d, g.Batch, height, width, g.Out)
}

func flops(g kernels.Geometry) float64 {
	height, width := g.Image()
	return 2 * float64(g.Batch*height*width*g.Out*g.In*g.Size*g.Size)
}

// always uses the kernel where Usual would not.
func always(o fused.Ops) fused.Ops {
	if o.Choose == nil {
		o.Choose = func(op kernels.Op) kernels.Op { return op }
	}
	return o
}

// conv is a convolution forwards. Winners may differ where two are close, so
// only the numbers are compared.
func conv(g kernels.Geometry, act kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	return operation{
		name: named("conv", g, act.String(), bf16), bf16: bf16,
		in: []input{{shape: image(g, k)}, {shape: f32(g.Size, g.Size, g.In, g.Out), fill: small}, {shape: f32(g.Out)}},
		build: func(o fused.Ops, in []*Node) []*Node {
			y, _ := always(o).Conv(fused.Convolution{Pad: g.Pad, Pool: g.Pool, Act: act}, in[0], in[1], in[2])
			return []*Node{y}
		},
		op:    kernels.Conv{Geometry: g, X: k, Y: k, Compute: k, Act: act},
		flops: flops(g), bytes: 4 * float64(image(g, k).Size()+result(g, k).Size()),
	}
}

// convInput is a convolution backwards to its input.
func convInput(g kernels.Geometry, before kernels.Act, bf16 bool) operation {
	k := kind(bf16)
	op := kernels.ConvInput{Geometry: g, G: k, D: k, Compute: k, Act: before}
	if before != kernels.Identity {
		op.X = k
	}
	return operation{
		name: named("conv input", g, before.String(), bf16), bf16: bf16,
		in: []input{{shape: result(g, k)}, {shape: result(g, dtypes.Uint8), fill: classes, limit: 4},
			{shape: f32(g.Size, g.Size, g.In, g.Out), fill: small}, {shape: image(g, k)}},
		build: func(o fused.Ops, in []*Node) []*Node {
			winner := in[1]
			if !g.Pool {
				winner = nil
			}
			return []*Node{always(o).ConvInput(fused.Convolution{Pad: g.Pad, Pool: g.Pool}, in[0], winner, in[2], in[3], before)}
		},
		op:    op,
		flops: flops(g), bytes: 4 * float64(2*image(g, k).Size()+result(g, k).Size()),
	}
}

// convUpdate is a convolution's step.
func convUpdate(g kernels.Geometry, rule kernels.Rule, bf16 bool) operation {
	k := kind(bf16)
	each := 1 + rule.Moments()
	c := operation{
		name: named("conv update", g, rule.Name(), bf16), bf16: bf16, chain: map[int]int{},
		in:    []input{{shape: image(g, k)}, {shape: result(g, k), fill: small}, {shape: result(g, dtypes.Uint8), fill: classes, limit: 4}},
		op:    kernels.ConvGradient{Geometry: g, X: k, G: k, Compute: k},
		flops: flops(g), bytes: 4 * float64(image(g, k).Size()+result(g, k).Size()),
	}
	for _, dims := range [][]int{{g.Size, g.Size, g.In, g.Out}, {g.Out}} {
		for i := range each {
			f := [...]fill{small, small, positive}[i]
			if _, is := rule.(kernels.AdaDelta); is && i > 0 {
				f = positive
			}
			c.chain[len(c.in)-3] = len(c.in)
			c.in = append(c.in, input{shape: f32(dims...), fill: f})
		}
	}
	c.in = append(c.in, input{shape: f32(), fill: number, limit: 0.001}, input{shape: f32(), fill: number, limit: 3})
	c.build = func(o fused.Ops, in []*Node) []*Node {
		winner := in[2]
		if !g.Pool {
			winner = nil
		}
		w, b := always(o).ConvUpdate(fused.Convolution{Pad: g.Pad, Pool: g.Pool}, in[0], in[1], winner, in[3:3+each], in[3+each:3+2*each], rule, in[3+2*each], in[4+2*each])
		return append(append([]*Node{}, w...), b...)
	}
	return c
}
