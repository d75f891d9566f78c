package fit

import (
	"context"
	"slices"
	"testing"
)

// TestJobOneStepEpochs: a job whose epochs are a step each has the history that Fit has.
func TestJobOneStepEpochs(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "onestep", classifier(3, 4), Config{Seed: 1, FirstLook: true})
	data := load(t, n, "few", points(4, 3, 4))
	want, err := n.Fit(data, Train{Epochs: 30})
	if err != nil {
		t.Fatal(err)
	}
	if err := n.Reset(); err != nil {
		t.Fatal(err)
	}
	job, err := n.FitJob(data, Train{Epochs: 30})
	if err != nil {
		t.Fatal(err)
	}
	var last Progress
	got, err := job.Follow(context.Background(), func(p Progress) { last = p })
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(got.Losses, want.Losses) || len(got.Epochs) != 30 || len(want.Epochs) != 30 {
		t.Fatalf("got %d epochs with losses %v, want %d with %v", len(got.Epochs), got.Losses, len(want.Epochs), want.Losses)
	}
	for i, e := range got.Epochs {
		if w := want.Epochs[i]; e.Number != w.Number || e.Train.Loss != w.Train.Loss || e.Train.N != w.Train.N || e.Train.Right != w.Train.Right {
			t.Errorf("epoch %d: got %+v, want %+v", i+1, e, w)
		}
	}
	if last.Epoch != 30 || last.Epochs != 30 || last.Total != 30 || last.Trained != 30 {
		t.Errorf("got progress %+v, want 30 of 30 epochs", last)
	}
}
