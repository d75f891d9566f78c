package xla

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestToomCook holds that the matrices give a convolution of one dimension, but for the
// last digits of float64.
func TestToomCook(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	vector := func(n int) []float64 {
		l := make([]float64, n)
		for i := range l {
			l[i] = r.NormFloat64()
		}
		return l
	}
	apply := func(m matrix, x []float64) []float64 {
		y := make([]float64, len(m))
		for i, row := range m {
			for k, v := range row {
				y[i] += v * x[k]
			}
		}
		return y
	}
	for taps := 2; taps <= 6; taps++ {
		for out := 2; out+taps <= 8; out++ {
			w := winogradOf(out, taps)
			seen, kernel := vector(w.values()), vector(taps)
			values, factors := apply(w.b, seen), apply(w.g, kernel)
			for i := range values {
				values[i] *= factors[i]
			}
			for i, got := range apply(w.a, values) {
				want := 0.0
				for k, v := range kernel {
					want += v * seen[i+k]
				}
				if math.Abs(got-want) > 1e-12 {
					t.Errorf("%d outputs, %d taps: output %d: got %v, want %v", out, taps, i, got, want)
				}
			}
		}
	}
}
