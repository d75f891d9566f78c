package timing

import (
	"context"
	"os"
	"testing"
	"time"
)

// quiet skips a test that asserts times where nobody has asked for them, and on
// a machine that does other things: they would tell about those.
func quiet(t *testing.T) {
	t.Helper()
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
	m := Timer{Budget: 300 * time.Millisecond}.Time("work", func() { count(1 << 16) })
	if median, best := m.Median(), m.Best(); median > 1.03*best {
		t.Skipf("asserts times, and this machine is busy: the same work takes %.0f%% longer than at best; run it when nothing else runs", 100*(median/best-1))
	}
}

var counter int

// count is work whose time grows with n.
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
	quiet(t)
	if got, want := compared(1<<16, 1<<16, "~"), 95; got < want {
		t.Errorf("two equal functions: got ~ in %d of 100 tries, want %d", got, want)
	}
}

func TestCompareSlower(t *testing.T) {
	quiet(t)
	if got, want := 100-compared(1<<16, 1<<16+1<<16/20, "~"), 90; got < want {
		t.Errorf("one of two does 5 %% more: found in %d of 100 tries, want %d", got, want)
	}
}

// compared is how many of 100 comparisons have the verdict.
func compared(n, m int, verdict string) int {
	found := 0
	for range 100 {
		r := Timer{Budget: 30 * time.Millisecond}.Times(context.Background(), Call("old", func() { count(n) }), Call("new", func() { count(m) }))
		if Compare(r[0], r[1]).Verdict() == verdict {
			found++
		}
	}
	return found
}
