package hlo

import (
	"fmt"

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
	all[0].(*value).stmt.over = lhsContracting == 0 && rhsContracting == 0
	return all[0], nil
}

// Factors are the float32 matrices [k m] and [k n] that a value [m n] is the product of,
// over k; ok is false for a value that is something else, and where a Step is not faster.
func Factors(v compute.Value) (x, y compute.Value, ok bool) {
	p, is := v.(*value)
	if !is || p.stmt == nil || !p.stmt.over {
		return nil, nil, false
	}
	k := p.stmt.in[0].shape.Dimensions[0]
	return p.stmt.in[0], p.stmt.in[1], gemm.StepWorthwhile(p.shape.Dimensions[0], p.shape.Dimensions[1], k)
}

// Step is that of a weight whose gradient is the product of x [k m] and y [k n] over k:
// package gemm changes the weight by each number of it on the spot, so that no gradient is
// written. state is the weight [m n], and what the optimizer keeps of it: nothing (SGD),
// its velocity (momentum), or its moments (Adam). knobs [7] are those of package gemm. The
// results are the state afterwards: in place, in its memory, which XLA copies first if it is
// not to change.
func (f *Function) Step(inPlace bool, x, y, knobs compute.Value, state ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands("Step", append([]compute.Value{x, y, knobs}, state...)...)
	if err != nil {
		return nil, err
	}
	a, b := in[0].shape, in[1].shape
	if a.Rank() != 2 || b.Rank() != 2 || a.DType != dtypes.Float32 || b.DType != dtypes.Float32 || len(state) < 1 || len(state) > 3 {
		return nil, fmt.Errorf("hlo: Step: got factors %s and %s and a state of %d arrays, want matrices of float32 and 1 to 3", a, b, len(state))
	}
	k, m, n := a.Dimensions[0], a.Dimensions[1], b.Dimensions[1]
	out := shapes.Make(dtypes.Float32, m, n)
	for _, v := range in[3:] {
		if !v.shape.Equal(out) || b.Dimensions[0] != k {
			return nil, fmt.Errorf("hlo: Step: got factors %s and %s of an array %s, want [k m], [k n] and [m n]", a, b, v.shape)
		}
	}
	config := CallConfig{Backend: map[string]any{"ta": 1, "tb": 0}, Cost: dotCost(a, b, out, k)}
	config.Cost.FLOPs += []float64{2, 4, 13}[len(state)-1] * float64(out.Size()) // as XLA's ops for it
	config.Cost.Bytes = bytesOf(a, b) + 2*bytesOf(shapesOf(in[3:])...)
	if inPlace {
		config.Aliases = map[int]int{}
		for i := range state {
			config.Aliases[i] = 3 + i
		}
	}
	scratch := shapes.Make(dtypes.Float32, gemm.StepScratch(m, n, k, f.builder.Products))
	all, err := f.CustomCall(gemm.Target, values(in), append(shapesOf(in[3:]), scratch), config)
	if err != nil {
		return nil, err
	}
	return all[:len(state)], nil
}
