package timing_test

import (
	"fmt"

	"gaiden/lib/timing"
)

// A Timer runs a function until its time is stable. The samples stay in the result.
func Example() {
	var sum int
	t := timing.Timer{Runs: 5, Loops: 1000}
	m := t.Time("a sum", func() { sum++ })
	fmt.Println(m.N(), "samples of", m.Loops, "calls each; warm-up apart:", sum > 5000)
	fmt.Println("the best is no more than the median:", m.Best() <= m.Median())
	// Output:
	// 5 samples of 1000 calls each; warm-up apart: true
	// the best is no more than the median: true
}

// Samples from elsewhere are compared as well. What the few and wide ones
// cannot prove is not a difference.
func ExampleCompare() {
	before := timing.Measurement{Name: "before", Samples: []float64{10.1e-3, 10.2e-3, 10.0e-3, 10.3e-3, 10.1e-3, 10.2e-3, 10.0e-3, 10.1e-3}, Loops: 1}
	after := timing.Measurement{Name: "after", Samples: []float64{5.1e-3, 5.0e-3, 5.2e-3, 5.1e-3, 5.0e-3, 5.1e-3, 5.2e-3, 5.0e-3}, Loops: 1}
	for _, c := range []timing.Comparison{timing.Compare(before, after), timing.Compare(before, before)} {
		fmt.Println(c)
	}
	// Output:
	// 1.98× faster   p<0.001 n=8+8 (Mann-Whitney U)
	// ~   p=1.000 n=8+8 (Mann-Whitney U)
}
