package faults

import (
	"os"
	"syscall"
	"testing"
)

// effects are what is tried at each call.
var effects = []Plan{
	{Effect: Fail, Error: syscall.EIO},
	{Effect: Fail, Error: syscall.ENOSPC},
	{Effect: Fail, Error: syscall.EMFILE},
	{Effect: Fail, Error: syscall.EINTR},
	{Effect: Short},
	{Effect: Torn},
	{Effect: Kill},
	{Effect: Halt},
}

func (p Plan) name() string {
	if p.Effect == Fail {
		return p.Error.Error()
	}
	return string(p.Effect)
}

// sweep counts the calls of a workload, and runs it with each effect at some of
// them, spread evenly; at each of them with GAIDEN_FAULTS=full.
func sweep(t *testing.T, some int, workload func(Plan) ([]Call, error)) {
	counts := map[Effect]int{} // Short and Torn count only calls that move bytes
	for _, p := range effects {
		if counts[p.Effect] > 0 {
			continue
		}
		calls, err := workload(Plan{Effect: p.Effect, Error: p.Error})
		if err != nil {
			t.Fatalf("untouched: %v", err)
		}
		counts[p.Effect] = len(calls)
		if p.Effect == Fail {
			counts[Kill], counts[Halt] = len(calls), len(calls)
		}
	}
	for i, p := range effects {
		t.Run(p.name(), func(t *testing.T) {
			n := counts[p.Effect]
			tries := min(some, n)
			if os.Getenv("GAIDEN_FAULTS") == "full" {
				tries = n
			}
			for k := range tries {
				// Each effect begins elsewhere, so that together they hit many calls.
				p.Hit = 1 + (k*n/tries+i*n/(tries*len(effects)))%n
				if calls, err := workload(p); err != nil {
					t.Errorf("%v of %d (%s): %v", p, n, hitOf(calls), err)
				}
			}
		})
	}
}

// hitOf is the call that was hit, for a message.
func hitOf(calls []Call) string {
	for _, c := range calls {
		if c.Hit {
			return c.String()
		}
	}
	return "none was hit"
}
