package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/layers"
	"github.com/gomlx/gomlx/ml/model"
	"github.com/gomlx/gomlx/ml/train"

	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestBadInput holds that what cannot be trained is refused, with what was got and
// what is wanted.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "cnn", small(), Config{})
	ok := digits(10, n.model.Input, 1)
	data := load(t, n, "ok", ok)
	other := attach(t, s, "other", models.MLP(3), Config{})
	loads := []struct {
		name string
		data Data
		want string
	}{
		{"no examples", Data{X: []byte{}, Y: []int32{}}, "no examples"},
		{"labels missing", Data{X: ok.X, Y: ok.Y.([]int32)[:9]}, "10 examples but 9 labels: want one for each"},
		{"label too large", Data{X: ok.X, Y: []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 10}}, "label 9 is 10: layer output of small has 10 classes, 0 to 9: give it more"},
		{"label negative", Data{X: ok.X, Y: []int32{-1, 1, 2, 3, 4, 5, 6, 7, 8, 9}}, "label 0 is -1"},
		{"wrong size", Data{X: make([]byte, 17), Y: []int32{1}}, "layer conv of small takes [4 4 1]"},
		{"nothing", Data{}, "Data has no X: want the examples, as []byte"},
		{"no targets", Data{X: ok.X}, "Data has no Y: want labels, as []int32"},
		{"wrong type", Data{X: []string{"1"}, Y: []int32{1}}, "examples are a []string: want []byte, []float32 or []float64"},
		{"wrong type of targets", Data{X: ok.X, Y: []string{"a"}}, "targets are a []string: want labels as []int32 or other integers"},
		{"label far too large", Data{X: ok.X, Y: []int64{0, 1 << 33, 2, 3, 4, 5, 6, 7, 8, 9}}, "label 1 is 8589934592: layer output"},
		{"wrong targets", Data{X: ok.X, Y: make([]float32, 30)}, "layer output of small returns [10]"},
	}
	for _, tt := range loads {
		if _, err := n.Upload("bad", tt.data); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
	trains := []struct {
		name string
		net  *Net
		data *Set
		t    Train
		want string
	}{
		{"batch larger than data", n, data, Train{Batch: 11}, "batch of 11 from the 10 examples of ok"},
		{"negative epochs", n, data, Train{Epochs: -1}, "-1 epochs"},
		{"a rate that goes up", n, data, Train{LearningRate: -1}, "learning rate of -1: want more than 0"},
		{"a rate that is no number", n, data, Train{LearningRate: math.NaN()}, "learning rate of NaN"},
		{"an endless rate", n, data, Train{LearningRate: math.Inf(1)}, "learning rate of +Inf"},
		{"no threshold", n, data, Train{Threshold: math.NaN()}, "threshold of NaN"},
		{"negative patience", n, data, Train{Patience: -2}, "patience of -2 epochs"},
		{"an optimizer's rate", New("o1", small(), Config{Session: s, Optimizer: optim.SGD{LearningRate: -0.1}}), data, Train{}, "o1: LearningRate of sgd is -0.1: want 0 or more"},
		{"a momentum", New("o2", small(), Config{Session: s, Optimizer: optim.SGD{Momentum: -1}}), data, Train{}, "Momentum of momentum is -1"},
		{"a mean of nothing", New("o3", small(), Config{Session: s, Optimizer: optim.Adam{Beta2: 1}}), data, Train{}, "Beta2 of adam is 1: want 0 or more, and less than 1"},
		{"a mean that is no number", New("o4", small(), Config{Session: s, Optimizer: optim.AdaDelta{Rho: math.NaN()}}), data, Train{}, "Rho of adadelta is NaN"},
		{"devices", New("o5", small(), Config{Session: s, Devices: -1}), data, Train{}, "o5: Devices -1: want 1 or more"},
		{"no data", n, nil, Train{}, "no data set"},
		{"another net's data", other, data, Train{}, "layer flatten of MLP takes [28 28 1]"},
	}
	for _, tt := range trains {
		if _, err := tt.net.WithContext(ctx).Fit(tt.data, tt.t); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
	wider := small()
	wider.Layers = append(slices.Clip(wider.Layers[:4]), models.Dense{Name: "output", Units: 20})
	wide := attach(t, s, "wide", wider, Config{})
	many := load(t, wide, "many", Data{X: ok.X, Y: []int32{0, 1, 2, 3, 4, 15, 6, 7, 8, 9}})
	found, err := n.Data("many")
	if err != nil {
		t.Fatal(err)
	}
	for what, set := range map[string]*Set{"given": many, "found": found} {
		_, trained := n.WithContext(ctx).Fit(set, Train{})
		_, validated := n.WithContext(ctx).Fit(data, Train{Validation: set})
		_, tested := n.WithContext(ctx).Evaluate(set)
		_, phases := n.WithContext(ctx).Phases(set, 5)
		_, job := n.FitJob(set, Train{})
		for _, err := range []error{trained, validated, tested, phases, job} {
			if want := "cnn: the labels of many are 0 to 15: layer output of small has 10 classes, 0 to 9"; err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("labels of a wider net, %s: got error %v, want %q", what, err, want)
			}
		}
		if _, err := n.WithContext(ctx).Predict(set); err != nil {
			t.Errorf("outputs need no labels, %s: got error %v", what, err)
		}
	}
	if _, err := wide.WithContext(ctx).Evaluate(found); err != nil {
		t.Errorf("a set that another net has found: got error %v", err)
	}
	if _, err := n.Data("nothing"); err == nil || !strings.Contains(err.Error(), `no data set "nothing" in the session, there are many, ok: upload it first`) {
		t.Errorf("find: got error %v", err)
	}
	tall := models.Net{Name: "tall", Input: []int{4, 4, 1}, Layers: []models.Layer{models.Conv2D{Name: "c1", Channels: 1, Kernel: 5}}}
	if _, err := Attach(s, "tall", tall, Config{}); err == nil || !strings.Contains(err.Error(), "tall: layer c1 got an input of [2 4 4 1]: kernel 5×5 on an image of 4×4") {
		t.Errorf("layer that does not fit: got error %v", err)
	}
	if err := New("a/b", small(), Config{Session: s}).Reset(); err == nil || !strings.Contains(err.Error(), "net name") {
		t.Errorf("name of a net: got error %v", err)
	}
}

// TestTypes holds that data of any type that holds them are the same data.
func TestTypes(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "cnn", small(), Config{})
	x, y := make([]float32, 3*16), []int32{2, 0, 9}
	wide := make([]float64, len(x))
	for i := range x {
		x[i] = float32(i) / 7
		wide[i] = float64(x[i])
	}
	first := load(t, n, "set", Data{X: x, Y: y})
	for _, d := range []Data{{X: wide, Y: []int{2, 0, 9}}, {X: x, Y: []uint8{2, 0, 9}}, {X: x, Y: []int64{2, 0, 9}}, {X: x, Y: []int16{2, 0, 9}}, {X: x, Y: []int8{2, 0, 9}}, {X: x, Y: []uint16{2, 0, 9}}} {
		again, err := n.Upload("set", d)
		if err != nil || again.Fresh || !slices.Equal(again.Labels, first.Labels) {
			t.Errorf("%T and %T: got %v, %v, want the set that is there", d.X, d.Y, again, err)
		}
	}
	one, err := n.WithContext(t.Context()).Predict(x)
	if err != nil {
		t.Fatal(err)
	}
	if other, err := n.WithContext(t.Context()).Predict(wide); err != nil || !slices.Equal(one.Output, other.Output) {
		t.Errorf("Predict of []float64: got %v, %v, want %v", other, err, one)
	}
	line := attach(t, s, "line", models.Net{Name: "line", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "out", Units: 1}}}, Config{})
	if set, err := line.Upload("line", Data{X: []float64{1, 2, 3, 4}, Y: []float64{1, 2}}); err != nil || set.targets != 1 {
		t.Errorf("numbers as []float64: got %v, %v", set, err)
	}
}

// TestNotFiniteHint holds what is said to do about a loss that is no number.
func TestNotFiniteHint(t *testing.T) {
	for _, tt := range []struct {
		e    result.NotFiniteError
		want string
	}{
		{result.NotFiniteError{Epoch: 1, Step: 7, Part: "output"}, "a smaller learning rate"},
		{result.NotFiniteError{Epoch: 2, Step: 1, Part: "output"}, "a smaller learning rate"},
		{result.NotFiniteError{Epoch: 1, Step: 7, Layer: "l2", Part: "output", Kept: 6, KeptEpoch: 1}, "the weights that were kept have this loss: %rollback undoes"},
		{result.NotFiniteError{Epoch: 3, Step: 1, Layer: "l2", Part: "output", Kept: 1, KeptEpoch: 2}, "the weights that were kept have this loss: %rollback undoes"},
		{result.NotFiniteError{Epoch: 5, Step: 1, Layer: "l2", Part: "output", Kept: 1, KeptEpoch: 2}, "a smaller learning rate often helps; look"}, // epochs of a step later
		{result.NotFiniteError{Epoch: 1, Step: 7, Part: "loss", Kept: 6, KeptEpoch: 1}, "a smaller learning rate often helps; look"},                // a packed step that was not taken
		{result.NotFiniteError{Epoch: 1, Step: 1, Part: "output"}, "net.Reset() starts over"},
		{result.NotFiniteError{Epoch: 1, Step: 1, Part: "examples", Data: "bars", Example: 3}, "example 3 of bars"},
		{result.NotFiniteError{Epoch: 1, Step: 7}, "names the layer"},
	} {
		if got := tt.e.Hint(); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: got %q, want %q", tt.e, got, tt.want)
		}
	}
}

// TestNotNumbers holds that weights, targets' weights and examples that are no numbers are
// never silently used, and that a model's own losses are not silently left out.
func TestNotNumbers(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	n := attach(t, s, "net", linear(2), Config{FirstLook: true})
	nan := float32(math.NaN())
	w, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	before := w[0].Data[1]
	w[0].Data[1] = nan
	seen := attach(t, s, "seen", linear(1), Config{Loss: losses.Visibility{}})
	regular := models.Net{Name: "regular", Input: []int{2}, Function: func(scope *model.Scope, in models.Inputs) *graph.Node {
		x := layers.Dense(scope, in["x"], true, 2)
		train.AddMainLoss(graph.ReduceAllSum(x))
		return x
	}}
	_, predicted := n.WithContext(ctx).Predict([]float32{1, 2, nan, 4})
	_, loaded := seen.Upload("d", Data{X: make([]float32, 4), Y: make([]float32, 2), V: []float32{1, 1e-30}})
	_, attached := Attach(s, "regular", regular, Config{})
	_, fused := n.Plan(nil, Train{})
	_, made := n.Evaluate(&Set{Name: "d", N: 2})
	_, part := n.Part("none").Predict([]float32{1, 2})
	_, weighted := Attach(s, "weighted", linear(3), Config{Loss: losses.CrossEntropy{ClassWeights: []float64{1, 2}}})
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"weights", n.SetWeights(w), "number 1 of out/weights is NaN"},
		{"examples", predicted, "number 0 of the output for example 1 of Predict is NaN"},
		{"weight of a target", loaded, "weight 0 of example 1 is 1e-30, which devices take for 0"},
		{"a loss in the model", attached, "the model adds a main loss of its own"},
		{"a set made by hand", made, "no data set: want one that Upload, Stream or Data has returned"},
		{"no part", part, `models: linear has no part "none": want one of out`},
		{"weights of classes", weighted, "Config.Loss: losses.CrossEntropy: ClassWeights has 2 weights, 3 in all: want one for each of 3 classes"},
		{"no data", fused, "no data set: want one that Upload, Stream or Data has returned"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, tt.err, tt.want)
		}
	}
	if w, err := n.Weights(); err != nil || w[0].Data[1] != before {
		t.Errorf("weights that were refused: got %v, %v, want %g as before", w, err, before)
	}
}
