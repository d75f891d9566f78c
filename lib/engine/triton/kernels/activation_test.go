package kernels

import (
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
	"gaiden/lib/engine/triton"
)

// TestActivation holds activations with biases and their gradients against float64, with sizes
// that fill no tile, and with every tiling.
func TestActivation(t *testing.T) {
	for i, a := range []Activation{
		{Rows: 5, Width: 33, Act: activations.GELU},
		{Rows: 1, Width: 7, Act: activations.SiLU, NoBias: true},
		{Rows: 40, Width: 16, Act: activations.ReLU, X: dtypes.BFloat16},
		{Rows: 9, Width: 300, Act: activations.GELUTanh, X: dtypes.Float16},
		{Rows: 300, Width: 5, Act: activations.Tanh},
		{Rows: 17, Width: 129, Act: activations.ELU, NoBias: true},
	} {
		x, biases, dy := numbers(1, a.Rows*a.Width), numbers(2, a.Width), numbers(3, a.Rows*a.Width)
		for j := range x {
			x[j] = math.Round(x[j]*48) / 16 // exact in 16 bits, with some in the tails
			dy[j] = math.Round(dy[j]*16) / 16
		}
		for j := range biases {
			if biases[j] = math.Round(biases[j]*16) / 16; a.NoBias {
				biases[j] = 0
			}
		}
		y, dx, sums := make([]float64, len(x)), make([]float64, len(x)), make([]float64, a.Width)
		for j := range x {
			v := x[j] + biases[j%a.Width]
			y[j] = activations.Apply(elementwise.Float64, a.Act, v)
			dx[j] = activations.BackFrom(elementwise.Float64, a.Act, dy[j], v)
			sums[j%a.Width] += dx[j]
		}
		limit := 2e-6
		if a.X != dtypes.InvalidDType {
			limit = 4e-3
		}
		in := [][]float64{x}
		if !a.NoBias {
			in = append(in, biases)
		}
		for _, tile := range a.Tiles() {
			near(t, name(i, " ", tile, " y"), run(t, a.With(tile).(Activation).Kernel(), in...)[0], y, limit)
		}
		for _, tile := range (ActivationGradient{a}).Tiles() {
			a.Tile = tile
			got := run(t, ActivationGradient{a}.Kernel(), append(in[:len(in):len(in)], dy)...)
			near(t, name(i, " ", tile, " dx"), got[0], dx, limit)
			if a.NoBias {
				continue
			}
			sum := make([]float64, a.Width)
			for j, v := range got[1] {
				sum[j%a.Width] += v
			}
			near(t, name(i, " ", tile, " biases"), sum, sums, 2e-5)
		}
	}
}

// TestManyRows holds that there are kernels for as many rows as an array can have.
func TestManyRows(t *testing.T) {
	const most = math.MaxInt32
	a, n := Activation{Rows: most, Width: 1}, Norm{Rows: most, Width: 1, Sum: true, Biases: true}
	for _, k := range []triton.Kernel{a.Kernel(), ActivationGradient{a}.Kernel(), n.Kernel(), NormGradient{n}.Kernel(), Gather{Examples: most, Size: 1, Batch: most}.Kernel()} {
		if _, err := k.Text(); err != nil {
			t.Error(err)
		}
	}
}
