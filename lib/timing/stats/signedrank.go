package stats

import (
	"cmp"
	"math"
	"slices"
)

// SignedRank returns the two-sided p-value of the Wilcoxon signed-rank test: the
// probability that differences which are symmetric about 0 lie at least as much on
// one side as these. Differences of 0 are ignored; the result is 1 if there are no
// others.
//
// It is exact for up to 50 differences without ties; otherwise it is the normal
// approximation with corrections for ties and continuity.
//
// Source: Wilcoxon, "Individual comparisons by ranking methods", 1945.
func SignedRank(differences []float64) float64 {
	var d []float64
	for _, v := range differences {
		if v != 0 && !math.IsNaN(v) {
			d = append(d, v)
		}
	}
	n := len(d)
	if n == 0 {
		return 1
	}
	slices.SortFunc(d, func(a, b float64) int { return cmp.Compare(math.Abs(a), math.Abs(b)) })
	above, ties := 0.0, 0.0
	for i := 0; i < n; {
		j := i
		for j < n && math.Abs(d[j]) == math.Abs(d[i]) {
			j++
		}
		for _, v := range d[i:j] {
			if v > 0 {
				above += float64(i+j+1) / 2
			}
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	m := float64(n)
	all := m * (m + 1) / 2
	if n <= exactRanks && ties == 0 {
		near := int(math.Min(above, all-above))
		tail := 0.0
		for _, c := range rankSums(n)[:near+1] {
			tail += c
		}
		return math.Min(1, 2*tail)
	}
	variance := m*(m+1)*(2*m+1)/24 - ties/48
	z := (math.Abs(above-all/2) - 0.5) / math.Sqrt(variance)
	return math.Min(1, math.Erfc(math.Max(0, z)/math.Sqrt2))
}

const exactRanks = 50

// rankSums is how likely each sum of ranks 1…n is, where each rank is in it or
// not by a fair coin: the coefficients of Π (1+x^i)/2.
func rankSums(n int) []float64 {
	p := make([]float64, n*(n+1)/2+1)
	p[0] = 1
	for i := 1; i <= n; i++ {
		for k := i * (i + 1) / 2; k >= 0; k-- {
			p[k] /= 2
			if k >= i {
				p[k] += p[k-i] / 2
			}
		}
	}
	return p
}

// Centre returns the Hodges-Lehmann estimate of the centre of differences (the median
// of the means of all pairs) and its confidence interval from the signed-rank test,
// for a confidence such as 0.99. With too few differences, the interval is infinite
// on both sides.
func Centre(differences []float64, confidence float64) (centre, low, high float64) {
	d := sorted(differences)
	n := len(d)
	if n == 0 || !(confidence > 0 && confidence < 1) {
		return math.NaN(), math.NaN(), math.NaN()
	}
	means := make([]float64, 0, n*(n+1)/2)
	for i, a := range d {
		for _, b := range d[i:] {
			means = append(means, (a+b)/2)
		}
	}
	slices.Sort(means)
	out := outside(n, (1-confidence)/2) // of the means, on each side
	if out < 0 {
		return quantile(means, 0.5), math.Inf(-1), math.Inf(1)
	}
	return quantile(means, 0.5), means[out], means[len(means)-1-out]
}

// outside is the greatest sum of ranks that is reached, or less, with a
// probability of no more than tail; -1 if even 0 is more likely than that.
func outside(n int, tail float64) int {
	if n <= exactRanks {
		sum := 0.0
		for k, p := range rankSums(n) {
			if sum += p; sum > tail {
				return k - 1
			}
		}
	}
	m := float64(n)
	z := -math.Sqrt2 * math.Erfinv(2*tail-1)
	return int(math.Floor(m*(m+1)/4 - z*math.Sqrt(m*(m+1)*(2*m+1)/24)))
}
