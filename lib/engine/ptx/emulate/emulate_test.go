package emulate

import (
	"math"
	"math/big"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/ptx"
)

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
func i32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Int32, dims...) }

// kernel has one block of 32 threads, 64 numbers in, as many out and as many shared.
func kernel(body func(b *ptx.Block)) ptx.Kernel {
	return ptx.Kernel{Name: "k", Blocks: 1, Threads: 32, Shared: 256, Inputs: []shapes.Shape{f32(64)}, Outputs: []shapes.Shape{f32(64)}, Body: body}
}

// exchange has blocks that write a number each, in output 0, and add up all of
// them, in output 1; the counter is input 0 and output 2. wrong leaves something out.
func exchange(blocks int, wrong string) ptx.Kernel {
	return ptx.Kernel{Name: "exchange", Blocks: blocks, Threads: 64, Shared: 256,
		Inputs: []shapes.Shape{i32(1), i32(blocks)}, Outputs: []shapes.Shape{i32(blocks), i32(blocks), i32(1)}, Aliases: map[int]int{0: 1, 2: 0},
		Body: func(b *ptx.Block) {
			thread, block := b.ThreadID(), b.BlockID()
			for round := 1; round <= 3; round++ {
				b.If(thread.Equal(40), func() { b.Output(0).At(block, 4).Store(0, block.Add(round)) })
				if wrong != "arrive" {
					b.Arrive(thread, b.Output(2))
				}
				if wrong != "await" {
					b.Await(thread, b.Output(2), b.U32((2*round-1)*blocks))
				}
				sum := b.Var(0)
				b.For(0, blocks, 1, func(i ptx.Value) { b.Set(sum, sum.Add(b.Output(0).At(i, 4).Load(0))) })
				b.If(thread.Equal(41), func() { b.Output(1).At(block, 4).Store(0, sum) })
				if wrong == "again" {
					b.Sync()
				} else {
					b.Arrive(thread, b.Output(2))
					b.Await(thread, b.Output(2), b.U32(2*round*blocks))
				}
			}
		}}
}

func TestExchange(t *testing.T) {
	for _, tt := range []struct{ wrong, want string }{
		{"", ""},
		{"arrive", "deadlock: all wait, at line "},
		{"await", "block 1 thread 40: race at byte 4 of input 1 (output 0), which block 0 read with no release that this block has acquired"},
		{"again", "which block 4 wrote with no release that this block has acquired"},
	} {
		k := exchange(5, tt.wrong)
		out, err := Run(k, []int32{0}, make([]int32, 5))
		if !told(err, tt.want) {
			t.Errorf("without %q: got error %v, want %q", tt.wrong, err, tt.want)
		}
		if want := []any{[]int32{3, 4, 5, 6, 7}, []int32{25, 25, 25, 25, 25}, []int32{30}}; err == nil && !reflect.DeepEqual(out, want) {
			t.Errorf("got %v, want %v", out, want)
		}
	}
}

// told says whether an error is the one wanted, "" for none.
func told(err error, want string) bool {
	return err == nil && want == "" || err != nil && want != "" && strings.Contains(err.Error(), want)
}

// TestStrict holds that what a device would let pass is an error.
func TestStrict(t *testing.T) {
	for _, tt := range []struct {
		name   string
		blocks int
		body   func(b *ptx.Block, i ptx.Value)
		want   string
	}{
		{"good", 1, func(b *ptx.Block, i ptx.Value) { b.Output(0).At(i, 4).Store(0, b.Input(0).At(i, 4).Load(0)) }, ""},
		{"load outside", 1, func(b *ptx.Block, i ptx.Value) { b.Input(0).At(i.Add(40), 4).Load(0) },
			"[%d2+0]; block 0 thread 24: got 4 bytes at byte 256 of input 0, want some of its 256 bytes"},
		{"load before", 1, func(b *ptx.Block, i ptx.Value) { b.Input(0).At(i.Sub(1), 4096).Load(0) }, "thread 0: got address 0x10ffffff"},
		{"offset before", 1, func(b *ptx.Block, i ptx.Value) { b.Output(0).Store(-4, i) }, "got 4 bytes at byte -4 of output 0"},
		{"vector outside", 1, func(b *ptx.Block, i ptx.Value) { b.Input(0).LoadVector(4, 256) }, "got 16 bytes at byte 256 of input 0"},
		{"store outside", 1, func(b *ptx.Block, i ptx.Value) { b.Output(0).At(i, 16).Store(0, i) }, "thread 16: got 4 bytes at byte 256 of output 0"},
		{"misaligned", 1, func(b *ptx.Block, i ptx.Value) { b.Input(0).At(i, 4).LoadVector(2, 0) }, "thread 1: got 8 bytes at byte 4 of input 0, want a multiple of 8"},
		{"store to input", 1, func(b *ptx.Block, i ptx.Value) { b.Input(0).At(i, 4).Store(0, i) }, "store to input 0, want an output or its alias"},
		{"unwritten", 1, func(b *ptx.Block, i ptx.Value) { b.Output(0).At(i, 4).Load(0) }, "read of byte 0 of output 0, want one that was written"},
		{"counter unwritten", 1, func(b *ptx.Block, i ptx.Value) { b.Arrive(i, b.Output(0)) }, "read of byte 0 of output 0, want one that was written"},
		{"own words", 1, func(b *ptx.Block, i ptx.Value) {
			b.Output(0).At(i, 4).Store(0, i)
			b.Output(0).At(i, 4).Store(0, b.Output(0).At(i, 4).Load(0).Add(1))
		}, ""},
		{"race in block", 1, func(b *ptx.Block, i ptx.Value) {
			b.Output(0).At(i, 4).Store(0, i)
			b.Output(0).At(i.Xor(1), 4).Load(0)
		}, "thread 0: race at byte 4 of output 0, which thread 1 of the block wrote since the last bar.sync"},
		{"no race in block", 1, func(b *ptx.Block, i ptx.Value) {
			b.Output(0).At(i, 4).Store(0, i)
			b.Sync()
			b.Output(0).At(i.Xor(1), 4).Load(0)
		}, ""},
		{"race of stores", 1, func(b *ptx.Block, i ptx.Value) { b.Output(0).Store(0, i) }, "thread 1: race at byte 0 of output 0, which thread 0 of the block wrote"},
		{"race of blocks", 2, func(b *ptx.Block, i ptx.Value) { b.Output(0).At(i, 4).Store(0, i) }, "block 1 thread 0: race at byte 0 of output 0, which block 0 wrote"},
		{"shared outside", 1, func(b *ptx.Block, i ptx.Value) { b.Shared(0).At(i, 16).Store(0, i) }, "thread 16: got 4 bytes at byte 256 of shared memory"},
		{"shared before", 1, func(b *ptx.Block, i ptx.Value) { b.Shared(0).At(i.Sub(1), 4).Store(0, i) }, "thread 0: got 4 bytes at byte -4 of shared memory"},
		{"shared misaligned", 1, func(b *ptx.Block, i ptx.Value) { b.Shared(0).At(i, 2).Store(0, i) }, "thread 1: got 4 bytes at byte 2 of shared memory, want a multiple of 4"},
		{"shared unwritten", 1, func(b *ptx.Block, i ptx.Value) { b.Shared(8).Load(0) }, "read of byte 8 of shared memory, want one that was written"},
		{"shared read after write", 1, func(b *ptx.Block, i ptx.Value) {
			b.Shared(0).At(i, 4).Store(0, i)
			b.Shared(0).At(i.Xor(1), 4).Load(0)
		}, "thread 0: race at byte 4 of shared memory, which thread 1 wrote since the last bar.sync"},
		{"shared write after read", 1, func(b *ptx.Block, i ptx.Value) {
			b.Shared(0).At(i, 4).Store(0, i)
			b.Sync()
			b.Shared(0).At(i.Xor(1), 4).Load(0)
			b.Shared(0).At(i, 4).Store(0, i)
		}, "thread 0: race at byte 0 of shared memory, which thread 1 read"},
		{"shared write after reads", 1, func(b *ptx.Block, i ptx.Value) {
			b.Shared(0).At(i, 4).Store(0, i)
			b.Sync()
			b.Shared(0).Load(0)
			b.Shared(0).At(i, 4).Store(0, i)
		}, "which several threads read"},
		{"shared in order", 1, func(b *ptx.Block, i ptx.Value) {
			for range 3 {
				b.Shared(0).At(i, 4).Store(0, i)
				b.Sync()
				b.Shared(0).At(i.Xor(1), 4).Load(0)
				b.Sync()
			}
		}, ""},
		{"diverged sync", 1, func(b *ptx.Block, i ptx.Value) { b.If(i.Less(7), b.Sync) }, "bar.sync 0; block 0 thread 0: got 7 threads of the warp, want all 32"},
		{"diverged shuffle", 1, func(b *ptx.Block, i ptx.Value) { b.If(i.Greater(7), func() { i.Other(1) }) }, "thread 8: got 24 threads of the warp"},
		{"deadlock", 2, func(b *ptx.Block, i ptx.Value) {
			b.If(b.BlockID().Equal(1), func() { b.Await(i, b.Output(1), b.U32(1)) })
		}, "[%d1]; block 1 thread 0, which reads 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := kernel(func(b *ptx.Block) { tt.body(b, b.ThreadID()) })
			k.Blocks = tt.blocks
			k.Inputs, k.Outputs, k.Aliases = append(k.Inputs, i32(1)), append(k.Outputs, i32(1)), map[int]int{1: 1}
			if _, err := Run(k, make([]float32, 64), []int32{0}); !told(err, tt.want) {
				t.Errorf("got error %v, want %q", err, tt.want)
			}
		})
	}
}

// TestParse holds that a text with anything unknown in it is refused.
func TestParse(t *testing.T) {
	const head = ".visible .entry k(.param .u64 p0)\n.reg .b32 %r<2>;\n.reg .b64 %d<1>;\n.reg .pred %p<1>;\n"
	for line, want := range map[string]string{
		"add.u32 %r0, %r1, 7;":                  "",
		"@!%p0 st.global.cg.b32 [%d0+-4], %r1;": "",
		"add.s32 %r0, %r1, 7;":                  "line 5: add.s32 %r0, %r1, 7;: got add.s32, want an instruction of package ptx",
		"add.u32 %r0, %r1, 7":                   "a semicolon",
		"add.u32 %r0, %r2, 7;":                  "got operand %r2, want one of 2 registers %r",
		"add.u32 %r0, %p0, 7;":                  "got operand %p0",
		"add.u32 4, %r1, 7;":                    "got operand 4",
		"add.u32 %r0, %r1;":                     "got 2 operands, want 3",
		"add.f32 %r0, %r1, 0f3F8;":              "got operand 0f3F8",
		"ld.global.cg.v2.b32 %r0, %r1, [%d0];":  "got 3 operands, want 5",
		"ld.param.u64 %d0, [p1];":               "got operand [p1], want one of 1 parameters",
		"ld.shared.b32 %r0, [%d0+0];":           "got operand %d0",
		"bar.sync 1;":                           "got operand 1, want 0",
		"shfl.sync.idx.b32 %r0, %r1, 0, 31, 7;": "got operand 7, want 4294967295",
		"bra L7;":                               "got label L7",
	} {
		if _, err := parse(head + line); !told(err, want) {
			t.Errorf("%s: got error %v, want %q", line, err, want)
		}
	}
}

func TestArguments(t *testing.T) {
	k := kernel(func(b *ptx.Block) {})
	for want, in := range map[string][]any{
		"emulate: kernel k: got 0 inputs, want 1": {},
		"input 0: got 3 elements, want":           {make([]float32, 3)},
		"input 0: got []int32, want elements of":  {make([]int32, 64)},
	} {
		if _, err := Run(k, in...); !told(err, want) {
			t.Errorf("got error %v, want %q", err, want)
		}
	}
	k.Name = ""
	if _, err := Run(k, make([]float32, 64)); err == nil {
		t.Error("got no error of a kernel without a name")
	}
	k = kernel(func(b *ptx.Block) {})
	k.Outputs = []shapes.Shape{shapes.Make(dtypes.Float64, 1)}
	if _, err := Run(k, make([]float32, 64)); !told(err, "output 0: got") {
		t.Errorf("got error %v, want one about output 0", err)
	}
}

// lane runs a kernel that gives each thread's number i and element x of the input,
// and returns what the threads store.
func lane(t *testing.T, x []float32, f func(b *ptx.Block, i, x ptx.Value) ptx.Value) []float32 {
	t.Helper()
	out, err := Run(kernel(func(b *ptx.Block) {
		i := b.ThreadID()
		b.Output(0).At(i, 4).Store(0, f(b, i, b.Input(0).At(i, 4).Load(0).Float()))
	}), append(x, make([]float32, 64-len(x))...))
	if err != nil {
		t.Fatal(err)
	}
	return out[0].([]float32)[:32]
}

// TestValues holds each instruction against Go's.
func TestValues(t *testing.T) {
	x := make([]float32, 32)
	for i := range x {
		x[i] = float32(i*i)/7 - 20
	}
	for _, tt := range []struct {
		name string
		f    func(b *ptx.Block, i, x ptx.Value) ptx.Value
		want func(i int, x float32) float32
	}{
		{"arithmetic", func(b *ptx.Block, i, x ptx.Value) ptx.Value { return x.Add(1).Mul(x).Sub(i.ToFloat()) },
			func(i int, x float32) float32 { y := (x + 1) * x; return y - float32(i) }},
		{"integers", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			return i.Mul(7).Sub(3).Min(b.U32(90).Max(i)).Xor(5).And(0xF0).Or(3).Shl(3).Shr(1).ToFloat()
		}, func(i int, x float32) float32 {
			return float32(((min(uint32(i*7-3), 90)^5)&0xF0 | 3) << 3 >> 1)
		}},
		{"smaller and larger", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			return x.Min(3).Max(b.F32(math.NaN())).Max(-9.5)
		}, func(i int, x float32) float32 { return max(min(x, 3), -9.5) }},
		{"conditions", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			c := x.Less(0).And(i.Greater(3)).Or(i.Equal(2)).Xor(i.Less(1)).Not()
			d := b.Var(c)
			return d.Select(x, -1.0)
		}, func(i int, x float32) float32 {
			if (x < 0 && i > 3 || i == 2) != (i < 1) {
				return -1
			}
			return x
		}},
		{"functions", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			y := x.Mul(x)
			return y.Rsqrt().Add(x.Reciprocal()).Add(x.Exp2()).Add(y.Log2())
		}, func(i int, x float32) float32 {
			y := x * x
			s := float32(1/math.Sqrt(float64(y))) + float32(1/float64(x))
			s += float32(math.Exp2(float64(x)))
			return s + float32(math.Log2(float64(y)))
		}},
		{"shuffles", func(b *ptx.Block, i, x ptx.Value) ptx.Value { return x.Other(5).Add(x.Of(i.Add(3))).Add(x.Of(9)) },
			func(i int, _ float32) float32 { return x[i^5] + x[(i+3)%32] + x[9] }},
		{"sum of all", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			y := i.ToFloat()
			for mask := 16; mask > 0; mask /= 2 {
				y = y.Add(y.Other(mask))
			}
			return y
		}, func(int, float32) float32 { return 31 * 16 }},
		{"loop", func(b *ptx.Block, i, x ptx.Value) ptx.Value { // as long as each thread's number
			sum := b.Var(0)
			b.For(0, i, 2, func(j ptx.Value) {
				b.If(j.Equal(4), func() { b.Set(sum, sum.Add(100)) })
				b.Set(sum, sum.Add(j))
			})
			return sum.Add(i.Other(1)).ToFloat()
		}, func(i int, x float32) float32 {
			sum := 0
			for j := 0; j < i; j += 2 {
				if j == 4 {
					sum += 100
				}
				sum += j
			}
			return float32(sum + (i ^ 1))
		}},
		{"shared", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			b.Shared(16).At(i, 4).Store(-16, x)
			b.Sync()
			v := b.Shared(0).At(i.And(7), 16).LoadFloats(4, 0)
			return v[0].Add(v[3])
		}, func(i int, _ float32) float32 { return x[i&7*4] + x[i&7*4+3] }},
		{"addresses", func(b *ptx.Block, i, x ptx.Value) ptx.Value {
			p := b.Var(b.Input(0).At(3, 4))
			b.Set(p, p.At(i, 0))
			return p.Load(4).Float()
		}, func(i int, _ float32) float32 { return x[4] }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got := lane(t, x, tt.f)
			for i, y := range got {
				if want := tt.want(i, x[i]); y != want {
					t.Errorf("thread %d: got %v, want %v", i, y, want)
				}
			}
		})
	}
}

// TestFused holds that x·y + z is rounded once, against exact arithmetic.
func TestFused(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	number := func(scale int) float32 { // few bits, so that there are ties
		return float32(math.Ldexp(float64(r.IntN(1<<13)-1<<12), r.IntN(2*scale)-scale))
	}
	for range 200_000 {
		x, y, z := 1+number(12)/(1<<24), 1+number(12)/(1<<24), number(60)
		if r.IntN(8) == 0 { // to the smallest numbers
			x, z = x*0x1p-130, z*0x1p-140
		}
		exact := new(big.Float).SetPrec(2000)
		exact.Mul(big.NewFloat(float64(x)), big.NewFloat(float64(y)))
		exact.SetPrec(2000).Add(exact, big.NewFloat(float64(z)))
		if want, _ := exact.Float32(); fused(x, y, z) != want {
			t.Fatalf("%v·%v + %v: got %v, want %v", x, y, z, fused(x, y, z), want)
		}
	}
}

// TestPack holds that a long text needs few registers.
func TestPack(t *testing.T) {
	text, err := kernel(func(b *ptx.Block) {
		i := b.ThreadID()
		carried := b.Var(0)
		for range 1000 {
			b.Set(carried, carried.Add(b.Input(0).At(i, 4).Load(0).Mul(i)))
		}
		b.Output(0).At(i, 4).Store(0, carried)
	}).Text()
	if err != nil {
		t.Fatal(err)
	}
	p, err := parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if p.words > 8 || p.addresses > 1004 {
		t.Errorf("got %d and %d registers, want up to 8 and 1004", p.words, p.addresses)
	}
}

// TestBytes holds that words of uint8 are read and written lowest byte first.
func TestBytes(t *testing.T) {
	s := shapes.Make(dtypes.Uint8, 4)
	k := ptx.Kernel{Name: "bytes", Blocks: 1, Threads: 32, Inputs: []shapes.Shape{s}, Outputs: []shapes.Shape{s, s}, Body: func(b *ptx.Block) {
		b.Output(0).StoreIf(b.ThreadID().Equal(0), 0, b.Input(0).Load(0).Shr(8))
	}}
	out, err := Run(k, []uint8{1, 2, 3, 4})
	if want := []any{[]uint8{2, 3, 4, 0}, make([]uint8, 4)}; err != nil || !reflect.DeepEqual(out, want) {
		t.Errorf("got %v, %v, want %v", out, err, want)
	}
}

// BenchmarkRun counts what a thread does in an instruction as one operation.
func BenchmarkRun(b *testing.B) {
	const blocks, threads, turns = 4, 256, 64
	for _, bb := range []struct {
		name string
		per  int // instructions in each turn
		body func(b *ptx.Block, i ptx.Value, x, y ptx.Value)
	}{
		{"arithmetic", 16, func(b *ptx.Block, i, x, y ptx.Value) {
			for range 16 {
				b.Set(x, x.FMA(0.5, y))
			}
		}},
		{"shared", 32, func(b *ptx.Block, i, x, y ptx.Value) {
			for range 16 {
				b.Shared(0).At(i, 4).Store(0, x)
				b.Set(x, b.Shared(0).At(i, 4).Load(0).Float())
			}
		}},
		{"dot", 16, func(b *ptx.Block, i, x, y ptx.Value) {
			for range 16 {
				b.Dot([]ptx.Value{x, y, x, y}, []ptx.Value{x, y, x, y}, []ptx.Value{x, y})
			}
		}},
	} {
		b.Run(bb.name, func(b *testing.B) {
			k := ptx.Kernel{Name: "k", Blocks: blocks, Threads: threads, Shared: 4 * threads, Outputs: []shapes.Shape{f32(blocks * threads)}, Body: func(b *ptx.Block) {
				i := b.ThreadID()
				x, y := b.Var(i.ToFloat()), b.Var(1.0)
				b.For(0, turns, 1, func(ptx.Value) { bb.body(b, i, x, y) })
				b.Output(0).At(b.BlockID().Mul(threads).Add(i), 4).Store(0, x)
			}}
			n := 0
			for b.Loop() {
				if _, err := Run(k); err != nil {
					b.Fatal(err)
				}
				n += blocks * threads * turns * bb.per
			}
			b.ReportMetric(float64(n)/b.Elapsed().Seconds()/1e6, "M-lane-ops/s")
		})
	}
}
