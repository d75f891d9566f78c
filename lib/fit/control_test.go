package fit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// forms are the ways in which steps run.
var forms = []struct {
	name   string
	change func(*Net)
}{
	{"loop", func(*Net) {}},
	{"single", func(n *Net) { n.loop = plan.SingleSteps }},
	{"packed", func(n *Net) { n.packing = true }},
	{"counted", func(n *Net) { n.Session(); n.target = played("cuda", "") }}, // turns of many steps
	{"devices", func(n *Net) { n.config.Devices, n.config.AllDevices = 2, true }},
}

// trained trains a net of its own: 601 examples in 51 steps of 12, the last of which has 1.
func trained(t *testing.T, s *session.Session, name string, change func(*Net), tr Train) (*Net, *History, error) {
	t.Helper()
	n := New(name, classifier(3, 4), Config{Session: s, Seed: 1, FirstLook: true, Metrics: []metrics.Metric{metrics.F1{}}})
	change(n)
	data := load(t, n, "points", points(601, 3, 4))
	tr.Batch = 12
	if tr.Validation != nil {
		tr.Validation = data
	}
	h, err := n.Fit(data, tr)
	return n, h, err
}

var onData = &Set{} // as a Validation of trained

func allWeights(t *testing.T, n *Net) []Tensor {
	t.Helper()
	w, err := n.Weights()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSteps holds that a number of steps is a part of so many epochs, in every form.
func TestSteps(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, form := range append(forms, struct {
		name   string
		change func(*Net)
	}{"unrolled", func(n *Net) { n.unroll = 5 }}) {
		_, whole, err := trained(t, s, form.name, form.change, Train{Epochs: 3})
		if err != nil {
			t.Fatal(err)
		}
		for _, steps := range []int{20, 51, 102, 128} {
			_, h, err := trained(t, s, fmt.Sprintf("%s%d", form.name, steps), form.change, Train{Steps: steps})
			if err != nil {
				t.Errorf("%s: %d steps: %v", form.name, steps, err)
				continue
			}
			if h.Steps != steps || len(h.Epochs) != (steps+50)/51 || !slices.Equal(h.Losses, whole.Losses[:steps]) {
				t.Errorf("%s: got %d steps in %d epochs, want %d with the losses of whole epochs", form.name, h.Steps, len(h.Epochs), steps)
			}
			if want := min(601, (steps-1)%51*12+12); h.Last().Train.N != want {
				t.Errorf("%s, %d steps: the last epoch has %d examples, want %d", form.name, steps, h.Last().Train.N, want)
			}
		}
	}
	for want, tr := range map[string]Train{"5 Steps and 2 Epochs": {Steps: 5, Epochs: 2}, "-1 Steps": {Steps: -1}, `Monitor is "f2": want one of ["loss" "accuracy" "f1"]`: {Monitor: "f2", KeepBest: true},
		"nothing goes by it": {Monitor: "f1"}, "no Patience": {ReduceOnPlateau: optim.ReduceOnPlateau{Factor: 0.5}}, "StepInterval is 5": {StepInterval: 5}} {
		if _, _, err := trained(t, s, "bad", forms[0].change, tr); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

// TestKeepBest holds that a net has the weights of its best epoch in the end, also after Stop
// and after an error.
func TestKeepBest(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, form := range forms {
		for _, monitor := range []string{"loss", "f1"} {
			var weights [][]Tensor
			var n *Net
			change := func(m *Net) {
				form.change(m)
				n = m
				m.config.Optimizer = optim.SGD{LearningRate: 1} // so that it does not get better each time
			}
			tr := Train{Epochs: 6, Validation: onData, KeepBest: true, Monitor: monitor}
			tr.OnEpoch = func(c *result.Control) error {
				weights = append(weights, allWeights(t, n))
				if i == 1 && c.Epoch.Number == 5 {
					return errors.New("enough")
				}
				return nil
			}
			_, h, err := trained(t, s, form.name+monitor, change, tr)
			if (err != nil) != (i == 1) {
				t.Fatal(err)
			}
			best := 0
			for k, e := range h.Epochs {
				if now, then := e.Validation.Metric(monitor), h.Epochs[best].Validation.Metric(monitor); monitor == "f1" && now > then || monitor == "loss" && now < then {
					best = k
				}
			}
			if h.Best != best+1 || !reflect.DeepEqual(allWeights(t, n), weights[best]) {
				t.Errorf("%s, %s: got weights of epoch %d, want %d's\n%s", form.name, monitor, h.Best, best+1, h)
			}
			if monitor == "loss" && best == len(h.Epochs)-1 {
				t.Logf("%s: the last epoch is the best: the test shows little", form.name)
			}
		}
	}
}

// TestStopKeepsBest holds that Stop restores the best weights.
func TestStopKeepsBest(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx, cancel := context.WithCancel(context.Background())
	n := attach(t, s, "net", classifier(3, 4), Config{Seed: 1, FirstLook: true})
	data := load(t, n, "points", points(601, 3, 4))
	var first []Tensor
	h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 1000, Batch: 12, Validation: data, KeepBest: true, OnEpoch: func(c *result.Control) error {
		if c.Epoch.Number == 1 {
			first = allWeights(t, n)
			c.LearningRate = 1000 // it gets worse
		}
		if c.Epoch.Number == 3 {
			cancel()
		}
		return nil
	}})
	if !errors.Is(err, context.Canceled) || h.Best != 1 || !reflect.DeepEqual(allWeights(t, n), first) {
		t.Errorf("got %v, weights of epoch %d, want those of epoch 1", err, h.Best)
	}
}

// TestMonitor holds that Threshold, Patience and ReduceOnPlateau go by a metric.
func TestMonitor(t *testing.T) {
	t.Parallel()
	s := open(t)
	_, h, err := trained(t, s, "threshold", forms[0].change, Train{Epochs: 50, Validation: onData, Monitor: "f1", Threshold: 0.2})
	if last := h.Last(); err != nil || last.Validation.Metric("f1") <= 0.2 || len(h.Epochs) == 50 || !strings.HasPrefix(h.Stopped, "f1 of the validation") || !strings.Contains(h.Stopped, "above the threshold 0.2") {
		t.Errorf("got %v, %v", h, err)
	}
	still := func(n *Net) { n.config.Optimizer = optim.SGD{LearningRate: 1e-30} }
	_, h, err = trained(t, s, "patience", still, Train{Epochs: 50, Monitor: "accuracy", Patience: 3})
	if err != nil || len(h.Epochs) != 4 || !strings.HasPrefix(h.Stopped, "accuracy has not become larger than") {
		t.Errorf("got %v, %v", h, err)
	}
	var rates []float64
	_, h, err = trained(t, s, "plateau", still, Train{Epochs: 6, Validation: onData, ReduceOnPlateau: optim.ReduceOnPlateau{Patience: 2, Factor: 0.5}, OnEpoch: func(c *result.Control) error {
		rates = append(rates, c.LearningRate/1e-30)
		return nil
	}})
	if want := []float64{1, 1, 0.5, 0.5, 0.25, 0.25}; err != nil || !slices.Equal(rates, want) || !strings.Contains(h.Note, "learning rate reduced") {
		t.Errorf("got rates %v, %v, want %v", rates, err, want)
	}
}

// TestCallbacks holds that a user's functions are called after each epoch and every few
// steps, with the state of that moment, that the net can be used there, and what they
// change.
func TestCallbacks(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, form := range forms {
		var n *Net
		change := func(m *Net) { form.change(m); n = m }
		at := map[int][]Tensor{}
		var epochs []int
		dir := t.TempDir()
		_, _, err := trained(t, s, form.name, change, Train{Epochs: 2, StepInterval: 20, Validation: onData, OnStep: func(c *result.Control) error {
			at[c.Step] = allWeights(t, n)
			if _, err := n.Evaluate(n.sets["points"]); err != nil {
				return err
			}
			if _, err := n.Predict([]float32{1, 2, 3, 4, 5, 6}); err != nil { // of one example, a form's GPU would have a kernel
				return err
			}
			return n.SaveWeights(dir + "/w.safetensors")
		}, OnEpoch: func(c *result.Control) error {
			if c.Epoch.Validation == nil || c.Epoch.Number != len(c.History.Epochs) || c.Step != 51*c.Epoch.Number {
				t.Errorf("got %+v", c)
			}
			epochs = append(epochs, c.Epoch.Number)
			for what, do := range map[string]func() error{
				"Fit":         func() error { _, err := n.Fit(n.sets["points"], Train{}); return err },
				"SetWeights":  func() error { return n.SetWeights(at[20]) },
				"LoadWeights": func() error { _, err := n.LoadWeights(dir + "/w.safetensors"); return err },
				"Reset":       n.Reset,
			} {
				if err := do(); err == nil || !strings.Contains(err.Error(), "what does not change the net") {
					t.Errorf("%s in a callback: got %v, want an error", what, err)
				}
			}
			return nil
		}})
		if err != nil || !slices.Equal(epochs, []int{1, 2}) || len(at) != 5 {
			t.Errorf("%s: got %v, epochs %v, %d steps, want 5", form.name, err, epochs, len(at))
		}
		for _, steps := range []int{20, 60, 100} {
			other, _, err := trained(t, s, fmt.Sprintf("%s%d", form.name, steps), form.change, Train{Steps: steps})
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(allWeights(t, other), at[steps]) {
				t.Errorf("%s: the weights at step %d are others than those after so many steps", form.name, steps)
			}
		}
		_, h, err := trained(t, s, form.name+"stop", change, Train{Epochs: 2, StepInterval: 20, OnStep: func(c *result.Control) error {
			if c.Step == 40 {
				c.Stop("seen enough")
			}
			return nil
		}})
		if err != nil || h.Steps != 40 || h.Stopped != "seen enough" {
			t.Errorf("%s: got %d steps, %q, %v, want 40", form.name, h.Steps, h.Stopped, err)
		}
	}
	// Turns of several steps end where OnStep is called.
	var seen []int
	counted, h, err := trained(t, s, "turns", forms[3].change, Train{Epochs: 2, DropLast: true, StepInterval: 25, OnStep: func(c *result.Control) error {
		seen = append(seen, c.Step)
		return nil
	}})
	if err != nil || !slices.Equal(seen, []int{25, 50, 75, 100}) || h.Steps != 100 {
		t.Errorf("counted turns: got calls after %v of %d steps, %v", seen, h.Steps, err)
	}
	p, err := counted.Plan(counted.sets["points"], Train{Batch: 12, DropLast: true, StepInterval: 25, OnStep: func(*result.Control) error { return nil }})
	if err != nil || p.Main.Turn() != 25 {
		t.Errorf("got turns of %d steps, %v, want 25", p.Main.Turn(), err)
	}
	_, h, err = trained(t, s, "rate", forms[0].change, Train{Epochs: 2, OnEpoch: func(c *result.Control) error { c.LearningRate /= 10; return nil }})
	if err != nil {
		t.Fatal(err)
	}
	n, one, err := trained(t, s, "rates", forms[0].change, Train{Epochs: 1})
	if err != nil {
		t.Fatal(err)
	}
	two, err := n.Fit(n.sets["points"], Train{Batch: 12, LearningRate: optim.Adam{}.Rate() / 10})
	if err != nil || !slices.Equal(h.Losses, append(one.Losses, two.Losses...)) {
		t.Errorf("a rate that OnEpoch sets: got other losses than with Train.LearningRate, %v", err)
	}
}

// TestCallbackFails holds that an error or panic in a callback ends the run, with the weights
// of that moment and the line of the user's code.
func TestCallbackFails(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		f    func(*result.Control) error
		want []string
	}{
		{func(*result.Control) error { return errors.New("no more") }, []string{"OnEpoch (", "control_test.go:", "after step 51 of epoch 1: no more"}},
		{func(*result.Control) error { panic("boom") }, []string{"panic: boom\n", "TestCallbackFails", "control_test.go:"}},
		{func(*result.Control) error { return []error{}[len(s.Space())] }, []string{"panic: runtime error: index out of range", "control_test.go:"}},
		{func(c *result.Control) error { c.LearningRate = -1; return nil }, []string{"learning rate of -1"}},
	} {
		n, h, err := trained(t, s, "net", forms[0].change, Train{Epochs: 3, OnEpoch: tt.f})
		for _, want := range tt.want {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		}
		if h == nil || len(h.Epochs) != 1 || h.Stopped == "" {
			t.Errorf("got %v, want one epoch", h)
		}
		if _, err := n.Fit(n.sets["points"], Train{Batch: 12}); err != nil { // the net is as free as after Stop
			t.Error(err)
		}
		if err := n.Reset(); err != nil {
			t.Error(err)
		}
	}
	n := attach(t, s, "job", classifier(3, 4), Config{FirstLook: true})
	data := load(t, n, "points", points(601, 3, 4))
	if _, err := n.FitJob(data, Train{OnEpoch: func(*result.Control) error { return nil }}); err == nil || !strings.Contains(err.Error(), "cannot run a function of this one") {
		t.Errorf("a job with a callback: got %v, want an error", err)
	}
	if _, err := n.FitJob(data, Train{Progress: func(Progress) {}}); err == nil || !strings.Contains(err.Error(), "Job.Follow") {
		t.Errorf("Progress: got %v, want to be told of Job.Follow", err)
	}
	if _, err := n.FitJob(data, Train{Steps: 30}); err == nil || !strings.Contains(err.Error(), "want a multiple") {
		t.Errorf("a job of a part of an epoch: got %v, want an error", err)
	}
	if _, err := n.WithContext(context.Background()).Fit(data, Train{Steps: 3, OnStep: func(*result.Control) error { time.Sleep(time.Millisecond); return nil }}); err != nil {
		t.Error(err)
	}
}

// TestStreamCallbacks holds that a stream's parts change nothing in when OnStep is called,
// and that KeepBest works with one.
func TestStreamCallbacks(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, form := range forms[:4] {
		net := classifier(12, 10)
		n := New(form.name, net, Config{Session: s, Seed: 1, FirstLook: true, Kernels: XLAKernels})
		form.change(n)
		set := streamOf(t, n, inItems(digits(1003, []int{12}, 1), 30), 500)
		var seen []int
		h, err := n.Fit(set, Train{Epochs: 2, Batch: 10, InOrder: true, KeepBest: true, StepInterval: 25, OnStep: func(c *result.Control) error {
			seen = append(seen, c.Step)
			return nil
		}})
		if err != nil || h.Steps != 202 || h.Best == 0 || !slices.Equal(seen, []int{25, 50, 75, 100, 125, 150, 175, 200}) {
			t.Errorf("%s: got calls after %v of %d steps, best %d, %v", form.name, seen, h.Steps, h.Best, err)
		}
	}
}
