package hlo_test

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
)

var update = flag.Bool("update", false, "write testdata anew")

// draft builds programs and stops the test at the first error.
type draft struct {
	t testing.TB
	b *hlo.Builder

	params map[compute.Function]int // how many parameters each function has
}

func newDraft(t testing.TB) *draft {
	t.Helper()
	return &draft{t, hlo.NewBuilder(nil, t.Name(), nil), map[compute.Function]int{}}
}

func (d *draft) main() *hlo.Function { return d.b.Main().(*hlo.Function) }

func (d *draft) v(v compute.Value, err error) compute.Value {
	d.t.Helper()
	d.ok(err)
	return v
}

func (d *draft) vs(vs []compute.Value, err error) []compute.Value {
	d.t.Helper()
	d.ok(err)
	return vs
}

func (d *draft) ok(err error) {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
}

func (d *draft) param(f compute.Function, dtype dtypes.DType, dims ...int) compute.Value {
	d.t.Helper()
	d.params[f]++
	return d.v(f.Parameter(fmt.Sprint("p", d.params[f]), shapes.Make(dtype, dims...), nil))
}

func (d *draft) num(f compute.Function, flat any, dims ...int) compute.Value {
	d.t.Helper()
	return d.v(f.Constant(flat, dims...))
}

// closure makes a closure of main, as GoMLX always does.
func (d *draft) closure(define func(f compute.Function) []compute.Value) compute.Function {
	d.t.Helper()
	f, err := d.b.Main().Closure()
	d.ok(err)
	d.ok(f.Return(define(f), nil))
	return f
}

func (d *draft) program(outputs ...compute.Value) *hlo.Program {
	d.t.Helper()
	d.ok(d.main().Return(outputs, nil))
	p, err := d.b.Program()
	d.ok(err)
	return p
}

// goldens are small programs whose text is kept in testdata.
var goldens = []struct {
	name  string
	cuda  bool // compiles for CUDA only
	joint bool // XLA rounds less where it joins operations
	build func(*draft) *hlo.Program
}{
	{name: "dense", build: func(d *draft) *hlo.Program {
		f := d.main()
		x, w, bias := d.param(f, dtypes.Float32, 8, 4), d.param(f, dtypes.Float32, 4, 2), d.param(f, dtypes.Float32, 1, 2)
		d.b.SetLabel("dense")
		y := d.v(f.DotGeneral(x, []int{1}, nil, w, []int{0}, nil, compute.DotGeneralConfig{}))
		y = d.v(f.Add(y, bias))
		d.b.SetLabel("relu")
		y = d.v(f.Max(y, d.num(f, []float32{0})))
		d.b.SetLabel("")
		loss := d.v(f.ReduceSum(y))
		d.v(f.Exp(y)) // unused, so left out
		return d.program(loss, d.v(f.ArgMinMax(y, 1, dtypes.Int32, false)))
	}},
	{name: "convolution", build: func(d *draft) *hlo.Program {
		f := d.main()
		x, w := d.param(f, dtypes.Float32, 2, 8, 8, 1), d.param(f, dtypes.Float32, 3, 3, 1, 4)
		axes := compute.ConvolveAxesConfig{InputBatch: 0, InputSpatial: []int{1, 2}, InputChannels: 3,
			KernelSpatial: []int{0, 1}, KernelInputChannels: 2, KernelOutputChannels: 3,
			OutputBatch: 0, OutputSpatial: []int{1, 2}, OutputChannels: 3}
		y := d.v(f.ConvGeneral(x, w, axes, nil, [][2]int{{1, 1}, {1, 1}}, nil, nil, 1, 1))
		pool := d.v(f.ReduceWindow(y, compute.ReduceOpMax, []int{1, 2, 2, 1}, nil, nil, nil, nil))
		d.b.Precision = hlo.HighestPrecision
		other := d.v(f.ConvGeneral(x, w, axes, []int{2, 2}, nil, nil, []int{2, 2}, 1, 1))
		back := d.v(f.SelectAndScatterMax(y, pool, []int{1, 2, 2, 1}, nil, nil))
		return d.program(pool, other, back)
	}},
	{name: "loops", build: func(d *draft) *hlo.Program {
		f := d.main()
		x := d.param(f, dtypes.Float32, 4)
		n := d.param(f, dtypes.Int32)
		i32, row := shapes.Make(dtypes.Int32), shapes.Make(dtypes.Float32, 4)
		inner := func() (compute.Function, compute.Function) {
			cond := d.closure(func(c compute.Function) []compute.Value {
				i := d.v(c.Parameter("i", i32, nil))
				d.v(c.Parameter("x", row, nil))
				return []compute.Value{d.v(c.LessThan(i, d.num(c, []int32{3})))}
			})
			body := d.closure(func(c compute.Function) []compute.Value {
				i := d.v(c.Parameter("i", i32, nil))
				x := d.v(c.Parameter("x", row, nil))
				descending := d.closure(func(c compute.Function) []compute.Value {
					return []compute.Value{d.v(c.GreaterThan(d.param(c, dtypes.Float32), d.param(c, dtypes.Float32)))}
				})
				x = d.vs(c.Sort(descending, 0, true, x))[0]
				return []compute.Value{d.v(c.Add(i, d.num(c, []int32{1}))), x}
			})
			return cond, body
		}
		cond := d.closure(func(c compute.Function) []compute.Value {
			i := d.v(c.Parameter("i", i32, nil))
			d.v(c.Parameter("x", row, nil))
			return []compute.Value{d.v(c.LessThan(i, n))} // of main
		})
		body := d.closure(func(c compute.Function) []compute.Value {
			i := d.v(c.Parameter("i", i32, nil))
			y := d.v(c.Parameter("x", row, nil))
			innerCond, innerBody := inner()
			y = d.vs(c.While(innerCond, innerBody, d.num(c, []int32{0}), y))[1]
			even := d.v(c.Equal(d.v(c.Rem(i, d.num(c, []int32{2}))), d.num(c, []int32{0})))
			up := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.v(c.Add(y, x))} })
			down := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.v(c.Sub(y, x))} })
			y = d.vs(c.If(even, up, down))[0]
			return []compute.Value{d.v(c.Add(i, d.num(c, []int32{1}))), y}
		})
		return d.program(d.vs(f.While(cond, body, d.num(f, []int32{0}), x))...)
	}},
	{name: "call", build: func(d *draft) *hlo.Program {
		unused, err := d.b.NewFunction("unused")
		d.ok(err)
		d.ok(unused.Return([]compute.Value{d.param(unused, dtypes.Float32)}, nil))
		square, err := d.b.NewFunction("square and twice")
		d.ok(err)
		a := d.param(square, dtypes.Float32, 2)
		d.ok(square.Return([]compute.Value{d.v(square.Mul(a, a)), d.v(square.Add(a, a))}, nil))
		f := d.main()
		x := d.param(f, dtypes.Float32, 2)
		first := d.vs(f.Call(square, x))
		return d.program(append(d.vs(f.Call(square, first[0])), first[1])...)
	}},
	{name: "replicas", build: func(d *draft) *hlo.Program {
		d.ok(d.b.DistributedSPMD(2))
		f := d.main()
		x, y, z := d.param(f, dtypes.Float32), d.param(f, dtypes.Int32, 2), d.param(f, dtypes.Float32, 3)
		return d.program(d.vs(f.AllReduce([]compute.Value{x, y, z}, compute.ReduceOpSum, [][]int{{0, 1}}))...)
	}},
	{name: "kernel", cuda: true, build: func(d *draft) *hlo.Program {
		f := d.main()
		x, y := d.param(f, dtypes.Float32, 1024), d.param(f, dtypes.Float32, 1024)
		d.b.SetLabel(`a "quoted" label`)
		return d.program(d.vs(f.CustomCall("__gpu$xla.gpu.triton", []compute.Value{x, y}, []shapes.Shape{shapes.Make(dtypes.Float32, 1024)},
			hlo.CallConfig{
				Backend: map[string]any{"name": "add2", "ir": "module {\n}", "grid_x": int32(8), "num_warps": int32(4), "fast": 1},
				Aliases: map[int]int{0: 1},
				Cost:    hlo.Cost{FLOPs: 1024},
			}))...)
	}},
	{name: "norms", joint: true, build: func(d *draft) *hlo.Program {
		f := d.main()
		d.b.WriteNorms = true
		x, g := d.param(f, dtypes.Float32, 64, 2, 2, 3), d.param(f, dtypes.Float32, 64, 2, 2, 3)
		scale, offset := d.param(f, dtypes.Float32, 3), d.param(f, dtypes.Float32, 3)
		y, mean, variance, err := f.BatchNormForTraining(x, scale, offset, 1e-3, 3)
		d.ok(err)
		gx, gScale, gOffset, err := f.BatchNormGradient(x, scale, mean, variance, g, 1e-3, 3)
		d.ok(err)
		return d.program(y, mean, variance, gx, gScale, gOffset)
	}},
	{name: "misc", build: func(d *draft) *hlo.Program {
		f := d.main()
		x := d.param(f, dtypes.Float32, 2, 3)
		state := d.param(f, dtypes.Uint64, 3)
		newState, bits, err := f.RNGBitGenerator(state, shapes.Make(dtypes.Uint32, 2, 3))
		d.ok(err)
		scale := d.num(f, []float32{1, 1, 1}, 3)
		norm, mean, variance, err := f.BatchNormForTraining(x, scale, d.num(f, []float32{1, 2, 3}, 3), 1e-3, 1)
		d.ok(err)
		keep := d.v(f.Where(d.v(f.LessThan(bits, d.num(f, []uint32{1 << 31}))), norm, d.num(f, []float32{0})))
		pad := d.v(f.Pad(keep, d.num(f, []float32{-1}), compute.PadAxis{Start: 1}, compute.PadAxis{End: 2, Interior: 1}))
		turned := d.v(f.Transpose(d.v(f.Reshape(d.v(f.Slice(pad, []int{0, 1}, []int{3, 7}, []int{1, 2})), 9)), 0))
		barrier := d.vs(f.OptimizationBarrier(turned))
		order := d.v(f.SchedulingBarrier(mean, barrier[0], bits))
		erf := d.v(f.Erf(d.v(f.Concatenate(0, barrier[0], order, variance))))
		return d.program(erf, newState)
	}},
}

// TestGoldens compares texts with those kept, and compiles them.
func TestGoldens(t *testing.T) {
	for _, tt := range goldens {
		t.Run(tt.name, func(t *testing.T) {
			p := tt.build(newDraft(t))
			got := p.Text([]bool{true})
			file := filepath.Join("testdata", tt.name+".mlir")
			if *update {
				if err := os.WriteFile(file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatalf("%v; run with -update to write it", err)
			}
			if string(got) != string(want) {
				t.Errorf("got\n%s\nwant\n%s\nif the change is meant, run with -update and review the diff", got, want)
			}
			if other := tt.build(newDraft(t)); !bytes.Equal(other.Text([]bool{true}), got) {
				t.Errorf("built again, the text is another:\n%s", other.Text([]bool{true}))
			}
			if os.Getenv("GAIDEN_PLUGIN") == "" || tt.cuda {
				return
			}
			program, err := newBackend(t).client.Compile(got, pjrt.CompileOptions{Replicas: p.Replicas})
			if err != nil {
				t.Fatal(err)
			}
			program.Close()
		})
	}
}
