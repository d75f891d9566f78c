package report

import (
	"flag"
	"math"
	"os"
	"strconv"
	"testing"

	"gaiden/lib/timing"
)

// collatz is one piece of code, wherever it is called from: two copies take
// different times by where they lie (2 % was seen).
//
//go:noinline
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
// -bench finds, within 5 %. Both have the number of loops that %timeit finds
// divided by ten, and run in turns of some ten milliseconds: the speed of a machine
// whose other cores work goes up and down by a quarter, and so do the results of
// both when one comes after the other.
func TestTimeitAgreesWithGo(t *testing.T) {
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
	was := flag.Lookup("test.benchtime").Value.String()
	defer flag.Set("test.benchtime", was)
	for _, start := range []int{27, 837799} {
		steps := 0 // so that the calls are not left out
		work := func(n int) {
			for range n {
				steps += collatz(start)
			}
		}
		loops := max((Timeit{Quiet: true}).Run(work).Loops/10, 1)
		if err := flag.Set("test.benchtime", strconv.Itoa(loops)+"x"); err != nil {
			t.Fatal(err)
		}
		bench := func() float64 {
			r := testing.Benchmark(func(b *testing.B) {
				for b.Loop() {
					collatz(start)
				}
			})
			return r.T.Seconds() / float64(r.N)
		}
		timeit := func() float64 { return (Timeit{Quiet: true, Loops: loops, Runs: 1}).Run(work).Best() }
		theirs, ours := timing.Measurement{Name: "go test -bench", Loops: loops, Turns: 1}, timing.Measurement{Name: "%timeit", Loops: loops, Turns: 1}
		var c timing.Comparison
		for c.Turns < 500 && !(c.Turns >= 50 && c.High-c.Low < 0.05) {
			b, t := bench(), timeit()
			t2, b2 := timeit(), bench()
			theirs.Samples, ours.Samples = append(theirs.Samples, b, b2), append(ours.Samples, t, t2)
			c = timing.Compare(theirs, ours)
		}
		t.Logf("collatz(%d), %d loops: go test -bench %.5g ns (best %.5g), %%timeit %.5g ns (best %.5g), %+.1f%% (%+.1f%% to %+.1f%%) in %d turns", start, loops,
			1e9*theirs.Median(), 1e9*theirs.Best(), 1e9*ours.Median(), 1e9*ours.Best(), 100*c.Change, 100*c.Low, 100*c.High, c.Turns)
		if !(math.Abs(c.Change) <= 0.05 && c.High-c.Low < 0.1) {
			t.Errorf("collatz(%d): got %+.1f%% (%+.1f%% to %+.1f%%) beside go test -bench in %d turns, want it within 5%% and known as well", start,
				100*c.Change, 100*c.Low, 100*c.High, c.Turns)
		}
	}
}
