package emulate

import (
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

// kernel copies eight numbers in two blocks of four, or does what body says.
func kernel(body func(b *triton.Block, i triton.Value)) triton.Kernel {
	return triton.Kernel{Name: "k", Grid: [3]int{2}, Inputs: []shapes.Shape{f32(8)}, Outputs: []shapes.Shape{f32(8)}, Body: func(b *triton.Block) {
		body(b, b.ProgramID(0).Mul(4).Add(b.Range(4)))
	}}
}

// TestStrict holds that what a device would let pass is an error.
func TestStrict(t *testing.T) {
	for _, tt := range []struct {
		name string
		body func(b *triton.Block, i triton.Value)
		want string
	}{
		{"good", func(b *triton.Block, i triton.Value) { b.Output(0).At(i).Store(b.Input(0).At(i).Load()) }, ""},
		{"load outside", func(b *triton.Block, i triton.Value) { b.Output(0).At(i).Store(b.Input(0).At(i.Add(1)).Load()) }, "block [1 0 0]: load at 8 of %in0, which has 8 elements"},
		{"load before", func(b *triton.Block, i triton.Value) { b.Output(0).At(i).Store(b.Input(0).At(i.Sub(1)).Load()) }, "load at -1"},
		{"masked", func(b *triton.Block, i triton.Value) {
			b.Output(0).At(i).Store(b.Input(0).At(i.Add(1)).LoadIf(i.Less(7), 0))
		}, ""},
		{"store outside", func(b *triton.Block, i triton.Value) { b.Output(0).At(i.Mul(2)).Store(b.Input(0).At(i).Load()) }, "store at 8 of %out0"},
		{"store twice", func(b *triton.Block, i triton.Value) { b.Output(0).At(i.Rem(4)).Store(b.Input(0).At(i).Load()) }, "which another block has stored"},
		{"not stored", func(b *triton.Block, i triton.Value) { b.Output(0).At(i).StoreIf(i.NotEqual(5), 1.0) }, "nothing is stored to element 5 of output 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Run(kernel(tt.body), []float64{0, 1, 2, 3, 4, 5, 6, 7})
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestRace holds that a block may not read what another has stored, as it could
// through memory that is input and output.
func TestRace(t *testing.T) {
	k := kernel(func(b *triton.Block, i triton.Value) {
		b.Output(0).At(i).Store(b.Input(0).At(b.Full(dtypes.Int32, 7).Sub(i)).Load())
	})
	if _, err := Run(k, make([]float64, 8)); err != nil {
		t.Errorf("two arrays: got %v", err)
	}
	k.Aliases = map[int]int{0: 0}
	if _, err := Run(k, make([]float64, 8)); err == nil || !strings.Contains(err.Error(), "which another block has stored") {
		t.Errorf("one array: got error %v, want one about another block", err)
	}
}

// TestTakes holds that a kernel reads no more of an input than it says.
func TestTakes(t *testing.T) {
	k := kernel(func(b *triton.Block, i triton.Value) {
		b.Output(0).At(i).Store(b.Input(0).At(i.Div(2)).Load()) // four of eight
	})
	for most, want := range map[int]string{8: "", 4: "", 3: "it reads 4 elements of input 0, Takes says 3"} {
		k.Takes = map[int]int{0: most}
		if _, err := Run(k, make([]float64, 8)); err == nil && want != "" || err != nil && (want == "" || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d: got error %v, want %q", most, err, want)
		}
	}
}

func TestArguments(t *testing.T) {
	k := kernel(func(b *triton.Block, i triton.Value) { b.Output(0).At(i).Store(0.0) })
	for want, in := range map[string][][]float64{"got 0 inputs, want 1": {}, "input 0 has 3 elements": {{1, 2, 3}}} {
		if _, err := Run(k, in...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	k.Name = ""
	if _, err := Run(k, make([]float64, 8)); err == nil {
		t.Error("got no error of a kernel without a name")
	}
}

// TestRounding holds the types' precision against known numbers.
func TestRounding(t *testing.T) {
	for _, tt := range []struct {
		d         dtypes.DType
		got, want float64
	}{
		{dtypes.BFloat16, 1 + 1.0/256, 1}, {dtypes.BFloat16, 1 + 3.0/256, 1 + 4.0/256}, {dtypes.BFloat16, -3.14159, -3.140625},
		{dtypes.Float16, 1 + 1.0/2048, 1}, {dtypes.Float16, 0.1, 0.0999755859375},
		{dtypes.Float32, 0.1, float64(float32(0.1))}, {dtypes.Int32, 1 << 32, 0}, {dtypes.BFloat16, math.Inf(1), math.Inf(1)},
	} {
		if got := round(tt.d, tt.got); got != tt.want {
			t.Errorf("%v as %s: got %v, want %v", tt.got, tt.d, got, tt.want)
		}
	}
}

// TestSumTogether holds that it is Sum, along each axis and for each number of parts.
func TestSumTogether(t *testing.T) {
	for _, dims := range [][]int{{4, 8}, {8, 4}, {2, 4, 4}, {16, 2, 1}, {1, 32}} {
		for axis := range dims {
			left := 1
			for i, d := range dims {
				if i != axis {
					left *= d
				}
			}
			k := triton.Kernel{Name: "k", Inputs: []shapes.Shape{f32(32)}, Outputs: []shapes.Shape{f32(left), f32(left)}, Body: func(b *triton.Block) {
				x := b.Input(0).At(b.Range(32)).Load().Reshape(dims...)
				b.Output(0).At(b.Range(left)).Store(x.Sum(axis).Reshape(left))
				b.Output(1).At(b.Range(left)).Store(x.SumTogether(axis).Reshape(left))
			}}
			x := make([]float64, 32)
			for i := range x {
				x[i] = float64(i * i)
			}
			out, err := Run(k, x)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(out[0], out[1]) {
				t.Errorf("%v along %d: got %v, want %v", dims, axis, out[1], out[0])
			}
		}
	}
}

// TestLongGrid holds that blocks know their places on a grid whose last axis is longer than CUDA's.
func TestLongGrid(t *testing.T) {
	const last = 65536
	k := triton.Kernel{Name: "k", Grid: [3]int{2, 2, last}, Inputs: []shapes.Shape{f32(1)}, Outputs: []shapes.Shape{f32(4 * last)}, Body: func(b *triton.Block) {
		x, y, z := b.ProgramID(0), b.ProgramID(1), b.ProgramID(2)
		at := x.Add(y.Mul(2)).Add(z.Mul(4)).Add(b.Range(1))
		b.Output(0).At(at).Store(at.To(dtypes.Float32))
	}}
	if got := k.Launched(); got != [3]int{4 * last, 1, 1} {
		t.Errorf("launched as %v", got)
	}
	out, err := Run(k, []float64{0})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range out[0] {
		if v != float64(i) {
			t.Fatalf("number %d is %g", i, v)
		}
	}
}
