package fit

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// body is a net with a part to be frozen.
func body() models.Net {
	return models.Net{Name: "body", Input: []int{6}, Layers: []models.Layer{
		models.Sequential{Name: "body", Layers: []models.Layer{models.Dense{Name: "dense", Units: 8}, models.BatchNorm{Name: "norm"}}},
		models.Activation{Name: "relu", Act: models.ReLU},
		models.Dense{Name: "head", Units: 10},
	}}
}

func weightsOf(t *testing.T, n *Net) map[string][]float32 {
	t.Helper()
	l, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	m := map[string][]float32{}
	for _, w := range l {
		m[w.Name] = w.Data
	}
	return m
}

// TestFrozen holds that what is frozen does not change in a call and in a job, running means
// of batch norms included, has no arrays of the optimizer, and can be trained later on.
func TestFrozen(t *testing.T) {
	t.Parallel()
	s := open(t)
	frozen := optim.Groups{Optimizer: optim.Adam{LearningRate: 0.05}, Groups: []optim.Group{{Names: []string{"body/*"}, Frozen: true}}}
	layer := frozen // a layer by its name is all of its variables
	layer.Groups = []optim.Group{{Names: []string{"body"}, Frozen: true}}
	for _, c := range []Config{{Optimizer: frozen}, {Optimizer: layer, BF16: true}, {Optimizer: frozen, Devices: 2, AllDevices: true}} {
		n := attach(t, s, "frozen", body(), c)
		train := load(t, n, "bars", digits(64, []int{6}, 1))
		before := weightsOf(t, n)
		trained := 0
		for name, w := range before {
			if strings.HasPrefix(name, "head/") {
				trained += len(w)
			}
		}
		if sum, err := n.Summary(); err != nil || sum.Trainable != trained || sum.NonTrainable == 0 {
			t.Errorf("%+v: the summary has %d trainable parameters, want the head's %d, and %d others; %v", c, sum.Trainable, trained, sum.NonTrainable, err)
		}
		if _, err := n.Fit(train, Train{Epochs: 2, Batch: 16}); err != nil {
			t.Fatal(err)
		}
		if c.Devices == 0 {
			j, err := n.FitJob(train, Train{Epochs: 1, Batch: 16})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := j.Follow(context.Background(), nil); err != nil {
				t.Fatal(err)
			}
		}
		after := weightsOf(t, n)
		for name := range before {
			if same := slices.Equal(before[name], after[name]); same != strings.HasPrefix(name, "body/") {
				t.Errorf("%+v: %s is the same: %t", c, name, same)
			}
		}
		l, err := s.List("frozen/adam/")
		if err != nil || len(l) != 4 {
			t.Errorf("got %d arrays of the optimizer, %v, want the four of the head", len(l), err)
		}
		c.Optimizer = nil
		n = attach(t, s, "frozen", body(), c)
		if _, err := n.Fit(train, Train{Batch: 16}); err != nil {
			t.Fatal(err)
		}
		for name, w := range weightsOf(t, n) {
			if slices.Equal(w, before[name]) {
				t.Errorf("%s did not change when nothing was frozen", name)
			}
		}
		if err := n.Reset(); err != nil {
			t.Fatal(err)
		}
	}
	typo := optim.Groups{Optimizer: optim.Adam{}, Groups: []optim.Group{{Names: []string{"bodi/*"}, Frozen: true}}}
	if _, err := Attach(s, "typo", body(), Config{Optimizer: typo}); err == nil || !strings.Contains(err.Error(), `no variable matches "bodi/*"`) {
		t.Errorf("a pattern of nothing: got %v", err)
	}
	all := optim.Groups{Optimizer: optim.Adam{}, Groups: []optim.Group{{Names: []string{"*"}, Frozen: true}}}
	if _, err := Attach(s, "all", body(), Config{Optimizer: all}); err == nil || !strings.Contains(err.Error(), "nothing to train") {
		t.Errorf("all frozen: got %v", err)
	}
}

// TestAveraged holds that averages of weights are arrays of the session, that Evaluate and
// Predict use them, and that the average of one step is the weights.
func TestAveraged(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, c := range map[string]Config{
		"EMA": {Optimizer: optim.EMA{Optimizer: optim.SGD{LearningRate: 0.5}, Decay: 0.9}}, "SWA": {Optimizer: optim.SWA{Optimizer: optim.SGD{LearningRate: 0.5}, Start: 2}},
		"groups": {Optimizer: optim.EMA{Optimizer: optim.Groups{Optimizer: optim.Muon{LearningRate: 0.5}, Groups: []optim.Group{{Names: []string{"body/*"}, Frozen: true}}}, Decay: 0.9}},
	} {
		n := attach(t, s, name, body(), c)
		plain := attach(t, s, "plain", body(), Config{})
		train := load(t, n, "bars", digits(64, []int{6}, 1))
		agree := func(when string, want bool) {
			t.Helper()
			if err := plain.SetWeights(weightList(t, n)); err != nil {
				t.Fatal(err)
			}
			a, err := n.Evaluate(train)
			if err != nil {
				t.Fatal(err)
			}
			b, err := plain.Evaluate(train)
			if err != nil {
				t.Fatal(err)
			}
			if (a.Loss == b.Loss) != want {
				t.Errorf("%s %s: loss %v with averages, %v with the weights", name, when, a.Loss, b.Loss)
			}
		}
		agree("before a step", true)
		if _, err := n.Fit(train, Train{Batch: 64}); err != nil {
			t.Fatal(err)
		}
		agree("after a step", true)
		if _, err := n.Fit(train, Train{Epochs: 3, Batch: 16}); err != nil {
			t.Fatal(err)
		}
		agree("after some", false)
		file := filepath.Join(t.TempDir(), "averages.safetensors")
		if err := errors.Join(n.SaveWeights(file), second(plain.LoadWeights(file))); err != nil {
			t.Fatal(err)
		}
		want, err := n.Evaluate(train)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := plain.Evaluate(train); err != nil || got.Loss != want.Loss {
			t.Errorf("%s: loss %v, %v by the file that SaveWeights wrote, want %v", name, got, err, want.Loss)
		}
		if _, err := n.LoadWeights(file); err != nil {
			t.Fatal(err)
		}
		if got, err := n.Evaluate(train); err != nil || got.Loss != want.Loss {
			t.Errorf("%s: loss %v, %v after LoadWeights, want %v", name, got, err, want.Loss)
		}
		if l, err := s.List(name + "/"); err != nil || !slices.ContainsFunc(l, func(a wire.ArrayInfo) bool { return strings.HasSuffix(a.Name, "/average/head/weights") }) {
			t.Errorf("%s: no average in the session: %v", name, err)
		}
		for _, n := range []*Net{n, plain} {
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func weightList(t *testing.T, n *Net) []Tensor {
	t.Helper()
	l, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	return l
}
