package stats

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

var nan = math.NaN()

func near(got, want float64) bool {
	return got == want || math.IsNaN(got) && math.IsNaN(want) || math.Abs(got-want) <= 1e-9*math.Max(1, math.Abs(want))
}

func TestSummaries(t *testing.T) {
	tests := []struct {
		name                              string
		sample                            []float64
		median, q25, spread, mean, stdDev float64
	}{
		{"odd", []float64{3, 1, 2}, 2, 1.5, 0.25, 2, math.Sqrt(2.0 / 3)},
		{"even", []float64{4, 1, 3, 2}, 2.5, 1.75, 0.3, 2.5, math.Sqrt(1.25)},
		{"one", []float64{7}, 7, 7, 0, 7, 0},
		{"none", nil, nan, nan, nan, nan, nan},
		{"with NaN", []float64{nan, 3, 1, nan, 2}, 2, 1.5, 0.25, 2, math.Sqrt(2.0 / 3)},
		{"only NaN", []float64{nan}, nan, nan, nan, nan, nan},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := slices.Clone(tt.sample)
			for _, f := range []struct {
				name      string
				got, want float64
			}{
				{"median", Median(tt.sample), tt.median},
				{"first quartile", Quantile(tt.sample, 0.25), tt.q25},
				{"spread", Spread(tt.sample), tt.spread},
				{"mean", Mean(tt.sample), tt.mean},
				{"standard deviation", StdDev(tt.sample), tt.stdDev},
			} {
				if !near(f.got, f.want) {
					t.Errorf("%s: got %g, want %g", f.name, f.got, f.want)
				}
			}
			if !slices.EqualFunc(before, tt.sample, near) {
				t.Errorf("the sample was changed to %v, want %v", tt.sample, before)
			}
		})
	}
	if got := Quantile([]float64{1, 2}, 1.5); !math.IsNaN(got) {
		t.Errorf("quantile 1.5: got %g, want NaN", got)
	}
	if got := Median([]float64{math.Inf(1), math.Inf(1)}); !math.IsInf(got, 1) {
		t.Errorf("median of infinities: got %g, want +Inf", got)
	}
}

// The p-values are SciPy's: scipy.stats.mannwhitneyu(a, b) with method
// "exact" where there is no tie, "asymptotic" where there is one.
func TestMannWhitney(t *testing.T) {
	tests := []struct {
		name string
		a, b []float64
		want float64
	}{
		{"apart", []float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 0.02857142857142857},
		{"mixed", []float64{1, 4, 5, 8}, []float64{2, 3, 6, 7}, 1},
		{"other sizes", []float64{1, 2, 3}, []float64{2.5, 4, 5, 6, 7}, 0.07142857142857142},
		{"ties", []float64{1, 2, 2, 3}, []float64{2, 3, 4, 5}, 0.13665824773814753},
		{"all equal", []float64{1, 1, 1}, []float64{1, 1, 1}, 1},
		{"empty", nil, []float64{1}, 1},
		{"one each", []float64{1}, []float64{2}, 1},
		{"NaN is skipped", []float64{1, 2, nan, 3, 4}, []float64{5, 6, 7, 8, nan}, 0.02857142857142857},
	}
	for _, tt := range tests {
		if got := MannWhitney(tt.a, tt.b); math.Abs(got-tt.want) > 1e-6 {
			t.Errorf("%s: got %.9f, want %.9f", tt.name, got, tt.want)
		}
		if got, other := MannWhitney(tt.a, tt.b), MannWhitney(tt.b, tt.a); !near(got, other) {
			t.Errorf("%s: got %g one way and %g the other", tt.name, got, other)
		}
	}
}

// The p-values are SciPy's: scipy.stats.wilcoxon(d), method "exact" where there
// is no tie, "approx" with correction where there is one or where they are many.
func TestSignedRank(t *testing.T) {
	many := make([]float64, 60)
	for i := range many {
		many[i] = 7 + 0.5*float64(i+1)*float64(2*(i%2)-1)
	}
	tests := []struct {
		name string
		d    []float64
		want float64
	}{
		{"one side", []float64{1, 2, 3, 4, 5, 6}, 0.03125},
		{"mixed", []float64{1, -2, 3, 4, -5, 6, 7}, 0.296875},
		{"fractions", []float64{0.5, -0.1, 0.2, 0.9, 1.1, -0.3, 0.7, 0.8}, 0.0546875},
		{"zeros and NaN are left out", []float64{1, 0, 2, 3, nan, 4, 5, 6}, 0.03125},
		{"ties", []float64{1, 1, -1, 2, 2, 3, -2, 4}, 0.13756389390990328},
		{"many", many, 0.004920404790379095},
		{"none", nil, 1},
		{"zeros", []float64{0, 0}, 1},
	}
	for _, tt := range tests {
		if got := SignedRank(tt.d); math.Abs(got-tt.want) > 1e-9 {
			t.Errorf("%s: got %.9f, want %.9f", tt.name, got, tt.want)
		}
		turned := slices.Clone(tt.d)
		for i := range turned {
			turned[i] = -turned[i]
		}
		if got, other := SignedRank(tt.d), SignedRank(turned); !near(got, other) {
			t.Errorf("%s: got %g one way and %g the other", tt.name, got, other)
		}
	}
}

// TestCentre holds that the interval is as sure as it says, around and beyond
// the size where the exact count gives way, and that it agrees with the test.
func TestCentre(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 9))
	for _, n := range []int{12, 50, 51, 80} {
		covered := 0
		for range 1000 {
			d := make([]float64, n)
			for i := range d {
				d[i] = 3 + r.NormFloat64()*r.ExpFloat64()
			}
			centre, low, high := Centre(d, 0.95)
			if !(low < centre && centre < high) {
				t.Fatalf("n=%d: got %g from %g to %g", n, centre, low, high)
			}
			if low <= 3 && 3 <= high {
				covered++
			}
			shifted := slices.Clone(d)
			for i := range shifted {
				shifted[i] -= low - 1e-9
			}
			if p := SignedRank(shifted); n <= exactRanks && p > 0.05 {
				t.Fatalf("n=%d: just below the interval, p=%g, want no more than 0.05", n, p)
			}
		}
		if covered < 930 || covered > 985 { // 950 to 970, and three standard deviations
			t.Errorf("n=%d: the 95 %% interval holds the truth in %d of 1000", n, covered)
		}
	}
	if _, low, high := Centre([]float64{1, 2, 3}, 0.95); !math.IsInf(low, -1) || !math.IsInf(high, 1) {
		t.Errorf("three differences: got %g to %g, want no bounds", low, high)
	}
	if c, _, _ := Centre(nil, 0.95); !math.IsNaN(c) {
		t.Errorf("none: got %g, want NaN", c)
	}
}

// The exact count must agree with trying all arrangements.
func TestExactAgainstEnumeration(t *testing.T) {
	for n := 1; n <= 5; n++ {
		for m := 1; m <= 5; m++ {
			count := make([]float64, n*m+1)
			total := 0.0
			for set := range 1 << (n + m) {
				u, ones := 0, 0
				for i := range n + m {
					if set>>i&1 == 1 {
						u += i - ones // values of the other sample below this one
						ones++
					}
				}
				if ones == n {
					count[u]++
					total++
				}
			}
			for u := range count {
				tail := 0.0
				for k := 0; k <= min(u, n*m-u); k++ {
					tail += count[k]
				}
				if got, want := exact(float64(u), n, m), math.Min(1, 2*tail/total); !near(got, want) {
					t.Errorf("exact(%d, %d, %d): got %g, want %g", u, n, m, got, want)
				}
			}
		}
	}
}

// Around the size where the exact count gives way, both must say the same.
func TestApproximationMeetsExact(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 100 {
		a, b := make([]float64, 25), make([]float64, 25)
		for i := range a {
			a[i], b[i] = r.NormFloat64(), r.NormFloat64()+0.5
		}
		precise := MannWhitney(a, b)
		u, _ := rankSum(sorted(a), sorted(b))
		z := (math.Abs(u-312.5) - 0.5) / math.Sqrt(25*25*51/12.0)
		if rough := math.Erfc(math.Max(0, z) / math.Sqrt2); math.Abs(precise-rough) > 0.01 {
			t.Errorf("exact %g, approximation %g", precise, rough)
		}
	}
}
