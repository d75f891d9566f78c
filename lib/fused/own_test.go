package fused

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/triton"
	"gaiden/lib/gradient"
)

// doubled is an operation of your own with the kernel of plan_test.
func doubled(in ...*Node) *Node { return MulScalar(in[0], 2) }

// TestOwn holds an operation of your own to be the kernel on CUDA and its
// plain form elsewhere, with one gradient.
func TestOwn(t *testing.T) {
	own := Own{Kernel: ownKernel, Plain: doubled}
	in := []*tensors.Tensor{random(1, f32(32, 16), 1, 0)}
	build := func(apply func(x *Node) *Node) func(in []*Node) []*Node {
		return func(in []*Node) []*Node {
			y := apply(Square(in[0]))
			return []*Node{y, gradient.Final(ReduceAllSum(Mul(y, in[0])), in[0])[0]}
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
	if text := string(w.Program.Text(nil)); strings.Count(text, "custom_call @"+triton.Target) != 1 {
		t.Errorf("on CUDA: got\n%s\nwant one kernel", text)
	}

	half := NewGraph(w, "half") // of a net that computes in bfloat16
	x := Parameter(half, "x", shapes.Make(dtypes.BFloat16, 512))
	y := own.Apply(x)
	if err := half.Compile(y, gradient.Final(ReduceAllSum(y), x)[0]); err != nil {
		t.Fatal(err)
	}
	if text := string(w.Program.Text(nil)); y.DType() != dtypes.BFloat16 || strings.Count(text, "custom_call @"+triton.Target) != 1 {
		t.Errorf("bfloat16: got a %s from\n%s\nwant one kernel, and bfloat16", y.DType(), text)
	}
}

// TestOwnRefused holds what a kernel of your own does not take, on any device, and that the
// error says what it got and what it wants.
func TestOwnRefused(t *testing.T) {
	own := Own{Kernel: ownKernel, Plain: doubled}
	two, short := own, own
	two.Kernel.Outputs = append(slices.Clone(ownKernel.Outputs), ownKernel.Outputs...)
	short.Plain = func(in ...*Node) *Node { return ReduceAllSum(in[0]) }
	f := f32(512)
	for _, tt := range []struct {
		name string
		own  Own
		in   []shapes.Shape
		want string // "" for none
	}{
		{"what it takes", own, []shapes.Shape{f}, ""},
		{"another shape of that size", own, []shapes.Shape{f32(32, 16)}, ""},
		{"bfloat16", own, []shapes.Shape{shapes.Make(dtypes.BFloat16, 512)}, ""},
		{"another size", own, []shapes.Shape{f32(513)}, "double got input 0 of (Float32)[513], 513 elements: it takes 512"},
		{"integers", own, []shapes.Shape{shapes.Make(dtypes.Int32, 512)}, "double got input 0 of (Int32)[512]: it takes Float32"},
		{"two arrays", own, []shapes.Shape{f, f}, "got 2 arrays: it takes 1"},
		{"two outputs", two, []shapes.Shape{f}, "2 outputs: want one"},
		{"a plain form that makes less", short, []shapes.Shape{f}, "the plain form of kernel double makes (Float32), 1 elements: want 512"},
	} {
		for _, gpu := range []bool{false, true} {
			var backend compute.Backend = &writer{}
			if !gpu {
				backend = host(t)
			}
			g := NewGraph(backend, "own")
			var in []*Node
			for i, s := range tt.in {
				in = append(in, Parameter(g, fmt.Sprint("x", i), s))
			}
			err := func() (err error) {
				defer func() { err, _ = recover().(error) }()
				tt.own.Apply(in...)
				return nil
			}()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("%s, on a GPU %t: got %v", tt.name, gpu, err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("%s, on a GPU %t: got %v, want %q", tt.name, gpu, err, tt.want)
			}
		}
	}
}
