package kernels

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// plainNorm is Norm and its gradients for dy.
func plainNorm(n Norm, x, scale, offset, dy []float64) (y, dx, dscale, doffset []float64) {
	w := n.Width
	y, dx, dscale, doffset = make([]float64, len(x)), make([]float64, len(x)), make([]float64, w), make([]float64, w)
	for r := 0; r < len(x); r += w {
		mean, square, v, vx := 0.0, 0.0, 0.0, 0.0
		for _, x := range x[r : r+w] {
			mean += x / float64(w)
		}
		if !n.Offset {
			mean = 0
		}
		for _, x := range x[r : r+w] {
			square += (x - mean) * (x - mean) / float64(w)
		}
		factor := 1 / math.Sqrt(square+n.Epsilon)
		for i := range w {
			normal := (x[r+i] - mean) * factor
			if y[r+i] = normal * scale[i]; n.Offset {
				y[r+i] += offset[i]
			}
			dscale[i] += dy[r+i] * normal
			doffset[i] += dy[r+i]
			v += dy[r+i] * scale[i] / float64(w)
			vx += dy[r+i] * scale[i] * normal / float64(w)
		}
		if !n.Offset {
			v = 0
		}
		for i := range w {
			dx[r+i] = factor * (dy[r+i]*scale[i] - v - (x[r+i]-mean)*factor*vx)
		}
	}
	return y, dx, dscale, doffset
}

// TestNorm holds norms and their gradients against float64, with sizes that fill no tile, and
// with every tiling.
func TestNorm(t *testing.T) {
	for i, n := range []Norm{
		{Rows: 5, Width: 33, Offset: true, Epsilon: 1e-5},
		{Rows: 1, Width: 7, Epsilon: 1e-6},
		{Rows: 64, Width: 16, Offset: true, Epsilon: 1e-5, X: dtypes.BFloat16},
		{Rows: 9, Width: 600, Epsilon: 1e-6, X: dtypes.Float16},
		{Rows: 3, Width: 1, Offset: true, Epsilon: 1e-3},
		{Rows: 1200, Width: 5, Offset: true, Epsilon: 1e-5},
		{Rows: 5, Width: 33, Offset: true, Sum: true, Epsilon: 1e-5},
		{Rows: 70, Width: 20, Sum: true, Biases: true, Epsilon: 1e-6, X: dtypes.BFloat16},
	} {
		x, scale, offset, dy := numbers(1, n.Rows*n.Width), numbers(2, n.Width), numbers(3, n.Width), numbers(4, n.Rows*n.Width)
		for j := range x {
			x[j] += 3 // means that are not 0
			if n.X != dtypes.InvalidDType {
				x[j], dy[j] = math.Round(x[j]*16)/16, math.Round(dy[j]*16)/16 // exact
			}
		}
		limit := 1e-5
		if n.X != dtypes.InvalidDType {
			limit = 4e-3
		}
		y, dx, dscale, doffset := plainNorm(n, x, scale, offset, dy)
		dz, columns := numbers(5, len(x)), make([]float64, n.Width)
		if n.Sum {
			for j := range dx {
				dz[j] = math.Round(dz[j]*16) / 16
				dx[j] += dz[j]
				columns[j%n.Width] += dx[j]
			}
		}
		for _, tile := range n.Tiles() {
			n.Tile = tile
			in, back := [][]float64{x}, [][]float64{x, scale, dy}
			if n.Sum { // of ones and what is left
				ones, rest, biases := make([]float64, len(x)), make([]float64, len(x)), make([]float64, n.Width)
				for j := range x {
					ones[j], rest[j] = 1, x[j]-1
				}
				if in, back = [][]float64{rest, ones}, append(back, dz); n.Biases {
					for j := range biases {
						biases[j] = float64(j)
					}
					for j := range rest {
						rest[j] -= biases[j%n.Width]
					}
					in = append(in, biases)
				}
			}
			if in = append(in, scale); n.Offset {
				in = append(in, offset)
			}
			got := run(t, n.Kernel(), in...)
			if near(t, name(i, " ", tile, " y"), got[0], y, limit); n.Sum {
				near(t, name(i, " ", tile, " sum"), got[1], x, limit)
			}
			got = run(t, NormGradient{n}.Kernel(), back...)
			near(t, name(i, " ", tile, " dx"), got[0], dx, limit+1e-3*float64(1/n.Width)) // a width of 1: all is 0 but rounding
			want := slices.Clone(dscale)
			if n.Offset {
				want = append(want, doffset...)
			}
			if n.Sum {
				want = append(want, columns...)
			}
			sum := make([]float64, len(want))
			for j, v := range got[1] {
				sum[j%len(want)] += v
			}
			near(t, name(i, " ", tile, " sums"), sum, want, limit)
		}
	}
}

// TestCrossEntropy holds losses, hits and normalizers against float64: labels that are no class,
// equal logits, -Inf, and classes that fill no tile.
func TestCrossEntropy(t *testing.T) {
	for i, e := range []CrossEntropy{{Rows: 7, Classes: 10}, {Rows: 4, Classes: 300}, {Rows: 2, Classes: 2049}, {Rows: 3, Classes: 1}, {Rows: 5, Classes: 128, X: dtypes.BFloat16}} {
		x, label := numbers(1, e.Rows*e.Classes), labels(2, e.Rows, e.Classes)
		for j := range x {
			x[j] = math.Round(x[j]*16)/2 + 90 // exact in bfloat16
		}
		label[1] = -1
		if e.Rows > 3 {
			label[2] = float64(e.Classes)
			copy(x[:2], []float64{1000, 1000}) // equal ones: the first is the answer
			label[0], label[3] = 1, 0
			x[3*e.Classes], x[3*e.Classes+1], x[3*e.Classes+2] = 1000, 1000, math.Inf(-1)
		}
		loss, hit, normal := make([]float64, e.Rows), make([]float64, e.Rows), make([]float64, e.Rows)
		for r := range e.Rows {
			row := x[r*e.Classes:][:e.Classes]
			most, at, sum := math.Inf(-1), 0, 0.0
			for j, v := range row {
				if v > most {
					most, at = v, j
				}
			}
			for _, v := range row {
				sum += math.Exp(v - most)
			}
			own := 0.0
			if l := int(label[r]); l >= 0 && l < e.Classes {
				own = row[l] - most
				if l == at {
					hit[r] = 1
				}
			}
			loss[r], normal[r] = math.Log(sum)-own, math.Log(sum)+most
		}
		factor, slope := numbers(3, e.Rows), make([]float64, len(x))
		for j, v := range x {
			r := j / e.Classes
			if slope[j] = math.Exp(v - normal[r]); j%e.Classes == int(label[r]) {
				slope[j]--
			}
			slope[j] *= factor[r]
		}
		check := func(name string, got [][]float64) {
			near(t, name+" loss", got[0], loss, 1e-5)
			near(t, name+" hit", got[1], hit, 0)
			near(t, name+" normalizer", got[2], normal, 1e-5)
		}
		for _, tile := range e.Tiles() {
			check(name(i, " ", tile), run(t, e.With(tile).(CrossEntropy).Kernel(), x, label))
		}
		e.Gradient = true
		for _, tile := range e.Tiles() {
			got := run(t, e.With(tile).(CrossEntropy).Kernel(), x, label, factor)
			check(name(i, " with a gradient ", tile), got)
			near(t, name(i, " ", tile, " gradient"), got[3], slope, map[bool]float64{false: 1e-5, true: 4e-3}[e.X == dtypes.BFloat16])
		}
	}
}
