package emulate

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
)

// factors are the numbers of x [16 depth] and then of y [depth 8], which have few digits.
func factors(depth int) []float32 {
	l := make([]float32, (16+8)*depth)
	for i := range l {
		l[i] = float32(i*37%101)/16 - 3
	}
	return l
}

// product holds that got is 1 and the product of factors.
func product(t *testing.T, what string, factors, got []float32) {
	t.Helper()
	depth := len(factors) / (16 + 8)
	x, y := factors[:16*depth], factors[16*depth:]
	for i := range 16 {
		for j := range 8 {
			want := float32(1)
			for k := range depth {
				want += x[depth*i+k] * y[8*k+j]
			}
			if got := got[8*i+j]; got != want {
				t.Errorf("%s[%d %d]: got %v, want %v", what, i, j, got, want)
			}
		}
	}
}

// TestDot holds that it is the product of the matrices that Block.Dot describes.
func TestDot(t *testing.T) {
	factors := factors(8)
	in := slices.Clone(factors)
	for i := range in {
		in[i] += in[i] / (1 << 12) // which is cut off
	}
	k := ptx.Kernel{Name: "dot", Blocks: 1, Threads: 32, Inputs: []shapes.Shape{f32(len(in))}, Outputs: []shapes.Shape{f32(16, 8)}, Body: func(b *ptx.Block) {
		lane := b.ThreadID()
		g, t := lane.Shr(2), lane.And(3)
		at := func(row, column ptx.Value) ptx.Value {
			return b.Input(0).At(row.Mul(8).Add(column), 4).Load(0).Float()
		}
		sum := []ptx.Value{b.Var(1.0), b.Var(1.0), b.Var(1.0), b.Var(1.0)}
		b.Dot(sum, []ptx.Value{at(g, t), at(g.Add(8), t), at(g, t.Add(4)), at(g.Add(8), t.Add(4))},
			[]ptx.Value{at(t.Add(16), g), at(t.Add(20), g)})
		to := b.Output(0).At(g.Mul(4).Add(t), 8)
		to.Store(0, sum[0], sum[1])
		to.Store(256, sum[2], sum[3])
	}}
	out, err := Run(k, in)
	if err != nil {
		t.Fatal(err)
	}
	product(t, "", factors, out[0].([]float32))
}

// TestDotHalves multiplies matrices that stand in shared memory, once as they are and once
// turned round, and once the second one lies the other way.
func TestDotHalves(t *testing.T) {
	in := factors(16)
	for _, d := range []dtypes.DType{dtypes.Float16, dtypes.BFloat16} {
		for _, turned := range []bool{false, true} {
			k := ptx.Kernel{Name: "dot", Blocks: 1, Threads: 32, Shared: 3072, Inputs: []shapes.Shape{f32(len(in))}, Outputs: []shapes.Shape{f32(16, 8)}, Body: func(b *ptx.Block) {
				lane := b.ThreadID()
				// Row r of x has 48 bytes from 48r on, and that of y from 1024+48r on; turned round they are columns.
				put := func(at, from, row, column int) {
					b.If(lane.Equal(0), func() {
						l := b.Input(0).LoadFloats(1, 4*from)
						right := b.Input(0).LoadFloats(1, 4*(from+1))
						if at >= 1024 && !turned || at < 1024 && turned { // what is side by side is not in a row
							step := 8
							if at < 1024 {
								step = 16
							}
							right = b.Input(0).LoadFloats(1, 4*(from+step))
						}
						b.Shared(at+48*row).Store(2*column, b.Halves(d, l[0], right[0]))
					})
				}
				for i := range 16 {
					for j := 0; j < 16; j += 2 {
						if turned {
							put(0, 16*j+i, i, j)
						} else {
							put(0, 16*i+j, i, j)
						}
					}
				}
				for i := range 16 {
					for j := 0; j < 8; j += 2 {
						if turned {
							put(1024, 256+8*i+j, i, j)
						}
					}
				}
				for i := range 8 {
					for j := 0; j < 16; j += 2 {
						if !turned {
							put(1024, 256+8*j+i, i, j)
						}
					}
				}
				b.Sync()
				row := func(at int, r, eight ptx.Value) ptx.Value { return b.Shared(at).At(r, 48).At(eight, 16) }
				low, middle, high := lane.And(7), lane.Shr(3).And(1), lane.Shr(4)
				first, second := row(0, low.Add(middle.Shl(3)), high), row(1024, low, middle)
				if turned {
					first, second = row(0, low.Add(high.Shl(3)), middle), row(1024, low.Add(middle.Shl(3)), b.U32(0))
				}
				sum := []ptx.Value{b.Var(1.0), b.Var(1.0), b.Var(1.0), b.Var(1.0)}
				b.DotHalves(d, sum, b.Matrices(4, turned, first, 0), b.Matrices(2, turned, second, 0))
				to := b.Output(0).At(lane, 8)
				to.Store(0, sum[0], sum[1])
				to.Store(256, sum[2], sum[3])
			}}
			out, err := Run(k, in)
			if err != nil {
				t.Fatal(err)
			}
			product(t, fmt.Sprintf("%s, turned %t: ", d, turned), in, out[0].([]float32))
		}
	}
}

// TestMatrices holds that rows of matrices are checked as other memory is.
func TestMatrices(t *testing.T) {
	for _, tt := range []struct {
		name string
		body func(b *ptx.Block, i ptx.Value)
		want string
	}{
		{"outside", func(b *ptx.Block, i ptx.Value) { b.Matrices(4, false, b.Shared(0).At(i.Add(16), 16), 0) }, "thread 0: got 16 bytes at byte 256 of shared memory"},
		{"misaligned", func(b *ptx.Block, i ptx.Value) { b.Matrices(2, false, b.Shared(4), 0) }, "got 16 bytes at byte 4 of shared memory, want a multiple of 16"},
		{"unwritten", func(b *ptx.Block, i ptx.Value) { b.Matrices(2, true, b.Shared(0), 0) }, "read of byte 0 of shared memory, want one that was written"},
		{"race", func(b *ptx.Block, i ptx.Value) {
			b.Shared(0).At(i, 8).Store(0, i, i)
			b.Matrices(4, false, b.Shared(0), 0)
		}, "race at byte "},
		{"diverged", func(b *ptx.Block, i ptx.Value) {
			b.If(i.Less(16), func() { b.Matrices(2, false, b.Shared(0), 0) })
		}, "got 16 threads of the warp, want all 32"},
	} {
		if _, err := Run(kernel(func(b *ptx.Block) { tt.body(b, b.ThreadID()) }), make([]float32, 64)); !told(err, tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestHalves holds how numbers are rounded to 16 bits; the values of Float16 are those of
// Python's struct.
func TestHalves(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	in := []float32{1, -2.5, 65504, 65519.9, 65520, -1e9, inf, 6.1035156e-5, 6.1e-5, 5.9604645e-8, 2.9802322e-8, 3e-8, 1e-9, -1e-9, 2049, 2051, 1.0004883, nan}
	want16 := []uint32{0x3C00, 0xC100, 0x7BFF, 0x7BFF, 0x7C00, 0xFC00, 0x7C00, 0x0400, 0x03FF, 0x0001, 0x0000, 0x0001, 0x0000, 0x8000, 0x6800, 0x6802, 0x3C00, 0}
	for i, x := range in {
		got := half(math.Float32bits(x))
		if is := got&0x7C00 == 0x7C00 && got&0x3FF != 0; x != x && !is || x == x && got != want16[i] {
			t.Errorf("half of %v: got %#04x, want %#04x", x, got, want16[i])
		}
		if got, want := brain(math.Float32bits(x)), math.Float32bits(x)>>16; x == x && got != want && got != want+1 {
			t.Errorf("brain of %v: got %#04x, want %#04x or one more", x, got, want)
		}
	}
}

// TestDivision holds that a product and a shift divide.
func TestDivision(t *testing.T) {
	numbers := []int32{0, 1, 2, 6, 23, 24, 25, 1000, 65535, 65536, 1<<31 - 1, 1<<31 - 2, 1<<30 + 7}
	for range 51 {
		numbers = append(numbers, int32(rand.Uint32()>>1))
	}
	for _, n := range []int{1, 2, 3, 5, 7, 24, 26, 64, 641, 10007, 1 << 30, 1<<31 - 1} {
		s := i32(len(numbers))
		out, err := Run(ptx.Kernel{Name: "divide", Blocks: 1, Threads: 64, Inputs: []shapes.Shape{s}, Outputs: []shapes.Shape{s, s}, Body: func(b *ptx.Block) {
			x := b.Input(0).At(b.ThreadID(), 4).Load(0)
			b.Output(0).At(b.ThreadID(), 4).Store(0, x.Div(n))
			b.Output(1).At(b.ThreadID(), 4).Store(0, x.Rem(n))
		}}, numbers)
		if err != nil {
			t.Fatal(err)
		}
		for i, x := range numbers {
			if q, r := out[0].([]int32)[i], out[1].([]int32)[i]; q != x/int32(n) || r != x%int32(n) {
				t.Errorf("%d by %d: got %d, rest %d", x, n, q, r)
			}
		}
	}
}
