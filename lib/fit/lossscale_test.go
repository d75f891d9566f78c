package fit

import (
	"context"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestLossScale holds F16 to what PyTorch's GradScaler does, by testdata/lossscale.py: which steps
// are left out, the scale, the losses and the weights, one step a call, many in one, in a job, and
// in parts of a batch and on two devices, whose sums overflow at other scales.
func TestLossScale(t *testing.T) {
	t.Parallel()
	s := open(t)
	raw, err := os.ReadFile("testdata/lossscale.json")
	if err != nil {
		t.Fatal(err)
	}
	var want []struct {
		Loss, Scale float64
		Weights     []float32
	}
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	d := Data{X: []float32{1, 2, 0.5, -1, 3, 1, -2, 0.25}, Y: []float32{24, -6, 20, -9}}
	net := models.Net{Name: "product", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "d", Units: 1, NoBias: true}}}
	made := func(name string, c Config) (*Net, *Set) {
		c.F16, c.Loss, c.Optimizer = true, losses.MSE{}, optim.Adam{LearningRate: 0.5}
		n := attach(t, s, name, net, c)
		n.growth = 3
		if err := n.SetWeights([]Tensor{{Name: "d/weights", Dims: []int{2, 1}, Data: []float32{0.5, -0.25}}}); err != nil {
			t.Fatal(err)
		}
		return n, load(t, n, "product", d)
	}
	holds := func(n *Net, i int) {
		t.Helper()
		a, err := s.Array(n.name + "/" + lossScale)
		if err != nil {
			t.Fatal(err)
		}
		state := make([]float32, 3)
		if err := a.Values(state); err != nil {
			t.Fatal(err)
		}
		if got := firstScale * (1 + float64(state[0])); got != want[i].Scale {
			t.Errorf("%s: the scale after step %d is %v, want %v", n.name, i+1, got, want[i].Scale)
		}
		for k, w := range weightsOf(t, n)["d/weights"] {
			if math.Abs(float64(w-want[i].Weights[k])) > 2e-3*(1+math.Abs(float64(w))) {
				t.Errorf("%s: weight %d after step %d is %v, want %v", n.name, k, i+1, w, want[i].Weights[k])
			}
		}
	}
	one, set := made("one", Config{})
	for i := range want {
		h, err := one.Fit(set, Train{Batch: 4, InOrder: true})
		if err != nil {
			t.Fatal(err)
		}
		if loss := float64(h.Losses[0]); math.Abs(loss-want[i].Loss) > 3e-3*(1+want[i].Loss) {
			t.Errorf("loss %d is %v, want %v", i, loss, want[i].Loss)
		}
		holds(one, i)
	}
	averaged := attach(t, s, "averaged", net, Config{F16: true, Loss: losses.MSE{}, Optimizer: optim.EMA{Optimizer: optim.SGD{LearningRate: 1e-3}}})
	if err := averaged.SetWeights([]Tensor{{Name: "d/weights", Dims: []int{2, 1}, Data: []float32{0.5, -0.25}}}); err != nil {
		t.Fatal(err)
	}
	for step := range 2 { // both are left out, and there is no average yet
		h, err := averaged.Fit(set, Train{Batch: 4})
		if err != nil {
			t.Fatal(err)
		}
		if score, err := averaged.Evaluate(set); err != nil || score.Loss != float64(h.Losses[0]) {
			t.Errorf("after step %d of an average, which is left out: %v, %v, want a loss of %v", step+1, score, err, h.Losses[0])
		}
	}
	last := len(want) - 1
	for name, run := range map[string]func(n *Net, set *Set, epochs int) error{
		"many": func(n *Net, set *Set, epochs int) error {
			return second(n.Fit(set, Train{Epochs: epochs, Batch: 4, InOrder: true}))
		},
		"parts": func(n *Net, set *Set, epochs int) error {
			return second(n.Fit(set, Train{Epochs: epochs, Batch: 4, InOrder: true, Accumulate: 2}))
		},
		"devices": func(n *Net, set *Set, epochs int) error {
			return second(n.Fit(set, Train{Epochs: epochs, Batch: 4, InOrder: true}))
		},
		"job": func(n *Net, set *Set, epochs int) error {
			j, err := n.FitJob(set, Train{Epochs: epochs, Batch: 4, InOrder: true})
			if err != nil {
				return err
			}
			return second(j.Follow(context.Background(), nil))
		},
	} {
		c := Config{}
		if name == "devices" {
			c.Devices, c.AllDevices = 2, true
		}
		n, set := made(name, c)
		if err := run(n, set, 1+last); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if name != "parts" && name != "devices" {
			holds(n, last)
		} else if score, err := n.Evaluate(set); err != nil || score.Loss > 40 {
			t.Errorf("%s: got %v, %v, want a loss of about 22", name, score, err)
		}
	}
	if all, err := one.Weights(); err != nil || len(all) != 1 {
		t.Errorf("got %v, %v, want the weights of the layer only", all, err)
	}
	for _, c := range []Config{{F16: true, BF16: true}, {F16: true, Step: func(*step.Step) {}}} {
		if _, err := Attach(s, "refused", net, c); err == nil || !strings.Contains(err.Error(), "Config.F16 is set with BF16") {
			t.Errorf("got %v", err)
		}
	}
}
