package hlo

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/gemm"
)

// own says whether a product is to be package gemm's.
func (f *Function) own(in []*value, out shapes.Shape, depth int) bool {
	a, b := in[0].shape, in[1].shape
	if f.builder.Products == 0 || a.DType != dtypes.Float32 || b.DType != dtypes.Float32 || a.Rank() != 2 || b.Rank() != 2 || out.Rank() != 2 {
		return false
	}
	return gemm.Worthwhile(out.Dimensions[0], out.Dimensions[1], depth)
}

// product is a product by package gemm.
func (f *Function) product(in []*value, lhsContracting, rhsContracting int, out shapes.Shape, depth int) (compute.Value, error) {
	scratch := shapes.Make(dtypes.Float32, gemm.Scratch(out.Dimensions[0], depth, f.builder.Products))
	all, err := f.CustomCall(gemm.Target, []compute.Value{in[0], in[1]}, []shapes.Shape{out, scratch}, CallConfig{
		Backend: map[string]any{"ta": 1 - lhsContracting, "tb": rhsContracting},
		Cost:    dotCost(in[0].shape, in[1].shape, out, depth),
	})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}
