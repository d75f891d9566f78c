package resident

import "gaiden/lib/engine/ptx"

// fragments are what a warp reads of the factors of two by four products of [16 8] and
// [8 8].
type fragments struct {
	x [2][4]ptx.Value
	y [4][2]ptx.Value
}

// sums are a warp's two by four results [16 8].
type sums [2][4][4]ptx.Value

func (w *writer) sums() (s sums) {
	for f := range s {
		for n := range s[f] {
			for e := range s[f][n] {
				s[f][n][e] = w.Var(0.0)
			}
		}
	}
	return s
}

func (w *writer) dots(s *sums, q fragments) {
	for f := range s {
		for n := range s[f] {
			w.Dot(s[f][n][:], q.x[f][:], q.y[n][:])
		}
	}
}

// turns adds up n products, whose fragments read gives: of turn k after those where the
// moving addresses are. The next ones are on their way while the last are multiplied.
// steps are how many bytes each address moves on in a turn.
func (w *writer) turns(s *sums, n int, moving []ptx.Value, steps []int, read func(k int) fragments) {
	first := read(0)
	now := fragments{}
	for f := range first.x {
		for e := range first.x[f] {
			now.x[f][e] = w.Var(first.x[f][e])
		}
	}
	for f := range first.y {
		for e := range first.y[f] {
			now.y[f][e] = w.Var(first.y[f][e])
		}
	}
	w.For(0, (n-1)/2, 1, func(ptx.Value) {
		next := read(1)
		w.dots(s, now)
		after := read(2)
		w.dots(s, next)
		for f := range now.x {
			for e := range now.x[f] {
				w.Set(now.x[f][e], after.x[f][e])
			}
		}
		for f := range now.y {
			for e := range now.y[f] {
				w.Set(now.y[f][e], after.y[f][e])
			}
		}
		for i, a := range moving {
			w.Set(a, a.Add(2*steps[i]))
		}
	})
	if n%2 == 0 {
		next := read(1)
		w.dots(s, now)
		w.dots(s, next)
	} else {
		w.dots(s, now)
	}
}

// swizzle is what the columns of a row of weights are xored with, in floats. So threads
// that read four rows of eight columns, and those that read eight rows of four pairs,
// read all 32 banks.
func swizzle(row ptx.Value) ptx.Value {
	return row.Shr(1).And(3).Xor(row.And(1).Shl(1)).Shl(3)
}

// forward stores the part that this block's weights have in a layer's sums: x [padded
// inputs] times weights [inputs 64]. Outputs are the rows of its products, and the batch
// is their columns: two warps share the outputs, and four the batch. Where a warp has no
// rows of the batch left it does its last ones again.
func (w *writer) forward(x, rowX, weights, inputs, parts int) {
	m := w.m
	half, quarter := w.warp.And(1), w.warp.Shr(1)
	var xs, ws, others [4]ptx.Value
	tiles := (m.Batch + 7) / 8
	base := w.Shared(x).At(w.four, 8)
	a := w.Shared(weights).At(w.four.Mul(2*wide).Add(w.quad), 4)
	var moving []ptx.Value
	var steps []int
	for n := range 4 {
		tile := quarter.Shl(2).Add(n).Min(tiles - 1)
		xs[n] = w.Var(base.At(tile.Shl(3).Add(w.quad), 4*rowX))
		column := half.Shl(2).Add(n).Xor(w.four).Shl(3) // swizzled: row 2t has 8t
		ws[n] = w.Var(a.At(column, 4))
		others[n] = w.Var(a.At(column.Xor(16), 4)) // and row 2t+1 16 more
		moving, steps = append(moving, xs[n], ws[n], others[n]), append(steps, 32, 8*4*wide, 8*4*wide)
	}
	s := w.sums()
	w.turns(&s, inputs/8, moving, steps, func(k int) (q fragments) {
		for n := range 4 {
			q.x[n/2][n%2] = ws[n].Load(8 * 4 * wide * k).Float().Rounded()
			q.x[n/2][2+n%2] = others[n].Load(8*4*wide*k + 4*wide).Float().Rounded()
			l := xs[n].LoadFloats(2, 32*k)
			q.y[n] = [2]ptx.Value{l[0], l[1]}
		}
		return q
	})
	stride := m.stride()
	b := quarter.Shl(5).Add(w.four.Shl(1))
	to := w.at(parts, w.slice.Mul(m.Batch*stride).Add(w.group.Mul(wide)).Add(b.Mul(stride)).Add(half.Shl(5)).Add(w.quad))
	for n := range 4 {
		for e := range 2 {
			in := b.Add(8*n + e).Less(m.Batch)
			for f := range 2 {
				to.StoreIf(in, 4*((8*n+e)*stride+16*f), s[f][n][e])
				to.StoreIf(in, 4*((8*n+e)*stride+16*f+8), s[f][n][2+e])
			}
		}
	}
}

// backward stores the part that this block's weights of the second layer have in the
// gradient of its inputs: g [padded 64] times weights [inputs 64] turned. Four warps
// share the batch, and two the inputs.
func (w *writer) backward() {
	m := w.m
	quarter, half := w.warp.Shr(1), w.warp.And(1)
	pairs := m.padded() / 16
	var gs [2]ptx.Value
	for f := range 2 {
		pair := quarter.Shl(1).Add(f).Min(pairs - 1)
		gs[f] = w.Shared(w.p.g).At(w.four, 8).At(pair.Shl(4).Add(w.quad), 4*w.p.rowG)
	}
	mask := swizzle(w.quad).Shl(2)
	stride := m.stride()
	b := quarter.Shl(5).Add(w.quad)
	out := w.at(w.s.back, w.group.Mul(m.Batch*stride).Add(w.slice.Mul(m.second())).Add(b.Mul(stride)).Add(half.Shl(5)).Add(w.four.Shl(1)))
	from := w.Shared(w.p.w2).At(w.four, 8).At(half.Shl(5).Add(w.quad), 4*wide)
	for part := range m.second() / wide {
		s := w.sums()
		k := w.Var(0) // bytes
		var moved [2]ptx.Value
		for f := range 2 {
			moved[f] = w.Var(gs[f])
		}
		w.turns(&s, wide/8, []ptx.Value{moved[0], moved[1], k}, []int{32, 32, 32}, func(turn int) (q fragments) {
			for f := range 2 {
				low, high := moved[f].LoadFloats(2, 32*turn), moved[f].LoadFloats(2, 32*turn+8*4*w.p.rowG)
				q.x[f] = [4]ptx.Value{low[0], high[0], low[1], high[1]}
			}
			at := from.Add(k.Add(32 * turn).Xor(mask))
			for n := range 4 {
				l := at.LoadFloats(2, 4*wide*(part*wide+8*n))
				q.y[n] = [2]ptx.Value{l[0].Rounded(), l[1].Rounded()}
			}
			return q
		})
		for f := range 2 {
			for h := range 2 {
				in := b.Add(16*f + 8*h).Less(m.Batch)
				for n := range 4 {
					out.StoreIf(in, 4*((16*f+8*h)*stride+part*wide+8*n), s[f][n][2*h], s[f][n][2*h+1])
				}
			}
		}
	}
}

// update is a step on this block's weights of a layer: their gradient is x
// [padded inputs] turned times g [padded 64]. Four warps share the inputs, and two the
// outputs.
func (w *writer) update(x, rowX, weights, inputs int, state moments) {
	quarter, half := w.warp.Shr(1), w.warp.And(1)
	var xs [2][2]ptx.Value
	base := w.Shared(x).At(w.four, 4*rowX)
	g := w.Var(w.Shared(w.p.g).At(w.four, 4*w.p.rowG).At(half.Shl(5).Add(w.quad), 4))
	moving, steps := []ptx.Value{g}, []int{8 * 4 * w.p.rowG}
	for f := range 2 {
		for h := range 2 {
			eight := quarter.Shl(2).Add(2*f + h).Min(inputs/8 - 1) // where there are none left, the last ones
			xs[f][h] = w.Var(base.At(eight.Shl(3).Add(w.quad), 4))
			moving, steps = append(moving, xs[f][h]), append(steps, 8*4*rowX)
		}
	}
	s := w.sums()
	w.turns(&s, w.m.padded()/8, moving, steps, func(k int) (q fragments) {
		for f := range 2 {
			for e := range 4 {
				q.x[f][e] = xs[f][e%2].Load(4 * rowX * (8*k + 4*(e/2))).Float()
			}
		}
		for n := range 4 {
			for e := range 2 {
				q.y[n][e] = g.Load(4 * (w.p.rowG*(8*k+4*e) + 8*n)).Float()
			}
		}
		return q
	})
	mask := swizzle(w.quad).Shl(2)
	to := w.Shared(weights).At(w.four, 8).At(quarter.Shl(5).Add(w.quad), 4*wide)
	var columns [4]ptx.Value
	for n := range 4 {
		columns[n] = to.Add(half.Shl(2).Add(n).Shl(5).Xor(mask))
	}
	for f := range 2 {
		for h := range 2 {
			w.If(quarter.Shl(2).Add(2*f+h).Less(inputs/8), func() {
				for n := range 4 {
					old := columns[n].LoadFloats(2, 4*wide*(16*f+8*h))
					for e := range 2 {
						i := (f*4+n)*4 + 2*h + e
						old[e] = w.weight(old[e], element(state, i), s[f][n][2*h+e])
					}
					columns[n].Store(4*wide*(16*f+8*h), old...)
				}
			})
		}
	}
}
