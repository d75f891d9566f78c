package fit

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/losses"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestRecipe holds that a net comes back from its recipe, written and read as JSON: all of
// package models', with every option that programs depend on.
func TestRecipe(t *testing.T) {
	configs := []Config{
		{Optimizer: optim.Adam{LearningRate: 1e-4, Beta1: 0.8}, Seed: -3, BF16: true, Flags: map[string]any{"xla_a": false, "xla_b?": "b", "xla_c": 2.5}},
		{Optimizer: optim.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4}, Loss: losses.MSE{}},
		{Optimizer: optim.Scheduled{Optimizer: optim.Lion{LearningRate: 0.1}, Schedule: optim.WarmupCosine{Warmup: 3, Steps: 9}}, Loss: losses.CrossEntropy{Smoothing: 0.1, ClassWeights: []float64{1, 2}}},
		{Optimizer: optim.Clipped{Optimizer: optim.Scheduled{Optimizer: optim.SGD{}, Schedule: optim.Warmup{Steps: 3}}, Norm: 1}, Loss: losses.Huber{Delta: 2}},
		{Optimizer: optim.EMA{Optimizer: optim.Groups{Optimizer: optim.Muon{Others: optim.Lion{}}, Groups: []optim.Group{{Names: []string{"*/biases"}, NoDecay: true}, {Names: []string{"a"}, Optimizer: optim.SGD{Momentum: 0.5}}}}, Decay: 0.9}},
		{Optimizer: optim.SWA{Optimizer: optim.Clipped{Optimizer: optim.Adam{}, Value: 1}, Start: 5}},
		{Optimizer: optim.Adam{}, Metrics: []metrics.Metric{metrics.TopK{K: 3}, metrics.AUC{Thresholds: 50}, metrics.F1{Macro: true}}},
		{Optimizer: optim.AdaDelta{Rho: 0.95}, Loss: losses.Visibility{Blind: true}, Kernels: plainOps},
	}
	odd := models.Net{Name: "odd", Input: []int{8, 8, 3}, Layers: []models.Layer{
		models.Conv2D{Name: "c", Channels: 4, Kernel: 3, Stride: 2, Pad: 1, NoBias: true, Act: graph.Tanh},
		models.MaxPool2D{Window: 3, Stride: 2, Pad: 1, Gradient: models.IndexedFill},
		models.Activation{Act: models.ReLU}, models.Dropout{Rate: 0.3}, models.Flatten{Name: "f"}, models.Dense{Units: 10}}}
	branches := models.Net{Name: "branches", Integers: true, Input: []int{5}, Layers: []models.Layer{models.Embedding{Vocab: 3, Units: 4},
		models.Concat{Branches: [][]models.Layer{nil, {models.GRU{Name: "g", Units: 2}}}}, models.Bidirectional{Layer: models.RNN{Units: 3, Act: models.ReLU}}, models.LastStep{}, models.Dense{Units: 2}}}
	for i, m := range []models.Net{augmented(), branches, gpt(5, 4), odd, models.MLP(1000), models.SeedCNN(), models.KerasCNN(), models.LeNet5(), models.SineLSTM(5, 100), models.ResNet50(), models.DeepPose(7), models.Peaks(), models.FCN(10, []int{8, 9}, 3)} {
		c := configs[i%len(configs)]
		r, err := New("n", m, c).recipe()
		if err != nil {
			t.Fatalf("%s: %v", m.Name, err)
		}
		b, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		var read recipe
		if err := json.Unmarshal(b, &read); err != nil {
			t.Fatal(err)
		}
		got, config := read.Model, read.Config
		if !reflect.DeepEqual(config, c) {
			t.Errorf("%s: got config %+v, want %+v", m.Name, config, c)
		}
		if got.Name != m.Name || got.Integers != m.Integers || !reflect.DeepEqual(got.Input, m.Input) {
			t.Errorf("%s: got %s of %v", m.Name, got.Name, got.Input)
		}
		for k, l := range got.Layers {
			same(t, m.Name, reflect.ValueOf(l), reflect.ValueOf(m.Layers[k]))
		}
	}
}

// same compares layers: functions by what they are, initializers not at all.
func same(t *testing.T, where string, got, want reflect.Value) {
	t.Helper()
	if got.Type() != want.Type() {
		t.Errorf("%s: got a %s, want a %s", where, got.Type(), want.Type())
		return
	}
	for i := range want.NumField() {
		f := want.Type().Field(i)
		if !f.IsExported() || f.Type == reflect.TypeFor[models.Init]() {
			continue
		}
		at := where + "." + f.Name
		switch w := want.Field(i).Interface().(type) {
		case models.Act:
			if g := got.Field(i).Interface().(models.Act); !g.Is(w) {
				t.Errorf("%s: got another activation", at)
			}
		case []models.Layer:
			g := got.Field(i).Interface().([]models.Layer)
			if len(g) != len(w) {
				t.Errorf("%s: got %d layers, want %d", at, len(g), len(w))
				continue
			}
			for k := range w {
				same(t, at, reflect.ValueOf(g[k]), reflect.ValueOf(w[k]))
			}
		case models.Layer:
			same(t, at, got.Field(i).Elem(), want.Field(i).Elem())
		default:
			if g := got.Field(i).Interface(); !reflect.DeepEqual(g, w) {
				t.Errorf("%s: got %v, want %v", at, g, w)
			}
		}
	}
}

// TestNoRecipe holds what no other process can know, and recipes that are no nets.
func TestNoRecipe(t *testing.T) {
	dense := func(a models.Act) models.Net {
		return models.Net{Name: "m", Input: []int{2}, Layers: []models.Layer{models.Residual{Name: "r", Main: []models.Layer{models.Dense{Name: "d", Units: 2, Act: a}}}}}
	}
	for _, tt := range []struct {
		net    models.Net
		config Config
		want   string
	}{
		{dense(func(x *graph.Node) *graph.Node { return graph.Sin(x) }), Config{}, "no recipe for n: Model: Layers: models.Residual: Main: models.Dense: Act: a function"},
		{models.Net{Name: "f", Input: []int{2}, Function: func(_ *model.Scope, in models.Inputs) *graph.Node { return in["x"] }}, Config{}, "Layers: a models.function, which other processes do not know"},
		{dense(nil), Config{Optimizer: own{}}, "Optimizer: a fit.own, which"},
		{dense(nil), Config{Optimizer: optim.Adam{}, Metrics: []metrics.Metric{ownMetric{}}}, "Metrics: a fit.ownMetric, which"},
		{dense(nil), Config{Optimizer: optim.Adam{}, Metrics: []metrics.Metric{metrics.Func{Name: "f", Of: func(out, _ *graph.Node) *graph.Node { return out }}}}, "metrics.Func: Of: a function"},
		{dense(nil), Config{FirstLook: true}, "with FirstLook"},
		{dense(nil), Config{Devices: 2}, "on several devices"},
	} {
		if _, err := New("n", tt.net, tt.config).recipe(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("got %v, want %q", err, tt.want)
		}
	}
	for text, want := range map[string]string{
		`{"Model": {"Layers": [{"Type": "models.Pear"}]}}`:                                                   `got a "models.Pear"`,
		`{"Model": {"Layers": [{"Type": "models.Dense", "Value": {"Pears": 3}}]}}`:                           `a field "Pears"`,
		`{"Model": {"Layers": [{"Type": "models.Dense", "Value": {"turned": true}}]}}`:                       `a field "turned"`,
		`{"Model": {"Layers": [{"Type": "models.Dense", "Value": {"Act": "Pear"}}]}}`:                        `no activation "Pear"`,
		`{"Model": {"Layers": [{"Type": "models.Dense", "Value": {"Units": "ten"}}]}}`:                       `Units: json`,
		`{"Model": {"Layers": [{"Type": "models.Residual", "Value": {"Skip": [{"Type": "models.Pear"}]}}]}}`: `Skip: got a "models.Pear"`,
		`{"Model": {"Layers": [{"Type": "losses.MSE"}]}}`:                                                    `got a "losses.MSE", want a models.Layer`,
		`{"Config": {"Optimizer": {"Type": "optim.Adam"}, "Loss": {"Type": "losses.Regret"}}}`:               `got a "losses.Regret"`,
		`{"Config": {"Optimizer": {"Type": "optim.Adam", "Value": {"Beta1": "much"}}}}`:                      `Beta1: json`,
	} {
		var r recipe
		if err := json.Unmarshal([]byte(text), &r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", text, err, want)
		}
	}
}

// TestKinds holds that the lists of kinds have each layer, loss, metric, optimizer and schedule
// of their packages: each exported struct with a method that makes it one.
func TestKinds(t *testing.T) {
	functions := []string{"losses.Func", "losses.Joint", "metrics.Of", "models.Scan", "models.Net"} // or hold some
	for _, of := range []struct{ name, method string }{{"models", "Apply"}, {"losses", "Apply"}, {"metrics", "Apply"}, {"optim", "Rule"}, {"optim", "Factor"}} {
		files, err := filepath.Glob("../" + of.name + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
			if err != nil {
				t.Fatal(err)
			}
			for _, d := range f.Decls {
				m, is := d.(*ast.FuncDecl)
				if !is || m.Recv == nil || m.Name.Name != of.method {
					continue
				}
				r, is := m.Recv.List[0].Type.(*ast.Ident)
				if !is || !r.IsExported() || slices.Contains(functions, of.name+"."+r.Name) {
					continue
				}
				if found++; knownKinds[of.name+"."+r.Name] == nil {
					t.Errorf("%s.Kinds lacks %s", of.name, r.Name)
				}
			}
		}
		if found < 5 {
			t.Errorf("found %d types of package %s with a method %s", found, of.name, of.method)
		}
	}
}
