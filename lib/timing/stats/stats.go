// Package stats answers two questions about measurements: how large is a value, and
// do two samples differ?
//
// Times are not normally distributed, so it assumes no distribution. The centre is
// the median, the spread is the interquartile range. Two samples are compared with
// the Mann-Whitney U test, pairs with the Wilcoxon signed-rank test.
//
//	m := stats.Median(times)
//	p := stats.MannWhitney(before, after) // probability of such a difference by chance
//	p = stats.SignedRank(differences)
//
// Functions accept samples in any order, do not change them, and ignore NaN. They
// never panic: if a sample is too small, the result is NaN.
package stats

import (
	"math"
	"slices"
)

// sorted returns the values in ascending order without NaN.
func sorted(sample []float64) []float64 {
	s := make([]float64, 0, len(sample))
	for _, v := range sample {
		if !math.IsNaN(v) {
			s = append(s, v)
		}
	}
	slices.Sort(s)
	return s
}

// Median returns the median: the middle value, or the mean of the two middle ones.
func Median(sample []float64) float64 { return Quantile(sample, 0.5) }

// Quantile returns the q-quantile for q from 0 to 1, interpolated linearly (R type 7,
// as in NumPy).
func Quantile(sample []float64, q float64) float64 { return quantile(sorted(sample), q) }

func quantile(s []float64, q float64) float64 {
	if len(s) == 0 || !(q >= 0 && q <= 1) {
		return math.NaN()
	}
	at := q * float64(len(s)-1)
	i := int(at)
	if i == len(s)-1 || s[i] == s[i+1] {
		return s[i] // also keeps two infinities from making NaN
	}
	return s[i] + (at-float64(i))*(s[i+1]-s[i])
}

// Spread returns half the interquartile range as a share of the median: 0.02 is
// printed as "± 2 %". It is 0 for a single value.
func Spread(sample []float64) float64 {
	s := sorted(sample)
	if len(s) == 1 {
		return 0
	}
	return (quantile(s, 0.75) - quantile(s, 0.25)) / 2 / math.Abs(quantile(s, 0.5))
}

// Mean returns the arithmetic mean.
func Mean(sample []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range sample {
		if !math.IsNaN(v) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

// StdDev returns the standard deviation of the values (divided by n, as in IPython's
// %timeit, not by n-1).
func StdDev(sample []float64) float64 {
	mean, sum, n := Mean(sample), 0.0, 0
	for _, v := range sample {
		if !math.IsNaN(v) {
			sum += (v - mean) * (v - mean)
			n++
		}
	}
	return math.Sqrt(sum / float64(n))
}

// Min returns the smallest value, NaN for an empty sample.
func Min(sample []float64) float64 { return Quantile(sample, 0) }

// Max returns the largest value, NaN for an empty sample.
func Max(sample []float64) float64 { return Quantile(sample, 1) }
