// Package stats answers the two questions that a measurement raises: how large
// is it, and is it different from that one?
//
// It assumes nothing about how times are distributed, because they are not
// normal: the centre is the median, the spread is the distance of the
// quartiles, two samples are compared by the Mann-Whitney U test, and what was
// measured in pairs by the Wilcoxon signed-rank test.
//
//	m := stats.Median(times)
//	p := stats.MannWhitney(before, after) // probability of such a difference by chance
//	p = stats.SignedRank(differences)
//
// Functions take samples in any order, do not change them, and skip NaN. What
// a sample is too small to say is NaN, never a panic.
package stats

import (
	"math"
	"math/rand/v2"
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

// Median is the middle value, or the mean of the two middle ones.
func Median(sample []float64) float64 { return Quantile(sample, 0.5) }

// Quantile is the value that a share q of the sample lies below, linear
// between neighbours (R's type 7, as in NumPy).
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

// Spread is half the distance of the quartiles as a share of the median: a
// spread of 0.02 is printed "± 2%". It is 0 for one value.
func Spread(sample []float64) float64 {
	s := sorted(sample)
	if len(s) == 1 {
		return 0
	}
	return (quantile(s, 0.75) - quantile(s, 0.25)) / 2 / math.Abs(quantile(s, 0.5))
}

// Mean is the arithmetic mean.
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

// StdDev is the standard deviation of the values themselves (divided by n, as
// IPython's %timeit does, not by n-1).
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

// Min and Max are the extremes; NaN for an empty sample.
func Min(sample []float64) float64 { return Quantile(sample, 0) }

// Max is the greatest value; see Min.
func Max(sample []float64) float64 { return Quantile(sample, 1) }

// Interval is a bootstrap interval of the median: resampling the sample gives
// a median inside it with the given confidence, 0.95 say. It is the same for
// the same sample, and NaN for fewer than two values.
func Interval(sample []float64, confidence float64) (low, high float64) {
	s := sorted(sample)
	if len(s) < 2 || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN()
	}
	const resamples = 1000
	r := rand.New(rand.NewPCG(uint64(len(s)), 1))
	medians := make([]float64, resamples)
	drawn := make([]float64, len(s))
	for i := range medians {
		for j := range drawn {
			drawn[j] = s[r.IntN(len(s))]
		}
		slices.Sort(drawn)
		medians[i] = quantile(drawn, 0.5)
	}
	slices.Sort(medians)
	return quantile(medians, (1-confidence)/2), quantile(medians, (1+confidence)/2)
}
