package hlo_test

import (
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
)

// TestRefusals gives ops what they cannot take. Each answers with an error
// that names the op, before there is any text.
func TestRefusals(t *testing.T) {
	one := func(v compute.Value, err error) error { return err }
	many := func(v []compute.Value, err error) error { return err }
	tests := []struct {
		want string
		call func(d *draft, f *hlo.Function, x, n compute.Value) error // x is (Float32)[2 3], n is (Int32)[2 3]
	}{
		{"hlo: Add: data types", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Add(x, n)) }},
		{"hlo: Mul: dimension of axis #0", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Mul(x, d.param(f, dtypes.Float32, 5, 3)))
		}},
		{"hlo: Exp: float", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Exp(n)) }},
		{"hlo: LogicalNot: logical", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.LogicalNot(x)) }},
		{"hlo: Iota: got axis 2", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Iota(shapes.Make(dtypes.Int32, 2, 2), 2))
		}},
		{"hlo: Reshape: Reshape() cannot", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Reshape(x, 7)) }},
		{"hlo: Reshape: ", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Reshape(x, -2, -3)) }},
		{"hlo: Transpose: invalid permutation", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Transpose(x, 0, 2)) }},
		{"hlo: BroadcastInDim: got shape", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.BroadcastInDim(x, shapes.Shape{DType: dtypes.Float32, Dimensions: []int{-1, 2, 3}}, []int{1, 2}))
		}},
		{"hlo: BroadcastInDim: got (Float32)[2, 3] to become", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.BroadcastInDim(x, shapes.Make(dtypes.Int32, 2, 3), []int{0, 1}))
		}},
		{"hlo: BroadcastInDim: got shape (Float32)[4611686018427387904, 2, 3], want fewer than 2⁶² bytes", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.BroadcastInDim(x, shapes.Make(dtypes.Float32, 1<<62, 2, 3), []int{1, 2}))
		}},
		{"hlo: Parameter big: got shape (Float32)[3, 9223372036854775807], want fewer", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Parameter("big", shapes.Make(dtypes.Float32, 3, math.MaxInt), nil))
		}},
		{"hlo: Pad: got shape (Float32)[2305843009213693954, 3], want fewer", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Pad(x, d.param(f, dtypes.Float32), compute.PadAxis{Start: 1 << 61}))
		}},
		{"hlo: Slice: Slice: limit", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Slice(x, []int{0, 0}, []int{3, 3}, nil))
		}},
		{"hlo: Pad: got fill value", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Pad(x, x)) }},
		{"hlo: Concatenate: ConcatenateOp requires", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Concatenate(0)) }},
		{"hlo: Reverse: got axis 1 twice", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Reverse(x, 1, 1)) }},
		{"hlo: Bitcast: got the scalar", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Bitcast(d.param(f, dtypes.Int32), dtypes.Float64))
		}},
		{"hlo: Bitcast: got (Float32)[2, 3] to become InvalidDType", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Bitcast(x, dtypes.InvalidDType))
		}},
		{"hlo: ConvertDType: got (InvalidDType)", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ConvertDType(x, dtypes.InvalidDType))
		}},
		{"hlo: Converted: got (Float32)[2, 3] and (BFloat16)[3]", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return f.Converted(x, d.param(f, dtypes.BFloat16, 3))
		}},
		{"hlo: ReduceSum: got axis 2", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.ReduceSum(x, 2)) }},
		{"hlo: ReduceLogicalAnd: got (Float32)", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.ReduceLogicalAnd(x)) }},
		{"hlo: ReduceMax: got Complex64, which has no value to begin with", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ReduceMax(d.param(f, dtypes.Complex64, 2)))
		}},
		{"hlo: ArgMinMax: ArgMinMax axis 5", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ArgMinMax(x, 5, dtypes.Int32, true))
		}},
		{"hlo: ReduceWindow: got reduction", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ReduceWindow(x, 77, []int{1, 1}, nil, nil, nil, nil))
		}},
		{"hlo: SelectAndScatterMax: got source", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.SelectAndScatterMax(x, x, []int{2, 3}, nil, nil))
		}},
		{"hlo: DotGeneral: DotGeneral contracting dimensions", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.DotGeneral(x, []int{1}, nil, x, []int{0}, nil, compute.DotGeneralConfig{}))
		}},
		{"hlo: DotGeneral: ", func(d *draft, f *hlo.Function, x, n compute.Value) error { // a batch axis that is none
			return one(f.DotGeneral(x, nil, []int{0}, x, nil, []int{9}, compute.DotGeneralConfig{}))
		}},
		{"hlo: ConvGeneral: ", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ConvGeneral(x, x, compute.ConvolveAxesConfig{}, nil, nil, nil, nil, 1, 1))
		}},
		{"hlo: Gather: got indices", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Gather(x, x, 1, []int{1}, []int{0}, []int{0}, []int{1, 3}, false))
		}},
		{"hlo: ScatterSum: ", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.ScatterSum(x, n, x, 9, nil, nil, nil, false, false))
		}},
		{"hlo: DynamicSlice: got starts", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.DynamicSlice(x, []compute.Value{x}, []int{1, 1}))
		}},
		{"hlo: DynamicUpdateSlice: got an update", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			i := d.num(f, []int32{0})
			return one(f.DynamicUpdateSlice(x, d.param(f, dtypes.Float32, 2, 4), []compute.Value{i, i}))
		}},
		{"hlo: BatchNormForTraining: got operand 1", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			_, _, _, err := f.BatchNormForTraining(x, x, x, 1e-3, 1)
			return err
		}},
		{"hlo: FFT: got (Float32)[2, 3] for Forward", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.FFT(x, compute.FFTForward, []int{3}))
		}},
		{"hlo: FFT: got (Float32)[2, 3] for lengths [4]", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.FFT(x, compute.FFTForwardReal, []int{4}))
		}},
		{"hlo: RNGBitGenerator: got state", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			_, _, err := f.RNGBitGenerator(x, shapes.Make(dtypes.Uint32, 3))
			return err
		}},
		{"hlo: Clamp: got a bound", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Clamp(n, x, n)) }},
		{"hlo: Where: condition", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Where(x, x, x)) }},
		{"hlo: Complex: got (Int32)", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Complex(n, n)) }},
		{"hlo: If: got condition", func(d *draft, f *hlo.Function, x, n compute.Value) error { return many(f.If(x, nil, nil)) }},
		{"hlo: If: true branch: got <nil>", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return many(f.If(d.param(f, dtypes.Bool), nil, nil))
		}},
		{"hlo: While: got no state", func(d *draft, f *hlo.Function, x, n compute.Value) error { return many(f.While(nil, nil)) }},
		{"hlo: Sort: got axis 2", func(d *draft, f *hlo.Function, x, n compute.Value) error { return many(f.Sort(nil, 2, true, x)) }},
		{"hlo: Call: got <nil>", func(d *draft, f *hlo.Function, x, n compute.Value) error { return many(f.Call(nil, x)) }},
		{"hlo: AllReduce: got replica 1 in groups", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return many(f.AllReduce([]compute.Value{x}, compute.ReduceOpSum, [][]int{{0, 1}}))
		}},
		{"hlo: OptimizationBarrier: got no operands", func(d *draft, f *hlo.Function, x, n compute.Value) error { return many(f.OptimizationBarrier()) }},
		{"hlo: CustomCall: k: configuration \"a b\"", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return many(f.CustomCall("k", nil, []shapes.Shape{shapes.Make(dtypes.Int32)}, hlo.CallConfig{Backend: map[string]any{"a b": 1}}))
		}},
		{"hlo: CustomCall: k: got alias", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return many(f.CustomCall("k", []compute.Value{x}, []shapes.Shape{shapes.Make(dtypes.Int32)}, hlo.CallConfig{Aliases: map[int]int{0: 0}}))
		}},
		{"hlo: Constant: got 3 values for dimensions [2], want 2", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Constant([]float32{1, 2, 3}, 2))
		}},
		{"hlo: Constant: got string", func(d *draft, f *hlo.Function, x, n compute.Value) error { return one(f.Constant("x")) }},
		{"hlo: Parameter y: got shape", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Parameter("y", shapes.MakeDynamic(dtypes.Int32, []int{-1}, []string{"batch"}), nil))
		}},
		{"hlo: Parameter y: got a sharding", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			return one(f.Parameter("y", shapes.Make(dtypes.Int32), &compute.ShardingSpec{Mesh: "m"}))
		}},
		{"hlo: Return: function \"main\" has no outputs", func(d *draft, f *hlo.Function, x, n compute.Value) error { return f.Return(nil, nil) }},
		{"hlo: NewFunction: \"main\" exists", func(d *draft, f *hlo.Function, x, n compute.Value) error {
			_, err := d.b.NewFunction("main")
			return err
		}},
		{"hlo: DistributedSPMD: got 0", func(d *draft, f *hlo.Function, x, n compute.Value) error { return d.b.DistributedSPMD(0) }},
		{"hlo: DeviceAssignment: got 2 devices, want 1", func(d *draft, f *hlo.Function, x, n compute.Value) error { return d.b.DeviceAssignment(0, 1) }},
	}
	for _, tt := range tests {
		d := newDraft(t)
		f := d.main()
		err := tt.call(d, f, d.param(f, dtypes.Float32, 2, 3), d.param(f, dtypes.Int32, 2, 3))
		if err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("got %v, want an error that begins with %q", err, tt.want)
		}
	}
}

// TestFallbacks wants ops that XLA lacks to say so in GoMLX's way, so that it
// builds them from others.
func TestFallbacks(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	x := d.param(f, dtypes.Float32, 2, 3)
	_, softmax := f.FusedSoftmax(x, 1)
	_, gelu := f.FusedGelu(x, true)
	_, dynamic := f.DynamicShape(x)
	for _, err := range []error{softmax, gelu, dynamic, d.b.DistributedAutoSharding(compute.Mesh{AxesSizes: []int{2}})} {
		if !compute.IsNotImplemented(err) {
			t.Errorf("got %v, want compute.ErrNotImplemented in it", err)
		}
	}
	if err := d.b.DistributedAutoSharding(compute.Mesh{AxesSizes: []int{1}}); err != nil {
		t.Errorf("a mesh of one device: %v", err)
	}
}

// FuzzArguments gives ops arguments without sense: they answer with an error
// or a value whose program can be written, and never panic.
func FuzzArguments(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5})
	f.Add([]byte("axes, axes and axes"))
	for i := range 40 {
		f.Add([]byte{byte(i), byte(i * 7), 2, 1, 0, 255, 3, byte(i)})
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		next := func() int {
			if len(data) == 0 {
				return 0
			}
			n := int(int8(data[0]))
			data = data[1:]
			return n
		}
		ints := func() []int {
			var all []int
			for range next() & 3 {
				all = append(all, next()%6)
			}
			return all
		}
		pairs := func() [][2]int {
			var all [][2]int
			for range next() & 3 {
				all = append(all, [2]int{next() % 4, next() % 4})
			}
			return all
		}
		b := hlo.NewBuilder(nil, "fuzz", nil)
		m := b.Main().(*hlo.Function)
		x, _ := m.Parameter("x", shapes.Make(dtypes.Float32, 2, 3, 4, 2), nil)
		v, _ := m.Parameter("v", shapes.Make(dtypes.Float32, 3), nil)
		n, _ := m.Parameter("n", shapes.Make(dtypes.Int32, 2, 1), nil)
		s, _ := m.Parameter("s", shapes.Make(dtypes.Float32), nil)
		results := []compute.Value{s}
		keep := func(v compute.Value, err error) {
			if err == nil {
				results = append(results, v)
			}
		}
		for len(data) > 0 {
			switch next() & 31 {
			case 0:
				keep(m.Reshape(x, ints()...))
			case 1:
				keep(m.Transpose(x, ints()...))
			case 2:
				keep(m.Slice(x, ints(), ints(), ints()))
			case 3:
				keep(m.ReduceSum(x, ints()...))
			case 4:
				keep(m.Reverse(x, ints()...))
			case 5:
				keep(m.Concatenate(next(), x, x))
			case 6:
				keep(m.BroadcastInDim(v, shapes.Shape{DType: dtypes.Float32, Dimensions: ints()}, ints()))
			case 7:
				keep(m.DotGeneral(x, ints(), ints(), x, ints(), ints(), compute.DotGeneralConfig{OutputDType: dtypes.DType(next())}))
			case 8:
				keep(m.Gather(x, n, next(), ints(), ints(), ints(), ints(), false))
			case 9:
				keep(m.ScatterSum(x, n, x, next(), ints(), ints(), ints(), false, false))
			case 10:
				keep(m.ReduceWindow(x, compute.ReduceOpType(next()), ints(), ints(), ints(), ints(), pairs()))
			case 11:
				keep(m.SelectAndScatterMax(x, x, ints(), ints(), pairs()))
			case 12:
				axes := compute.ConvolveAxesConfig{InputBatch: next(), InputChannels: next(), InputSpatial: ints(),
					KernelInputChannels: next(), KernelOutputChannels: next(), KernelSpatial: ints(),
					OutputBatch: next(), OutputChannels: next(), OutputSpatial: ints()}
				keep(m.ConvGeneral(x, x, axes, ints(), pairs(), ints(), ints(), next(), next()))
			case 13:
				keep(m.Pad(x, s, compute.PadAxis{Start: next(), End: next(), Interior: next()}, compute.PadAxis{Start: next()}))
			case 14:
				keep(m.DynamicSlice(v, []compute.Value{n}, ints()))
			case 15:
				keep(m.Iota(shapes.Shape{DType: dtypes.DType(next()), Dimensions: ints()}, next()))
			case 16:
				keep(m.Bitcast(x, dtypes.DType(next())))
			case 17:
				keep(m.ConvertDType(x, dtypes.DType(next())))
			case 18:
				keep(m.ArgMinMax(x, next(), dtypes.DType(next()), true))
			case 19:
				keep(m.FFT(x, compute.FFTType(next()), ints()))
			case 20:
				out, _, _, err := m.BatchNormForTraining(x, v, v, 1e-3, next())
				keep(out, err)
			case 21:
				keep(m.Constant([]float32{1, 2}, ints()...))
			}
		}
		if err := m.Return(results, nil); err != nil {
			t.Fatal(err)
		}
		p, err := b.Program()
		if err != nil {
			t.Fatal(err)
		}
		if c := p.Cost(); c.FLOPs < 0 || c.Bytes < 0 || len(p.Text(nil)) == 0 {
			t.Fatalf("got cost %+v of\n%s", c, p.Text(nil))
		}
	})
}
