package device

import (
	"sync"
	"testing"
	"time"
)

// TestClock holds what is learned from the end of executions: of a chunk, which is a
// short program and a long one, the long one's time, even where its first run took
// a second.
func TestClock(t *testing.T) {
	const ms = time.Millisecond
	for _, tt := range []struct {
		name  string
		paces []time.Duration // of the programs, as known
		group []int           // programs that end as one
		took  time.Duration
		want  []time.Duration
	}{
		{"alone", []time.Duration{0}, []int{0}, 30 * ms, []time.Duration{30 * ms}},
		{"three runs", []time.Duration{100 * ms}, []int{0, 0, 0}, 30 * ms, []time.Duration{10 * ms}},
		{"behind a short one", []time.Duration{2 * ms, 1000 * ms}, []int{0, 1}, 32 * ms, []time.Duration{2 * ms, 30 * ms}},
		{"between short ones", []time.Duration{2 * ms, 1000 * ms}, []int{0, 1, 0, 1}, 64 * ms, []time.Duration{2 * ms, 30 * ms}},
		{"not known yet", []time.Duration{10 * ms, 0}, []int{0, 1}, 32 * ms, []time.Duration{10 * ms, 22 * ms}},
		{"sooner than thought", []time.Duration{50 * ms, 60 * ms}, []int{0, 1}, 20 * ms, []time.Duration{50 * ms, 1}},
	} {
		c := &conn{inFlight: inFlight{finished: sync.NewCond(new(sync.Mutex))}}
		var programs []*program
		for _, pace := range tt.paces {
			programs = append(programs, &program{usage: usage{pace: pace}})
		}
		var executions []*execution
		for _, i := range tt.group {
			p := programs[i]
			executions = append(executions, &execution{program: p, began: time.Now().Add(-tt.took), cost: p.pace})
		}
		c.clock(executions)
		for i, p := range programs {
			if off := p.pace - tt.want[i]; off < 0 || off > 5*ms {
				t.Errorf("%s: program %d: got %v, want %v", tt.name, i, p.pace, tt.want[i])
			}
		}
	}
}
