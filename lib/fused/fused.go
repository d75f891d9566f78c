// Package fused has operations of nets in two forms each: a plain one in
// GoMLX's ops, for every device, and one GPU kernel. Which it is, the device
// decides; both take and give the same arrays, and Ops.Plain forces the first.
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
// [Ops.Linear], [Ops.LSTM] and [Ops.Norm] have gradients that GoMLX finds by
// itself. The others are what a training step is written with when the gradient
// of weights is to become their update on the spot; a [Plan] writes such a step
// for a net of package models. A small net with the mean squared error has a
// [Whole]: one kernel both ways, and one for the update. Many steps of a large
// multilayer perceptron are a [Resident], one kernel. With Ops.Images a convolution
// of several channels is a kernel there and one back that have an image in each
// processor's shared memory ([Ops.ConvBack]).
//
// # What it refuses
//
// Kernels run on CUDA devices only. What has no kernel (see [Plan] and [NewWhole]) stays in
// GoMLX's ops: the numbers are those of package fit, the time is XLA's. Like all
// graph code it panics on shapes that do not fit, and package fit turns that
// into errors.
package fused

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/ptx/convolution"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
)

// Ops writes fused operations into a graph.
type Ops struct {
	// Builder is that of the graph. nil: there is no GPU, all forms are plain.
	Builder *hlo.Builder
	// Plain switches the kernels off.
	Plain bool
	// Compute is what factors of products are rounded to: float32, which is
	// TF32 on a GPU, or BFloat16. Default: float32.
	Compute dtypes.DType
	// Images says that the device has what the kernels of package convolution want, which
	// keep images in its processors' shared memory: compute capability 9.0.
	Images bool
	// Choose returns an op with the tiling to use, or nil where the plain form is
	// faster. Default: Usual.
	Choose func(op kernels.Op) kernels.Op

	run func(k Kernel, operands []*Node) []*Node // tests replace it; default: divert
}

// Kernel is one of package triton or of package ptx.
type Kernel interface {
	Call(f *hlo.Function, operands ...compute.Value) ([]compute.Value, error)
}

func nameOf(k Kernel) string {
	switch k := k.(type) {
	case triton.Kernel:
		return k.Name
	case ptx.Kernel:
		return k.Name
	}
	return fmt.Sprintf("%T", k)
}

// call runs a kernel in the graph.
func (o Ops) call(k Kernel, operands ...*Node) []*Node {
	if o.run != nil {
		return o.run(k, operands)
	}
	return divert(o.Builder, k, operands)
}

// Usual is the choice of one who has measured nothing: kernels with their own
// tilings, but for convolutions of many channels that are not of images in shared memory, and
// for products so deep and with so small a result that their depth must be divided over the
// device: XLA has good ones for these.
func Usual(op kernels.Op) kernels.Op {
	in := 0
	switch c := op.(type) {
	case convolution.Conv:
		if !worthImages(c.Geometry) {
			return nil
		}
	case convolution.Back:
		if !worthImages(c.Geometry) {
			return nil
		}
	case kernels.Linear:
		if c.In >= 4096 && c.Batch*c.Out <= 64*1024 {
			return nil
		}
	case kernels.Conv:
		in = c.In
	case kernels.ConvInput:
		in = c.In
	case kernels.ConvGradient:
		in = c.In
	}
	if in > 16 {
		return nil
	}
	return op
}

// fewImages is up to how many images a convolution leaves most processors without one. The
// kernels take as long for one image as for 128, for which, both ways, they take a third of
// XLA's time (51 and 154 µs, Keras's second convolution on an H200).
const fewImages = 40

// worthImages says whether a convolution is of the kernels that have an image in shared
// memory each: where tensor cores have something to do, on every processor. On an H200 the
// steps of Keras's net went from 232 to 121 µs by them, and those of LeNet5, whose second
// convolution has 6 channels, from 65 to 57.
func worthImages(g kernels.Geometry) bool { return g.Batch > fewImages && g.In > 4 }

// choose gives an op its tiling, and says whether it has one: else the plain form is
// to be used.
func choose[O kernels.Op](o Ops, op O) (chosen O, is bool) {
	switch {
	case o.Plain || o.Builder == nil:
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
func Call(builder *hlo.Builder, k Kernel, operands ...*Node) []*Node {
	if builder == nil {
		panic(fmt.Errorf("fused: kernel %s: got no builder, want that of the graph; kernels are for programs of a CUDA session", nameOf(k)))
	}
	if len(operands) == 0 {
		panic(fmt.Errorf("fused: kernel %s: got no operands, want one at least", nameOf(k)))
	}
	return divert(builder, k, operands)
}

// divert writes a call on nodes into their graph. Its results have no gradient.
func divert(builder *hlo.Builder, k Kernel, operands []*Node) []*Node {
	builder.Divert(func(f *hlo.Function, values []compute.Value) ([]compute.Value, error) {
		return k.Call(f, values...)
	})
	stopped := make([]*Node, len(operands))
	for i, x := range operands {
		stopped[i] = StopGradient(x)
	}
	return OptimizationBarriers(stopped...)
}

// or32 is the element type given, or float32.
func or32(d dtypes.DType) dtypes.DType {
	if d == dtypes.InvalidDType {
		return dtypes.Float32
	}
	return d
}

// to changes the element type.
func to(x *Node, d dtypes.DType) *Node {
	if d = or32(d); x.DType() == d {
		return x
	}
	return ConvertDType(x, d)
}
