package fit

import (
	"context"
	"math"
	"strings"
	"testing"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// ownStep minimizes the usual loss by some layers' weights, and reports it.
func ownStep(layers ...string) func(*step.Step) {
	return func(s *step.Step) {
		loss := losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y)
		s.Minimize(loss, layers...)
		s.Report("entropy", loss)
	}
}

// TestAccumulate holds that gradients of a batch in parts are those of the batch: the same
// losses, metrics and weights, with weights of examples, a last batch that is smaller, on
// several devices, and in a job.
func TestAccumulate(t *testing.T) {
	s := open(t)
	net := models.Net{Name: "net", Input: []int{6}, Layers: []models.Layer{models.Dense{Units: 12, Act: models.ReLU}, models.Dense{Name: "out", Units: 10}}}
	d := digits(45, []int{6}, 1)
	for i := range 45 {
		d.V = append(d.V, float32(i%3))
	}
	for name, c := range map[string]Config{"plain": {}, "packed": {}, "devices": {Devices: 2, AllDevices: true}, "single": {}, "bf16": {BF16: true}, "step": {Step: ownStep()}, "step of a layer": {Step: ownStep("out")}, "step, devices": {Step: ownStep(), Devices: 2, AllDevices: true}} {
		if c.Seed, c.Optimizer = 1, (optim.Clipped{Optimizer: optim.Adam{LearningRate: 0.01}, Norm: 0.5}); c.Step == nil {
			c.Metrics = []metrics.Metric{metrics.TopK{K: 2}}
		}
		if name == "packed" {
			c.Optimizer = optim.Adam{LearningRate: 0.01}
		}
		var all []map[string][]float32
		var histories []*History
		for _, parts := range []int{0, 4} {
			n := attach(t, s, "n", net, c)
			n.packing = name == "packed"
			if name == "single" {
				n.loop = plan.SingleSteps
			}
			train := load(t, n, "bars", d)
			h, err := n.Fit(train, Train{Epochs: 2, Batch: 16, Accumulate: parts})
			if err != nil {
				t.Fatal(err)
			}
			if name == "plain" {
				j, err := n.FitJob(train, Train{Epochs: 1, Batch: 16, Accumulate: parts})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := j.Follow(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
			}
			all, histories = append(all, weightsOf(t, n)), append(histories, h)
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		most := 2e-5
		if c.BF16 {
			most = 2e-2
		}
		for i, x := range histories[0].Losses {
			if d := math.Abs(float64(x - histories[1].Losses[i])); d > most {
				t.Errorf("%s: loss %d is %v in parts, want %v", name, i, histories[1].Losses[i], x)
			}
		}
		if a, b := histories[0].Last().Train, histories[1].Last().Train; !c.BF16 && (a.Right != b.Right || len(a.Metrics) != 1 || math.Abs(a.Metrics[0].Value-b.Metrics[0].Value) > 1e-6) {
			t.Errorf("%s: %v in parts, want %v", name, b, a)
		}
		for key, w := range all[0] {
			for i := range w {
				if d := math.Abs(float64(w[i] - all[1][key][i])); d > most {
					t.Errorf("%s: number %d of %s is %v in parts, want %v", name, i, key, all[1][key][i], w[i])
				}
			}
		}
	}
	n := attach(t, s, "refused", net, Config{})
	train := load(t, n, "bars", d)
	if _, err := n.Fit(train, Train{Batch: 16, Accumulate: 3}); err == nil || !strings.Contains(err.Error(), "a batch of 16 in 3 parts on 1 devices: want parts of the same size") {
		t.Errorf("3 parts of 16: got %v", err)
	}
}

// TestAccumulateNorms holds that batch norms, dropout and convolutions, which are not in loops
// on a CPU, train in parts.
func TestAccumulateNorms(t *testing.T) {
	s := open(t)
	net := models.Net{Name: "cnn", Input: []int{8, 8, 1}, Layers: []models.Layer{models.Conv2D{Name: "c", Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Name: "norm"}, models.Flatten{}, models.Dropout{Rate: 0.1}, models.Dense{Name: "out", Units: 10}}}
	n := attach(t, s, "cnn", net, Config{Seed: 1})
	h, err := n.Fit(load(t, n, "images", digits(96, net.Input, 1)), Train{Epochs: 6, Batch: 32, Accumulate: 2, LearningRate: 0.01})
	if err != nil || h.Last().Train.Loss > 0.7*float64(h.Losses[0]) {
		t.Errorf("got %v, %v: want a smaller loss", h, err)
	}
}
