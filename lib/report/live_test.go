package report

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
)

// shownStates keeps what a training shows.
type shownStates struct{ text, page, ended []string }

func (s *shownStates) show(text, page, ended string) {
	s.text, s.page, s.ended = append(s.text, text), append(s.page, page), append(s.ended, ended)
}

// run is a training of so many epochs of 10 steps, of which the devices did so many.
func (s *shownStates) run(epochs, steps int, took time.Duration, how func(h *fit.History), err error) string {
	progress, end := Training("net", s.show)
	h := &fit.History{}
	if how != nil {
		how(h)
	}
	for i := range steps {
		h.Losses, h.Steps = append(h.Losses, 2/float32(i+1)), i+1
		h.Right, h.Answers = append(h.Right, int32(i%9)), append(h.Answers, 8)
		if (i+1)%10 == 0 {
			score := fit.Score{Loss: 1, Right: 5, N: 10, Labels: true}
			h.Epochs = append(h.Epochs, fit.Epoch{Number: (i + 1) / 10, Train: score, Validation: &score, Elapsed: took})
		}
		progress(fit.Progress{Phase: "train", Epoch: i/10 + 1, Epochs: epochs, Step: i%10 + 1, Steps: 10, Trained: i + 1, Total: 10 * epochs, Labels: true, Loss: 1, Elapsed: took, History: h})
	}
	end(h, err)
	return s.page[len(s.page)-1]
}

// A training ends with a picture of all its steps, however it ended, unless it was short.
func TestLiveCurves(t *testing.T) {
	tests := []struct {
		name   string
		epochs int
		steps  int
		took   time.Duration
		how    func(*fit.History)
		err    error
		state  string
		plots  int
		text   string
	}{
		{"done", 3, 30, 5 * time.Second, nil, nil, "done: 3 epochs in 5.0 s", 2, "validation: from 1 to 1 in 3 points"},
		{"short", 3, 30, time.Second, nil, nil, "done: 3 epochs in 1.0 s", 0, ""},
		{"stopped", 3, 17, 5 * time.Second, func(h *fit.History) { h.Stopped = "context canceled" }, nil, "stopped at epoch 2/3, step 7/10", 2, "train: from 2 to 0.1176 in 17 points"},
		{"failed", 3, 4, 5 * time.Second, nil, errors.New("no memory"), "failed at epoch 1/3, step 4/10: no memory", 2, "train: from 2 to 0.5 in 4 points"},
		{"interrupted", 3, 4, 5 * time.Second, nil, context.Canceled, "stopped at epoch 1/3, step 4/10", 2, "4 points"},
		{"compiled", 3, 30, 5 * time.Second, func(h *fit.History) { h.Compile = 4 * time.Second }, nil, "done: 3 epochs in 5.0 s", 0, ""},
		{"no step", 3, 1, 5 * time.Second, nil, nil, "done", 2, "1 point"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var s shownStates
			last := s.run(tt.epochs, tt.steps, tt.took, tt.how, tt.err)
			if got := strings.Count(last, "<svg"); got != tt.plots || !strings.Contains(last, tt.state) || !strings.Contains(last, tt.text) {
				t.Errorf("got %d plots in %q, want %d, %q and %q", got, last, tt.plots, tt.state, tt.text)
			}
			if n := len(s.ended); s.ended[n-1] != "" || n > 1 && s.ended[0] == "" {
				t.Errorf("got %q for where nothing follows, want it in all states but the last", s.ended)
			}
			wellFormed(t, last)
		})
	}
}

// A run that has not started shows nothing, and one whose numbers are odd is drawn.
func TestLiveOfAnything(t *testing.T) {
	var s shownStates
	_, end := Training("net", s.show)
	if end(nil, errors.New("no such set")); len(s.page) > 0 {
		t.Errorf("got %q, want nothing", s.page)
	}
	nan := float32(math.NaN())
	for _, h := range []*fit.History{nil, {}, {Losses: []float32{nan}}, {Losses: []float32{nan, 1, float32(math.Inf(1))}, Right: []int32{0}, Answers: []int32{0}},
		{Losses: []float32{1}, Epochs: []fit.Epoch{{Number: 1}, {Number: 2}}}} {
		progress, end := Training("<b>", s.show)
		progress(fit.Progress{Elapsed: time.Minute, Epochs: 1, Metrics: []result.Metric{{Name: "<i>", Value: math.NaN()}}, History: h})
		end(h, nil)
		wellFormed(t, s.page[len(s.page)-1])
	}
}

// A trace is as small with a million steps as with a few hundred, and its mean is that of
// the steps.
func TestTrace(t *testing.T) {
	for _, steps := range []int{0, 1, 399, 400, 401, 800, 801, 12345, 1_000_000} {
		var tr trace
		r := rand.New(rand.NewPCG(1, 2))
		sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
		for range steps {
			v := r.Float64()
			tr.add(v, 1)
			sum, low, high = sum+v, min(low, v), max(high, v)
		}
		s := tr.series("")
		if len(s.Y) > mostBuckets || steps >= mostBuckets && len(s.Y) < mostBuckets/2 || steps < mostBuckets && len(s.Y) != steps {
			t.Errorf("%d steps: got %d points", steps, len(s.Y))
		}
		got, n := 0.0, 0.0
		for _, b := range tr.buckets {
			got, n = got+b.sum, n+b.weight
			low, high = max(low, b.low-1), min(high, b.high+1)
		}
		if int(n) != steps || math.Abs(got-sum) > 1e-6 {
			t.Errorf("%d steps: got %v steps of sum %v, want sum %v", steps, n, got, sum)
		}
		if len(s.X) > 0 && (s.X[0] < 1 || s.X[len(s.X)-1] > float64(steps)) {
			t.Errorf("%d steps: points stand from %v to %v", steps, s.X[0], s.X[len(s.X)-1])
		}
	}
	var tr trace
	for _, v := range []float64{1, 2, 3} {
		tr.add(v, 0) // no answers counted
	}
	if s := tr.series(""); len(s.shown(false, false)) != 0 {
		t.Errorf("steps without weight: got %v", s.Y)
	}
}

// The first curves follow each other soon, the others twice a second.
func TestLivePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // protects at
		var at []time.Duration
		began := time.Now()
		progress, end := Training("net", func(string, string, string) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(began).Round(10*time.Millisecond))
		})
		h := &fit.History{Losses: []float32{1}}
		defer end(h, nil) // after mu, which it takes, too
		for range 250 {
			progress(fit.Progress{Phase: "train", Trained: 1, Total: 10, Elapsed: time.Minute, History: h})
			time.Sleep(10 * time.Millisecond)
		}
		ms := time.Millisecond
		mu.Lock()
		defer mu.Unlock()
		if want := []time.Duration{0, 100 * ms, 300 * ms, 700 * ms, 1200 * ms, 1700 * ms, 2200 * ms}; !slices.Equal(at, want) {
			t.Errorf("drawn at %v, want %v", at, want)
		}
	})
}

// Drawing happens twice a second in the long run and is bounded; taking in a step is cheap.
func BenchmarkLive(b *testing.B) {
	b.Run("step", func(b *testing.B) {
		l, h := &live{}, &fit.History{}
		for b.Loop() {
			h.Losses = append(h.Losses, 1)
			l.take(fit.Progress{History: h})
		}
	})
	b.Run("drawing", func(b *testing.B) {
		l, h := &live{}, &fit.History{}
		for i := range 100_000 {
			h.Losses, h.Right, h.Answers = append(h.Losses, 1/float32(i+1)), append(h.Right, int32(i%8)), append(h.Answers, 8)
		}
		l.take(fit.Progress{History: h})
		for b.Loop() {
			panels(l.plots()).HTML()
		}
	})
}
