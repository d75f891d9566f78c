package device

import (
	"errors"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestJobOfLostHost: a job does not fail because a host is lost, whoever says so first; it does
// for an error of its own.
func TestJobOfLostHost(t *testing.T) {
	for _, tt := range []struct {
		code wire.Code
		ends bool // the worker, since a program of several hosts has failed
		want wire.JobState
	}{
		{wire.Lost, false, wire.JobRuns},
		{wire.ExecuteError, true, wire.JobRuns}, // a consequence
		{wire.ExecuteError, false, wire.JobFailed},
		{wire.OutOfMemory, true, wire.JobFailed},
	} {
		w := &Worker{lifetime: lifetime{stopped: make(chan struct{})}}
		if tt.ends {
			w.fail(errors.New("program of several hosts"))
		}
		j := &runner{w: w}
		if got, _, _ := j.failed(wire.Errorf(tt.code, "failed")); got != tt.want {
			t.Errorf("%s, worker ends %t: got job %s, want %s", tt.code, tt.ends, got, tt.want)
		}
	}
}
