package kernels

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/emulate"
)

// numbers are n random ones from about -1 to 1.
func numbers(seed uint64, n int) []float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	l := make([]float64, n)
	for i := range l {
		l[i] = float64(float32(r.NormFloat64() / 2))
	}
	return l
}

// positive are n random numbers above 0.
func positive(seed uint64, n int) []float64 {
	l := numbers(seed, n)
	for i := range l {
		l[i] = math.Abs(l[i]) * 0.01
	}
	return l
}

func labels(seed uint64, n, classes int) []float64 {
	r := rand.New(rand.NewPCG(seed, 7))
	l := make([]float64, n)
	for i := range l {
		l[i] = float64(r.IntN(classes))
	}
	return l
}

// matmul is x [m k] · y [k n]; with transposed, x is [k m], y [n k].
func matmul(x, y []float64, m, k, n int, xT, yT bool) []float64 {
	out := make([]float64, m*n)
	for i := range m {
		for j := range n {
			for l := range k {
				a, b := i*k+l, l*n+j
				if xT {
					a = l*m + i
				}
				if yT {
					b = j*k + l
				}
				out[i*n+j] += x[a] * y[b]
			}
		}
	}
	return out
}

// plain is an activation, slope its slope from its result.
func plain(a Act, x float64) float64 { return activations.Apply(elementwise.Float64, a, x) }
func slope(a Act, y float64) float64 { return activations.Back(elementwise.Float64, a, 1, y) }

// act is one of the activations whose gradient can be computed from their results.
func act(i int) Act {
	var l []Act
	for _, a := range activations.All() {
		if a.FromResult() {
			l = append(l, a)
		}
	}
	return l[i%len(l)]
}

// run emulates a kernel.
func run(t *testing.T, k triton.Kernel, in ...[]float64) [][]float64 {
	t.Helper()
	out, err := emulate.Run(k, in...)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// near compares by the norm of the difference.
func near(t *testing.T, what string, got, want []float64, limit float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%s: got %d numbers, want %d", what, len(got), len(want))
	}
	var off, size float64
	for i := range got {
		off += (got[i] - want[i]) * (got[i] - want[i])
		size += want[i] * want[i]
	}
	if e := math.Sqrt(off / max(size, 1e-30)); !(e <= limit) {
		t.Errorf("%s: got a relative error of %.2g, want at most %.2g\n got %.6g…\nwant %.6g…", what, e, limit, first(got), first(want))
	}
}

func first(l []float64) []float64 { return l[:min(len(l), 8)] }

func name(l ...any) string { return fmt.Sprint(l...) }
