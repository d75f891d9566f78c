package main

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
)

// lstm is a sequence, forwards and backwards.
func lstm(length, n, units int) operation {
	return operation{
		name: fmt.Sprintf("lstm %d×%d, %d units, both ways f32", length, n, units), limit: 5e-3,
		Form: tiling.Form{
			Inputs: []tiling.Input{{Shape: f32(length, n, 4*units)}, {Shape: f32(units, 4*units), Fill: tiling.Small}, {Shape: f32(length, n, units)}},
			Build: func(o fused.Ops, in []*Node) []*Node {
				h := o.LSTM(in[0], in[1])
				return append([]*Node{h}, Gradient(ReduceAllSum(Mul(h, in[2])), in[0], in[1])...)
			},
			FLOPs: 3 * 8 * float64(length*n*units*units), Bytes: 4 * float64(length*n*units*14),
		},
	}
}

// norm is batch normalization with ReLU, forwards and backwards.
func norm(rows, channels int, bf16 bool) operation {
	k := kind(bf16)
	c := operation{
		name: fmt.Sprintf("norm %d×%d, both ways %s", rows, channels, word(bf16)), bf16: bf16, limit: 1e-3,
		Form: tiling.Form{
			Inputs: []tiling.Input{{Shape: shapes.Make(k, rows, channels)}, {Shape: f32(channels)}, {Shape: f32(channels)}, {Shape: f32(rows, channels)}},
			Build: func(o fused.Ops, in []*Node) []*Node {
				y, mean, variance := o.Norm(in[0], in[1], in[2], 0, kernels.ReLU)
				loss := ReduceAllSum(Mul(ConvertDType(y, dtypes.Float32), in[3]))
				return append([]*Node{y, mean, variance}, Gradient(loss, in[0], in[1], in[2])...)
			},
			Bytes: float64(k.Size()) * 5 * float64(rows*channels),
		},
	}
	if bf16 {
		c.limit = 3e-2
	}
	return c
}
