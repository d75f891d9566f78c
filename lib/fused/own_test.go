package fused

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/triton"
)

// doubled is an operation of one's own with the kernel of plan_test.
func doubled(in ...*Node) *Node { return MulScalar(in[0], 2) }

// TestOwn holds an operation of one's own to be the kernel on CUDA and its
// plain form elsewhere, with one gradient.
func TestOwn(t *testing.T) {
	own := Own{Kernel: ownKernel, Plain: doubled}
	in := []*tensors.Tensor{random(1, f32(32, 16), 1, 0)}
	build := func(apply func(x *Node) *Node) func(in []*Node) []*Node {
		return func(in []*Node) []*Node {
			y := apply(Square(in[0]))
			return []*Node{y, Gradient(ReduceAllSum(Mul(y, in[0])), in[0])[0]}
		}
	}
	want := plainly(t, in, build(func(x *Node) *Node { return own.Apply(x) }))
	got, ran := emulated(t, Ops{}, in, func(o Ops, in []*Node) []*Node {
		return build(func(x *Node) *Node { return o.own(own, []*Node{x}) })(in)
	})
	if len(ran) != 1 || ran[0] != "double" {
		t.Errorf("got kernels %v, want double", ran)
	}
	near(t, "y", got[0], want[0], 1e-6)
	near(t, "gradient", got[1], want[1], 1e-6)

	w := &writer{}
	g := NewGraph(w, "own")
	if err := g.Compile(own.Apply(Parameter(g, "x", f32(512)))); err != nil {
		t.Fatal(err)
	}
	if text := string(w.program.Text(nil)); strings.Count(text, "custom_call @"+triton.Target) != 1 {
		t.Errorf("on CUDA: got\n%s\nwant one kernel", text)
	}

	half := NewGraph(w, "half") // of a net that computes in bfloat16
	x := Parameter(half, "x", shapes.Make(dtypes.BFloat16, 512))
	y := own.Apply(x)
	if err := half.Compile(y, Gradient(ReduceAllSum(y), x)[0]); err != nil {
		t.Fatal(err)
	}
	if text := string(w.program.Text(nil)); y.DType() != dtypes.BFloat16 || strings.Count(text, "custom_call @"+triton.Target) != 1 {
		t.Errorf("bfloat16: got a %s from\n%s\nwant one kernel, and bfloat16", y.DType(), text)
	}
}
