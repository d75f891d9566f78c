package models

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"
)

// run computes a function of images of a shape, pixel k of which is (sin((k+1)·0.7)+1)/2.
func run(t *testing.T, f func(x *Node) *Node, shape ...int) []float32 {
	t.Helper()
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, shapes.Make(dtypes.Float32, shape...).Size())
	for k := range x {
		x[k] = float32(math.Sin(float64(k+1)*0.7)+1) / 2
	}
	y, err := ExecOnce(backend, f, tensors.FromFlatDataAndDimensions(x, shape...))
	if err != nil {
		t.Fatal(err)
	}
	return tensors.MustCopyFlatData[float32](y)
}

// TestAugmentOracle holds augmentations with given numbers to PyTorch's and to loops:
// testdata/augment.json, by augment.py there; and in bfloat16 nearly so.
func TestAugmentOracle(t *testing.T) {
	raw, err := os.ReadFile("testdata/augment.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	floats := func(x *Node, v ...float32) *Node { return Const(x.Graph(), v) }
	ints := func(x *Node, v ...int32) *Node { return Const(x.Graph(), v) }
	for name, f := range map[string]func(x *Node) *Node{
		"flip":            func(x *Node) *Node { return flip(x, 2, floats(x, -0.5, 0.5, -1)) },
		"flip vertically": func(x *Node) *Node { return flip(x, 1, floats(x, -0.5, 0.5, -1)) },
		"crop":            func(x *Node) *Node { return crop(x, 4, 6, ints(x, -2, 0, 3), ints(x, 1, 0, -1)) },
		"cutout 3":        func(x *Node) *Node { return cutout(x, 3, ints(x, 0, 2, 4), ints(x, 0, 3, 6)) },
		"cutout 4":        func(x *Node) *Node { return cutout(x, 4, ints(x, 0, 2, 4), ints(x, 0, 3, 6)) },
		"brightness":      func(x *Node) *Node { return brightness(x, floats(x, 0.5, 1, 1.6)) },
		"contrast":        func(x *Node) *Node { return contrast(x, floats(x, 0.5, 1, 1.6)) },
		"contrast of gray": func(x *Node) *Node {
			return contrast(Slice(x, AxisRange(), AxisRange(), AxisRange(), AxisRange(0, 1)), floats(x, 0.5, 1, 1.6))
		},
		"affine": func(x *Node) *Node {
			return affine(x, floats(x, 0, 0.5, -2), floats(x, 1, 0.8, 1.3), floats(x, 1, 0.25, -0.7), floats(x, -2, 0.5, 1.1))
		},
	} {
		for _, dtype := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
			got := run(t, func(x *Node) *Node { return ConvertDType(f(ConvertDType(x, dtype)), dtypes.Float32) }, 3, 5, 7, 3)
			within := 1e-5
			if dtype == dtypes.BFloat16 {
				within = 0.02
			}
			if len(got) != len(want[name]) {
				t.Errorf("%s: got %d numbers, want %d", name, len(got), len(want[name]))
				continue
			}
			for i, v := range got {
				if !(math.Abs(float64(v)-want[name][i]) <= within) {
					t.Errorf("%s in %s: number %d is %g, want %g", name, dtype, i, v, want[name][i])
					break
				}
			}
		}
	}
	for name, alpha := range map[string]float64{"share 0.1": 0.1, "share 0.2": 0.2, "share 1": 1, "share 4": 4} {
		const n = 20000
		sums := [2]float64{}
		for _, v := range run(t, func(x *Node) *Node {
			u := AddScalar(MulScalar(Iota(x.Graph(), shapes.Make(dtypes.Float32, n), 0), 1.0/n), 0.5/n)
			return largerShare(u, alpha)
		}, 1) {
			sums[0] += float64(v) / n
			sums[1] += float64(v) * float64(v) / n
		}
		for i, m := range sums {
			if math.Abs(m-want[name][i]) > 3e-4 {
				t.Errorf("%s: moment %d is %g, want %g", name, i+1, m, want[name][i])
			}
		}
	}
}

// TestAugmentDraws holds what the layers draw: the range, about the right mean, other numbers
// for each image, and nothing where the net is not trained.
func TestAugmentDraws(t *testing.T) {
	const n = 400
	layer := func(l Layer, training bool, shape ...int) []float32 {
		store := model.NewStore()
		if err := store.SetRNGStateFromSeed(7); err != nil {
			t.Fatal(err)
		}
		backend, err := gobackend.New("")
		if err != nil {
			t.Fatal(err)
		}
		exec, err := model.NewExec(backend, store, func(scope *model.Scope, g *Graph) *Node {
			store.SetTraining(g, training)
			rows := Iota(g, shapes.Make(dtypes.Float32, shape...), 1)
			return l.Apply(scope, AddScalar(MulScalar(Add(rows, MulScalar(Iota(g, rows.Shape(), 2), 10)), 0.001), 0.25))
		})
		if err != nil {
			t.Fatal(err)
		}
		y, err := exec.Call1()
		if err != nil {
			t.Fatal(err)
		}
		return tensors.MustCopyFlatData[float32](y)
	}
	plain := layer(Activation{}, true, n, 6, 6, 1)
	at := func(y []float32, image, row, column int) float64 { return float64(y[(image*6+row)*6+column]) }
	for _, tt := range []struct {
		layer    Layer
		of       func(y []float32, image int) float64 // what was drawn, about
		low, hi  float64
		mean, by float64
	}{
		{RandomFlip{}, func(y []float32, i int) float64 { return 20 * (at(y, i, 0, 0) - 0.25) }, 0, 1, 0.5, 0.08},
		{RandomFlip{Vertical: true}, func(y []float32, i int) float64 { return 200 * (at(y, i, 0, 0) - 0.25) }, 0, 11, 5.5, 0.6},
		{RandomCrop{Pad: 1}, func(y []float32, i int) float64 { return 100 * (at(y, i, 3, 3) - at(plain, 0, 3, 3)) }, -1.1, 1.1, 0, 0.15},
		{RandomCrop{Height: 4, Width: 6}, func(y []float32, i int) float64 { return 1000 * float64(y[i*24]-0.25) }, 0, 2, 1, 0.15},
		{Cutout{Size: 1}, func(y []float32, i int) float64 {
			for k := range 6 {
				for j := range 6 {
					if at(y, i, k, j) == 0 {
						return float64(k)
					}
				}
			}
			return -100
		}, 0, 5, 2.5, 0.3},
		{ColorJitter{Brightness: 0.5}, func(y []float32, i int) float64 { return at(y, i, 0, 0) / 0.25 }, 0.5, 1.5, 1, 0.06},
		{ColorJitter{Contrast: 0.5}, func(y []float32, i int) float64 { return (at(y, i, 5, 5) - at(y, i, 0, 0)) / 0.055 }, 0.5, 1.5, 1, 0.06},
		{RandomAffine{Shift: 0.1}, func(y []float32, i int) float64 { return 1000 * (at(y, i, 3, 3) - at(plain, i, 3, 3)) }, -6.7, 6.7, 0, 0.7},
		{RandomAffine{Degrees: 10}, func(y []float32, i int) float64 { return 1000 * (at(y, i, 3, 3) - at(plain, i, 3, 3)) }, -1.1, 0.9, 0, 0.15},
	} {
		name, _ := json.Marshal(tt.layer)
		_, kind := tt.layer.Title()
		y, sum, seen := layer(tt.layer, true, n, 6, 6, 1), 0.0, map[float64]bool{}
		for i := range n {
			v := tt.of(y, i)
			if v < tt.low-1e-3 || v > tt.hi+1e-3 {
				t.Errorf("%s%s: image %d: got %g, want %g to %g", kind, name, i, v, tt.low, tt.hi)
			}
			sum += v / n
			seen[math.Round(v*100)] = true
		}
		if math.Abs(sum-tt.mean) > tt.by || len(seen) < 2 {
			t.Errorf("%s%s: got a mean of %g and %d values, want about %g and some", kind, name, sum, len(seen), tt.mean)
		}
		again, still := layer(tt.layer, true, n, 6, 6, 1), layer(tt.layer, false, n, 6, 6, 1)
		for i := range y {
			if y[i] != again[i] || len(y) == len(plain) && still[i] != plain[i] {
				t.Errorf("%s%s: want one seed twice the same, and images as they are outside of training", kind, name)
				break
			}
		}
	}
	if y := layer(RandomCrop{Height: 4, Width: 4}, false, 1, 6, 6, 1); math.Abs(float64(y[0])-0.261) > 1e-6 {
		t.Errorf("outside of training: got a part that begins with %g, want the middle: 0.261", y[0])
	}
	if y := layer(Normalize{Mean: []float64{0.25}, Deviation: []float64{0.5}}, false, 1, 6, 6, 1); math.Abs(float64(y[1])-0.02) > 1e-6 {
		t.Errorf("normalized: got %g, want 0.02", y[1])
	}
	for want, l := range map[string]Layer{"want images shaped": RandomFlip{}, "rank 3": Cutout{Size: 1}, "want no less than 9×3": RandomCrop{Height: 9, Width: 3}, "Pad are 0": RandomCrop{},
		"Contrast are 0": ColorJitter{}, "Scale are 0": RandomAffine{}, "got 2 channels: want 1, or 3": ColorJitter{Contrast: 1}, "got 2 channels: want 3": Normalize{Mean: []float64{1, 2, 3}, Deviation: []float64{1, 2, 3}}} {
		dims := []int{6, 6, 2}
		if strings.Contains(want, "images") || strings.Contains(want, "rank") {
			dims = []int{6, 6}
		}
		net := Net{Name: "net", Input: dims, Layers: []Layer{l, Flatten{}, Dense{Units: 1}}}
		backend, _ := gobackend.New("")
		if _, err := Summarize(backend, net); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestSummaryOfBatches: a net that returns no row for each example has no summary.
func TestSummaryOfBatches(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	for want, f := range map[string]func(x *Node) *Node{
		"it returns (Float32): want":       ReduceAllSum,
		"it returns (Float32)[4]: want":    func(x *Node) *Node { return ReduceSum(x, 0) },
		"it returns (Float32)[4, 2]: want": func(x *Node) *Node { return Transpose(x, 0, 1) },
	} {
		net := Net{Name: "net", Input: []int{4}, Function: func(_ *model.Scope, in Inputs) *Node { return f(in["x"]) }}
		if _, err := Summarize(backend, net); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}
