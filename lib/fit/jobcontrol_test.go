package fit

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/metrics"
	"gaiden/lib/optim"
)

// TestJobControl holds that a job keeps the best weights, reduces the rate and ends by a
// metric as Fit does.
func TestJobControl(t *testing.T) {
	t.Parallel()
	s := open(t)
	config := Config{Seed: 1, FirstLook: true, Optimizer: optim.SGD{LearningRate: 1},
		Metrics: []metrics.Metric{metrics.F1{}, metrics.Perplexity{}}}
	for i, tr := range []Train{
		{Epochs: 6, KeepBest: true},
		{Epochs: 6, KeepBest: true, Monitor: "f1"},
		{Epochs: 6, KeepBest: true, Monitor: "accuracy"},
		{Epochs: 6, ReduceOnPlateau: optim.ReduceOnPlateau{Patience: 1, Factor: 0.5}},
		{Epochs: 8, ReduceOnPlateau: optim.ReduceOnPlateau{Patience: 1, Factor: 0.1, MinDelta: 0.2, Cooldown: 1, MinRate: 0.05}, Monitor: "perplexity"},
		{Epochs: 50, Monitor: "f1", Threshold: 0.5, KeepBest: true},
		{Epochs: 50, Monitor: "f1", Patience: 2},
		{Steps: 20, KeepBest: true},
		{Steps: 102, KeepBest: true},
	} {
		tr.Batch = 12
		var weights [2][]Tensor
		var h [2]*History
		for k := range 2 {
			n := attach(t, s, fmt.Sprintf("net%d.%d", i, k), classifier(3, 4), config)
			data := load(t, n, "points", points(601, 3, 4))
			tr.Validation = data
			var err error
			if k == 0 {
				h[k], err = n.Fit(data, tr)
			} else {
				var j *Job
				if j, err = n.FitJob(data, tr); err == nil {
					h[k], err = j.Follow(context.Background(), nil)
				}
			}
			if err != nil {
				t.Fatalf("%+v: %v", tr, err)
			}
			weights[k] = allWeights(t, n)
		}
		if !slices.Equal(h[1].Losses, h[0].Losses) || h[1].Best != h[0].Best || len(h[1].Epochs) != len(h[0].Epochs) || (h[1].Stopped == "") != (h[0].Stopped == "") || tr.KeepBest != (h[0].Best > 0) {
			t.Errorf("%+v: got\n%s\nwant Fit's\n%s", tr, h[1], h[0])
		}
		if !reflect.DeepEqual(weights[1], weights[0]) {
			t.Errorf("%+v: got other weights than Fit's", tr)
		}
		if tr.Threshold > 0 && !strings.Contains(h[1].Stopped, "validation f1 is 0.") {
			t.Errorf("got %q, want why it ended", h[1].Stopped)
		}
	}
}

// TestStoppedJobKeepsBest holds that a job that is stopped restores the best weights.
func TestStoppedJobKeepsBest(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", classifier(3, 4), Config{Seed: 1, FirstLook: true, Optimizer: optim.SGD{LearningRate: 1}})
	data := load(t, n, "points", points(601, 3, 4))
	j, err := n.FitJob(data, Train{Epochs: 1 << 20, Batch: 12, Validation: data, KeepBest: true})
	if err != nil {
		t.Fatal(err)
	}
	h, err := j.Follow(context.Background(), func(p Progress) {
		if p.Epoch > 4 {
			j.Stop()
		}
	})
	if err != nil || h.Stopped == "" || h.Best == 0 {
		t.Fatalf("got %v, %v", h, err)
	}
	score, err := n.Evaluate(data)
	if err != nil || math.Abs(score.Loss-h.Epochs[h.Best-1].Validation.Loss) > 1e-6 {
		t.Errorf("got %v, %v, want the loss of epoch %d:\n%s", score, err, h.Best, h)
	}
	own := attach(t, s, "own", classifier(3, 4), Config{FirstLook: true})
	for want, tr := range map[string]Train{"want Train.Validation too": {KeepBest: true}} {
		if _, err := own.FitJob(data, tr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestKeepBestAverages holds that the averages of weights, which are tested in their place,
// are kept with them.
func TestKeepBestAverages(t *testing.T) {
	t.Parallel()
	s := open(t)
	for k, name := range []string{"fit", "job"} {
		n := attach(t, s, name, classifier(3, 4), Config{Seed: 1, FirstLook: true, Optimizer: optim.EMA{Optimizer: optim.SGD{LearningRate: 4}, Decay: 0.5}})
		data := load(t, n, "points", points(601, 3, 4))
		tr := Train{Epochs: 6, Batch: 12, Validation: data, KeepBest: true}
		var h *History
		var err error
		if k == 0 {
			h, err = n.Fit(data, tr)
		} else {
			var j *Job
			if j, err = n.FitJob(data, tr); err == nil {
				h, err = j.Follow(context.Background(), nil)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		score, err := n.Evaluate(data)
		if err != nil || h.Best == 0 || h.Best == 6 || math.Abs(score.Loss-h.Epochs[h.Best-1].Validation.Loss) > 1e-5 {
			t.Errorf("%s: got %v, %v, want the validation of epoch %d, one before the last\n%s", name, score, err, h.Best, h)
		}
	}
}
