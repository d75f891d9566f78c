package hlo_test

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// TestTiny holds that numbers which float32 has fewer digits for are zeros in calls of package
// lstm, as they are in XLA's own code, on each of its threads: else results would
// depend on who computes what.
func TestTiny(t *testing.T) { vectors(t, testTiny) }

func testTiny(t *testing.T, b *backend) {
	same := func(n int, x float32) []float32 {
		all := make([]float32, n)
		for i := range all {
			all[i] = x
		}
		return all
	}
	zeros := func(name string, got []float32) {
		t.Helper()
		for i, x := range got {
			if x != 0 {
				t.Errorf("%s, number %d of %d: got %v, want 0", name, i, len(got), x)
				return
			}
		}
	}
	d := newDraft(t)
	f := d.main()
	square := d.program(d.v(f.Mul(d.param(f, dtypes.Float32, 8), d.param(f, dtypes.Float32, 8))))
	zeros("XLA's own", b.once(t, square, same(8, 1e-20), same(8, 1e-20))[0])
	r := recurrence{length: 2, n: 64, u: 64}
	state, gates, recurrent := r.n*r.u, r.length*r.n*4*r.u, make([]float32, r.u*4*r.u)
	for range 20 { // each thread has its turns
		zeros("cells", r.ahead(t, b, 2, make([]float32, gates), make([]float32, 4*r.u), recurrent, make([]float32, state), same(state, 1e-39))[1])
		zeros("gradient", r.back(t, b, 2, same(gates, 0.5), recurrent, make([]float32, state), same(r.length*state, 0.5), same(r.length*state, 1e-38)))
	}
}
