package stats_test

import (
	"fmt"

	"gaiden/lib/timing/stats"
)

// One sample that something else delayed moves the mean, and not the median.
func Example() {
	times := []float64{1.02, 1.00, 1.01, 0.99, 1.00, 9.80}
	fmt.Printf("mean %.2f, median %.3f\n", stats.Mean(times), stats.Median(times))
	slower := []float64{1.22, 1.20, 1.21, 1.19, 1.20, 1.23}
	fmt.Printf("such a difference by chance: %.3f\n", stats.MannWhitney(times[:5], slower))
	// Output:
	// mean 2.47, median 1.005
	// such a difference by chance: 0.008
}
