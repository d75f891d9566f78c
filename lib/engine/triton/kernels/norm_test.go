package kernels

import (
	"math"
	"testing"
)

func TestNorm(t *testing.T) {
	for i, l := range []Norm{{Rows: 1, Channels: 1}, {Rows: 33, Channels: 32}, {Rows: 100, Channels: 5, Parts: 3}, {Rows: 300, Channels: 40, Parts: 4}, {Rows: 64, Channels: 33, Parts: 5}} {
		l.Act = Act(i % 4)
		n := l.Rows * l.Channels
		x, scale, offset, g := numbers(1, n), numbers(2, l.Channels), numbers(3, l.Channels), numbers(4, n)
		for k := range x {
			x[k] += 100 // far from 0: the variance must not cancel
		}
		mean, variance := make([]float64, l.Channels), make([]float64, l.Channels)
		for k, v := range x {
			mean[k%l.Channels] += v / float64(l.Rows)
		}
		for k, v := range x {
			c := k % l.Channels
			variance[c] += (v - mean[c]) * (v - mean[c]) / float64(l.Rows)
		}
		y, normal := make([]float64, n), make([]float64, n)
		db, ds, dx := make([]float64, l.Channels), make([]float64, l.Channels), make([]float64, n)
		for k, v := range x {
			c := k % l.Channels
			normal[k] = (v - mean[c]) / math.Sqrt(variance[c]+1e-5)
			y[k] = l.Act.plain(normal[k]*scale[c] + offset[c])
			d := g[k] * l.Act.slope(y[k])
			db[c] += d
			ds[c] += d * normal[k]
		}
		for k := range x {
			c := k % l.Channels
			d := g[k] * l.Act.slope(y[k])
			dx[k] = scale[c] / math.Sqrt(variance[c]+1e-5) * (d - db[c]/float64(l.Rows) - normal[k]*ds[c]/float64(l.Rows))
		}
		parts := run(t, l.Sums(), x)[0]
		got := run(t, l.Apply(), x, parts, scale, offset)
		near(t, name(l, " mean"), got[1], mean, 1e-6)
		near(t, name(l, " variance"), got[2], variance, 1e-4)
		near(t, name(l, " forwards"), got[0], y, 1e-3)
		parts = run(t, l.BackSums(), g, y, x, got[1], got[2])[0]
		back := run(t, l.BackApply(), g, y, x, got[1], got[2], parts, scale)
		if l.Rows > 1 { // of one row the gradient is 0, and all of it rounding
			near(t, name(l, " backwards"), back[0], dx, 1e-3)
		}
		near(t, name(l, " scale"), back[1], ds, 1e-3)
		near(t, name(l, " offset"), back[2], db, 1e-5)
	}
}
