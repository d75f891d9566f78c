package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// frozen freezes a layer: none of its variables is trained.
type frozen struct{ models.Layer }

func (f frozen) Apply(scope *model.Scope, x *Node) *Node {
	y := f.Layer.Apply(scope, x)
	for v := range scope.IterVariables() {
		v.SetTrainable(false)
	}
	return y
}

// TestBF16Refuses holds that bfloat16 rounds no integer: neither those that a function
// takes, nor examples.
func TestBF16Refuses(t *testing.T) {
	t.Parallel()
	s := open(t)
	tokens := func(_ *model.Scope, in models.Inputs) *Node {
		return ConvertDType(ConvertDType(in["x"], dtypes.Int32), dtypes.Float32)
	}
	for _, tt := range []struct {
		name  string
		layer models.Layer
		x     []float32
		want  string
	}{
		{"function", models.Net{Name: "f", Function: tokens}.Listed().Layers[0], []float32{0.5, 50301}, "example 1 has the integer 50301"},
		{"function of exact ids", models.Net{Name: "f", Function: tokens}.Listed().Layers[0], []float32{0.5, 256}, ""},
		{"layer of your own", frozen{models.Dense{Name: "d", Units: 1}}, []float32{0.5, 257}, "example 1 has the integer 257"},
		{"a layer of models", models.Dense{Name: "d", Units: 1}, []float32{0.5, 257}, ""},
	} {
		net := models.Net{Name: "net", Input: []int{1}, Layers: []models.Layer{tt.layer, models.Dense{Name: "out", Units: 1}}}
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), net, Config{BF16: true, FirstLook: true})
		_, err := n.Upload("ids", Data{X: tt.x, Y: []float32{1, 2}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	n := attach(t, s, "net", models.Peaks(), Config{BF16: true, FirstLook: true})
	f := attach(t, s, "net", models.Peaks(), Config{FirstLook: true})
	for _, tt := range []struct {
		name string
		x    []float32
		want string
	}{
		{"tokens", []float32{1, 2, 3, 50301}, "example 1 has the integer 50301"},
		{"negative", []float32{1, -257, 3, 4}, "example 0 has the integer -257"},
		{"exact", []float32{256, -255, 50176, 1e6 * 1.048576}, ""},
		{"measured", []float32{50301, 0.5, 3, 4}, ""},
	} {
		_, err := n.Upload("d", Data{X: tt.x, Y: []float32{1, 2}})
		if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
		given, err := f.Upload("d", Data{X: tt.x, Y: []float32{1, 2}})
		if err != nil {
			t.Errorf("%s in float32: %v", tt.name, err)
		}
		found, err := attach(t, s, "net", models.Peaks(), Config{BF16: true, FirstLook: true}).Data("d")
		if err != nil {
			t.Fatal(err)
		}
		_, predicted := n.WithContext(t.Context()).Predict(tt.x)
		_, givenErr := n.WithContext(t.Context()).Evaluate(given)
		_, foundErr := n.WithContext(t.Context()).Evaluate(found)
		for use, err := range map[string]error{"Predict": predicted, "a set of another net": givenErr, "a set that was found": foundErr} {
			if tt.want == "" && err != nil || tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)) {
				t.Errorf("%s, %s: got %v, want %q", tt.name, use, err, tt.want)
			}
		}
	}
}

// TestFrozenBatchNorm holds that a batch norm whose variables are frozen keeps its running
// means, and computes with them in training.
func TestFrozenBatchNorm(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	net := models.Net{Name: "net", Input: []int{2}, Layers: []models.Layer{
		frozen{models.BatchNorm{Name: "bn"}}, models.Dense{Name: "out", Units: 1}}}
	for _, kernels := range []Kernels{AutoKernels, XLAKernels} {
		n := attach(t, s, "net", net, Config{Optimizer: optim.SGD{LearningRate: 0.125}, Kernels: kernels, FirstLook: true})
		if err := n.SetWeights([]Tensor{
			{Name: "bn/scale", Dims: []int{2}, Data: []float32{1, 1}}, {Name: "bn/offset", Dims: []int{2}, Data: []float32{0, 0}},
			{Name: "bn/mean", Dims: []int{2}, Data: []float32{1, -1}}, {Name: "bn/variance", Dims: []int{2}, Data: []float32{4, 1}},
			{Name: "out/weights", Dims: []int{2, 1}, Data: []float32{0, 0}}, {Name: "out/biases", Dims: []int{1}, Data: []float32{0}}}); err != nil {
			t.Fatal(err)
		}
		// both examples normalize to (2, 1): the mean of the gradients of 0-1 is -2·(2, 1)
		data := load(t, n, "d", Data{X: []float32{5, 0, 5, 0}, Y: []float32{1, 1}})
		if _, err := n.WithContext(ctx).Fit(data, Train{}); err != nil {
			t.Fatal(err)
		}
		all, err := n.Weights()
		if err != nil {
			t.Fatal(err)
		}
		want := map[string][]float32{"bn/scale": {1, 1}, "bn/offset": {0, 0}, "bn/mean": {1, -1}, "bn/variance": {4, 1}, "out/weights": {0.5, 0.25}, "out/biases": {0.25}}
		for _, w := range all {
			near := func(a, b float32) bool { return math.Abs(float64(a-b)) < 1e-4 }
			if !slices.EqualFunc(w.Data, want[w.Name], near) {
				t.Errorf("%s: got %v, want %v", w.Name, w.Data, want[w.Name])
			}
		}
	}
}
