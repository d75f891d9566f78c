package xla

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// TestPlain holds that layers have the same outputs and gradients in GoMLX's own operations,
// on a backend without a lowering, as in those that are written for a CPU and a GPU.
func TestPlain(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	image, sequence := []int{2, 9, 8, 3}, []int{3, 5, 4}
	conv := func(kernel, stride, pad int) models.Layer {
		return models.Conv2D{Name: "l", Channels: 5, Kernel: kernel, Stride: stride, Pad: pad}
	}
	pool := func(window, stride, pad int, p models.Pooling) models.Layer {
		return models.MaxPool2D{Name: "l", Window: window, Stride: stride, Pad: pad, Gradient: p}
	}
	for _, tt := range []struct {
		layer models.Layer
		input []int
	}{
		{conv(1, 2, 0), image}, {conv(2, 1, 0), image}, {conv(3, 1, 1), image}, {conv(3, 2, 2), image}, {conv(3, 1, 3), image}, {conv(4, 3, 1), image},
		{models.Conv2D{Name: "l", Channels: 11, Kernel: 3, Same: true}, []int{2, 9, 8, 7}}, {models.Conv2D{Name: "l", Channels: 8, Kernel: 3, Stride: 2}, []int{2, 9, 8, 7}},
		{models.Conv2D{Name: "l", Channels: 2, Kernel: 4, Stride: 2, Same: true, Act: models.ReLU}, image},
		{pool(2, 0, 0, models.Mask), image}, {pool(2, 0, 0, models.IndexedFill), image},
		{pool(3, 2, 1, models.Mask), image}, {pool(3, 1, 0, models.SelectAndScatter), image},
		{models.Dense{Name: "l", Units: 6, Act: Tanh}, []int{256, 7}}, {models.Dense{Name: "l", Units: 2, NoBias: true}, image},
		{models.LSTM{Name: "l", Units: 3}, sequence}, {models.LSTM{Name: "l", Units: 3}, []int{2, 2, 1}}, {models.LSTM{Name: "l", Units: 17}, []int{3, 6, 4}},
	} {
		want := results(t, backend, tt.layer, tt.input, true, false)
		for _, way := range []struct {
			platform string
			training bool
		}{{"cpu", true}, {"cpu", false}, {"cuda", true}} {
			if _, is := tt.layer.(models.LSTM); !is && !way.training {
				continue // only an LSTM is another outside training
			}
			got := results(t, lowered{backend, Lowering{Target: lower.Target{Platform: way.platform, Triton: way.platform == "cuda"}}}, tt.layer, tt.input, way.training, false)
			alike(t, fmt.Sprintf("%T%+v, input %v, %+v", tt.layer, tt.layer, tt.input, way), got, want)
		}
	}
}

// TestSecondGradients holds that gradients of gradients are those of GoMLX's own operations:
// a part that is left out would be silent.
func TestSecondGradients(t *testing.T) {
	t.Parallel()
	backend := cpu(t)
	image := []int{2, 5, 6, 3}
	for _, tt := range []struct {
		layer models.Layer
		input []int
	}{
		{models.Conv2D{Name: "l", Channels: 5, Kernel: 1, Stride: 2}, image}, {models.Conv2D{Name: "l", Channels: 5, Kernel: 3, Same: true}, image}, {models.Conv2D{Name: "l", Channels: 7, Kernel: 3, Same: true}, []int{2, 5, 6, 7}},
		{models.Conv2D{Name: "l", Channels: 2, Kernel: 4, Stride: 2, Pad: 1, Act: models.SiLU}, image}, {models.MaxPool2D{Name: "l", Window: 2}, image},
		{models.Dense{Name: "l", Units: 512}, []int{128, 3}},
		{models.DepthwiseConv2D{Name: "l", Kernel: 3, Stride: 2, Same: true}, image}, {models.DepthwiseConv2D{Name: "l", Kernel: 2, Dilation: 2}, image},
	} {
		want := results(t, backend, tt.layer, tt.input, true, true)
		for _, platform := range []string{"cpu", "cuda"} {
			got := results(t, lowered{backend, Lowering{Target: lower.Target{Platform: platform, Triton: platform == "cuda"}}}, tt.layer, tt.input, true, true)
			alike(t, fmt.Sprintf("%T%+v, %s", tt.layer, tt.layer, platform), got, want)
		}
	}
}

// TestFrozenNorm holds the gradients of a batch norm with kept means to those of its formula.
func TestFrozenNorm(t *testing.T) {
	t.Parallel()
	x, scale, offset, v := []float32{1, -2, 3, 0.5, 2, 4}, []float32{2, 3}, []float32{1, -1}, []float32{1, 2, 3, 4, 5, 6}
	mean, variance := []float32{0.5, -1}, []float32{4, 0.25}
	out := MustExecOnceN(cpu(t), func(l []*Node) []*Node {
		y := InternalBatchNormForInference(Reshape(l[0], 3, 1, 2), l[1], l[2], l[3], l[4], 0, 2)
		return Gradient(ReduceAllSum(Mul(y, Reshape(l[5], 3, 1, 2))), l[:3]...)
	}, x, scale, offset, mean, variance, v)
	var want [3][]float32
	want[0], want[1], want[2] = make([]float32, 6), make([]float32, 2), make([]float32, 2)
	for i := range x {
		c := i % 2
		s := float32(math.Sqrt(float64(variance[c])))
		want[0][i] = v[i] * scale[c] / s
		want[1][c] += v[i] * (x[i] - mean[c]) / s
		want[2][c] += v[i]
	}
	var got [][]float32
	for _, o := range out {
		got = append(got, o.Value().([]float32))
	}
	alike(t, "batch norm", got, want[:])
}

// alike holds that numbers are those that are wanted.
func alike(t *testing.T, what string, got, want [][]float32) {
	t.Helper()
	for i := range want {
		largest, off := 0.0, 0.0
		for k := range want[i] {
			largest = max(largest, math.Abs(float64(want[i][k])))
			off = max(off, math.Abs(float64(got[i][k]-want[i][k])))
		}
		if len(got[i]) != len(want[i]) || largest == 0 || !(off <= 1e-5*max(1, largest)) {
			t.Errorf("%s: result %d is off by %g of %g", what, i, off, largest)
		}
	}
}

// results are what a layer returns, and its gradients for the input and the variables, or those
// of the gradient for the input.
func results(t *testing.T, backend compute.Backend, layer models.Layer, input []int, training, second bool) (numbers [][]float32) {
	t.Helper()
	exec, err := NewExec(backend, func(g *Graph) []*Node {
		wave := func(step float64, dims ...int) *Node {
			return Sin(MulScalar(AddScalar(IotaFull(g, shapes.Make(dtypes.Float32, dims...)), 1), step))
		}
		store, wrt := model.NewStore().WithVariableAsConst(true), []*Node{wave(0.7, input...)}
		model.SetStore(g, store)
		store.SetTraining(g, training)
		for i, name := range []string{"weights", "recurrent", "biases"} {
			if d := variableShape(layer, input, name); d != nil {
				value := tensors.FromShape(shapes.Make(dtypes.Float32, d...))
				value.MutableFlatData(func(flat any) {
					for k := range flat.([]float32) {
						flat.([]float32)[k] = float32(math.Sin(float64(k+1) * (0.3 + float64(i)/10)))
					}
				})
				wrt = append(wrt, store.VariableWithValue("/l/"+name, value).NodeValue(g))
			}
		}
		y := layer.Apply(store.RootScope().In("l"), wrt[0])
		derive := gradient.Final
		if second {
			derive = Gradient
		}
		all := derive(ReduceAllSum(Mul(Square(y), wave(0.9, y.Shape().Dimensions...))), wrt...)
		if second {
			all = Gradient(ReduceAllSum(Mul(Square(all[0]), wave(1.1, input...))), wrt...)
		}
		return append([]*Node{y}, all...)
	})
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Call()
	if err != nil {
		t.Fatalf("%+v: %v", layer, err)
	}
	for _, x := range out {
		x.ConstFlatData(func(flat any) { numbers = append(numbers, append([]float32{}, flat.([]float32)...)) })
	}
	return numbers
}

// variableShape is that of a layer's variable, nil for one that it has not.
func variableShape(l models.Layer, input []int, name string) []int {
	in := input[len(input)-1]
	switch l := l.(type) {
	case models.Conv2D:
		return map[string][]int{"weights": {l.Kernel, l.Kernel, in, l.Channels}, "biases": {l.Channels}}[name]
	case models.DepthwiseConv2D:
		return map[string][]int{"weights": {l.Kernel, l.Kernel, in}, "biases": {in}}[name]
	case models.Dense:
		if l.NoBias && name == "biases" {
			return nil
		}
		return map[string][]int{"weights": {in, l.Units}, "biases": {l.Units}}[name]
	case models.LSTM:
		return map[string][]int{"weights": {in, 4 * l.Units}, "recurrent": {l.Units, 4 * l.Units}, "biases": {4 * l.Units}}[name]
	}
	return nil
}
