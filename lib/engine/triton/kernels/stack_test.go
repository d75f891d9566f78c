package kernels

import (
	"slices"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
	"gaiden/lib/engine/triton"
)

// TestStack holds the kernel against the layers in loops of Go: batches that
// leave rows over, layers that leave no column over, and blocks of several turns,
// in every tiling.
func TestStack(t *testing.T) {
	for i, l := range []Stack{
		{Examples: 70, Batch: 50, In: 2, Units: []int{20, 5, 1}, Acts: []Act{ReLU, ReLU, Identity}},
		{Examples: 33, Batch: 33, In: 2, Units: []int{20, 5, 1}, Acts: []Act{ReLU, ReLU, Identity}}, // as they lie
		{Examples: 3, Batch: 1, In: 1, Units: []int{1}, Acts: []Act{Identity}},
		{Examples: 40, Batch: 39, In: 4, Units: []int{16, 16}, Acts: []Act{Tanh, Sigmoid}},
		{Examples: 90, Batch: 65, In: 16, Units: []int{32, 31, 16}, Acts: []Act{Sigmoid, Tanh, Identity}},
		{Examples: 20, Batch: 17, In: 7, Units: []int{3, 32, 2}, Acts: []Act{Tanh, ReLU, ReLU}},
		{Examples: 20, Batch: 17, In: 7, Units: []int{3, 32, 2}, Acts: []Act{activations.SiLU, activations.Hardswish, activations.ELU}},
		{Examples: 41700, Batch: 41600, In: 2, Units: []int{16}, Acts: []Act{Tanh}}, // two turns, the last parts of one
	} {
		l.Rounding = triton.Exact
		in := [][]float64{labels(1, l.Examples, l.Examples), {1}, {6}, {0}}
		if l.Examples >= l.Batch+2 {
			in[3][0] = 1 // would begin after the last: it is the last
		}
		for i, s := range l.Inputs()[4:] {
			in = append(in, numbers(uint64(i+2), s.Size()))
		}
		loss, gradients := plainStack(l, in)
		tiles := l.Tiles()
		if l.Batch > 1000 {
			tiles = tiles[:1]
		}
		for _, tile := range tiles {
			got := run(t, l.With(tile).(Stack).Kernel(), in...)
			if i == 0 { // with TF32 it is the same but for that
				rounded := l
				rounded.Rounding, tile.Rounding = triton.Nearest, triton.Nearest
				for k, out := range run(t, rounded.With(tile).(Stack).Kernel(), in...) {
					near(t, name(l, tile, " TF32, output ", k), out, got[k], 2e-3)
				}
			}
			near(t, name(l, tile, " loss"), sums(got[0], 1), []float64{loss * float64(l.Batch)}, 1e-5)
			if want := 7 + in[3][0]; got[2][0] != want {
				t.Errorf("%v %s: got step %v, want %v", l, tile, got[2][0], want)
			}
			for k, want := range gradients {
				near(t, name(l, tile, " gradient ", k), sums(got[3+k], len(want)), want, 1e-5)
			}
		}
	}
}

// TestPartsUpdate holds sums of parts with every tiling, fewer than a tile has and more.
func TestPartsUpdate(t *testing.T) {
	for _, n := range []int{1, 3, 33, 300, manyParts + 300} {
		p := PartsUpdate{Parts: n, Weights: shapes.Make(dtypes.Float32, 4, 7)}
		parts := numbers(1, p.Parts*5*7)
		want := sums(parts, 5*7)
		for _, tile := range p.Tiles() {
			p.Tile = tile
			got := run(t, p.Kernel(), parts)
			near(t, name(n, " parts ", tile, " weights"), got[0], want[:28], 1e-5)
			near(t, name(n, " parts ", tile, " biases"), got[1], want[28:], 1e-5)
		}
	}
}

// plainStack is the mean loss, and the gradients as the kernel's parts have them,
// added up.
func plainStack(l Stack, in [][]float64) (loss float64, gradients [][]float64) {
	out, rows := l.Units[len(l.Units)-1], l.Batch
	x, y := make([]float64, rows*l.In), make([]float64, rows*out)
	first := min(int(in[1][0]+in[3][0]*float64(rows)), l.Examples-rows)
	for i := range rows {
		example := i
		if rows < l.Examples {
			example = int(in[0][first+i])
		}
		copy(x[i*l.In:], in[4][example*l.In:][:l.In])
		copy(y[i*out:], in[5][example*out:][:out])
	}
	a, slopes := [][]float64{x}, [][]float64(nil)
	for i, units := range l.Units {
		z := matmul(a[i], in[6+2*i], rows, l.width(i), units, false, false)
		y, s := make([]float64, len(z)), make([]float64, len(z))
		for k := range z {
			z[k] += in[7+2*i][k%units]
			y[k], s[k] = plain(l.Acts[i], z[k]), activations.BackFrom(elementwise.Float64, l.Acts[i], 1, z[k])
		}
		a, slopes = append(a, y), append(slopes, s)
	}
	d := slices.Clone(a[len(l.Units)])
	for i := range d {
		e := d[i] - y[i]
		loss += e * e / float64(rows*out)
		d[i] = 2 * e / float64(rows*out)
	}
	gradients = make([][]float64, len(l.Units))
	for i := len(l.Units) - 1; i >= 0; i-- {
		for k := range d {
			d[k] *= slopes[i][k]
		}
		gradients[i] = append(matmul(a[i], d, l.width(i), rows, l.Units[i], true, false), sums(d, l.Units[i])...)
		d = matmul(d, in[6+2*i], rows, l.Units[i], l.width(i), false, true)
	}
	return loss, gradients
}
