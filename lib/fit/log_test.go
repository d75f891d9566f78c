package fit

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/metrics"
	"gaiden/lib/optim"
	"gaiden/lib/runs"
	"gaiden/lib/session"
)

// TestLog holds that a run's folder has the losses of all steps, in every form, with the
// settings and the code, and that a training that continues is added to it.
func TestLog(t *testing.T) {
	s := open(t)
	code := filepath.Join(t.TempDir(), "code")
	if err := os.WriteFile(code, []byte("net.Fit(…)"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(session.CodeEnv, code)
	for _, form := range forms {
		t.Run(form.name, func(t *testing.T) {
			folder := filepath.Join(t.TempDir(), "runs", "first")
			seen := 0
			n, h, err := trained(t, s, "log-"+form.name, form.change, Train{Epochs: 2, Validation: onData, Log: folder, Progress: func(Progress) { seen++ }})
			if err != nil {
				t.Fatal(err)
			}
			r, err := runs.Read(folder)
			if err != nil {
				t.Fatal(err)
			}
			_, losses := r.Curve("loss")
			if !slices.EqualFunc(losses, h.Losses, func(a float64, b float32) bool { return float32(a) == b }) || len(losses) != 102 || r.To != 102 {
				t.Errorf("got %d losses to step %d, want the %d of the history", len(losses), r.To, len(h.Losses))
			}
			last := h.Last()
			if got, want := float64(r.Results["validation/f1"]), last.Validation.Metric("f1"); got != want {
				t.Errorf("validation/f1: got %v, want %v", got, want)
			}
			if _, accuracy := r.Curve("accuracy"); len(accuracy) != 102 || math.Abs(accuracy[101]*float64(h.Answers[101])-float64(h.Right[101])) > 1e-6 || h.Answers[101] != 1 || h.Answers[0] != 12 {
				t.Errorf("accuracy: got %d values, want those of the history", len(accuracy))
			}
			if seen == 0 || r.State != runs.Done || r.Code != "net.Fit(…)" || r.Settings["Batch"] != "12" || r.Settings["Seed"] != "1" || r.Settings["Optimizer"] != "optim.Adam{}" || r.Settings["Metrics"] != "metrics.F1{}" || r.Settings["Validation"] != "points" || r.Machine == "" || len(r.Layers) == 0 {
				t.Errorf("got %+v after %d calls of Progress", r, seen)
			}
			set, err := n.Data("points")
			if err != nil {
				t.Fatal(err)
			}
			stop := errors.New("enough")
			more := Train{Batch: 12, Log: folder, OnEpoch: func(*Control) error { return stop }}
			if _, err := n.Fit(set, more); !errors.Is(err, stop) {
				t.Fatalf("got %v, want %v", err, stop)
			}
			if r, err = runs.Read(folder); err != nil || r.To != 153 || len(r.Steps) != 153 || !strings.HasPrefix(r.State, runs.Failed) {
				t.Errorf("continued: got %d lines to step %d, state %q, %v", len(r.Steps), r.To, r.State, err)
			}
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
			h, err = n.Fit(set, Train{Batch: 12, Log: folder})
			if err != nil || !strings.Contains(h.Note, folder+"-2") {
				t.Errorf("after Reset: got note %q, %v; want another folder", h.Note, err)
			}
		})
	}
}

func TestBadLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := trained(t, s, "badlog", func(*Net) {}, Train{Log: file}); err == nil || !strings.Contains(err.Error(), "want a folder") {
		t.Errorf("a file: got %v", err)
	}
	n := New("badlog", classifier(3, 4), Config{Session: s, Metrics: []metrics.Metric{metrics.F1{}}, Optimizer: optim.SGD{LearningRate: 0.1}})
	set, err := n.Data("points")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.FitJob(set, Train{Log: "runs/job"}); err == nil || !strings.Contains(err.Error(), "runs.Save") {
		t.Errorf("a job: got %v, want one that says what to use", err)
	}
}
