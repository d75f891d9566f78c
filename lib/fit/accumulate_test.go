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
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "net", Input: []int{6}, Layers: []models.Layer{models.Dense{Units: 12, Act: models.ReLU}, models.Dense{Name: "out", Units: 10}}}
	d := digits(45, []int{6}, 1)
	for i := range 45 {
		d.V = append(d.V, float32(i%3))
	}
	type trained struct {
		weights map[string][]float32
		history *History
	}
	whole := map[string]trained{}   // by what is trained; in what way changes nothing
	var jobs []map[string][]float32 // what is trained by a job after that, not in parts and in parts
	same := func(name string, got, want map[string][]float32, most float64) {
		t.Helper()
		for key, w := range want {
			for i := range w {
				if d := math.Abs(float64(w[i] - got[key][i])); d > most {
					t.Errorf("%s: number %d of %s is %v in parts, want %v", name, i, key, got[key][i], w[i])
					break
				}
			}
		}
	}
	for _, tt := range []struct {
		name, of string
		config   Config
	}{
		{"plain", "net", Config{}}, {"devices", "net", Config{Devices: 2, AllDevices: true}}, {"single", "net", Config{}},
		{"packed", "unclipped", Config{}}, {"bf16", "bf16", Config{BF16: true}},
		{"step", "step", Config{Step: ownStep()}}, {"step, devices", "step", Config{Step: ownStep(), Devices: 2, AllDevices: true}}, {"step of a layer", "layer", Config{Step: ownStep("out")}},
	} {
		name, c := tt.name, tt.config
		if c.Seed, c.Optimizer = 1, (optim.Clipped{Optimizer: optim.Adam{LearningRate: 0.01}, Norm: 0.5}); c.Step == nil {
			c.Metrics = []metrics.Metric{metrics.TopK{K: 2}}
		}
		if name == "packed" {
			c.Optimizer = optim.Adam{LearningRate: 0.01}
		}
		var got trained
		for _, parts := range []int{0, 4} {
			if _, is := whole[tt.of]; is && parts == 0 {
				continue
			}
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
			if got = (trained{weightsOf(t, n), h}); parts == 0 {
				whole[tt.of] = got
			}
			if name == "plain" {
				j, err := n.FitJob(train, Train{Epochs: 1, Batch: 16, Accumulate: parts})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := j.Follow(context.Background(), nil); err != nil {
					t.Fatal(err)
				}
				jobs = append(jobs, weightsOf(t, n))
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
		most := 2e-5
		if c.BF16 {
			most = 2e-2
		}
		want := whole[tt.of]
		for i, x := range want.history.Losses {
			if d := math.Abs(float64(x - got.history.Losses[i])); d > most {
				t.Errorf("%s: loss %d is %v in parts, want %v", name, i, got.history.Losses[i], x)
			}
		}
		if a, b := want.history.Last().Train, got.history.Last().Train; !c.BF16 && (a.Right != b.Right || len(a.Metrics) != 1 || math.Abs(a.Metrics[0].Value-b.Metrics[0].Value) > 1e-6) {
			t.Errorf("%s: %v in parts, want %v", name, b, a)
		}
		same(name, got.weights, want.weights, most)
	}
	same("job", jobs[1], jobs[0], 2e-5)
	n := attach(t, s, "refused", net, Config{})
	train := load(t, n, "bars", d)
	if _, err := n.Fit(train, Train{Batch: 16, Accumulate: 3}); err == nil || !strings.Contains(err.Error(), "a batch of 16 in 3 parts on 1 devices: want parts of the same size") {
		t.Errorf("3 parts of 16: got %v", err)
	}
}

// TestAccumulateNorms holds that batch norms, dropout and convolutions, which are not in loops
// on a CPU, train in parts.
func TestAccumulateNorms(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "cnn", Input: []int{8, 8, 1}, Layers: []models.Layer{models.Conv2D{Name: "c", Channels: 4, Kernel: 3, Act: models.ReLU}, models.BatchNorm{Name: "norm"}, models.Flatten{}, models.Dropout{Rate: 0.1}, models.Dense{Name: "out", Units: 10}}}
	n := attach(t, s, "cnn", net, Config{Seed: 1})
	h, err := n.Fit(load(t, n, "images", digits(96, net.Input, 1)), Train{Epochs: 6, Batch: 32, Accumulate: 2, LearningRate: 0.01})
	if err != nil || h.Last().Train.Loss > 0.7*float64(h.Losses[0]) {
		t.Errorf("got %v, %v: want a smaller loss", h, err)
	}
}
