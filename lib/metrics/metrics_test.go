package metrics

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// TestOracle holds metrics to what PyTorch computes by their definitions:
// testdata/oracle.json, by oracle.py there. They are computed in batches, the last of which
// is smaller.
func TestOracle(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	l, p := []int{23, 5}, []int{7, 4, 6}
	distance := func(out, y *graph.Node) *graph.Node { return graph.Abs(graph.Sub(out, y)) }
	type testCase struct {
		m    Metric
		dims []int
		kind string // of targets: "" is labels, then number and binary
	}
	cases := map[string]testCase{
		"Accuracy": {Accuracy{}, l, ""}, "Accuracy positions weighted": {Accuracy{}, p, ""}, "Accuracy of 0 and 1": {Accuracy{}, []int{23, 3}, "binary weighted"},
		"TopK 1": {TopK{K: 1}, l, ""}, "TopK 3": {TopK{K: 3}, l, ""}, "TopK positions weighted": {TopK{K: 2}, p, ""},
		"Perplexity": {Perplexity{}, l, ""}, "Perplexity positions weighted": {Perplexity{}, p, ""},
		"MAE": {MAE{}, []int{23, 3}, "number"}, "RMSE weighted": {RMSE{}, []int{7, 4, 3}, "number"},
		"R2": {R2{}, []int{23, 3}, "number"}, "R2 one": {R2{}, []int{23, 1}, "number"}, "R2 weighted": {R2{}, []int{23, 2}, "number"},
		"Func":    {Func{Name: "distance", Of: distance}, []int{23, 3}, "number weighted"},
		"MeanIoU": {MeanIoU{}, p, "weighted"}, "MeanIoU of two": {MeanIoU{}, []int{61, 2}, ""}, "MeanIoU of 0 and 1": {MeanIoU{Threshold: 0.3}, []int{23, 3}, "binary weighted"},
		"AUC": {AUC{}, []int{61, 2}, ""}, "AUC of 0 and 1 weighted": {AUC{Thresholds: 50}, []int{23, 3}, "binary"},
	}
	for _, f := range []struct {
		name string
		of   func(threshold float64, macro bool) Metric
	}{{"Precision", func(t float64, m bool) Metric { return Precision{t, m} }}, {"Recall", func(t float64, m bool) Metric { return Recall{t, m} }}, {"F1", func(t float64, m bool) Metric { return F1{t, m} }}} {
		cases[f.name] = testCase{f.of(0, false), []int{61, 2}, ""}
		cases[f.name+" threshold"] = testCase{f.of(0.8, false), []int{61, 2}, "weighted"}
		cases[f.name+" macro of two"] = testCase{f.of(0, true), []int{61, 2}, ""}
		cases[f.name+" macro weighted"] = testCase{f.of(0, false), p, ""}
		cases[f.name+" of 0 and 1"] = testCase{f.of(0.3, false), []int{23, 3}, "binary weighted"}
	}
	if len(want) != len(cases) {
		t.Errorf("%d cases of PyTorch's, %d of ours: want as many", len(want), len(cases))
	}
	for name, tt := range cases {
		size := shapes.Make(dtypes.Float32, tt.dims...).Size()
		weighted := strings.Contains(name+tt.kind, "weighted")
		whole := func(g *graph.Graph) Batch {
			wave := func(step float64) *graph.Node {
				k := graph.AddScalar(graph.Iota(g, shapes.Make(dtypes.Float64, size), 0), 1)
				return graph.ConvertDType(graph.Reshape(graph.Sin(graph.MulScalar(k, step)), tt.dims...), dtypes.Float32)
			}
			b := Batch{Output: graph.MulScalar(wave(0.7), 3), Logits: true}
			positions, each := tt.dims, 5
			switch {
			case strings.HasPrefix(tt.kind, "number"):
				b.Y = graph.AddScalar(graph.MulScalar(wave(1.1), 2), 100)
				b.Output = graph.Add(b.Y, graph.MulScalar(b.Output, 0.3))
			case strings.HasPrefix(tt.kind, "binary"):
				b.Y = float(graph.GreaterThan(wave(1.1), graph.ZerosLike(b.Output)))
			default:
				positions, each = tt.dims[:len(tt.dims)-1], 4
				y := make([]int32, size/tt.dims[len(tt.dims)-1])
				for k := range y {
					y[k] = int32((k*k + k/3) % tt.dims[len(tt.dims)-1])
				}
				b.Y = graph.Reshape(graph.Const(g, y), positions...)
			}
			w := make([]float32, b.Y.Shape().Size())
			for k := range w {
				if w[k] = 1; weighted && (each == 4 && k%4 == 0 || each == 5 && k%5 == 2) {
					w[k] = 0
				}
			}
			b.Weight = graph.Reshape(graph.Const(g, w), positions...)
			return b
		}
		var sums []float64
		const batch = 4
		for from := 0; from < tt.dims[0]; from += batch {
			to := min(from+batch, tt.dims[0])
			exec, err := graph.NewExec(backend, func(g *graph.Graph) *graph.Node {
				b := whole(g)
				for _, x := range []**graph.Node{&b.Output, &b.Y, &b.Weight} {
					*x = graph.Slice(*x, graph.AxisRange(from, to))
				}
				n, err := tt.m.Sums(b.Output.Shape(), b.Y.Shape())
				if err != nil {
					panic(err)
				}
				x := tt.m.Apply(b)
				if !x.Shape().Equal(shapes.Make(dtypes.Float32, n)) {
					t.Errorf("%s: got %s, want %d sums", name, x.Shape(), n)
				}
				return x
			})
			if err != nil {
				t.Fatal(err)
			}
			got, err := exec.Call()
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			got[0].ConstFlatData(func(flat any) {
				for i, x := range flat.([]float32) {
					if i == len(sums) {
						sums = append(sums, 0)
					}
					sums[i] += float64(x)
				}
			})
		}
		device, err := graph.NewExec(backend, func(g *graph.Graph) *graph.Node { return OnDevice(tt.m, graph.Const(g, sums)) })
		if err != nil {
			t.Fatal(err)
		}
		same, err := device.Call()
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if got := same[0].Value().(float64); !(math.Abs(got-want[name]) < 2e-6*(1+math.Abs(want[name]))) {
			t.Errorf("%s on the device: got %v, want %v", name, got, want[name])
		}
		if got := tt.m.Value(sums); !(math.Abs(got-want[name]) < 2e-6*(1+math.Abs(want[name]))) {
			t.Errorf("%s: got %v, want %v", name, got, want[name])
		}
	}
}

// TestMisfits holds that a metric says why it does not fit a net's output or targets.
func TestMisfits(t *testing.T) {
	label, number := func(d ...int) shapes.Shape { return shapes.Make(dtypes.Int32, d...) }, func(d ...int) shapes.Shape { return shapes.Make(dtypes.Float32, d...) }
	for _, tt := range []struct {
		m         Metric
		output, y shapes.Shape
		want      string // "" if it fits
	}{
		{TopK{K: 5}, number(2, 3), label(2), "top5: got 3 classes, want K no larger than that"}, {TopK{K: 3}, number(2, 3), label(2), ""},
		{TopK{K: 1}, number(2, 3), number(2, 3), "numbers as targets, want labels"}, {Perplexity{}, number(2, 3), number(2, 3), "want labels"},
		{Accuracy{}, number(2, 1), label(2), "want one number a class"}, {Accuracy{}, number(2, 1), number(2, 1), ""},
		{MAE{}, number(2, 3), label(2), "got labels, want numbers"}, {RMSE{}, number(2, 3), label(2), "want numbers"}, {R2{}, number(2, 3), label(2), "want numbers"},
		{AUC{}, number(2, 3), label(2), "got labels of 3 classes, want labels of two"}, {AUC{}, number(2, 2), label(2), ""}, {AUC{}, number(2, 3), number(2, 3), ""},
		{F1{Threshold: 0.3}, number(2, 3), label(2), "a Threshold for 3 classes"}, {F1{Threshold: 0.3, Macro: true}, number(2, 2), label(2), "a Threshold for 2 classes"}, {F1{}, number(2, 3), label(2), ""},
	} {
		if _, err := tt.m.Sums(tt.output, tt.y); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%T for %s: got %v, want %q", tt.m, tt.output, err, tt.want)
		}
	}
}

// TestCheck holds that metrics without a name, with that of another, or with a setting
// that means nothing are refused.
func TestCheck(t *testing.T) {
	mean := func(out, _ *graph.Node) *graph.Node { return out }
	for _, tt := range []struct {
		all  []Metric
		want string
	}{
		{[]Metric{TopK{K: 5}, TopK{K: 3}, F1{}}, ""}, {[]Metric{nil}, "Metrics[0] is nil"}, {[]Metric{MAE{}, MAE{}}, `Metrics[1] is called "mae", as is`},
		{[]Metric{Func{Of: mean}}, `is called ""`}, {[]Metric{Func{Name: "loss", Of: mean}}, `is called "loss"`}, {[]Metric{Func{Name: "a"}}, "Of is nil"}, {[]Metric{Func{Name: "a/b", Of: mean}}, `without /`},
		{[]Metric{TopK{}}, "K is 0"}, {[]Metric{F1{Threshold: 1}}, "Threshold is 1"}, {[]Metric{Recall{Threshold: math.NaN()}}, "Threshold is NaN"}, {[]Metric{AUC{Thresholds: 2}}, "Thresholds is 2"},
	} {
		if err := Check(tt.all); tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%v: got %v, want %q", tt.all, err, tt.want)
		}
	}
}

// TestNothing holds what a metric is where nothing counted.
func TestNothing(t *testing.T) {
	for _, tt := range []struct {
		m    Metric
		sums []float64
		want float64
	}{{MAE{}, make([]float64, 2), math.NaN()}, {Perplexity{}, make([]float64, 2), math.NaN()}, {R2{}, make([]float64, 6), math.NaN()}, {AUC{}, make([]float64, 400), math.NaN()}, {F1{}, make([]float64, 9), 0},
		{R2{}, []float64{3, 0, 6, 0, 12, 0}, 1}, {R2{}, []float64{3, 1, 6, 0, 12, 0}, 0}} {
		if got := tt.m.Value(tt.sums); got != tt.want && !(math.IsNaN(got) && math.IsNaN(tt.want)) {
			t.Errorf("%T of %v: got %v, want %v", tt.m, tt.sums, got, tt.want)
		}
	}
}
