package ptx_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/golden"
	"gaiden/lib/engine/ptx"
)

var numbers = shapes.Make(dtypes.Float32, 1000)

// next is the example of the package's comment, and what else there is, once.
func next(b *ptx.Block) {
	i := b.BlockID().Mul(128).Add(b.ThreadID())
	x := b.Input(0)
	b.If(i.Less(1000), func() {
		b.Output(0).At(i, 4).Store(0, x.At(i, 4).Load(0).Float().Add(1))
	})
}

func all(b *ptx.Block) {
	thread := b.ThreadID()
	shared := b.Shared(16).At(thread.Min(7), 16)
	shared.Store(0, b.F32(0.5), b.U32(3), thread, thread.ToFloat().Rounded())
	b.Sync()
	l := shared.LoadFloats(4, 0)
	sum := b.Var(0.0)
	b.For(0, 3, 1, func(i ptx.Value) { b.Set(sum, l[0].FMA(l[3], sum.Max(l[1]))) })
	dots := []ptx.Value{sum, b.Var(0.0), b.Var(0.0), b.Var(0.0)}
	b.Dot(dots, l, l[:2])
	halves := []ptx.Value{b.Halves(dtypes.Float16, l[0], sum), b.Halves(dtypes.BFloat16, l[1], b.F32(2))}
	halves = append(append(halves, b.Matrices(4, true, shared, 32)...), b.Matrices(2, false, b.Shared(0), 0)...)
	b.DotHalves(dtypes.Float16, dots, halves[:4], halves[4:6])
	b.DotHalves(dtypes.BFloat16, dots, halves[2:6], halves[6:])
	thread = thread.Div(24).Add(thread.Rem(24)).Add(thread.Div(8)).Sub(thread.Rem(8))
	sum = sum.Add(sum.Other(16)).Mul(sum.Of(3)).Sub(sum.Exp2().Log2().Rsqrt().Reciprocal())
	counter := b.Input(1)
	b.Arrive(thread, counter)
	b.Await(thread, counter, thread.Shl(1).Shr(1).And(1).Or(2).Xor(thread))
	in := thread.Less(100).And(thread.Equal(7).Not()).Or(sum.Greater(2))
	b.Output(0).At(thread, 4).StoreIf(in, 8, in.Select(sum, 1.5), b.Input(0).LoadIf(in, 4))
	b.Output(0).Store(16, b.Input(0).LoadVectorIf(in, 2, 8)...)
	b.Output(0).At(2, 4).Store(0, sum.Bits())
}

// TestText holds the text of two kernels.
func TestText(t *testing.T) {
	golden.Hold(t, ".ptx", map[string]ptx.Kernel{
		"next": {Name: "next", Blocks: 8, Threads: 128, Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers}, Body: next},
		"all":  {Name: "all", Blocks: 2, Threads: 64, Shared: 1024, Inputs: []shapes.Shape{numbers, shapes.Make(dtypes.Int32)}, Outputs: []shapes.Shape{numbers}, Aliases: map[int]int{0: 0}, Body: all},
	}, 0)
}

// TestRefusals holds what is refused, and that the line is told.
func TestRefusals(t *testing.T) {
	for _, tt := range []struct {
		name string
		body func(b *ptx.Block)
		want string
	}{
		{"float and integer", func(b *ptx.Block) { b.ThreadID().Add(b.F32(1)) }, "got a float32, want an integer"},
		{"sum of conditions", func(b *ptx.Block) { c := b.ThreadID().Less(1); c.Add(c) }, "add of a condition"},
		{"comparison of conditions", func(b *ptx.Block) { c := b.ThreadID().Less(1); c.Equal(c) }, "comparison of a condition"},
		{"sum of addresses", func(b *ptx.Block) { b.Input(0).Add(b.Input(0)) }, "add of an address"},
		{"bits of a float", func(b *ptx.Block) { b.Var(1.0).And(1.0) }, "and of a float32"},
		{"choice of conditions", func(b *ptx.Block) { c := b.ThreadID().Less(1); c.Select(c, c) }, "Select of a condition"},
		{"choice of Go numbers", func(b *ptx.Block) { b.ThreadID().Less(1).Select(1, 2) }, "two Go numbers"},
		{"choice by an integer", func(b *ptx.Block) { b.ThreadID().Select(b.U32(1), 2) }, "Select of an integer"},
		{"three side by side", func(b *ptx.Block) { b.Input(0).LoadVector(3, 0) }, "3 registers side by side"},
		{"nothing stored", func(b *ptx.Block) { b.Output(0).Store(0) }, "0 registers side by side"},
		{"stored address", func(b *ptx.Block) { b.Output(0).Store(0, b.Input(0)) }, "Store of an address"},
		{"memory at a float", func(b *ptx.Block) { b.Var(1.0).Load(0) }, "memory of a float32"},
		{"element before the first", func(b *ptx.Block) { b.Input(0).At(-1, 4) }, "element -1"},
		{"shuffled address", func(b *ptx.Block) { b.Input(0).Other(1) }, "Other of an address"},
		{"too few factors", func(b *ptx.Block) { b.Dot(nil, nil, nil) }, "Dot of 0, 0 and 0 registers"},
		{"constant sum", func(b *ptx.Block) {
			x := []ptx.Value{b.F32(0), b.F32(0), b.F32(0), b.F32(0)}
			b.Dot(x, x, x[:2])
		}, "Dot of a constant"},
		{"halves of integers", func(b *ptx.Block) { b.Halves(dtypes.Float16, b.ThreadID(), b.ThreadID()) }, "got an integer, want a float32"},
		{"halves of another type", func(b *ptx.Block) { b.Halves(dtypes.Float32, b.F32(1), b.F32(1)) }, "got Float32, want Float16 or BFloat16"},
		{"three matrices", func(b *ptx.Block) { b.Matrices(3, false, b.Shared(0), 0) }, "3 matrices, want 2 or 4"},
		{"matrices of global memory", func(b *ptx.Block) { b.Matrices(4, false, b.Input(0), 0) }, "memory of an address"},
		{"products of floats", func(b *ptx.Block) {
			x := []ptx.Value{b.Var(1.0), b.Var(1.0), b.Var(1.0), b.Var(1.0)}
			b.DotHalves(dtypes.Float16, x, x, x[:2])
		}, "DotHalves of a float32"},
		{"division by nothing", func(b *ptx.Block) { b.ThreadID().Rem(0) }, "division by 0"},
		{"changed constant", func(b *ptx.Block) { b.Set(b.U32(1), 2) }, "got a constant"},
		{"no such input", func(b *ptx.Block) { b.Input(1) }, "got input 1, want a number below 1"},
		{"beyond shared memory", func(b *ptx.Block) { b.Shared(64) }, "got byte 64"},
		{"a string", func(b *ptx.Block) { b.ThreadID().Add("1") }, "got string, want an integer"},
		{"panic", func(*ptx.Block) { panic("own") }, "its Body panicked: own"},
	} {
		k := ptx.Kernel{Name: "bad", Blocks: 1, Threads: 32, Shared: 64, Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers}, Body: tt.body}
		_, err := k.Text()
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "ptx: kernel bad") {
			t.Errorf("%s: got %v, want an error with %q", tt.name, err, tt.want)
		}
		var e *ptx.Error
		if !errors.As(err, &e) || strings.HasPrefix(e.Where, "ptx_test.go:") == (tt.name == "panic") {
			t.Errorf("%s: got %v, want an *Error with a line of this file, but for a panic", tt.name, err)
		}
	}
	good := ptx.Kernel{Name: "good", Blocks: 1, Threads: 32, Inputs: []shapes.Shape{numbers}, Outputs: []shapes.Shape{numbers}, Body: next}
	for name, change := range map[string]func(k *ptx.Kernel){
		"name is": func(k *ptx.Kernel) { k.Name = "7" }, "no Body": func(k *ptx.Kernel) { k.Body = nil },
		"0 blocks": func(k *ptx.Kernel) { k.Blocks = 0 }, "33 threads": func(k *ptx.Kernel) { k.Threads = 33 },
		"bytes of shared memory": func(k *ptx.Kernel) { k.Shared = ptx.LargestShared + 1 }, "no outputs": func(k *ptx.Kernel) { k.Outputs = nil },
		"numbers below 1 and 1": func(k *ptx.Kernel) { k.Aliases = map[int]int{0: 1} },
		"want one shape": func(k *ptx.Kernel) {
			k.Aliases, k.Inputs = map[int]int{0: 0}, []shapes.Shape{shapes.Make(dtypes.Int32)}
		},
		"the memory of two": func(k *ptx.Kernel) {
			k.Aliases, k.Outputs = map[int]int{0: 0, 1: 0}, []shapes.Shape{numbers, numbers}
		},
	} {
		k := good
		change(&k)
		if _, err := k.Text(); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("got %v, want an error with %q", err, name)
		}
	}
}
