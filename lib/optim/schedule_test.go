package optim

import (
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/elementwise"
)

// TestSchedules holds schedules to PyTorch's: testdata/schedules.json, by schedules.py there.
// An optimizer with a schedule does what it does without one at the schedule's rate.
func TestSchedules(t *testing.T) {
	raw, err := os.ReadFile("testdata/schedules.json")
	if err != nil {
		t.Fatal(err)
	}
	var want map[string][]float64
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	schedules := map[string]Schedule{
		"WarmupCosine": WarmupCosine{Warmup: 10, Steps: 100, End: 0.1},
		"WarmupLinear": WarmupLinear{Warmup: 10, Steps: 100, End: 0.2},
		"Warmup":       Warmup{Steps: 10},
		"OneCycle":     OneCycle{Steps: 100},
		"StepDecay":    StepDecay{Every: 10, By: 0.5},
		"Exponential":  Exponential{By: 0.97},
	}
	if len(want) != len(schedules)+1 {
		t.Errorf("%d schedules of PyTorch's: want %d", len(want)-1, len(schedules))
	}
	for name, s := range schedules {
		if err := s.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for i, at := range want["At"] {
			got := elementwise.Eval(elementwise.Float64, map[string]float64{"t": at}, s.Factor(elementwise.Time))[0]
			if !(math.Abs(got-want[name][i]) <= 1e-9) {
				t.Errorf("%s: factor %v in step %v, want %v", name, got, at, want[name][i])
			}
			for _, o := range All() {
				step := func(o Optimizer, rate float64) []float64 {
					r := o.Rule()
					state := append([]float64{0.5}, make([]float64, r.Moments())...)
					return elementwise.Step(elementwise.Float64, r, map[string]float64{"rate": rate, "t": at}, state, 0.3)
				}
				scheduled, plain := step(Scheduled{o, s}, 0.1), step(o, 0.1*want[name][i])
				for k := range plain {
					if math.Abs(scheduled[k]-plain[k]) > 1e-9 {
						t.Errorf("%s with %T: number %d is %v after step %v, want %v", name, o, k, scheduled[k], at, plain[k])
					}
				}
			}
		}
	}
	for _, tt := range []struct {
		o    Optimizer
		want string
	}{
		{Scheduled{}, "Optimizer of optim.Scheduled is nil"}, {Scheduled{Optimizer: Adam{}}, "Schedule of optim.Scheduled is nil"},
		{Scheduled{Adam{LearningRate: -1}, Warmup{1}}, "LearningRate of adam is -1"}, {Scheduled{Adam{}, Warmup{}}, "Steps of Warmup is 0"},
		{Scheduled{Adam{}, WarmupCosine{Warmup: 5, Steps: 5}}, "want more than its Warmup of 5"}, {Scheduled{Adam{}, WarmupLinear{Steps: 5, End: 2}}, "End of WarmupLinear is 2"},
		{Scheduled{Adam{}, WarmupCosine{Warmup: -1, Steps: 5}}, "Warmup of WarmupCosine is -1"}, {Scheduled{Adam{}, OneCycle{3}}, "Steps of OneCycle is 3"},
		{Scheduled{Adam{}, StepDecay{}}, "Every of StepDecay is 0"}, {Scheduled{Adam{}, StepDecay{Every: 1, By: -1}}, "By of StepDecay is -1"}, {Scheduled{Adam{}, Exponential{}}, "By of Exponential is 0"},
	} {
		if err := Check(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want %q", tt.o, err, tt.want)
		}
	}
}
