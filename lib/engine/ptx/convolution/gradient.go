package convolution

import (
	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// gradients loads the gradient and its winners.
func (w backWriter) gradients() (l loaded, winners []ptx.Value) {
	n := w.f.gradient()
	l = w.vectors(w.Input(2).At(w.number.Mul(n), 4*w.f.bytes()), n, 4, w.k.Brain)
	if w.k.Pool {
		from := w.Input(3).At(w.number.Mul(n), 4)
		for _, i := range l.index {
			winners = append(winners, from.At(i.Min(n-1), 4).Load(0))
		}
	}
	return l, winners
}

// putGradients stores gradients where they are in the convolution's result, and their sums.
func (w backWriter) putGradients(gs loaded, winners []ptx.Value, scale ptx.Value) {
	k, p := w.k, w.p
	_, width := k.Result()
	around := k.Size - 1 - k.Pad
	sums := []ptx.Value{w.Var(0.0), w.Var(0.0), w.Var(0.0), w.Var(0.0)}
	for n, i := range gs.index {
		for c, sum := range sums {
			x := gs.numbers[n][c]
			if gs.in[n] != (ptx.Value{}) {
				x = gs.in[n].Select(x, 0.0)
			}
			w.Set(sum, sum.Add(x))
		}
		numbers := scaled(gs.numbers[n], scale)
		place := i.Div(k.Out / 4)
		y, x := place.Div(width), place.Rem(width)
		if !k.Pool {
			at := y.Add(around).Mul(p.acrossG).Add(x).Add(around)
			w.put(gs.in[n], w.Shared(p.g).At(at, p.rowG).At(i.Rem(k.Out/4), 8), numbers)
			continue
		}
		at := w.Shared(p.g).At(y.Shl(1).Add(around).Mul(p.acrossG).Add(x.Shl(1)).Add(around), p.rowG).At(i.Rem(k.Out/4), 8)
		for q := range 4 {
			won := make([]ptx.Value, 4)
			for c := range won {
				won[c] = winners[n].Shr(8*c).And(255).Equal(q).Select(numbers[c], 0.0)
			}
			w.put(gs.in[n], at.Add((q/2*p.acrossG+q%2)*p.rowG), won)
		}
	}
	w.Shared(p.bias).At(w.thread, 16).Store(0, sums...)
}

// part is the address of a number of the image's part.
func (w backWriter) part(number, out ptx.Value) ptx.Value {
	return w.Output(1).At(w.number.Mul(w.f.taps()+1).Add(number).Mul(w.k.Out).Add(out), 4)
}

// biases stores the gradient of the biases: a thread's vectors are all of the same four
// channels.
func (w backWriter) biases() {
	each := w.k.Out / 4
	w.If(w.thread.Less(w.k.Out), func() {
		sum := w.Var(0.0)
		at := w.Shared(w.p.bias).At(w.thread, 4) // the first threads have the first numbers
		for n := range w.f.threads() / each {
			w.Set(sum, sum.Add(at.Load(16*each*n).Float()))
		}
		w.part(w.U32(w.f.taps()), w.thread).Store(0, sum)
	})
}

// weights stores the image's part of the gradient of the weights: in each turn the
// products of 16 positions.
func (w backWriter) weights() {
	k, p, s := w.k, w.p, w.k.split()
	height, width := k.covered()
	positions := height * width
	down, across := w.warp.Div(s.across), w.warp.Rem(s.across)
	position := w.low.Add(w.high.Shl(3)) // of 16, whose row the lane's address is
	unit := func(i, half int) ptx.Value { return down.Mul(s.rows).Add(i).Mul(2).Add(half) }
	var taps []ptx.Value // address of a unit's tap and channels in the image, of each row
	for i := range s.rows {
		u := unit(i, 0).Add(w.middle).Min(k.units() - 1)
		tap := u.Div(p.channels / 8)
		at := tap.Div(k.Size).Mul(p.acrossX).Add(tap.Rem(k.Size))
		taps = append(taps, w.Shared(p.x).At(at, p.rowX).At(u.Rem(p.channels/8), 16))
	}
	column := w.middle.Add(across.Mul(s.columns)).Shl(4)
	around := k.Size - 1 - k.Pad
	sums := w.sums(s.rows, s.columns)
	const turns = 2
	w.For(0, (positions+15)/16, turns, func(first ptx.Value) {
		for turn := range turns {
			at := first.Add(turn).Shl(4).Add(position)
			y, x := at.Div(width), at.Rem(width)
			image := y.Mul(p.acrossX).Add(x).Mul(p.rowX)
			gradient := y.Add(around).Mul(p.acrossG).Add(x).Add(around).Mul(p.rowG)
			if positions%(16*turns) != 0 { // beyond the last one are zeros
				in := at.Less(positions)
				image, gradient = in.Select(image, 0), in.Select(gradient, p.zeros-p.g)
			}
			var rows, columns [][]ptx.Value
			for _, tap := range taps {
				rows = append(rows, w.Matrices(4, true, tap.Add(image), 0))
			}
			from := w.Shared(p.g).Add(gradient).Add(column)
			for j := range s.columns / 2 {
				columns = append(columns, w.pairs(from, 32*j)...)
			}
			w.dots(sums, rows, columns)
		}
	})
	out := across.Mul(s.columns).Shl(3).Add(w.four.Shl(1))
	for i := range s.rows {
		for half := range 2 {
			u := unit(i, half)
			channel := u.Rem(p.channels / 8).Shl(3).Add(w.quad)
			in := u.Less(k.units()).And(channel.Less(k.In))
			number := u.Div(p.channels / 8).Mul(k.In).Add(channel)
			to := w.part(number, out)
			for j := range s.columns {
				there := in
				if p.outs > k.Out {
					there = in.And(out.Add(8 * j).Less(k.Out))
				}
				to.StoreIf(there, 32*j, w.unscaled(sums[i][j][2*half], ofImage, ofGradient), w.unscaled(sums[i][j][2*half+1], ofImage, ofGradient))
			}
		}
	}
}

// pixels stores the gradient of the image: in each turn the products of a row of taps.
func (w backWriter) pixels() {
	k, p, d := w.k, w.p, w.k.deep()
	all := k.Height * k.Width
	weights := w.Shared(p.w).At(w.low.Add(w.high.Shl(3)), p.rowG).At(w.middle, 16)
	tap := p.channels * p.rowG // bytes
	for round := range d.rounds {
		var from, pixels []ptx.Value
		for i := range d.rows {
			tile := w.warp.Add((round*d.rows + i) * w.f.warps()).Shl(4)
			at := tile.Add(w.low).Add(w.middle.Shl(3)).Min(all - 1)
			place := at.Div(k.Width).Add(k.Size - 1).Mul(p.acrossG).Add(at.Rem(k.Width))
			from = append(from, w.Var(w.Shared(p.g).At(place, p.rowG).At(w.high, 16)))
			pixels = append(pixels, tile.Add(w.quad))
		}
		sums := w.sums(d.rows, d.columns)
		at := w.Var(weights)
		w.For(0, k.Size, 1, func(ptx.Value) {
			for j := range k.Size {
				for c := range p.outs / 16 {
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
				w.Set(from[i], from[i].Sub(p.acrossG*p.rowG))
			}
			w.Set(at, at.Add(k.Size*tap))
		})
		for i, first := range pixels {
			for half := range 2 {
				w.pixel(first.Add(8*half), sums[i], half)
			}
		}
	}
}

// pixel stores the thread's channels of a pixel, taken through the activation.
func (w backWriter) pixel(pixel ptx.Value, sums [][]ptx.Value, half int) {
	k, bytes := w.k, w.f.bytes()
	first := w.four.Shl(1)
	at := w.number.Mul(k.Height * k.Width).Add(pixel).Mul(k.In).Add(first)
	from, to := w.Input(0).At(at, bytes), w.Output(0).At(at, bytes)
	there := pixel.Less(k.Height * k.Width)
	y, z := pixel.Div(k.Width), pixel.Rem(k.Width)
	image := w.Shared(w.p.x).At(there.Select(y.Add(k.Pad).Mul(w.p.acrossX).Add(z).Add(k.Pad), 0), w.p.rowX).At(first, 2)
	var in []ptx.Value
	var x [][]ptx.Value
	for n := range sums {
		in = append(in, there)
		if w.p.channels > k.In {
			in[n] = there.And(first.Add(8 * n).Less(k.In))
		}
		switch {
		case k.Act == kernels.Identity:
		case k.Act == kernels.ReLU: // bits that are more than 0 where the number is
			two := image.Load(16 * n)
			x = append(x, []ptx.Value{two.Shl(16), two})
		case k.Brain:
			two := from.LoadIf(in[n], 8*n*bytes)
			x = append(x, []ptx.Value{two.Shl(16).Float(), two.And(0xFFFF << 16).Float()})
		default:
			two := from.LoadVectorIf(in[n], 2, 8*n*bytes)
			x = append(x, []ptx.Value{two[0].Float(), two[1].Float()})
		}
	}
	for n := range sums {
		var d []ptx.Value
		for e, sum := range sums[n][2*half : 2*half+2] {
			sum = w.unscaled(sum, ofWeights, ofGradient)
			switch k.Act {
			case kernels.ReLU:
				sum = w.rectified(x[n][e], sum)
			case kernels.Sigmoid:
				sum = sum.Mul(x[n][e].Mul(x[n][e].Mul(-1.0).Add(1.0)))
			case kernels.Tanh:
				sum = sum.Mul(x[n][e].Mul(x[n][e]).Mul(-1.0).Add(1.0))
			}
			d = append(d, sum)
		}
		if k.Brain {
			d = []ptx.Value{w.Halves(dtypes.BFloat16, d[0], d[1])}
		}
		to.StoreIf(in[n], 8*n*bytes, d...)
	}
}

// rectified is a gradient where the upper half of bits is a number above 0, of 16 bits. No
// number above 0 was rounded to 0, so the image need not be read again.
func (w backWriter) rectified(bits, sum ptx.Value) ptx.Value {
	const one, sign = 1 << 16, 1 << 31
	return bits.Sub(one).Less(sign-one).Select(sum, 0.0)
}
