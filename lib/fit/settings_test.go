package fit

import (
	"context"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/engine/fieldtest"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// linear is a net of one layer that returns so many numbers of two.
func linear(units int) models.Net {
	return models.Net{Name: "linear", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "out", Units: units}}}
}

// TestSettings holds that each setting of a net that means nothing, or that has no use, is
// refused by its name when the net is first used.
func TestSettings(t *testing.T) {
	t.Parallel()
	s := open(t)
	nan, inf := math.NaN(), math.Inf(1)
	of := func(o optim.Optimizer) Config { return Config{Optimizer: o} }
	var none *optim.Adam
	tests := []struct {
		config Config
		want   string
	}{

		{Config{Devices: -2}, "Devices -2"}, {Config{AllDevices: true}, "Config.AllDevices is set without Config.Devices"},

		{Config{Kernels: -1}, "Config.Kernels is -1"}, {Config{Kernels: 9}, "Config.Kernels is 9: want fit.AutoKernels"},
		{of(&optim.Adam{}), "Config.Optimizer is a *optim.Adam: want optim.Adam{…}, without &"}, {of(none), "Config.Optimizer is a *optim.Adam"}, {of(&optim.SGD{}), "Config.Optimizer is a *optim.SGD"},
		{Config{Loss: &losses.CrossEntropy{}}, "Config.Loss is a *losses.CrossEntropy: want losses.CrossEntropy{…}, without &"},
		{of(optim.SGD{Momentum: 1}), "Momentum of momentum is 1: want 0 or more, and less than 1"}, {of(optim.SGD{Momentum: 1.5}), "Momentum of momentum is 1.5"},
		{of(optim.SGD{Nesterov: true}), "Nesterov of sgd is set, and Momentum is 0"},
		{of(custom{inf}), "LearningRate of custom is +Inf"}, {of(custom{nan}), "LearningRate of custom is NaN"},
	}
	for _, bad := range []float64{-1, nan, inf, -inf, 1e39} { // 1e39 is no float32
		for name, o := range map[string]optim.Optimizer{
			"LearningRate of sgd": optim.SGD{LearningRate: bad}, "Momentum of momentum": optim.SGD{Momentum: bad}, "WeightDecay of sgd": optim.SGD{WeightDecay: bad},
			"LearningRate of adam": optim.Adam{LearningRate: bad}, "Beta1 of adam": optim.Adam{Beta1: bad}, "Beta2 of adam": optim.Adam{Beta2: bad}, "Epsilon of adam": optim.Adam{Epsilon: bad}, "WeightDecay of adam": optim.Adam{WeightDecay: bad},
			"LearningRate of adadelta": optim.AdaDelta{LearningRate: bad}, "Rho of adadelta": optim.AdaDelta{Rho: bad}, "Epsilon of adadelta": optim.AdaDelta{Epsilon: bad}, "WeightDecay of adadelta": optim.AdaDelta{WeightDecay: bad},
		} {
			tests = append(tests, struct {
				config Config
				want   string
			}{of(o), fmt.Sprintf("%s is %g: want 0 or more", name, bad)})
		}
	}
	for _, tt := range tests {
		if _, err := Attach(s, "net", linear(1), tt.config); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.config, err, tt.want)
		}
	}
	if l, err := s.List(""); err != nil || len(l) > 0 {
		t.Errorf("nets that were refused have made %v, %v", l, err)
	}
}

// TestEveryNumber holds that no number of any setting can be senseless without an error
// that names it.
func TestEveryNumber(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", linear(2), Config{FirstLook: true})
	labels := load(t, n, "labels", Data{X: make([]float32, 8), Y: []int32{0, 1, 0, 1}})
	settings := []any{Config{}, optim.SGD{}, optim.Adam{}, optim.AdaDelta{}, Train{Validation: labels}}
	results := strings.Fields("ArchitectureError NotFiniteError Score Epoch History Progress MemoryError Prediction Set")
	fieldtest.Numbers(t, settings, []string{"Config.Seed", "Train.Epochs"}, results, func(setting any) error {
		c, run := Config{}, Train{}
		switch x := setting.(type) {
		case Config:
			c = x
		case optim.Optimizer:
			c.Optimizer = x
		case Train:
			run = x
		}
		c.Session = s
		other := New("other", linear(2), c)
		if err := other.open(); err != nil {
			return err
		}
		return run.check(other, labels)
	})
}

// custom is an optimizer of your own.
type custom struct{ rate float64 }

func (custom) Title() (string, []string) { return "custom", nil }
func (c custom) Rate() float64           { return c.rate }
func (custom) Rule() *elementwise.Rule   { return nil }
func (custom) Update(rate, t, w, g *graph.Node, m []*graph.Node) (*graph.Node, []*graph.Node) {
	return optim.Update(optim.SGD{}, rate, t, w, g, m)
}

// TestTrainSettings holds the same of a run, of Train and of a job.
func TestTrainSettings(t *testing.T) {
	t.Parallel()
	s, ctx := open(t), context.Background()
	n := attach(t, s, "net", linear(2), Config{FirstLook: true})
	labels := load(t, n, "labels", Data{X: make([]float32, 8), Y: []int32{0, 1, 0, 1}})
	numbers := load(t, n, "numbers", Data{X: make([]float32, 8), Y: make([]float32, 8)})
	nan, inf := math.NaN(), math.Inf(1)
	for _, tt := range []struct {
		run  Train
		want string
	}{
		{Train{Epochs: -1}, "-1 epochs"}, {Train{Batch: -1}, "batch of -1"}, {Train{Batch: 5}, "batch of 5 from the 4 examples"},
		{Train{Epochs: 1 << 40, Batch: 1}, "want no more than 2147483647 steps"},
		{Train{LearningRate: -0.1}, "learning rate of -0.1"}, {Train{LearningRate: nan}, "learning rate of NaN"}, {Train{LearningRate: inf}, "learning rate of +Inf"}, {Train{LearningRate: 1e39}, "learning rate of 1e+39"},
		{Train{Threshold: nan}, "threshold of NaN"}, {Train{Threshold: inf}, "threshold of +Inf"}, {Train{Threshold: -1}, "threshold of -1: want more than 0, for cross entropy is never less"},
		{Train{Patience: -1}, "patience of -1"}, {Train{KeepState: true}, "KeepState is set, and linear has no layer that is Stateful"},
		{Train{Validation: numbers}, "Validation numbers has numbers as targets, and labels has labels"},
	} {
		if _, err := n.WithContext(ctx).Fit(labels, tt.run); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.run, err, tt.want)
		}
		if _, err := n.FitJob(labels, tt.run); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v as a job: got %v, want %q", tt.run, err, tt.want)
		}
	}
	for _, batch := range []int{0, -1, 5} {
		if _, err := n.WithContext(ctx).Phases(labels, batch); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("batch of %d", batch)) {
			t.Errorf("phases: got %v, want batch %d refused", err, batch)
		}
	}
}
