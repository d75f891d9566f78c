package device

import (
	"errors"
	"path/filepath"
	"strings"
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

// TestJobAttempts: a job fails that ends the worker again and again at one place, but not one
// that comes further in between, as where hosts are lost.
func TestJobAttempts(t *testing.T) {
	at := func(turn int) jobMoment { return jobMoment{Place: wire.Place{Turn: turn}} }
	for _, tt := range []struct {
		name   string
		deaths [][2]int // turn of the snapshot, and entries of the log
		want   int      // tries at the end
	}{
		{"at one place", [][2]int{{0, 7}, {0, 7}, {0, 7}, {0, 7}}, 4},
		{"a little earlier", [][2]int{{0, 7}, {0, 6}, {0, 7}, {0, 5}}, 4},
		{"further each time", [][2]int{{0, 7}, {0, 9}, {0, 12}, {0, 13}, {0, 20}}, 1},
		{"further once", [][2]int{{0, 7}, {0, 7}, {0, 7}, {0, 9}, {0, 9}}, 2},
		{"a snapshot in between", [][2]int{{0, 7}, {0, 7}, {0, 7}, {3, 7}}, 1},
		{"at once", [][2]int{{0, 0}, {0, 0}, {0, 0}, {0, 0}}, 4},
	} {
		f := jobFile{Began: at(-1)}
		for _, d := range tt.deaths {
			f.attempts = f.next(at(d[0]), d[1])
			f.Began = at(d[0])
		}
		if f.Tries != tt.want {
			t.Errorf("%s: got %d tries, want %d", tt.name, f.Tries, tt.want)
		}
	}
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, 10_000, 1} {
		if err := l.append([]wire.JobEntry{{Name: strings.Repeat("x", size)}}); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	if l, err = openLog(path, 1); err != nil || l.count() != 1 || l.written != 3 {
		t.Errorf("a log of 3 entries: got %+v, %v, want 1 of them read", l, err)
	}
	l.close()
}
