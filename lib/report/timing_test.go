package report

import (
	"math"
	"os"
	"runtime"
	"testing"
)

func collatz(n int) (steps int) {
	for ; n != 1; steps++ {
		if n%2 == 0 {
			n /= 2
		} else {
			n = 3*n + 1
		}
	}
	return steps
}

// TestTimeitAgreesWithGo holds that %timeit of a statement finds what go test
// -bench finds, within 5 %.
func TestTimeitAgreesWithGo(t *testing.T) {
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
	if m := (Timeit{Quiet: true}).Run(func(n int) {
		for range n {
			steps := collatz(837799)
			runtime.KeepAlive(&steps)
		}
	}); m.Median() > 1.03*m.Best() {
		t.Skipf("asserts times, and this machine is busy: the same work takes %.0f%% longer than at best; run it when nothing else runs", 100*(m.Median()/m.Best()-1))
	}
	for _, start := range []int{27, 837799} {
		best := math.Inf(1)
		for range 5 {
			r := testing.Benchmark(func(b *testing.B) {
				for b.Loop() {
					collatz(start)
				}
			})
			best = min(best, float64(r.T.Nanoseconds())/float64(r.N))
		}
		m := Timeit{Quiet: true}.Run(func(n int) {
			for range n {
				steps := collatz(start)
				runtime.KeepAlive(&steps)
			}
		})
		t.Logf("collatz(%d): go test -bench %.5g ns, %%timeit %.5g ns", start, best, 1e9*m.Best())
		if got := 1e9 * m.Best(); math.Abs(got/best-1) > 0.05 {
			t.Errorf("collatz(%d): got %g ns, want %g as from go test -bench", start, got, best)
		}
	}
}
