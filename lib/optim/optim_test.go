package optim

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/elementwise"
)

// cases are the optimizers of testdata/oracle.py.
var cases = map[string]Optimizer{
	"SGD":                SGD{},
	"SGD momentum":       SGD{LearningRate: 0.1, Momentum: 0.9},
	"SGD nesterov decay": SGD{LearningRate: 0.1, Momentum: 0.8, Nesterov: true, WeightDecay: 0.1},
	"Adam":               Adam{},
	"Adam settings":      Adam{LearningRate: 0.1, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, WeightDecay: 0.1},
	"AdamW":              AdamW{},
	"AdamW settings":     AdamW{LearningRate: 0.1, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, WeightDecay: 0.2},
	"AdaDelta":           AdaDelta{},
	"AdaDelta settings":  AdaDelta{LearningRate: 0.5, Rho: 0.8, Epsilon: 1e-3, WeightDecay: 0.1},
	"Adagrad":            Adagrad{},
	"Adagrad settings":   Adagrad{LearningRate: 0.1, LearningRateDecay: 0.3, Epsilon: 1e-3, WeightDecay: 0.1},
	"RMSprop":            RMSprop{},
	"RMSprop momentum":   RMSprop{LearningRate: 0.05, Alpha: 0.9, Epsilon: 1e-3, Momentum: 0.7, WeightDecay: 0.1},
	"RMSprop centered":   RMSprop{Alpha: 0.8, Centered: true, Momentum: 0.9},
	"Lion":               Lion{},
	"Lion settings":      Lion{LearningRate: 0.1, Beta1: 0.8, Beta2: 0.95, WeightDecay: 0.2},
	"NAdam":              NAdam{},
	"NAdam settings":     NAdam{LearningRate: 0.1, Beta1: 0.8, Beta2: 0.95, Epsilon: 1e-3, WeightDecay: 0.1, MomentumDecay: 0.02},
}

// TestOracle holds the optimizers to PyTorch's over 1,000 steps.
func TestOracle(t *testing.T) {
	raw, err := os.ReadFile("testdata/oracle.json")
	if err != nil {
		t.Fatal(err)
	}
	var oracle map[string]map[string][]float64
	if err := json.Unmarshal(raw, &oracle); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for name, want := range oracle {
		t.Run(name, func(t *testing.T) {
			o := cases[name]
			if o == nil {
				t.Fatalf("no optimizer for %s of oracle.json", name)
			}
			title, _ := Title(o)
			seen[title] = true
			r := o.Rule()
			w := []float64{0.5, -1, 2, 0.125}
			moments := make([][]float64, len(w))
			for i := range w {
				moments[i] = make([]float64, r.Moments())
			}
			for step := 1; step <= 1000; step++ {
				for i := range w {
					g := math.Sin(1+float64(i)+3*float64(step)) + w[i]/4
					next := elementwise.Step(elementwise.Float64, r, map[string]float64{"rate": o.Rate(), "t": float64(step)}, append([]float64{w[i]}, moments[i]...), g)
					w[i], moments[i] = next[0], next[1:]
				}
				for i, x := range want[fmt.Sprint(step)] {
					if !(math.Abs(w[i]-x) <= 2e-8*math.Abs(x)) {
						t.Errorf("weight %d after step %d: got %v, want %v", i, step, w[i], x)
					}
				}
			}
		})
	}
	for _, o := range All() {
		if title, _ := Title(o); !seen[title] {
			t.Errorf("%s is not in oracle.json", title)
		}
	}
}

// TestScalars holds that what is the same for all weights is few numbers.
func TestScalars(t *testing.T) {
	want := map[string]int{"sgd": 1, "momentum": 1, "adam": 2, "adamw": 3, "adadelta": 1, "adagrad": 1, "lion": 1, "nadam": 3, "rmsprop": 1}
	for _, o := range All() {
		r := o.Rule()
		if got := r.Scalars(); len(got) != want[r.Title] {
			t.Errorf("%s: got %d scalars %v, want %d", r.Title, len(got), got, want[r.Title])
		}
	}
}

func TestCheck(t *testing.T) {
	for _, tt := range []struct {
		o    Optimizer
		want string
	}{
		{SGD{Momentum: 1}, "Momentum of momentum is 1: want 0 or more, and less than 1"},
		{SGD{Nesterov: true}, "Nesterov of sgd is set, and Momentum is 0"},
		{Adam{Beta2: math.NaN()}, "Beta2 of adam is NaN"},
		{Adam{Epsilon: -1}, "Epsilon of adam is -1: want 0 or more"},
		{RMSprop{LearningRate: math.Inf(1)}, "LearningRate of rmsprop is +Inf"},
		{Lion{WeightDecay: -0.1}, "WeightDecay of lion is -0.1"},
		{NAdam{Beta1: 0.5}, ""},
	} {
		err := Check(tt.o)
		if got := fmt.Sprint(err); err == nil && tt.want != "" || !strings.Contains(got, tt.want) {
			t.Errorf("Check(%+v): got %v, want %q", tt.o, err, tt.want)
		}
	}
}
