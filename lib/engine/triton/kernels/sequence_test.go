package kernels

import (
	"testing"
)

// TestSequence holds the kernel against plainLSTM with the layers around it, in
// loops of Go, by batches that leave lanes over, in every tiling.
func TestSequence(t *testing.T) {
	for _, l := range []Sequence{
		{Examples: 30, Batch: 20, Length: 6, In: 1, Wide: 5, Units: 5, Out: 1},
		{Examples: 4, Batch: 3, Length: 1, In: 2, Wide: 1, Units: 1, Out: 2},
		{Examples: 9, Batch: 5, Length: 4, In: 3, Wide: 7, Units: 8, Out: 4},
	} {
		in := [][]float64{labels(1, l.Examples, l.Examples), {1}, {6}, {0}}
		if l.Examples >= 2*l.Batch+1 || l.Batch == 20 {
			in[1][0] = float64(l.Examples - l.Batch)
		}
		for i, s := range l.Inputs()[4:] {
			in = append(in, numbers(uint64(i+2), s.Size()))
		}
		loss, parts := plainSequence(l, in)
		for _, tile := range l.Tiles() {
			got := run(t, l.With(tile).(Sequence).Kernel(), in...)
			near(t, name(l, tile, " loss"), got[0], loss, 1e-5)
			if got[2][0] != 7 {
				t.Errorf("%v %s: got step %v, want 7", l, tile, got[2][0])
			}
			for k, want := range parts {
				near(t, name(l, tile, " gradient ", k), sums(got[3+k], len(want)), want, 1e-5)
			}
		}
	}
}

// plainSequence is the loss of each example, and the gradients as the kernel's
// parts have them, added up.
func plainSequence(l Sequence, in [][]float64) (loss []float64, gradients [4][]float64) {
	x, y := make([]float64, l.Length*l.Batch*l.In), make([]float64, l.Length*l.Batch*l.Out)
	for b := range l.Batch {
		example := int(in[0][int(in[1][0])+b])
		for t := range l.Length {
			copy(x[(t*l.Batch+b)*l.In:], in[4][(example*l.Length+t)*l.In:][:l.In])
			copy(y[(t*l.Batch+b)*l.Out:], in[5][(example*l.Length+t)*l.Out:][:l.Out])
		}
	}
	rows := l.Length * l.Batch
	dense := func(x, w, bias []float64, from, to int) []float64 {
		z := matmul(x, w, rows, from, to, false, false)
		for i := range z {
			z[i] += bias[i%to]
		}
		return z
	}
	a := dense(x, in[6], in[7], l.In, l.Wide)
	z := dense(a, in[8], in[9], l.Wide, 4*l.Units)
	core := LSTM{Length: l.Length, Batch: l.Batch, Units: l.Units}
	h, _, _, _ := plainLSTM(core, z, in[10], make([]float64, rows*l.Units))
	e := dense(h, in[11], in[12], l.Units, l.Out)
	loss = make([]float64, l.Batch)
	for i := range e {
		e[i] -= y[i]
		loss[i/l.Out%l.Batch] += e[i] * e[i] / float64(l.Length*l.Out)
		e[i] *= 2 / float64(rows*l.Out)
	}
	_, _, _, dz := plainLSTM(core, z, in[10], matmul(e, in[11], rows, l.Out, l.Units, false, true))
	da := matmul(dz, in[8], rows, 4*l.Units, l.Wide, false, true)
	columns := func(d []float64, width int) []float64 {
		sum := make([]float64, width)
		for i, v := range d {
			sum[i%width] += v
		}
		return sum
	}
	before := append(make([]float64, l.Batch*l.Units), h...)[:rows*l.Units]
	return loss, [4][]float64{
		append(matmul(x, da, l.In, rows, l.Wide, true, false), columns(da, l.Wide)...),
		append(matmul(a, dz, l.Wide, rows, 4*l.Units, true, false), columns(dz, 4*l.Units)...),
		matmul(before, dz, l.Units, rows, 4*l.Units, true, false),
		append(matmul(h, e, l.Units, rows, l.Out, true, false), columns(e, l.Out)...),
	}
}
