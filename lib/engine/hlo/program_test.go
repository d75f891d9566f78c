package hlo_test

import (
	"bytes"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/layers/activation"
	"github.com/gomlx/gomlx/ml/layers/norm"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train/loss"
	"github.com/gomlx/gomlx/ml/train/optimizer"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/pjrt"
)

// cnnStep is one training step of a small net with everything that tends to
// make texts differ: variables, random numbers, an optimizer.
func cnnStep() func(scope *model.Scope, x, y *Node) *Node {
	opt := optimizer.Adam().LearningRate(1e-3).Done()
	return func(scope *model.Scope, x, y *Node) *Node {
		g := x.Graph()
		scope.Store().SetTraining(g, true)
		h := layers.Convolution(scope.In("c1"), x).Channels(16).KernelSize(3).PadSame().Done()
		h = norm.BatchNorm(scope.In("n1"), h, -1).Done()
		h = activation.Relu(h)
		h = MaxPool(h).Window(2).Done()
		h = layers.Convolution(scope.In("c2"), h).Channels(32).KernelSize(3).NoPadding().Done()
		h = activation.Relu(h)
		h = MaxPool(h).Window(2).Done()
		h = Reshape(h, 32, -1)
		h = layers.Dropout(scope.In("drop"), h, Scalar(g, dtypes.Float32, 0.5))
		h = activation.Relu(layers.Dense(scope.In("d1"), h, true, 128))
		logits := layers.Dense(scope.In("d2"), h, true, 10)
		l := ReduceAllMean(loss.SparseCategoricalCrossEntropyLogits([]*Node{y}, []*Node{logits}))
		opt.UpdateGraph(scope, g, l)
		return l
	}
}

// build makes a program of step; its graph is called name, or as GoMLX calls it.
func build(t testing.TB, name string, step func(scope *model.Scope, x, y *Node) *Node) *hlo.Program {
	t.Helper()
	b := &hlo.Backend{}
	e, err := model.NewExec(b, model.NewStore(), step)
	if err != nil {
		t.Fatal(err)
	}
	if name != "" {
		e = e.WithName(name)
	}
	if _, err := e.Compile(shapes.Make(dtypes.Float32, 32, 28, 28, 1), shapes.Make(dtypes.Int32, 32, 1)); err != nil {
		t.Fatal(err)
	}
	return b.Program
}

// TestTextIsStable builds one program in several ways: the text and its hash
// are the same.
func TestTextIsStable(t *testing.T) {
	other := func(scope *model.Scope, images, labels *Node) *Node { return cnnStep()(scope, images, labels) }
	texts := [][]byte{
		build(t, "first", cnnStep()).Text(nil),
		build(t, "", other).Text(nil),
		build(t, "second@0x1f", cnnStep()).Text(nil),
		build(t, "", cnnStep()).Text(nil),
	}
	for i, text := range texts {
		if !bytes.Equal(text, texts[0]) {
			t.Errorf("text %d is another:\n%s\nwant\n%s", i, text, texts[0])
		}
		for _, leak := range []string{"first", "second", "hlo_test", ".go"} {
			if strings.Contains(string(text), leak) {
				t.Errorf("text %d holds %q", i, leak)
			}
		}
	}
	t.Logf("the step is %d bytes in %d lines", len(texts[0]), bytes.Count(texts[0], []byte("\n")))
}

// TestDonation sees the marks where they were asked for and nowhere else.
func TestDonation(t *testing.T) {
	d := newDraft(t)
	f := d.main()
	x, y := d.param(f, dtypes.Float32, 2), d.param(f, dtypes.Float32, 2)
	p := d.program(d.v(f.Add(x, y)))
	tests := []struct {
		donate []bool
		want   string
	}{
		{nil, "@main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>)"},
		{[]bool{false, false, true}, "@main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32>)"},
		{[]bool{true}, "@main(%arg0: tensor<2xf32> {jax.buffer_donor = true}, %arg1: tensor<2xf32>)"},
		{[]bool{false, true}, "@main(%arg0: tensor<2xf32>, %arg1: tensor<2xf32> {jax.buffer_donor = true})"},
	}
	for _, tt := range tests {
		if got := string(p.Text(tt.donate)); !strings.Contains(got, tt.want) {
			t.Errorf("Text(%v) is\n%s\nwant %s in it", tt.donate, got, tt.want)
		}
	}
}

// TestProgram looks at the plain data.
func TestProgram(t *testing.T) {
	b := hlo.NewBuilder(nil, "named", nil)
	if err := b.DistributedSPMD(2); err != nil {
		t.Fatal(err)
	}
	if err := b.DeviceAssignment(1, 0); err != nil {
		t.Fatal(err)
	}
	f := b.Main()
	x, _ := f.Parameter("images", shapes.Make(dtypes.BFloat16, 4), nil)
	if _, err := f.Parameter("images", shapes.Make(dtypes.BFloat16, 4), nil); err == nil {
		t.Error("got two parameters of one name, want an error")
	}
	if err := f.Return([]compute.Value{x, x}, nil); err != nil {
		t.Fatal(err)
	}
	p, err := b.Program()
	if err != nil {
		t.Fatal(err)
	}
	if p.Name != "named" || p.InputNames[0] != "images" || p.Replicas != 2 || len(p.Devices) != 2 ||
		!p.Inputs[0].Equal(shapes.Make(dtypes.BFloat16, 4)) || len(p.Outputs) != 2 {
		t.Errorf("got %+v", p)
	}
	if _, err := b.Compile(); err == nil || !strings.Contains(err.Error(), "compiled already") {
		t.Errorf("second Compile: got %v, want an error", err)
	}
	if _, err := hlo.NewBuilder(nil, "x", nil).Compile(); err == nil || !strings.Contains(err.Error(), "Return first") {
		t.Errorf("Compile of nothing: got %v, want an error", err)
	}
}

// TestReplaceNext reaches a custom call from graph code.
func TestReplaceNext(t *testing.T) {
	b := &hlo.Backend{}
	g := NewGraph(b, "g")
	x := Parameter(g, "x", shapes.Make(dtypes.Float32, 4))
	b.HLO.ReplaceNext(func(f *hlo.Function, operands []compute.Value) ([]compute.Value, error) {
		return f.CustomCall("mine", operands, []shapes.Shape{shapes.Make(dtypes.Int32, 2), shapes.Make(dtypes.Int32)}, hlo.CallConfig{})
	})
	out := OptimizationBarriers(x, Neg(x))
	if len(out) != 2 || !out[0].Shape().Equal(shapes.Make(dtypes.Int32, 2)) {
		t.Fatalf("got %v, want the shapes of the call", out)
	}
	if err := g.Compile(out[0], OptimizationBarrier(out[1])); err != nil {
		t.Fatal(err)
	}
	text := string(b.Program.Text(nil))
	if !strings.Contains(text, "stablehlo.custom_call @mine(%arg0, %0)") || strings.Count(text, "optimization_barrier") != 1 {
		t.Errorf("got\n%s\nwant one call and, for the second barrier, one barrier", text)
	}
}

// TestLabels finds the labels again in the compiled program, where XLA's
// profiler takes the names of kernels from.
func TestLabels(t *testing.T) {
	b := newBackend(t)
	d := newDraft(t)
	f := d.main()
	x := d.param(f, dtypes.Float32, 64, 64)
	d.b.SetLabel("the dense layer")
	y := d.v(f.DotGeneral(x, []int{1}, nil, x, []int{0}, nil, compute.DotGeneralConfig{}))
	program, err := b.client.Compile(d.program(y).Text(nil), pjrt.CompileOptions{})
	d.ok(err)
	defer program.Close()
	compiled, _, err := program.Optimized()
	d.ok(err)
	if !bytes.Contains(compiled, []byte("the dense layer")) {
		t.Error("the label is not in the compiled program")
	}
}

// TestExactness checks that barriers are exact identities, and that ArgMinMax
// finds the first of several NaNs.
func TestExactness(t *testing.T) {
	b := newBackend(t)
	nan, inf, minus0 := float32(math.NaN()), float32(math.Inf(1)), float32(math.Copysign(0, -1))
	values := []float32{minus0, inf, nan, 1, nan, -inf}
	out, err := CallOnceN(b, func(x *Node) []*Node {
		g := x.Graph()
		return []*Node{
			OptimizationBarrier(x),
			SchedulingBarrier(x, x, Const(g, []complex64{complex(nan, inf)}), Const(g, true), OnesLike(x)),
			ArgMax(x, 0), ArgMin(x, 0),
			ArgMax(Slice(x, AxisRange(0, 2)), 0), ArgMin(Const(g, []float32{-inf, -inf, 0}), 0),
			ArgMax(Const(g, []bool{false, true, true}), 0),
		}
	}, values)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		for j, got := range out[i].Value().([]float32) {
			if math.Float32bits(got) != math.Float32bits(values[j]) {
				t.Errorf("barrier %d changed %v to %v", i, values[j], got)
			}
		}
	}
	for i, want := range []int32{2, 2, 1, 0, 1} {
		if got := out[2+i].Value(); got != want {
			t.Errorf("ArgMinMax %d: got %v, want %v", i, got, want)
		}
	}
}

// TestReplicas runs AllReduce on two devices of this machine.
func TestReplicas(t *testing.T) {
	b := newBackend(t)
	builder := b.Builder("sum")
	d := &draft{t, builder.(*hlo.Builder), map[compute.Function]int{}}
	d.ok(builder.DistributedSPMD(2))
	f := d.main()
	x := d.param(f, dtypes.Float32, 2)
	d.ok(f.Return(d.vs(f.AllReduce([]compute.Value{x}, compute.ReduceOpSum, nil)), nil))
	e, err := builder.Compile()
	d.ok(err)
	var in []compute.Buffer
	for device, flat := range [][]float32{{1, 2}, {10, 20}} {
		u, err := b.BufferFromFlatData(compute.DeviceNum(device), flat, shapes.Make(dtypes.Float32, 2))
		d.ok(err)
		in = append(in, u)
	}
	out, err := e.Execute(in, nil, 0)
	d.ok(err)
	for device, u := range out {
		got := make([]float32, 2)
		d.ok(u.ToFlatData(got))
		if got[0] != 11 || got[1] != 22 {
			t.Errorf("device %d: got %v, want [11 22]", device, got)
		}
	}
}

// BenchmarkStep builds the graph and the text of a CNN's training step.
func BenchmarkStep(b *testing.B) {
	var size int
	for b.Loop() {
		size = len(build(b, "step", cnnStep()).Text(nil))
	}
	b.ReportMetric(float64(size), "bytes")
}
