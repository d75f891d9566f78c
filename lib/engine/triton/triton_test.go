package triton_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/golden"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/emulate"
)

func f32(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }

// add is the kernel of the package's comment.
func add(n int) triton.Kernel {
	return triton.Kernel{
		Name: "add", Grid: [3]int{triton.Blocks(n, 128)},
		Inputs: []shapes.Shape{f32(n), f32(n)}, Outputs: []shapes.Shape{f32(n)},
		Body: func(b *triton.Block) {
			i := b.ProgramID(0).Mul(128).Add(b.Range(128))
			in := i.Less(n)
			x := b.Input(0).At(i).LoadIf(in, 0)
			y := b.Input(1).At(i).LoadIf(in, 0)
			b.Output(0).At(i).StoreIf(in, x.Add(y))
		},
	}
}

// everything uses each op once or more; its numbers make sense to nobody but
// TestEverything.
func everything() triton.Kernel {
	return triton.Kernel{
		Name: "everything", Warps: 4, Stages: 3,
		Inputs: []shapes.Shape{f32(16, 32), shapes.Make(dtypes.BFloat16, 32, 16), shapes.Make(dtypes.Int32, 16),
			shapes.Make(dtypes.Bool, 16), shapes.Make(dtypes.Uint8, 16), shapes.Make(dtypes.Float16, 16), shapes.Make(dtypes.Int64)},
		Outputs: []shapes.Shape{f32(16, 16), f32(16), shapes.Make(dtypes.Int32, 16), shapes.Make(dtypes.Bool, 16),
			shapes.Make(dtypes.BFloat16, 16), shapes.Make(dtypes.Float16, 16), shapes.Make(dtypes.Int64)},
		Body: func(b *triton.Block) {
			i, k := b.Range(16), b.Range(32)
			b.Note("products")
			x := b.Input(0).At(i.Expand(1).Mul(32).Add(k.Expand(0))).Load()
			y := b.Input(1).At(k.Expand(1).Mul(16).Add(i.Expand(0))).Load()
			zero := b.Zeros(dtypes.Float32, 16, 16)
			p := b.Dot(x, y.To(dtypes.Float32), zero, triton.Nearest)
			p = b.Dot(x, y.To(dtypes.Float32), p, triton.Nearest)
			p = b.Dot(x, y.To(dtypes.Float32), p, triton.Exact)
			p = b.Dot(x.To(dtypes.BFloat16), y, p, triton.Nearest)
			deep := b.Dot(x.Reshape(2, 16, 16), y.To(dtypes.Float32).Reshape(2, 16, 16), b.Zeros(dtypes.Float32, 2, 16, 16), triton.Nearest)
			p = p.Add(deep.Transpose().Sum(0)).Add(y.Transpose().To(dtypes.Float32).Sum(1).Expand(1))
			b.Output(0).At(i.Expand(1).Mul(16).Add(i.Expand(0))).Store(p)

			b.Note("functions and loops")
			v := x.Sum(1)
			v = v.Abs().Add(1).Log().Add(v.Exp()).Sqrt().Sub(v.Tanh()).Mul(v.Sigmoid()).Div(v.Neg().Max(0.5).Min(2))
			v = v.Add(v.Mul(0.01).Expm1()).Add(v.MulAdd(v, 0).Log1p()).Add(b.Full(dtypes.Float32, math.Inf(1)).Equal(v).Select(1, v))
			both := b.For(0, 3, 1, []triton.Value{v, b.Zeros(dtypes.Int32)}, func(i triton.Value, c []triton.Value) []triton.Value {
				return []triton.Value{c[0].Add(i.To(dtypes.Float32)), c[1].Add(i)}
			})
			once := b.For(0, both[1], 1, []triton.Value{both[0]}, func(i triton.Value, c []triton.Value) []triton.Value {
				return []triton.Value{c[0].Mul(1.5)}
			})[0]
			b.Output(1).At(i).Store(once)

			b.Note("integers, choices and casts")
			n := b.Input(2).At(i).Load()
			yes := b.Input(3).At(i).Load()
			bytes := b.Input(4).At(i).LoadIf(i.Less(15), 0).To(dtypes.Int32)
			place, largest := x.ArgMax(1)
			m := n.Div(3).Add(n.Rem(5).Gather(0, b.Full(dtypes.Int32, 15).Sub(i))).Max(2).Min(90).And(127).Or(1).Neg().Sub(place).Add(bytes)
			m = yes.Not().Or(n.Greater(5)).And(n.NotEqual(7)).Select(m, x.Largest(1).Sub(largest).To(dtypes.Int32))
			same, top := n.ArgMax(0)
			b.Output(2).At(i).Store(m.Add(same).Add(top).Add(yes.To(dtypes.Int32)))
			b.Output(3).At(i).Store(v.GreaterEqual(1).Or(v.LessEqual(0.5)))
			half := b.Input(5).At(i).Load()
			b.Output(4).At(i).Store(half.To(dtypes.BFloat16))
			b.Output(5).At(i).StoreIf(b.ProgramID(1).Equal(0).Spread(16), half.To(dtypes.Float32).Add(n.To(dtypes.Float32)).Add(bytes.To(dtypes.Float32)).Add(yes.To(dtypes.Float32)).To(dtypes.Float16))
			long := b.Input(6).Load()
			b.If(long.To(dtypes.Int32).Less(0), func() { b.Output(6).Store(long.Neg()) }, func() { b.Output(6).Store(n.Sum(0).To(dtypes.Int64).Add(long)) })
		},
	}
}

func TestTexts(t *testing.T) {
	kernels := map[string]triton.Kernel{"add": add(1000), "everything": everything()}
	golden.Hold(t, kernels)
	golden.Hold(t, kernels) // a second text is the same
}

func count(n int) []float64 {
	l := make([]float64, n)
	for i := range l {
		l[i] = float64(i%13) / 4
	}
	return l
}

// TestEverything holds the ops against numbers done by hand in Go.
func TestEverything(t *testing.T) {
	in := [][]float64{count(512), count(512), {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 99}, make([]float64, 16), count(16), count(16), {-5}}
	in[3][2] = 1
	for i := range in[4] {
		in[4][i] = float64(i)
	}
	out, err := emulate.Run(everything(), in...)
	if err != nil {
		t.Fatal(err)
	}
	x, y := in[0], in[1]
	for i := range 16 {
		var v, largest float64
		for k := range 32 {
			v += x[i*32+k]
			largest = max(largest, x[i*32+k])
		}
		for j := range 16 {
			var want float64
			for k := range 32 {
				want += 4*x[i*32+k]*y[k*16+j] + y[k*16+i]
			}
			for s := range 2 { // the transpose of each half's product
				for k := range 16 {
					want += x[s*256+j*16+k] * y[s*256+k*16+i]
				}
			}
			if got := out[0][i*16+j]; math.Abs(got-want) > 3e-3*math.Abs(want) {
				t.Errorf("product %d,%d: got %v, want %v", i, j, got, want)
			}
		}
		v = (math.Sqrt(math.Log(math.Abs(v)+1)+math.Exp(v)) - math.Tanh(v)) * (1 / (1 + math.Exp(-v))) / min(max(-v, 0.5), 2)
		yes := v >= 1 || v <= 0.5
		v = v + math.Expm1(v*0.01) + math.Log1p(v*v) + v
		if got, want := out[1][i], (v+3)*math.Pow(1.5, 3); math.Abs(got-want) > 1e-4*math.Abs(want) {
			t.Errorf("function %d: got %v, want %v", i, got, want)
		}
		if got := out[3][i] != 0; got != yes {
			t.Errorf("bool %d: got %v, want %v", i, got, yes)
		}
		place := 0
		for k := range 32 {
			if x[i*32+k] > x[i*32+place] {
				place = k
			}
		}
		n, bytes, set := int(in[2][i]), i, int(in[3][i])
		if i == 15 {
			bytes = 0
		}
		m := 0
		if (set == 0 || n > 5) && n != 7 {
			m = -(min(max(n/3+int(in[2][15-i])%5, 2), 90)&127 | 1) - place + bytes
		}
		if got, want := int(out[2][i]), m+15+99+set; got != want {
			t.Errorf("integer %d: got %d, want %d", i, got, want)
		}
		if got, want := out[4][i], in[5][i]; got != want {
			t.Errorf("bfloat16 %d: got %v, want %v", i, got, want)
		}
		if got, want := out[5][i], in[5][i]+float64(n+bytes+set); math.Abs(got-want) > 0.05 {
			t.Errorf("float16 %d: got %v, want %v", i, got, want)
		}
	}
	if out[6][0] != 5 {
		t.Errorf("branch: got %v, want 5", out[6][0])
	}
}

// body makes a kernel of one output and an input of each kind.
func body(f func(b *triton.Block)) triton.Kernel {
	return triton.Kernel{Name: "k", Inputs: []shapes.Shape{f32(64), shapes.Make(dtypes.Int32, 64), shapes.Make(dtypes.BFloat16, 64)}, Outputs: []shapes.Shape{f32(64)}, Body: f}
}

func TestRefusals(t *testing.T) {
	row := func(b *triton.Block) triton.Value { return b.Input(0).At(b.Range(64)).Load() }
	for _, tt := range []struct {
		name string
		k    triton.Kernel
		want string
	}{
		{"odd tile", body(func(b *triton.Block) { b.Range(100) }), "Range: got a tile of [100], want sides that are powers of two"},
		{"huge tile", body(func(b *triton.Block) { b.Zeros(dtypes.Float32, 2048, 1024) }), "at most 1048576 elements"},
		{"ranks", body(func(b *triton.Block) { row(b).Add(b.Zeros(dtypes.Float32, 1, 64)) }), "Add: got tiles of [64] and [1 64], want one rank"},
		{"sides", body(func(b *triton.Block) { row(b).Add(b.Zeros(dtypes.Float32, 32)) }), "Add: got tiles of [64] and [32]"},
		{"types", body(func(b *triton.Block) { row(b).Mul(b.Range(64)) }), "Mul: got tensor<64xf32> and tensor<64xi32>, want numbers of one type"},
		{"number", body(func(b *triton.Block) { b.Range(64).Mul(0.5) }), "got the number 0.5, want one that tensor<64xi32> can hold"},
		{"operand", body(func(b *triton.Block) { row(b).Add("1") }), "got a string, want a Value, an int or a float64"},
		{"mask", body(func(b *triton.Block) { b.Input(0).At(b.Range(64)).LoadIf(b.Range(64), 0) }), "got a mask of tensor<64xi32>, want bools"},
		{"short mask", body(func(b *triton.Block) { b.Input(0).At(b.Range(64)).LoadIf(b.Range(32).Less(3), 0) }), "LoadIf: got tiles of [64] and [32]"},
		{"other", body(func(b *triton.Block) {
			b.Input(0).At(b.Range(64)).LoadIf(b.Range(64).Less(3), b.Zeros(dtypes.Int32))
		}), "for elements that are not read, want tensor<64xf32>"},
		{"load of numbers", body(func(b *triton.Block) { row(b).Load() }), "Load: got tensor<64xf32>, want addresses"},
		{"index", body(func(b *triton.Block) { b.Input(0).At(row(b)) }), "At: got an index of tensor<64xf32>"},
		{"store type", body(func(b *triton.Block) { b.Output(0).At(b.Range(64)).Store(b.Range(64)) }), "Store: got tensor<64xi32> for an array of Float32"},
		{"store to input", body(func(b *triton.Block) { b.Input(0).At(b.Range(64)).Store(0.0) }), "got an address of an input"},
		{"no store", body(func(b *triton.Block) { row(b) }), "nothing is stored to output 0"},
		{"dot depth", body(func(b *triton.Block) {
			z := b.Zeros(dtypes.Float32, 16, 32)
			b.Dot(z, z, z, triton.Nearest)
		}), "want [m k], [k n] and [m n]"},
		{"dot small", body(func(b *triton.Block) {
			z := b.Zeros(dtypes.Float32, 8, 8)
			b.Dot(z, z, z, triton.Nearest)
		}), "want sides of 16 or more"},
		{"dot types", body(func(b *triton.Block) {
			z := b.Zeros(dtypes.Float32, 16, 16)
			b.Dot(z, z.To(dtypes.BFloat16), z, triton.Nearest)
		}), "want two of one floating point type"},
		{"exp of bfloat16", body(func(b *triton.Block) { b.Input(2).At(b.Range(64)).Load().Exp() }), "Exp: got tensor<64xbf16>, want float32"},
		{"axis", body(func(b *triton.Block) { row(b).Sum(1) }), "Sum: got axis 1"},
		{"the only axis", body(func(b *triton.Block) { row(b).SumTogether(0) }), "SumTogether: got axis 0"},
		{"whole numbers together", body(func(b *triton.Block) { b.Range(64).Reshape(4, 16).SumTogether(0) }), "SumTogether: got axis 0"},
		{"loop results", body(func(b *triton.Block) {
			b.For(0, 4, 1, []triton.Value{row(b)}, func(triton.Value, []triton.Value) []triton.Value { return nil })
		}), "For: got 0 results of the body, want 1"},
		{"loop types", body(func(b *triton.Block) {
			b.For(0, 4, 1, []triton.Value{row(b)}, func(triton.Value, []triton.Value) []triton.Value { return []triton.Value{b.Range(64)} })
		}), "got tensor<64xi32> for result 0 of the body, want tensor<64xf32>"},
		{"step", body(func(b *triton.Block) {
			b.For(0, 4, 0, nil, func(triton.Value, []triton.Value) []triton.Value { return nil })
		}), "got a step of 0"},
		{"value of a loop", body(func(b *triton.Block) {
			var inside triton.Value
			b.For(0, 4, 1, nil, func(i triton.Value, _ []triton.Value) []triton.Value { inside = i; return nil })
			inside.Add(1)
		}), "from a loop or branch that has ended"},
		{"condition", body(func(b *triton.Block) { b.If(b.Range(64).Less(3), func() {}, nil) }), "want a bool scalar"},
		{"zero value", body(func(b *triton.Block) { triton.Value{}.Add(1) }), "got the zero Value"},
		{"input", body(func(b *triton.Block) { b.Input(3) }), "Input: got number 3, want less than 3"},
		{"panic", body(func(b *triton.Block) { panic("mine") }), "its Body panicked: mine"},
		{"name", triton.Kernel{Name: "a b", Outputs: []shapes.Shape{f32(1)}, Body: func(*triton.Block) {}}, `name is "a b"`},
		{"no outputs", triton.Kernel{Name: "k", Body: func(*triton.Block) {}}, "it has no outputs"},
		{"warps", triton.Kernel{Name: "k", Warps: 3, Outputs: []shapes.Shape{f32(1)}, Body: func(*triton.Block) {}}, "got 3 warps"},
		{"grid", triton.Kernel{Name: "k", Grid: [3]int{1, 70000, 70000}, Outputs: []shapes.Shape{f32(1)}, Body: func(*triton.Block) {}}, "the grid [1 70000 70000] has 4.9e+09 blocks, want less than 2³¹"},
		{"double", triton.Kernel{Name: "k", Outputs: []shapes.Shape{shapes.Make(dtypes.Float64, 1)}, Body: func(*triton.Block) {}}, "want elements of bool"},
		{"partly", triton.Kernel{Name: "k", Outputs: []shapes.Shape{f32(1)}, Partly: []int{0}, Body: func(*triton.Block) {}}, "output 0 is partly stored, want one with an alias"},
		{"alias", triton.Kernel{Name: "k", Inputs: []shapes.Shape{f32(2)}, Outputs: []shapes.Shape{f32(1)}, Aliases: map[int]int{0: 0}, Body: func(*triton.Block) {}}, "want one shape"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			text, err := tt.k.Text()
			var e *triton.Error
			if text != "" || !errors.As(err, &e) || !strings.Contains(err.Error(), tt.want) {
				t.Fatalf("got %q and error %v, want an error with %q", text, err, tt.want)
			}
			if e.Op != "" && !strings.HasPrefix(e.Where, "triton_test.go:") {
				t.Errorf("got the line %q of %v, want one of this file", e.Where, err)
			}
		})
	}
}

// TestCall puts kernels into a program.
func TestCall(t *testing.T) {
	b := hlo.NewBuilder(nil, "p", nil)
	f := b.Main().(*hlo.Function)
	x, _ := f.Parameter("x", f32(1000), nil)
	y, _ := f.Parameter("y", f32(1000), nil)
	z, _ := f.Constant([]int32{1}, 1)
	k := add(1000)
	k.Aliases = map[int]int{0: 1}
	k.After = []shapes.Shape{f32(1000)}
	k.FLOPs = 1000
	out, err := k.Call(f, x, y, x)
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Return(out, nil); err != nil {
		t.Fatal(err)
	}
	p, err := b.Program()
	if err != nil {
		t.Fatal(err)
	}
	text := string(p.Text(nil))
	for _, want := range []string{
		"stablehlo.custom_call @__gpu$xla.gpu.triton(%arg0, %arg1, %arg0)", "grid_x = 8 : i32", "grid_y = 1 : i32", `name = "add"`, "num_stages = 2 : i32", "num_warps = 4 : i32",
		"%after0: !tt.ptr<i8>", "operand_index = 1",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("got\n%s\nwant %q in it", text, want)
		}
	}
	// What comes after is not touched.
	want := []hlo.CallCost{{Name: "add", Times: 1, Cost: hlo.Cost{FLOPs: 1000, Bytes: 3 * 4000}}}
	if got := p.Calls(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	for what, operands := range map[string][]compute.Value{"got 2 operands, want 2 inputs and 1": {x, y}} {
		if _, err := k.Call(f, operands...); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("got error %v, want %q", err, what)
		}
	}
	if _, err := k.Call(f, x, z, x); err == nil || !strings.Contains(err.Error(), "operand 1 is (Int32)[1], want (Float32)[1000]") {
		t.Errorf("got error %v, want one about operand 1", err)
	}
}

// The kernel of the package's comment, run on the host.
func Example() {
	out, err := emulate.Run(add(3), []float64{1, 2, 3}, []float64{10, 20, 30})
	fmt.Println(out, err)
	_, err = triton.Kernel{Name: "wrong", Outputs: []shapes.Shape{f32(3)}, Body: func(b *triton.Block) {
		b.Output(0).At(b.Range(3)).Store(1.0)
	}}.Text()
	fmt.Println(strings.Contains(err.Error(), "Range: got a tile of [3], want sides that are powers of two"))
	// Output:
	// [[11 22 33]] <nil>
	// true
}
