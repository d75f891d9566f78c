package convolution

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// sums are results of products [16 8], by rows and columns.
func (w *writer) sums(rows, columns int) (s [][][]ptx.Value) {
	for range rows {
		var row [][]ptx.Value
		for range columns {
			row = append(row, []ptx.Value{w.Var(0.0), w.Var(0.0), w.Var(0.0), w.Var(0.0)})
		}
		s = append(s, row)
	}
	return s
}

// dots adds products. Columns are pairs of registers.
func (w *writer) dots(s [][][]ptx.Value, rows, columns [][]ptx.Value) {
	d := dtypes.Float16
	if w.k.Brain {
		d = dtypes.BFloat16
	}
	for i := range s {
		for j := range s[i] {
			w.DotHalves(d, s[i][j], rows[i], columns[j])
		}
	}
}

// weights stores the image's part of the gradient of the weights: in each turn the
// products of 16 positions.
func (w *writer) weights() {
	k, p, s := w.k, w.p, w.k.split()
	_, width := k.covered()
	down, across := w.warp.Div(s.across), w.warp.Rem(s.across)
	position := w.low.Add(w.high.Shl(3)) // of 16, whose row the lane's address is
	unit := func(i, half int) ptx.Value { return down.Mul(s.rows).Add(i).Mul(2).Add(half) }
	var taps []ptx.Value // address of a unit's tap and channels in the image, of each row
	for i := range s.rows {
		u := unit(i, 0).Add(w.middle).Min(k.units() - 1)
		tap := u.Div(k.channels() / 8)
		at := tap.Div(k.Size).Mul(k.acrossX()).Add(tap.Rem(k.Size))
		taps = append(taps, w.Shared(p.x).At(at, p.rowX).At(u.Rem(k.channels()/8), 16))
	}
	column := w.middle.Add(across.Mul(s.columns)).Shl(4)
	around := k.Size - 1 - k.Pad
	sums := w.sums(s.rows, s.columns)
	const turns = 2
	w.For(0, (k.positions()+15)/16, turns, func(first ptx.Value) {
		for turn := range turns {
			at := first.Add(turn).Shl(4).Add(position)
			y, x := at.Div(width), at.Rem(width)
			image := y.Mul(k.acrossX()).Add(x).Mul(p.rowX)
			gradient := y.Add(around).Mul(k.acrossG()).Add(x).Add(around).Mul(p.rowG)
			if k.positions()%(16*turns) != 0 { // beyond the last one are zeros
				in := at.Less(k.positions())
				image, gradient = in.Select(image, 0), in.Select(gradient, p.zeros-p.g)
			}
			var rows, columns [][]ptx.Value
			for _, tap := range taps {
				rows = append(rows, w.Matrices(4, true, tap.Add(image), 0))
			}
			from := w.Shared(p.g).Add(gradient).Add(column)
			for j := range s.columns / 2 {
				m := w.Matrices(4, true, from, 32*j)
				columns = append(columns, []ptx.Value{m[0], m[2]}, []ptx.Value{m[1], m[3]})
			}
			w.dots(sums, rows, columns)
		}
	})
	out := across.Mul(s.columns).Shl(3).Add(w.four.Shl(1))
	for i := range s.rows {
		for half := range 2 {
			u := unit(i, half)
			channel := u.Rem(k.channels() / 8).Shl(3).Add(w.quad)
			in := u.Less(k.units()).And(channel.Less(k.In))
			number := u.Div(k.channels() / 8).Mul(k.In).Add(channel)
			to := w.Output(1).At(w.image.Mul(k.rows()).Add(number).Mul(k.Out).Add(out), 4)
			for j := range s.columns {
				there := in
				if k.outs() > k.Out {
					there = in.And(out.Add(8 * j).Less(k.Out))
				}
				to.StoreIf(there, 32*j, w.unscaled(sums[i][j][2*half], w.unscaleX, w.unscaleG), w.unscaled(sums[i][j][2*half+1], w.unscaleX, w.unscaleG))
			}
		}
	}
}

// unscaled takes the scales of both factors from a sum.
func (w *writer) unscaled(sum, a, b ptx.Value) ptx.Value {
	if w.k.Brain {
		return sum
	}
	return sum.Mul(a).Mul(b)
}

// pixels stores the gradient of the image: in each turn the products of a row of taps.
func (w *writer) pixels() {
	k, p, d := w.k, w.p, w.k.deep()
	all := k.Height * k.Width
	weights := w.Shared(p.w).At(w.low.Add(w.high.Shl(3)), p.rowG).At(w.middle, 16)
	tap := k.channels() * p.rowG // bytes
	for round := range d.rounds {
		var from, pixels []ptx.Value
		for i := range d.rows {
			tile := w.warp.Add((round*d.rows + i) * warps).Shl(4)
			at := tile.Add(w.low).Add(w.middle.Shl(3)).Min(all - 1)
			place := at.Div(k.Width).Add(k.Size - 1).Mul(k.acrossG()).Add(at.Rem(k.Width))
			from = append(from, w.Var(w.Shared(p.g).At(place, p.rowG).At(w.high, 16)))
			pixels = append(pixels, tile.Add(w.quad))
		}
		sums := w.sums(d.rows, d.columns)
		at := w.Var(weights)
		w.For(0, k.Size, 1, func(ptx.Value) {
			for j := range k.Size {
				for c := range k.outs() / 16 {
					var rows, columns [][]ptx.Value
					for i := range d.rows {
						rows = append(rows, w.Matrices(4, false, from[i], (k.Size-1-j)*p.rowG+32*c))
					}
					for n := 0; n < d.columns; n += 2 {
						m := w.Matrices(min(4, 2*(d.columns-n)), false, at, j*tap+32*c+8*n*p.rowG)
						for ; len(m) > 0; m = m[2:] {
							columns = append(columns, m[:2])
						}
					}
					w.dots(sums, rows, columns)
				}
			}
			for i := range from {
				w.Set(from[i], from[i].Sub(k.acrossG()*p.rowG))
			}
			w.Set(at, at.Add(k.Size*tap))
		})
		for i, first := range pixels {
			for half := range 2 {
				pixel := first.Add(8 * half)
				w.If(pixel.Less(all), func() {
					for n := range d.columns {
						channel := w.four.Shl(1).Add(8 * n)
						if k.channels() == k.In {
							w.pixel(pixel, channel, sums[i][n][2*half:2*half+2])
							continue
						}
						w.If(channel.Less(k.In), func() { w.pixel(pixel, channel, sums[i][n][2*half:2*half+2]) })
					}
				})
			}
		}
	}
}

// pixel stores two channels of a pixel, taken through the activation.
func (w *writer) pixel(pixel, channel ptx.Value, sums []ptx.Value) {
	k := w.k
	at := w.image.Mul(k.Height * k.Width).Add(pixel).Mul(k.In).Add(channel).Shr(1)
	bytes := 8
	if k.Brain {
		bytes = 4
	}
	var x, d []ptx.Value
	if k.Act != kernels.Identity {
		from := w.Input(0).At(at, bytes)
		if k.Brain {
			v := from.Load(0)
			x = []ptx.Value{v.Shl(16).Float(), v.And(0xFFFF << 16).Float()}
		} else {
			x = from.LoadFloats(2, 0)
		}
	}
	for i, sum := range sums {
		sum = w.unscaled(sum, w.unscaleG, w.unscaleW)
		switch k.Act {
		case kernels.ReLU:
			sum = x[i].Greater(0.0).Select(sum, 0.0)
		case kernels.Sigmoid:
			sum = sum.Mul(x[i].Mul(x[i].Mul(-1.0).Add(1.0)))
		case kernels.Tanh:
			sum = sum.Mul(x[i].Mul(x[i]).Mul(-1.0).Add(1.0))
		}
		d = append(d, sum)
	}
	to := w.Output(0).At(at, bytes)
	if k.Brain {
		to.Store(0, w.Halves(dtypes.BFloat16, d[0], d[1]))
	} else {
		to.Store(0, d...)
	}
}
