package kernels

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// plainLSTM is the recurrence in loops of Go; v is the gradient of h.
func plainLSTM(l Recurrence, z, r, v []float64) (h, c, gates, d []float64) {
	u, all := l.Units, l.Length*l.Batch
	h, c, gates, d = make([]float64, all*u), make([]float64, all*u), make([]float64, all*4*u), make([]float64, all*4*u)
	sigmoid := func(x float64) float64 { return plain(Sigmoid, x) }
	for t := range l.Length {
		for b := range l.Batch {
			row, last := t*l.Batch+b, (t-1)*l.Batch+b
			for k := range 4 * u {
				s := z[row*4*u+k]
				for j := range u {
					if t > 0 {
						s += h[last*u+j] * r[j*4*u+k]
					}
				}
				if k/u == 2 {
					gates[row*4*u+k] = math.Tanh(s)
				} else {
					gates[row*4*u+k] = sigmoid(s)
				}
			}
			for j := range u {
				g := func(k int) float64 { return gates[row*4*u+k*u+j] }
				old := 0.0
				if t > 0 {
					old = c[last*u+j]
				}
				c[row*u+j] = g(1)*old + g(0)*g(2)
				h[row*u+j] = g(3) * math.Tanh(c[row*u+j])
			}
		}
	}
	for b := range l.Batch {
		dh, dc := make([]float64, u), make([]float64, u)
		for t := l.Length - 1; t >= 0; t-- {
			row := t*l.Batch + b
			for j := range u {
				g := func(k int) float64 { return gates[row*4*u+k*u+j] }
				old := 0.0
				if t > 0 {
					old = c[(row-l.Batch)*u+j]
				}
				tanh := math.Tanh(c[row*u+j])
				dh[j] += v[row*u+j]
				dc[j] += dh[j] * g(3) * (1 - tanh*tanh)
				d[row*4*u+j] = dc[j] * g(2) * g(0) * (1 - g(0))
				d[row*4*u+u+j] = dc[j] * old * g(1) * (1 - g(1))
				d[row*4*u+2*u+j] = dc[j] * g(0) * (1 - g(2)*g(2))
				d[row*4*u+3*u+j] = dh[j] * tanh * g(3) * (1 - g(3))
				dc[j] *= g(1)
			}
			for j := range u {
				dh[j] = 0
				for k := range 4 * u {
					dh[j] += d[row*4*u+k] * r[j*4*u+k]
				}
			}
		}
	}
	return h, c, gates, d
}

func TestLSTM(t *testing.T) {
	for _, l := range []Recurrence{{Length: 1, Batch: 1, Units: 1}, {Length: 14, Batch: 20, Units: 5}, {Length: 5, Batch: 16, Units: 16}, {Length: 3, Batch: 33, Units: 37, Tile: Tile{N: 32}}} {
		l.Tile.Rounding = triton.Exact
		z, r, v := numbers(1, l.shape(4).Size()), numbers(2, 4*l.Units*l.Units), numbers(3, l.shape(1).Size())
		h, c, gates, d := plainLSTM(l, z, r, v)
		got := run(t, l.Kernel(), z, r)
		for i, want := range [][]float64{h, c, gates} {
			near(t, name(l, " output ", i), got[i], want, 1e-5)
		}
		near(t, name(l, " backwards"), run(t, RecurrenceBack{l}.Kernel(), v, gates, c, r)[0], d, 1e-5)
	}
}

// TestLSTMHalf holds the float16 of wide layers to the plain recurrence: also
// where float16 has no such weights, outputs or gradients without their scales.
func TestLSTMHalf(t *testing.T) {
	l := Recurrence{Length: 4, Batch: 3, Units: 70}
	for _, tt := range []struct {
		name                      string
		z, weights, gradient, off float64
	}{
		{"usual", 1, 0.2, 1, 1e-3},
		{"tiny gradients", 1, 0.2, 1e-9, 1e-3},
		{"large gradients", 1, 0.2, 1e9, 1e-3},
		{"tiny weights", 1, 1e-7, 1, 1e-3},
		{"small outputs", 1e-3, 0.2, 1, 2e-3},
		{"weights beyond float16", 1e-3, 1e5, 1, 0.1}, // a gate gets some 1e5 times an output: a hair decides
	} {
		z, r, v := numbers(1, l.shape(4).Size()), numbers(2, 4*l.Units*l.Units), numbers(3, l.shape(1).Size())
		for i := range z {
			z[i] *= tt.z
		}
		for i := range r {
			r[i] *= tt.weights
		}
		for i := range v {
			v[i] *= tt.gradient
		}
		h, c, gates, d := plainLSTM(l, z, r, v)
		got := run(t, l.Kernel(), z, r)
		for i, want := range [][]float64{h, c, gates} {
			near(t, name(tt.name, " output ", i), got[i], want, tt.off)
		}
		near(t, name(tt.name, " backwards"), run(t, RecurrenceBack{l}.Kernel(), v, gates, c, r)[0], d, tt.off)
	}
	z := make([]float64, l.shape(4).Size())
	z[0] = math.NaN()
	h := run(t, l.Kernel(), z, numbers(2, 4*l.Units*l.Units))[0]
	for _, at := range []int{0, l.Batch * l.Units, l.Batch*l.Units + 1} {
		if !math.IsNaN(h[at]) {
			t.Errorf("NaN in: got output %v at %d, want NaN", h[at], at)
		}
	}
}

// TestLSTMTiles holds every tiling, of factors of each type, to the plain recurrence. A
// batch leaves rows over in blocks of each size.
func TestLSTMTiles(t *testing.T) {
	for _, l := range []Recurrence{{Length: 3, Batch: 37, Units: 5}, {Length: 2, Batch: 9, Units: 70}} {
		z, r, v := numbers(1, l.shape(4).Size()), numbers(2, 4*l.Units*l.Units), numbers(3, l.shape(1).Size())
		h, c, gates, d := plainLSTM(l, z, r, v)
		for _, tile := range l.Tiles() {
			for _, tt := range []struct {
				compute  dtypes.DType
				rounding triton.Rounding
				off      float64
			}{{dtypes.Float32, triton.Exact, 1e-5}, {dtypes.Float32, triton.Nearest, 2e-3}, {dtypes.BFloat16, triton.Nearest, 1e-2}} {
				l := l
				l.Compute, tile.Rounding = tt.compute, tt.rounding
				got := run(t, l.With(tile).(Recurrence).Kernel(), z, r)
				for i, want := range [][]float64{h, c, gates} {
					near(t, name(l.Key(), " ", tile, " output ", i), got[i], want, tt.off)
				}
				back := RecurrenceBack{l}.With(tile).(RecurrenceBack)
				near(t, name(back.Key(), " ", tile), run(t, back.Kernel(), v, gates, c, r)[0], d, tt.off)
			}
		}
	}
}
