package resident

import "gaiden/lib/engine/ptx"

// clear makes the shared memory that nothing else writes before it is read 0.
func (w *writer) clear() {
	p := w.p
	w.For(w.thread, (p.index)/4, threads, func(i ptx.Value) {
		w.Shared(0).At(i, 4).Store(0, w.U32(0))
	})
	w.Sync()
}

// elements calls do with each of a thread's 32 elements of a layer's arrays, as the
// products leave them: its number, its place, and whether it exists.
func (w *writer) elements(inputs, in, out int, do func(i int, at ptx.Value, exists ptx.Value)) {
	quarter, half := w.warp.Shr(1), w.warp.And(1)
	for f := range 2 {
		for h := range 2 {
			inside := quarter.Shl(5).Add(w.quad).Add(16*f + 8*h)
			row := w.slice.Mul(inputs).Add(inside)
			exists := inside.Less(inputs).And(row.Less(in))
			for n := range 4 {
				for e := range 2 {
					column := w.group.Mul(wide).Add(half.Shl(5)).Add(w.four.Shl(1)).Add(8*n + e)
					do((f*4+n)*4+2*h+e, row.Mul(out).Add(column), exists.And(column.Less(out)))
				}
			}
		}
	}
}

// weights calls do with each element of a block's weights of a layer: its address in
// shared memory, its place, and whether it exists.
func (w *writer) weights(place, inputs, in, out int, do func(shared, at, exists ptx.Value)) {
	w.For(w.thread, inputs*wide, threads, func(i ptx.Value) {
		r, c := i.Shr(log2(wide)), i.And(wide-1)
		row, column := w.slice.Mul(inputs).Add(r), w.group.Mul(wide).Add(c)
		exists := row.Less(in).And(column.Less(out))
		do(w.Shared(place).At(r.Mul(wide).Add(c.Xor(swizzle(r))), 4), row.Mul(out).Add(column), exists)
	})
}

// layers calls do for each large layer: its number, where its weights are in shared
// memory, how many inputs a slice has, and its sizes.
func (w *writer) layers(do func(layer, place, inputs, in, out int)) {
	m := w.m
	do(0, w.p.w1, m.first(), m.In, m.Hidden[0])
	do(1, w.p.w2, m.second(), m.Hidden[0], m.Hidden[1])
}

// What a layer has arrays of.
const (
	weights = iota
	biases
)

// before and after are the addresses of a layer's arrays, as input and as output: number 0
// is what they are of, the others are its moments.
func (w *writer) before(layer, of, array int) ptx.Value {
	return w.Input(inStates + w.m.arrays()*(2*layer+of) + array)
}

func (w *writer) after(layer, of, array int) ptx.Value {
	return w.Output(w.m.arrays()*(2*layer+of) + array)
}

// load takes the state, and tells the groups what they share of it.
func (w *writer) load() {
	m := w.m
	w.layers(func(layer, place, inputs, in, out int) {
		var from []ptx.Value
		for k := range m.arrays() - 1 {
			w.moments[layer] = append(w.moments[layer], make([]ptx.Value, 32))
			from = append(from, w.before(layer, weights, 1+k))
		}
		if len(from) > 0 {
			w.elements(inputs, in, out, func(i int, at, exists ptx.Value) {
				for k, moments := range w.moments[layer] {
					moments[i] = from[k].At(at, 4).LoadIf(exists, 0).Float()
				}
			})
		}
		first := w.before(layer, weights, 0)
		w.weights(place, inputs, in, out, func(shared, at, exists ptx.Value) {
			shared.Store(0, first.At(at, 4).LoadIf(exists, 0))
		})
	})
	w.biases = w.nothing()
	w.bias(func(layer int, i, at, exists ptx.Value) {
		for k, to := range w.biases {
			w.Set(to, w.before(layer, biases, k).At(at, 4).LoadIf(exists, 0).Float())
		}
		w.publish([]int{w.s.b1, w.s.b2}[layer], w.U32(0), 0, i, w.biases[0])
	})
	w.last = w.nothing()
	w.rows(func(q int, at, exists ptx.Value) {
		s := w.nothing()
		for k, to := range s {
			w.Set(to, w.before(2, weights, k).At(at, 4).LoadIf(exists, 0).Float())
		}
		w.small = append(w.small, s)
		w.If(w.lane.Less(m.Classes), func() { w.publish(w.s.w3, w.lane.Mul(m.stride()), 8*q, w.warp, s[0]) })
	})
	class := w.lane.Less(m.Classes)
	for k, to := range w.last {
		w.Set(to, w.before(2, biases, k).At(w.lane, 4).LoadIf(class, 0).Float())
	}
	w.If(w.thread.Less(m.Classes), func() { w.Shared(w.p.b3).At(w.thread, 4).Store(0, w.last[0]) })
}

// bias calls do for the biases of either large layer, by the threads that keep them.
func (w *writer) bias(do func(layer int, i, at, exists ptx.Value)) {
	for layer := range 2 {
		i := w.thread.Sub(wide * layer)
		w.If(i.Less(w.m.own()), func() {
			at := w.group.Mul(wide).Add(w.slice.Mul(w.m.own())).Add(i)
			do(layer, i, at, at.Less(w.m.Hidden[layer]))
		})
	}
}

// rows calls do for the rows of the last layer's weights that a warp keeps.
func (w *writer) rows(do func(q int, at, exists ptx.Value)) {
	m := w.m
	for q := range m.own() / 8 {
		row := w.group.Mul(wide).Add(w.slice.Mul(m.own())).Add(w.warp).Add(8 * q)
		do(q, row.Mul(m.Classes).Add(w.lane), row.Less(m.Hidden[1]).And(w.lane.Less(m.Classes)))
	}
}

// save writes the state back.
func (w *writer) save() {
	m := w.m
	w.layers(func(layer, place, inputs, in, out int) {
		var after []ptx.Value
		for k := range w.moments[layer] {
			after = append(after, w.after(layer, weights, 1+k))
		}
		if len(after) > 0 {
			w.elements(inputs, in, out, func(i int, at, exists ptx.Value) {
				for k, moments := range w.moments[layer] {
					after[k].At(at, 4).StoreIf(exists, 0, moments[i])
				}
			})
		}
		to := w.after(layer, weights, 0)
		w.weights(place, inputs, in, out, func(shared, at, exists ptx.Value) {
			to.At(at, 4).StoreIf(exists, 0, shared.Load(0))
		})
	})
	w.bias(func(layer int, i, at, exists ptx.Value) {
		for k, x := range w.biases {
			w.after(layer, biases, k).At(at, 4).StoreIf(exists, 0, x)
		}
	})
	w.rows(func(q int, at, exists ptx.Value) {
		for k, x := range w.small[q] {
			w.after(2, weights, k).At(at, 4).StoreIf(exists, 0, x)
		}
	})
	first := w.thread.Less(m.Classes).And(w.slice.Add(w.group).Equal(0))
	for k, x := range w.last {
		w.after(2, biases, k).At(w.thread, 4).StoreIf(first, 0, x)
	}
}

// next is the thread's example of a batch, or the last one of it.
func (w *writer) next(batch ptx.Value) ptx.Value {
	m := w.m
	place := w.Input(inPlace).Load(0).Add(batch.Mul(m.Batch)).Min(m.Examples - m.Batch)
	return w.Input(inOrder).At(place.Add(w.thread.Min(m.Batch-1)), 4).Load(0)
}

// index takes the examples and labels of the first batch.
func (w *writer) index(at ptx.Value) {
	example := w.next(at)
	label := w.Input(inLabels).At(example, 4).Load(0)
	w.If(w.thread.Less(w.m.padded()), func() {
		w.Shared(w.p.index).At(w.thread, 4).Store(0, example)
		w.Shared(w.p.label).At(w.thread, 4).Store(0, label)
	})
}

// inputs are a thread's eight of some rows of a batch, as they lie in memory.
type inputs [][]ptx.Value

// chunk is where a thread's eight inputs of this slice's begin, of sixteen threads a row,
// and whether they exist. Where they do not it is a place that does.
func (w *writer) chunk() (column, exists ptx.Value) {
	column = w.slice.Mul(w.m.first()).Add(w.column.Min(w.m.first()/8 - 1).Shl(3))
	exists = column.Less(w.m.In)
	return exists.Select(column, 0), exists
}

// examples is where the thread finds its examples of step s, which are kept where layers
// borrow, or of the next one.
func (w *writer) examples(s ptx.Value, next bool) ptx.Value {
	at := w.Shared(w.p.index).At(w.thread.Shr(4), 4)
	if w.m.borrows() {
		turn := s.And(1)
		if next {
			turn = turn.Xor(1)
		}
		at = at.At(turn.Mul(w.m.padded()), 4)
	}
	return at
}

// fetch reads a batch's inputs where they are few registers: bytes.
func (w *writer) fetch(index ptx.Value) (l inputs) {
	m := w.m
	if m.Floats {
		return nil
	}
	column, _ := w.chunk()
	from := w.Input(inX).At(column, 1)
	for k := range m.padded() / 16 {
		l = append(l, from.At(index.Load(4*16*k), m.In).LoadVector(2, 0))
	}
	return l
}

// put writes what fetch has read to shared memory, bytes as numbers from 0 to 1, rounded.
// Beyond the last input they are 0.
func (w *writer) put(l inputs, index ptx.Value) {
	m := w.m
	to := w.Shared(w.p.x).At(w.thread.Shr(4), 4*w.p.rowX).At(w.column, 32)
	column, exists := w.chunk()
	if m.Floats {
		w.putFloats(to, column, exists, index)
		return
	}
	scale := exists.Select(w.F32(1.0/255), 0)
	w.If(w.column.Less(m.first()/8), func() {
		for k, bytes := range l {
			for half, word := range bytes {
				var x []ptx.Value
				for e := range 4 {
					x = append(x, word.Shr(8*e).And(255).ToFloat().Mul(scale).Rounded())
				}
				to.Store(4*16*k*w.p.rowX+16*half, x...)
			}
		}
	})
}

// putFloats is put for float32, which it reads itself, four rows at a time.
func (w *writer) putFloats(to, column, exists, index ptx.Value) {
	m := w.m
	from := w.Input(inX).At(column, 4)
	rows := m.padded() / 16
	w.If(w.column.Less(m.first()/8), func() {
		for first := 0; first < rows; first += 4 {
			var l [][]ptx.Value
			for k := first; k < min(rows, first+4); k++ {
				row := from.At(index.Load(4*16*k), 4*m.In)
				l = append(l, append(row.LoadFloats(4, 0), row.LoadFloats(4, 16)...))
			}
			for i, x := range l {
				for e := range x {
					x[e] = exists.Select(x[e].Rounded(), 0)
				}
				to.Store(4*16*(first+i)*w.p.rowX, x[:4]...)
				to.Store(4*16*(first+i)*w.p.rowX+16, x[4:]...)
			}
		}
	})
}
