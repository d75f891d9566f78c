package fused

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/gradient"
)

// Own is an operation of your own: a kernel for GPUs, and the same in GoMLX's
// ops for other devices. Inside of a model it is called like any op:
//
//	func swish(x *Node) *Node {
//		return fused.Own{Kernel: swishKernel(x.Shape().Size()), Plain: plainSwish}.Apply(x)
//	}
//
// Its gradient is that of Plain. Where a net computes in bfloat16 and the kernel does
// not, what it takes and returns is converted. In a net with fit.XLAKernels it is Plain.
type Own struct {
	// Kernel has as many inputs as Apply is given, and one output.
	Kernel triton.Kernel
	// Plain is what the kernel computes. Its result has the type of the
	// kernel's output, and as many elements.
	Plain func(in ...*Node) *Node
}

// Apply is the operation: the kernel in programs that package fit or package
// tiling writes for CUDA, and Plain elsewhere. Arrays that the kernel does not take are
// refused everywhere, by a panic as GoMLX's ops have it.
func (o Own) Apply(in ...*Node) *Node {
	if err := o.takes(in); err != nil {
		panic(err)
	}
	ops := On(in[0])
	if ops.Builder == nil {
		return o.plain(in)
	}
	return ops.own(o, in)
}

// takes says why the kernel does not take some arrays, which a CPU would not find out.
func (o Own) takes(in []*Node) error {
	k := o.Kernel
	switch {
	case len(k.Outputs) != 1:
		return fmt.Errorf("fused: kernel %s has %d outputs: want one in a custom operation", k.Name, len(k.Outputs))
	case len(in) == 0 || len(in) != len(k.Inputs):
		return fmt.Errorf("fused: kernel %s got %d arrays: it takes %d", k.Name, len(in), len(k.Inputs))
	}
	for i, x := range in {
		if got, want := x.Shape(), k.Inputs[i]; got.Size() != want.Size() {
			return fmt.Errorf("fused: kernel %s got input %d of %s, %d elements: it takes %d. A net's batches differ, and it is tried with two examples: make the kernel for x.Shape() where it is applied",
				k.Name, i, got, got.Size(), want.Size())
		} else if got.DType != want.DType && !(got.DType.IsFloat() && want.DType.IsFloat()) {
			return fmt.Errorf("fused: kernel %s got input %d of %s: it takes %s. ConvertDType makes one of the other", k.Name, i, got, want.DType)
		}
	}
	return nil
}

// plain is the plain form, which must make as much as the kernel does.
func (o Own) plain(in []*Node) *Node {
	y := o.Plain(in...)
	if got, want := y.Shape(), o.Kernel.Outputs[0]; got.Size() != want.Size() {
		panic(fmt.Errorf("fused: the plain form of kernel %s makes %s, %d elements: want %d, as the kernel does", o.Kernel.Name, got, got.Size(), want.Size()))
	}
	return y
}

// own is the kernel, of arrays that it takes.
func (o Ops) own(own Own, in []*Node) *Node {
	args := make([]*Node, len(in))
	for i, x := range in {
		want := own.Kernel.Inputs[i]
		if args[i] = Reshape(x, want.Dimensions...); x.DType().IsFloat() && want.DType.IsFloat() {
			args[i] = ConvertDType(args[i], want.DType) // a net may compute in bfloat16
		}
	}
	y := o.call(own.Kernel, args...)[0]
	// What the plain form's result is shaped like, without computing it.
	like := own.plain(in)
	y = ConvertDType(Reshape(y, like.Shape().Dimensions...), like.DType())
	var wrt []*Node
	var at []int
	for i, x := range in {
		if x.DType().IsFloat() {
			wrt, at = append(wrt, x), append(at, i)
		}
	}
	return gradient.Define(y, wrt, func(g *Node) []*Node {
		return gradient.Of(func(fresh []*Node) *Node {
			all := slices.Clone(in)
			for k, i := range at {
				all[i] = fresh[k]
			}
			return own.Plain(all...)
		}, wrt, g)
	})
}

// kernelWriter is a backend that writes programs, and may put kernels into them.
type kernelWriter interface {
	// Kernels is the builder of the last graph, nil where kernels do not run.
	Kernels() *hlo.Builder
}

// On are the operations for the program that x belongs to: with kernels where package fit
// or tiling writes it for a target that runs them, else plain.
func On(x *Node) Ops {
	if w, is := x.Graph().Backend().(kernelWriter); is {
		return Ops{Builder: w.Kernels()}
	}
	return Ops{}
}
