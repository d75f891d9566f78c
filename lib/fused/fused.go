// Package fused has operations of nets in two forms each: a plain one in
// GoMLX's ops, for every device, and one GPU kernel. Which it is, the device
// decides; both take and give the same arrays.
//
//	ops := fused.Ops{Builder: builder} // of the graph that x belongs to; nil is the plain form
//	y := ops.Linear(x, w, bias, kernels.ReLU)
//	g := ops.LinearInput(dy, w, y0, kernels.ReLU)
//	state, bias = ops.LinearUpdate(x, dy, state, bias, optim.Adam{}.Rule(), rate, t)
//
// A user's own kernel goes into a model as an [Own], with its plain form, and
// into any graph with [Call].
//
// # Gradients
//
// [Ops.Linear], [Ops.Recurrence], [Ops.Norm] and [Ops.CrossEntropy] have gradients that GoMLX finds
// by itself. The others are what a training step is written with when the gradient
// of weights is to become their update on the spot; a [Plan] writes such a step
// for a net of package models.
//
// # What it refuses
//
// Kernels run on CUDA devices only. What has no kernel (see [Plan]) stays in
// GoMLX's ops: the numbers are those of package fit, the time is XLA's. Like all
// graph code it panics on shapes that do not fit, and package fit turns that
// into errors.
package fused

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/lower"
)

// Ops writes fused operations into a graph.
type Ops struct {
	// Builder is that of the graph. nil: there is no GPU, all forms are plain.
	Builder *hlo.Builder
	// Compute is what factors of products are rounded to: float32, which is
	// TF32 on a GPU, or BFloat16. Default: float32.
	Compute dtypes.DType
	// Choose returns an op with the tiling to use, or nil where the plain form is
	// faster. Default: Usual.
	Choose func(op kernels.Op) kernels.Op

	// Write writes an operation on operands into the graph; default: see Call.
	Write func(write func(f *hlo.Function, in []compute.Value) ([]compute.Value, error), operands ...*Node) []*Node

	run func(k triton.Kernel, operands []*Node) []*Node // tests replace it
}

// call runs a kernel in the graph.
func (o Ops) call(k triton.Kernel, operands ...*Node) []*Node {
	if o.run != nil {
		return o.run(k, operands)
	}
	return o.write(writes(k), operands...)
}

// Usual is the choice where nothing was measured: kernels with their default tilings, but
// nil, which is XLA's form, for convolutions of many channels, and for matrix
// multiplications so deep and with so small a result that their depth must be divided over
// the device.
func Usual(op kernels.Op) kernels.Op {
	in := 0
	switch c := op.(type) {
	case kernels.Linear:
		if c.In >= lower.DeepInputs && c.Batch*c.Out <= lower.FewOutputs {
			return nil
		}
	case kernels.Head:
		if c.In >= lower.DeepInputs && c.Batch*c.Classes <= lower.FewOutputs {
			return nil
		}
	case kernels.Conv:
		in = c.In
	case kernels.ConvInput:
		in = c.In
	case kernels.ConvGradient:
		in = c.In
	}
	if in > lower.FewChannels {
		return nil
	}
	return op
}

// choose gives an op its tiling, and says whether it has one: else the plain form is
// to be used.
func choose[O kernels.Op](o Ops, op O) (chosen O, is bool) {
	switch {
	case o.Builder == nil:
		return chosen, false
	case o.Choose != nil:
		chosen, is = o.Choose(op).(O)
	default:
		chosen, is = Usual(op).(O)
	}
	return chosen, is
}

// Call runs a kernel on nodes of the graph that builder writes: its inputs, then those
// of After. It returns its outputs, which have no gradient.
func Call(builder *hlo.Builder, k triton.Kernel, operands ...*Node) []*Node {
	if builder == nil {
		panic(fmt.Errorf("fused: kernel %s: got no builder, want that of the graph; kernels are for programs of a CUDA session", k.Name))
	}
	if len(operands) == 0 {
		panic(fmt.Errorf("fused: kernel %s: got no operands, want one at least", k.Name))
	}
	return Ops{Builder: builder}.write(writes(k), operands...)
}

// write writes an operation on nodes into their graph. Its results have no gradient.
func (o Ops) write(do func(f *hlo.Function, in []compute.Value) ([]compute.Value, error), operands ...*Node) []*Node {
	if o.Write != nil {
		return o.Write(do, operands...)
	}
	o.Builder.ReplaceNext(do)
	stopped := make([]*Node, len(operands))
	for i, x := range operands {
		stopped[i] = StopGradient(x)
	}
	return OptimizationBarriers(stopped...)
}

// writes is what writes a call of a kernel.
func writes(k triton.Kernel) func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
	return func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) { return k.Call(f, in...) }
}

// to changes the element type.
func to(x *Node, d dtypes.DType) *Node {
	if d = cmp.Or(d, dtypes.Float32); x.DType() == d {
		return x
	}
	return ConvertDType(x, d)
}
