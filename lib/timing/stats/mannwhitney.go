package stats

import (
	"math"
	"slices"
)

// MannWhitney returns the two-sided p-value of the Mann-Whitney U test: the
// probability that two samples of the same distribution differ in rank at least as
// much as these. It is 1 if a sample is empty or all values are equal.
//
// It is exact for up to 50 values without ties; otherwise it is the normal
// approximation with corrections for ties and continuity.
//
// Source: Mann and Whitney, "On a test of whether one of two random variables is
// stochastically larger than the other", 1947.
func MannWhitney(a, b []float64) float64 {
	a, b = sorted(a), sorted(b)
	n, m := len(a), len(b)
	if n == 0 || m == 0 {
		return 1
	}
	u, ties := rankSum(a, b)
	if ties == 0 && n+m <= 50 {
		return exact(u, n, m)
	}
	total := float64(n + m)
	mean := float64(n) * float64(m) / 2
	variance := float64(n) * float64(m) / 12 * (total + 1 - ties/(total*(total-1)))
	if !(variance > 0) {
		return 1
	}
	z := (math.Abs(u-mean) - 0.5) / math.Sqrt(variance)
	return math.Min(1, math.Erfc(math.Max(0, z)/math.Sqrt2))
}

// rankSum returns the U statistic of sorted a against sorted b, the number of
// pairs where a is greater (ties count half), and the tie correction Σ(t³-t).
func rankSum(a, b []float64) (u, ties float64) {
	all := append(slices.Clone(a), b...)
	slices.Sort(all)
	rank := func(v float64) float64 { // mean of the ranks of the values equal to v
		low, _ := slices.BinarySearch(all, v)
		high := low
		for high < len(all) && all[high] == v {
			high++
		}
		return float64(low+high+1) / 2
	}
	sum := 0.0
	for i := 0; i < len(a); {
		j := i
		for j < len(a) && a[j] == a[i] {
			j++
		}
		sum += float64(j-i) * rank(a[i])
		i = j
	}
	for i := 0; i < len(all); {
		j := i
		for j < len(all) && all[j] == all[i] {
			j++
		}
		t := float64(j - i)
		ties += t*t*t - t
		i = j
	}
	n := float64(len(a))
	return sum - n*(n+1)/2, ties
}

// exact counts the arrangements with a U as far from the middle as u. The
// counts of all U are the coefficients of Π (1-x^(m+i))/(1-x^i), i = 1…n;
// up to 50 values they are whole numbers that float64 holds exactly.
func exact(u float64, n, m int) float64 {
	size := n*m + 1
	count := make([]float64, size)
	count[0] = 1
	for i := 1; i <= n; i++ {
		for k := size - 1; k >= m+i; k-- {
			count[k] -= count[k-m-i]
		}
		for k := i; k < size; k++ {
			count[k] += count[k-i]
		}
	}
	near := int(math.Min(u, float64(n*m)-u))
	tail, all := 0.0, 0.0
	for k, c := range count {
		all += c
		if k <= near {
			tail += c
		}
	}
	return math.Min(1, 2*tail/all)
}
