package runs

import (
	"context"
	"errors"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"gaiden/lib/fit/result"
)

// history is so many epochs of 4 steps, with labels.
func history(epochs int) *result.History {
	h := &result.History{}
	for e := range epochs {
		for s := range 4 {
			h.Losses = append(h.Losses, 1/float32(4*e+s+1))
			h.Right, h.Answers = append(h.Right, int32(s)), append(h.Answers, 4)
			h.Steps++
		}
		train := result.Score{Loss: 1 / float64(e+1), Right: 6, N: 16, Labels: true, Metrics: []result.Metric{{Name: "f1", Value: 0.5}}}
		test := train
		test.Loss = 2
		h.Epochs = append(h.Epochs, result.Epoch{Number: e + 1, Train: train, Validation: &test, Elapsed: time.Duration(e+1) * time.Second})
	}
	return h
}

func logged(t *testing.T, folder string, run Run, h *result.History, err error) *Run {
	t.Helper()
	l, e := Begin(folder, run)
	if e != nil {
		t.Fatal(e)
	}
	part := *h
	for n := 1; n <= len(h.Losses); n++ { // as Fit reports, at every step
		part.Losses, part.Right, part.Answers, part.Epochs = h.Losses[:n], h.Right[:n], h.Answers[:n], h.Epochs[:min(n/4, len(h.Epochs))]
		l.Progress(result.Progress{Steps: 4, Total: len(h.Losses), History: &part})
	}
	if e := l.End(h, err); e != nil {
		t.Fatal(e)
	}
	r, e := Read(l.Folder)
	if e != nil {
		t.Fatal(e)
	}
	return r
}

func TestRun(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "runs", "first")
	run := Run{Net: "net", Settings: map[string]string{"Batch": "8"}, Code: "net.Fit(…)", Machine: "a machine", Began: time.Unix(1e9, 0), Layers: []Layer{{"o", "Dense"}}}
	r := logged(t, folder, run, history(2), nil)
	if r.State != Done || r.To != 8 || r.Net != "net" || r.Settings["Batch"] != "8" || r.Code != run.Code || r.Machine != run.Machine || !r.Began.Equal(run.Began) || r.Ended.IsZero() {
		t.Errorf("got %+v", r)
	}
	if want := map[string]Number{"loss": 0.5, "accuracy": 0.375, "f1": 0.5, "validation/loss": 2, "validation/accuracy": 0.375, "validation/f1": 0.5}; !reflect.DeepEqual(r.Results, want) {
		t.Errorf("results: got %v, want %v", r.Results, want)
	}
	for _, tt := range []struct {
		name  string
		steps []float64
		last  float64
	}{{"loss", []float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.125}, {"accuracy", []float64{1, 2, 3, 4, 5, 6, 7, 8}, 0.75}, {"f1", []float64{4, 8}, 0.5}, {"validation/loss", []float64{4, 8}, 2}, {"no such", nil, 0}} {
		steps, values := r.Curve(tt.name)
		if !slices.Equal(steps, tt.steps) || len(values) > 0 && math.Abs(values[len(values)-1]-tt.last) > 1e-7 {
			t.Errorf("%s: got %v at %v, want %v at %v", tt.name, values, steps, tt.last, tt.steps)
		}
	}
	table, err := os.ReadFile(filepath.Join(folder, epochsFile))
	const want = "epoch,step,seconds,accuracy,f1,loss,validation/accuracy,validation/f1,validation/loss\n1,4,1.000,0.375,0.5,1,0.375,0.5,2\n2,8,2.000,0.375,0.5,0.5,0.375,0.5,2\n"
	if string(table) != want || err != nil {
		t.Errorf("epochs: got %q, %v; want %q", table, err, want)
	}
	for _, part := range []string{"train", "validation"} {
		if files, _ := filepath.Glob(filepath.Join(folder, part, "events.out.tfevents.*")); len(files) != 1 {
			t.Errorf("%s: got event files %v, want one", part, files)
		}
	}
}

// A training that continues is one run; another one has another folder.
func TestFolders(t *testing.T) {
	top := t.TempDir()
	folder := filepath.Join(top, "first")
	logged(t, folder, Run{Net: "net", Code: "first", Began: time.Unix(1, 0)}, history(1), nil)
	f, err := os.OpenFile(filepath.Join(folder, metricsFile), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.WriteString(`{"step":5,"lo`) // a line that is torn
	f.Close()
	r := logged(t, folder, Run{Net: "net", From: 4, Code: "second", Began: time.Unix(2, 0)}, history(1), context.Canceled)
	if steps, _ := r.Curve("loss"); !slices.Equal(steps, []float64{1, 2, 3, 4, 5, 6, 7, 8}) || r.From != 0 || r.To != 8 || len(r.Epochs) != 2 || r.State != Stopped || r.Code != "first\n\nsecond" {
		t.Errorf("continued: got steps %v of %+v", steps, r)
	}
	for i, run := range []Run{{Net: "net", Began: time.Unix(3, 0)}, {Net: "other", From: 8, Began: time.Unix(4, 0)}} { // from the first step; of another net
		l, err := Begin(folder, run)
		if err != nil {
			t.Fatal(err)
		}
		if want := folder + []string{"-2", "-3"}[i]; l.Folder != want || !strings.Contains(l.Note, want) {
			t.Errorf("run %d: got folder %s and note %q, want %s", i, l.Folder, l.Note, want)
		}
		if err := l.End(nil, errors.New("no memory\nmore")); err != nil {
			t.Error(err)
		}
	}
	all, err := List(top)
	var got []string
	for _, r := range all {
		got = append(got, r.Name+" "+r.State)
	}
	if want := []string{"first stopped", "first-2 failed: no memory", "first-3 failed: no memory"}; !slices.Equal(got, want) || err != nil {
		t.Errorf("got %q, %v; want %q", got, err, want)
	}
}

// A run whose process was killed has what it had written, and one that is not JSON says so
// and hides no other.
func TestKilled(t *testing.T) {
	top := t.TempDir()
	l, err := Begin(filepath.Join(top, "killed"), Run{Net: "net", From: 10})
	if err != nil {
		t.Fatal(err)
	}
	h := history(1)
	h.Losses[3] = float32(math.Inf(1))
	l.Progress(result.Progress{Steps: 4, History: h})
	if r, err := Read(l.Folder); err != nil || r.State != Running {
		t.Errorf("while it is written: got %+v, %v", r, err)
	}
	if other, err := Begin(l.Folder, Run{Net: "other"}); err != nil || other.Folder != l.Folder+"-2" {
		t.Errorf("another run in its folder: got %+v, %v", other, err)
	} else {
		other.close()
		os.RemoveAll(other.Folder)
	}
	l.flush()
	l.close() // as the system does when the process ends
	if r, err := Read(l.Folder); err != nil || r.State != Killed || r.To != 14 || r.Results["f1"] != 0.5 || !math.IsNaN(float64(r.Steps[3].Loss)) {
		t.Errorf("got %+v, %v", r, err)
	}
	os.Mkdir(filepath.Join(top, "bad"), 0o777)
	os.WriteFile(filepath.Join(top, "bad", runFile), []byte("{"), 0o666)
	if all, err := List(top); len(all) != 1 || err == nil || !strings.Contains(err.Error(), filepath.Join("bad", runFile)) {
		t.Errorf("got %d runs and %v, want one, and an error that names the other's file", len(all), err)
	}
	if _, err := Begin(filepath.Join(top, "bad", runFile), Run{}); err == nil || !strings.Contains(err.Error(), "want a folder") {
		t.Errorf("a file as a folder: got %v", err)
	}
}

// The lines of a run are bounded, whether the number of steps is known or not.
func TestMany(t *testing.T) {
	for _, total := range []int{0, 100_000} {
		h := &result.History{Losses: make([]float32, 100_000)}
		for i := range h.Losses {
			h.Losses[i] = float32(i)
		}
		l, err := Begin(filepath.Join(t.TempDir(), "many"), Run{Net: "net"})
		if err != nil {
			t.Fatal(err)
		}
		l.Progress(result.Progress{Total: total, History: h})
		if err := l.End(h, nil); err != nil {
			t.Fatal(err)
		}
		r, err := Read(l.Folder)
		if err != nil || len(r.Steps) > 3*mostPoints || len(r.Steps) < mostPoints || r.To != 100_000 || r.Steps[len(r.Steps)-1].Step != 100_000 {
			t.Errorf("total %d: got %d lines to step %d, %v", total, len(r.Steps), r.To, err)
		}
		if first := r.Steps[len(r.Steps)-1]; total > 0 && first.Loss != 99_994.5 {
			t.Errorf("total %d: the last line is %v, want the mean of 10 steps", total, first)
		}
	}
}

func TestSave(t *testing.T) {
	r, err := Save(filepath.Join(t.TempDir(), "job"), Run{Net: "net"}, history(3))
	if err != nil || len(r.Epochs) != 3 || r.Epochs[1].Step != 8 || len(r.Steps) != 12 || r.State != Done {
		t.Errorf("got %+v, %v", r, err)
	}
	if _, err := Save(t.TempDir(), Run{}, nil); err == nil {
		t.Error("no history: got no error")
	}
}
