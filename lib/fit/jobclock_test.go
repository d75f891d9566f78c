package fit

import (
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// The clock is set back by an hour while a job runs: no duration is negative, and the time
// that remains is that of the steps.
func TestJobClock(t *testing.T) {
	at := time.Now()
	r := &jobReader{jobDescription: jobDescription{Net: "net", Epochs: 10, Steps: 10, Batch: 1, N: 10}, began: at, last: at, record: record{history: &History{}, answers: 1}, info: wire.JobInfo{State: wire.JobRuns}}
	for step := range 50 {
		at = at.Add(time.Second)
		if step == 25 {
			at = at.Add(-time.Hour)
		}
		r.entry(wire.JobEntry{Name: "train", Values: make(wire.Floats, 2*r.columns()), Time: at})
	}
	p := r.progress()
	if p.Elapsed < 49*time.Second || p.Left < 48*time.Second || p.Left > 51*time.Second {
		t.Errorf("elapsed %v, left %v after 50 of 100 steps of a second", p.Elapsed, p.Left)
	}
	for i, e := range r.history.Epochs {
		if want := time.Duration(10*i+9) * time.Second; e.Elapsed < want {
			t.Errorf("epoch %d ended after %v, want %v at least", e.Number, e.Elapsed, want)
		}
	}
}
