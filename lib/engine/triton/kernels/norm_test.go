package kernels

import (
	"cmp"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// TestNorm holds the four kernels against the formulas of Ioffe and Szegedy, in
// float64.
func TestNorm(t *testing.T) {
	for i, l := range []Norm{
		{Rows: 1, Channels: 1}, {Rows: 33, Channels: 32}, {Rows: 100, Channels: 5, Tile: Tile{M: 16}, Parts: 3, Blocks: 2},
		{Rows: 300, Channels: 40, Tile: Tile{M: 32}, Parts: 4}, {Rows: 64, Channels: 33, Tile: Tile{M: 16, N: 16, Warps: 2}, Blocks: 5},
		{Rows: 130, Channels: 48, Skip: true, Terms: 2}, {Rows: 40, Channels: 3, Skip: true, Tile: Tile{M: 16}}, {Rows: 257, Channels: 16, Skip: true, Terms: 3, Parts: 2},
		{Rows: 1024, Channels: 2, Tile: Tile{M: 64}, Parts: 5, Blocks: 1}, // parts without rows
		{Rows: 70, Channels: 6, Skip: true, X: dtypes.BFloat16, Y: dtypes.BFloat16},
	} {
		l.Act = act(i)
		n, limit := l.Rows*l.Channels, 1e-3
		x, scale, offset, skip := numbers(1, n), numbers(2, l.Channels), numbers(3, l.Channels), make([]float64, n)
		if cmp.Or(l.X, dtypes.Float32) == dtypes.BFloat16 {
			limit = 2e-2
		} else {
			for k := range x {
				x[k] += 100 // far from 0: the variance must not cancel
			}
			x[0] += 20 // and a first row that is far from the mean
		}
		terms := [][]float64{numbers(4, n)}
		for k := 1; k < l.Terms; k++ {
			terms = append(terms, numbers(uint64(5+k), n))
		}
		if l.Skip {
			skip = numbers(20, n)
		}
		mean, variance := make([]float64, l.Channels), make([]float64, l.Channels)
		for k, v := range x {
			mean[k%l.Channels] += v / float64(l.Rows)
		}
		for k, v := range x {
			c := k % l.Channels
			variance[c] += (v - mean[c]) * (v - mean[c]) / float64(l.Rows)
		}
		y, normal, before := make([]float64, n), make([]float64, n), make([]float64, n)
		db, ds, dx := make([]float64, l.Channels), make([]float64, l.Channels), make([]float64, n)
		for k, v := range x {
			c := k % l.Channels
			normal[k] = (v - mean[c]) / math.Sqrt(variance[c]+1e-5)
			y[k] = plain(l.Act, normal[k]*scale[c]+offset[c]+skip[k])
			for _, g := range terms {
				before[k] += g[k] * slope(l.Act, y[k])
			}
			db[c] += before[k]
			ds[c] += before[k] * normal[k]
		}
		for k, d := range before {
			c := k % l.Channels
			dx[k] = scale[c] / math.Sqrt(variance[c]+1e-5) * (d - db[c]/float64(l.Rows) - normal[k]*ds[c]/float64(l.Rows))
		}
		parts := run(t, l.Sums(), x)[0]
		forwards := [][]float64{x, parts, scale, offset}
		if l.Skip {
			forwards = append(forwards, skip)
		}
		got := run(t, l.Apply(), forwards...)
		near(t, name(l, " mean"), got[1], mean, max(1e-6, limit/10))
		near(t, name(l, " variance"), got[2], variance, limit/10)
		near(t, name(l, " forwards"), got[0], y, limit)
		backwards := append([][]float64{got[1], got[2], scale, offset, x}, terms...)
		if l.Skip {
			backwards = append(backwards, got[0])
		}
		sums := run(t, l.BackSums(), backwards...)
		g := terms[0]
		if l.Skip {
			g = sums[1]
			near(t, name(l, " other branch"), g, before, limit)
		}
		back := run(t, l.BackApply(), got[1], got[2], scale, offset, x, g, sums[0])
		if l.Rows > 1 { // of one row the gradient is 0, and all of it rounding
			near(t, name(l, " backwards"), back[0], dx, limit)
		}
		near(t, name(l, " scale"), back[1], ds, limit)
		near(t, name(l, " offset"), back[2], db, limit)
	}
}
