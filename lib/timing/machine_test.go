package timing

import (
	"math"
	"os"
	"testing"
	"time"

	"gaiden/lib/timing/stats"
)

// needed skips a test that asserts times where nobody has asked for them.
func needed(t *testing.T) {
	t.Helper()
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
}

var counter int

// count is work whose time grows with n. It is one piece of code, wherever it is
// called from: two copies take different times by where they lie.
//
//go:noinline
func count(n int) {
	x := counter
	for i := range n {
		x = x*31 + i
	}
	counter = x
}

// TestCompareTheSame holds that two equal functions compare as equal in 95 of
// 100 tries, and TestCompareSlower that one that does 5 % more is found in 90.
func TestCompareTheSame(t *testing.T) {
	needed(t)
	same, _ := compared(t, 1<<16, 1<<16)
	if want := 95; same < want {
		t.Errorf("two equal functions: got ~ in %d of 100 tries, want %d", same, want)
	}
}

func TestCompareSlower(t *testing.T) {
	needed(t)
	if _, found := compared(t, 1<<16, 1<<16+1<<16/20); found < 90 {
		t.Errorf("one of two does 5 %% more: found in %d of 100 tries, want %d", found, 90)
	}
}

// compared is in how many of 100 comparisons no difference is proven, and in how
// many the second is proven to be slower.
func compared(t *testing.T, n, m int) (same, slower int) {
	turns, changes := 0, []float64(nil)
	for range 100 {
		c := Timer{Budget: 2 * time.Second}.Compare(t.Context(), Call("old", func() { count(n) }), Call("new", func() { count(m) }))
		turns, changes = turns+c.Turns, append(changes, c.Change)
		switch {
		case !c.Proven:
			same++
		case c.Change > 0:
			slower++
		}
	}
	t.Logf("~ in %d, slower in %d of 100, %d turns each; changes from %+.2f%% to %+.2f%%, half of them %+.2f%% to %+.2f%%", same, slower, turns/100,
		100*stats.Min(changes), 100*stats.Max(changes), 100*stats.Quantile(changes, 0.25), 100*stats.Quantile(changes, 0.75))
	return same, slower
}

// TestTimeOfASleep holds that a sleep takes in the result what it takes by a
// clock inside of it, and that one of 100 ms, which the system ends a fraction of
// a millisecond late, is told within 1 %.
func TestTimeOfASleep(t *testing.T) {
	needed(t)
	const long = 100 * time.Millisecond
	var inside []float64
	m := Timer{Runs: 10, Loops: 1}.Time("sleep", func() {
		began := time.Now()
		time.Sleep(long)
		inside = append(inside, time.Since(began).Seconds())
	})
	inside = inside[1:] // the first call is no sample
	for i, got := range m.Samples {
		if math.Abs(got/inside[i]-1) > 0.001 {
			t.Errorf("sleep %d: got %g s, want %g s as by the clock inside, within 0.1%%", i, got, inside[i])
		}
	}
	if got := m.Best(); math.Abs(got/long.Seconds()-1) > 0.01 {
		t.Errorf("a sleep of %v: got %g s at best, want it within 1%%", long, got)
	}
}
