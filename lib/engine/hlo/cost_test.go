package hlo_test

import (
	"slices"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
)

// TestCost compares counts with those made by hand.
func TestCost(t *testing.T) {
	conv := compute.ConvolveAxesConfig{InputBatch: 0, InputSpatial: []int{1, 2}, InputChannels: 3,
		KernelSpatial: []int{0, 1}, KernelInputChannels: 2, KernelOutputChannels: 3,
		OutputBatch: 0, OutputSpatial: []int{1, 2}, OutputChannels: 3}
	tests := []struct {
		name  string
		build func(d *draft, f *hlo.Function) compute.Value
		want  hlo.Cost
	}{
		{"add", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.Add(d.param(f, dtypes.Float32, 6), d.param(f, dtypes.Float32, 6)))
		}, hlo.Cost{FLOPs: 6, Bytes: 3 * 24}},
		{"add a constant", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.Add(d.param(f, dtypes.BFloat16, 6), d.v(f.ConvertDType(d.num(f, []float32{1}), dtypes.BFloat16))))
		}, hlo.Cost{FLOPs: 6, Bytes: 12 + 12 + 12 + (2 + 12) + (4 + 2)}},
		{"exp", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.Exp(d.param(f, dtypes.Float64, 5)))
		}, hlo.Cost{Transcendentals: 5, Bytes: 80}},
		{"reshape", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.Reshape(d.param(f, dtypes.Float32, 6), 2, 3))
		}, hlo.Cost{}},
		{"transpose", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.Transpose(d.param(f, dtypes.Float32, 2, 3), 1, 0))
		}, hlo.Cost{Bytes: 48}},
		{"matrix product", func(d *draft, f *hlo.Function) compute.Value {
			x, w := d.param(f, dtypes.Float32, 7, 5), d.param(f, dtypes.Float32, 5, 3)
			return d.v(f.DotGeneral(x, []int{1}, nil, w, []int{0}, nil, compute.DotGeneralConfig{}))
		}, hlo.Cost{FLOPs: 2 * 7 * 5 * 3, Bytes: 4 * (35 + 15 + 21)}},
		{"batched product", func(d *draft, f *hlo.Function) compute.Value {
			x, w := d.param(f, dtypes.Float32, 4, 7, 5), d.param(f, dtypes.Float32, 4, 5)
			return d.v(f.DotGeneral(x, []int{2}, []int{0}, w, []int{1}, []int{0}, compute.DotGeneralConfig{}))
		}, hlo.Cost{FLOPs: 2 * 4 * 7 * 5, Bytes: 4 * (140 + 20 + 28)}},
		{"convolution without padding", func(d *draft, f *hlo.Function) compute.Value {
			x, w := d.param(f, dtypes.Float32, 2, 8, 8, 3), d.param(f, dtypes.Float32, 3, 3, 3, 5)
			return d.v(f.ConvGeneral(x, w, conv, nil, nil, nil, nil, 1, 1))
		}, hlo.Cost{FLOPs: 2 * 2 * 6 * 6 * 9 * 3 * 5, Bytes: 4 * (2*64*3 + 9*15 + 2*36*5)}},
		{"convolution with padding", func(d *draft, f *hlo.Function) compute.Value {
			// Along each axis of 8 the two ends miss one of three places: 22 of 24.
			x, w := d.param(f, dtypes.Float32, 1, 8, 8, 1), d.param(f, dtypes.Float32, 3, 3, 1, 1)
			return d.v(f.ConvGeneral(x, w, conv, nil, [][2]int{{1, 1}, {1, 1}}, nil, nil, 1, 1))
		}, hlo.Cost{FLOPs: 2 * 22 * 22, Bytes: 4 * (64 + 9 + 64)}},
		{"grouped convolution", func(d *draft, f *hlo.Function) compute.Value {
			x, w := d.param(f, dtypes.Float32, 1, 4, 4, 6), d.param(f, dtypes.Float32, 1, 1, 2, 9)
			return d.v(f.ConvGeneral(x, w, conv, nil, nil, nil, nil, 3, 1))
		}, hlo.Cost{FLOPs: 2 * 16 * 2 * 9, Bytes: 4 * (96 + 18 + 144)}},
		{"sum", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.ReduceSum(d.param(f, dtypes.Float32, 4, 5), 1))
		}, hlo.Cost{FLOPs: 16, Bytes: 4 * 24}},
		{"max pooling", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.ReduceWindow(d.param(f, dtypes.Float32, 4, 4), compute.ReduceOpMax, []int{2, 2}, nil, nil, nil, nil))
		}, hlo.Cost{FLOPs: 4 * 3, Bytes: 4 * 20}},
		{"gather rows", func(d *draft, f *hlo.Function) compute.Value {
			x, i := d.param(f, dtypes.Float32, 1000, 4), d.param(f, dtypes.Int32, 3, 1)
			return d.v(f.Gather(x, i, 1, []int{1}, []int{0}, []int{0}, []int{1, 4}, false))
		}, hlo.Cost{Bytes: 2*48 + 12}},
		{"unused work", func(d *draft, f *hlo.Function) compute.Value {
			x := d.param(f, dtypes.Float32, 6)
			d.v(f.Exp(x))
			return d.v(f.Neg(x))
		}, hlo.Cost{FLOPs: 6, Bytes: 48}},
		{"counted loop", func(d *draft, f *hlo.Function) compute.Value {
			return d.countTo(f, 10, 3, d.num(f, []int32{0}))
		}, hlo.Cost{FLOPs: 5 + 4*(1+4), Bytes: 5*(4+1) + 4*(8+16+16)}}, // 0, 3, 6, 9; five tests
		{"open loop", func(d *draft, f *hlo.Function) compute.Value {
			return d.countTo(f, 10, 3, d.param(f, dtypes.Int32))
		}, hlo.Cost{FLOPs: 2 + 5, Bytes: 2*(4+1) + 8 + 32, OpenLoops: 1}},
		{"dearer branch", func(d *draft, f *hlo.Function) compute.Value {
			x := d.param(f, dtypes.Float32, 6)
			small := d.closure(func(c compute.Function) []compute.Value { return []compute.Value{d.v(c.Neg(x))} })
			large := d.closure(func(c compute.Function) []compute.Value {
				return []compute.Value{d.v(c.Neg(d.v(c.Abs(x))))}
			})
			return d.vs(f.If(d.param(f, dtypes.Bool), small, large))[0]
		}, hlo.Cost{FLOPs: 12, Bytes: 96}},
		{"calls", func(d *draft, f *hlo.Function) compute.Value {
			g, err := d.b.NewFunction("g")
			d.ok(err)
			d.ok(g.Return([]compute.Value{d.v(g.Neg(d.param(g, dtypes.Float32, 6)))}, nil))
			return d.vs(f.Call(g, d.vs(f.Call(g, d.param(f, dtypes.Float32, 6)))...))[0]
		}, hlo.Cost{FLOPs: 12, Bytes: 96}},
		{"batch norm", func(d *draft, f *hlo.Function) compute.Value {
			x, s := d.param(f, dtypes.Float32, 10, 2), d.param(f, dtypes.Float32, 2)
			return d.v(f.BatchNormForInference(x, s, s, s, s, 1e-3, 1))
		}, hlo.Cost{FLOPs: 80, Transcendentals: 2, Bytes: 2*80 + 4*8}},
		{"fft", func(d *draft, f *hlo.Function) compute.Value {
			return d.v(f.FFT(d.param(f, dtypes.Complex64, 3, 8), compute.FFTForward, []int{8}))
		}, hlo.Cost{FLOPs: 3 * 5 * 8 * 3, Bytes: 2 * 3 * 64}},
		{"sort", func(d *draft, f *hlo.Function) compute.Value {
			less := d.closure(func(c compute.Function) []compute.Value {
				return []compute.Value{d.v(c.LessThan(d.param(c, dtypes.Float32), d.param(c, dtypes.Float32)))}
			})
			return d.vs(f.Sort(less, 0, false, d.param(f, dtypes.Float32, 8)))[0]
		}, hlo.Cost{FLOPs: 8 * 3, Bytes: 64}},
		{"custom call", func(d *draft, f *hlo.Function) compute.Value {
			return d.vs(f.CustomCall("k", []compute.Value{d.param(f, dtypes.Float32, 6)}, []shapes.Shape{shapes.Make(dtypes.Int8)},
				hlo.CallConfig{Cost: hlo.Cost{FLOPs: 99}}))[0]
		}, hlo.Cost{FLOPs: 99, Bytes: 25}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDraft(t)
			got := d.program(tt.build(d, d.main())).Cost()
			if got != tt.want {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// countTo counts from start in steps to below limit, and negates four numbers
// each time.
func (d *draft) countTo(f *hlo.Function, limit, step int32, start compute.Value) compute.Value {
	d.t.Helper()
	cond := d.closure(func(c compute.Function) []compute.Value {
		i := d.param(c, dtypes.Int32)
		d.param(c, dtypes.Float32, 4)
		return []compute.Value{d.v(c.LessThan(i, d.num(c, []int32{limit})))}
	})
	body := d.closure(func(c compute.Function) []compute.Value {
		i, x := d.param(c, dtypes.Int32), d.param(c, dtypes.Float32, 4)
		return []compute.Value{d.v(c.Add(i, d.num(c, []int32{step}))), d.v(c.Neg(x))}
	})
	return d.vs(f.While(cond, body, start, d.param(f, dtypes.Float32, 4)))[1]
}

// TestTrips finds how often loops run, and does not guess.
func TestTrips(t *testing.T) {
	type op = func(c compute.Function, i, n compute.Value) (compute.Value, error)
	lt := func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.LessThan(i, n) }
	add := func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.Add(i, n) }
	tests := []struct {
		name               string
		start, limit, step int32
		test, next         op
		trips              float64 // -1: not known
	}{
		{"i < 10", 0, 10, 1, lt, add, 10},
		{"i < 10 by 4", 0, 10, 4, lt, add, 3},
		{"never", 10, 10, 1, lt, add, 0},
		{"10 > i", 0, 10, 1, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.GreaterThan(n, i) }, add, 10},
		{"i <= 10", 0, 10, 5, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.LessOrEqual(i, n) }, add, 3},
		{"i >= 1, down", 5, 1, 1, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.GreaterOrEqual(i, n) },
			func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.Sub(i, n) }, 5},
		{"i != 8 by 2", 0, 8, 2, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.NotEqual(i, n) }, add, 4},
		{"i != 7 by 2", 0, 7, 2, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.NotEqual(i, n) }, add, -1},
		{"step + i", 0, 6, 2, lt, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.Add(n, i) }, 3},
		{"step - i", 0, 6, 2, lt, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.Sub(n, i) }, -1},
		{"wrong way", 0, 6, -1, lt, add, -1},
		{"no step", 0, 6, 0, lt, add, -1},
		{"doubling", 1, 100, 2, lt, func(c compute.Function, i, n compute.Value) (compute.Value, error) { return c.Mul(i, n) }, -1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d := newDraft(t)
			f := d.main()
			state := []dtypes.DType{dtypes.Int32, dtypes.Float32}
			cond := d.closure(func(c compute.Function) []compute.Value {
				i := d.param(c, state[0])
				d.param(c, state[1], 1000)
				return []compute.Value{d.v(tt.test(c, i, d.num(c, []int32{tt.limit})))}
			})
			body := d.closure(func(c compute.Function) []compute.Value {
				i, x := d.param(c, state[0]), d.param(c, state[1], 1000)
				return []compute.Value{d.v(tt.next(c, i, d.num(c, []int32{tt.step}))), d.v(c.Exp(x))}
			})
			out := d.vs(f.While(cond, body, d.num(f, []int32{tt.start}), d.param(f, state[1], 1000)))
			got := d.program(out...).Cost()
			trips := got.Transcendentals / 1000
			if got.OpenLoops > 0 {
				trips = -1
			}
			if trips != tt.trips {
				t.Errorf("got %v trips, want %v", trips, tt.trips)
			}
		})
	}
}

// TestCalls counts custom calls by label and name, those of a loop as often as it
// turns.
func TestCalls(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	call := func(c compute.Function, label, name string, flops float64, x compute.Value) compute.Value {
		config := hlo.CallConfig{Cost: hlo.Cost{FLOPs: flops}}
		if name != "" {
			config.Backend = map[string]any{"name": name}
		}
		d.b.SetLabel(label)
		defer d.b.SetLabel("")
		return d.vs(c.(*hlo.Function).CustomCall("t", []compute.Value{x}, []shapes.Shape{shapes.Make(dtypes.Float32, 4)}, config))[0]
	}
	cond := d.closure(func(c compute.Function) []compute.Value {
		i := d.param(c, dtypes.Int32)
		d.param(c, dtypes.Float32, 4)
		return []compute.Value{d.v(c.LessThan(i, d.num(c, []int32{5})))}
	})
	body := d.closure(func(c compute.Function) []compute.Value {
		i, x := d.param(c, dtypes.Int32), d.param(c, dtypes.Float32, 4)
		x = call(c, "l1", "one", 10, x)
		x = call(c, "l2", "two", 30, call(c, "l2", "two", 20, x))
		x = call(c, "l3", "two", 40, call(c, "l3", "", 50, x))
		return []compute.Value{d.v(c.Add(i, d.num(c, []int32{1}))), x}
	})
	x := d.vs(f.While(cond, body, d.num(f, []int32{0}), call(f, "l2", "two", 25, d.param(f, dtypes.Float32, 4))))[1]
	call(f, "l4", "unused", 1, x)
	got := d.program(x).Calls()
	want := []hlo.CallCost{
		{Name: "two", Label: "l2", Times: 11, Cost: hlo.Cost{FLOPs: 25, Bytes: 32}},
		{Name: "one", Label: "l1", Times: 5, Cost: hlo.Cost{FLOPs: 10, Bytes: 32}},
		{Name: "two", Label: "l3", Times: 5, Cost: hlo.Cost{FLOPs: 40, Bytes: 32}},
	}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// TestCosts counts by label.
func TestCosts(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	x := d.param(f, dtypes.Float32, 6)
	d.b.SetLabel("layer1")
	y := d.v(f.Neg(x))
	d.b.SetLabel("layer2")
	z := d.v(f.Exp(y))
	d.b.SetLabel("layer1")
	z = d.v(f.Neg(z))
	got := d.program(z).Costs()
	want := []hlo.LabelCost{
		{Label: "layer1", Cost: hlo.Cost{FLOPs: 12, Bytes: 96}},
		{Label: "layer2", Cost: hlo.Cost{Transcendentals: 6, Bytes: 48}},
	}
	if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
