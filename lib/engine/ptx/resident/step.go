package resident

import (
	"math"

	"gaiden/lib/engine/ptx"
)

// step writes training step s.
func (w *writer) step(s, at ptx.Value) {
	m, p, c := w.m, w.p, w.s
	// How many have arrived by now at a counter of a group, and at one of a slice.
	group, slice := s.Add(1).Mul(m.along()), s.Add(1).Mul(m.groups())
	more := s.Add(1).Less(m.Steps)
	example := w.next(at.Add(s).Add(more.Select(w.U32(1), 0)))

	w.forward(p.x, p.rowX, p.w1, m.first(), c.parts1)
	w.exchange(w.groupCounter(doneParts1, w.group), group)
	h1 := w.rectified(c.parts1, c.b1)
	w.element.StoreIf(w.mine, 4*c.h1, h1...)
	w.Arrive(w.thread, w.groupCounter(doneH1, w.group))
	w.If(w.thread.Less(m.padded()), func() {
		to := w.thread
		if m.borrows() {
			to = s.And(1).Xor(1).Mul(m.padded()).Add(to)
		}
		w.Shared(p.index).At(to, 4).Store(0, example)
	})
	label := w.Input(inLabels).At(example, 4).Load(0)
	w.If(w.thread.Less(m.Classes*16), func() {
		l := w.at(c.w3, w.thread.Shr(4).Mul(m.stride()).Add(w.group.Mul(wide)).Add(w.column.Shl(2))).LoadVector(4, 0)
		w.Shared(p.w3).At(w.thread, 16).Store(0, l...)
	})
	w.If(w.thread.Less(m.each()), func() {
		w.Spin(w.groupCounter(doneH1, w.slice.Mul(m.each()).Add(w.thread)), group)
	})
	w.Sync()
	w.takeH1()
	w.Sync()

	w.forward(p.y, p.rowY, p.w2, m.second(), c.parts2)
	w.exchange(w.groupCounter(doneParts2, w.group), group)
	h2 := w.rectified(c.parts2, c.b2)
	w.element.StoreIf(w.mine, 4*c.h2, h2...)
	turn := s.And(1)
	logits := w.at(c.logits, turn.Mul(m.groups()*m.Batch).Add(w.row).Mul(MostClasses).Add(w.column))
	logits.At(w.group, 4*m.Batch*MostClasses).StoreIf(w.mine, 0, w.partOfLogits(h2))
	w.If(w.thread.Less(m.padded()), func() {
		w.Shared(p.label).At(turn.Xor(1).Mul(m.padded()).Add(w.thread), 4).Store(0, label)
	})
	w.exchange(w.sliceCounter(doneLogits, w.slice), slice)

	d2 := w.head(logits, w.Shared(p.label).At(turn.Mul(m.padded()).Add(w.row), 4).Load(0))
	w.element.StoreIf(w.mine, 4*c.d2, masked(d2, h2)...)
	w.exchange(w.groupCounter(doneD2, w.group), group)
	w.takeGradient(c.d2)
	w.takeHead()
	w.Sync()

	w.scales = w.Input(inScales).At(s, 8).LoadFloats(2, 0)

	w.backward()
	w.Arrive(w.thread, w.sliceCounter(doneBack, w.slice))
	examples := w.examples(s, !m.borrows())
	pixels := w.fetch(examples)
	w.update(p.y, p.rowY, p.w2, m.second(), w.moments[1])
	w.updateBias(wide, c.b2)
	w.Await(w.thread, w.sliceCounter(doneBack, w.group.Shr(log2(m.each()))), slice)
	if m.borrows() {
		w.put(pixels, examples)
	}
	d1 := w.added(c.back, m.groups())
	w.element.StoreIf(w.mine, 4*c.d1, masked(d1, h1)...)
	w.Arrive(w.thread, w.groupCounter(doneD1, w.group))
	w.updateHead()
	w.results(s, at)
	w.Await(w.thread, w.groupCounter(doneD1, w.group), group)
	w.takeGradient(c.d1)
	w.Sync()
	if m.borrows() {
		examples = w.examples(s, true)
		pixels = w.fetch(examples)
	}
	w.update(p.x, p.rowX, p.w1, m.first(), w.moments[0])
	w.updateBias(0, c.b1)
	w.Sync()
	w.put(pixels, examples)
	w.Sync()
}

// added is the sum of n parts of four numbers, in order. Eight are on their way at once.
func (w *writer) added(parts, n int) (sum []ptx.Value) {
	for first := 0; first < n; first += 8 {
		var l [][]ptx.Value
		for k := first; k < min(n, first+8); k++ {
			l = append(l, w.element.LoadFloats(4, 4*(parts+k*w.m.Batch*w.m.stride())))
		}
		for _, x := range l {
			sum = plus(sum, x)
		}
	}
	return sum
}

// plus adds numbers to a sum, which is nil at first.
func plus(sum, x []ptx.Value) []ptx.Value {
	if sum == nil {
		return x
	}
	to := make([]ptx.Value, len(x))
	for e := range x {
		to[e] = sum[e].Add(x[e])
	}
	return to
}

// rectified is four numbers of a layer's outputs.
func (w *writer) rectified(parts, biases int) []ptx.Value {
	bias := w.at(biases, w.group.Mul(wide).Add(w.column.Shl(2))).LoadFloats(4, 0)
	sum := w.added(parts, w.m.along())
	for e := range sum {
		sum[e] = sum[e].Add(bias[e])
		// A NaN stays one: the largest of it and 0 would be 0.
		sum[e] = sum[e].Less(0.0).Select(0.0, sum[e])
	}
	return sum
}

// masked takes gradients through the ReLU that gave h.
func masked(d, h []ptx.Value) []ptx.Value {
	to := make([]ptx.Value, len(d))
	for e := range d {
		to[e] = h[e].Greater(0.0).Select(d[e], 0)
	}
	return to
}

// takeH1 copies this slice's columns of h1 to shared memory, rounded.
func (w *writer) takeH1() {
	m := w.m
	columns := m.second() / 4
	rows := threads / columns
	r, c := w.thread.Shr(log2(columns)), w.thread.And(columns-1)
	from := w.at(w.s.h1, r.Mul(m.stride()).Add(w.slice.Mul(m.second())).Add(c.Shl(2)))
	to := w.Shared(w.p.y).At(r, 4*w.p.rowY).At(c, 16)
	n := (m.Batch + rows - 1) / rows
	for first := 0; first < n; first += 7 {
		var l [][]ptx.Value
		for k := first; k < min(n, first+7); k++ {
			a := from
			if rows*(k+1) > m.Batch { // beyond the batch, its last row again
				a = w.at(w.s.h1, r.Add(rows*k).Min(m.Batch-1).Mul(m.stride()).Add(w.slice.Mul(m.second())).Add(c.Shl(2)))
				l = append(l, a.LoadFloats(4, 0))
				continue
			}
			l = append(l, a.LoadFloats(4, 4*rows*k*m.stride()))
		}
		for i, x := range l {
			k := first + i
			for e := range x {
				x[e] = x[e].Rounded()
			}
			if rows*(k+1) > m.padded() {
				to.StoreIf(r.Add(rows*k).Less(m.padded()), 4*rows*k*w.p.rowY, x...)
			} else {
				to.Store(4*rows*k*w.p.rowY, x...)
			}
		}
	}
}

// takeGradient copies this group's columns of a gradient to shared memory, rounded, and
// adds up its columns, unrounded. Rows beyond the batch are 0.
func (w *writer) takeGradient(place int) {
	m := w.m
	r, c := w.thread.Shr(4), w.column
	from := w.at(place, r.Mul(m.stride()).Add(w.group.Mul(wide)).Add(c.Shl(2)))
	to := w.Shared(w.p.g).At(r, 4*w.p.rowG).At(c, 16)
	var l [][]ptx.Value
	for k := range m.padded() / 16 {
		if 16*(k+1) <= m.Batch {
			l = append(l, from.LoadFloats(4, 4*16*k*m.stride()))
			continue
		}
		in := r.Add(16 * k).Less(m.Batch)
		var x []ptx.Value
		for e := range 4 {
			x = append(x, from.LoadIf(in, 4*(16*k*m.stride()+e)).Float())
		}
		l = append(l, x)
	}
	var sum []ptx.Value
	for k, x := range l {
		rounded := make([]ptx.Value, 4)
		for e := range x {
			rounded[e] = x[e].Rounded()
		}
		to.Store(4*16*k*w.p.rowG, rounded...)
		sum = plus(sum, x)
	}
	w.Shared(w.p.sums).At(w.thread, 16).Store(0, sum...)
}

// partOfLogits is what the thread's row of h2, of which sixteen threads have four columns
// each, gives to the logits: to thread c of them that of class c.
func (w *writer) partOfLogits(h2 []ptx.Value) ptx.Value {
	part := w.Var(0.0)
	for c := range w.m.Classes {
		l := w.Shared(w.p.w3).At(w.column, 16).LoadFloats(4, 4*wide*c)
		sum := h2[0].Mul(l[0])
		for e := 1; e < 4; e++ {
			sum = h2[e].FMA(l[e], sum)
		}
		for mask := 1; mask < 16; mask *= 2 {
			sum = sum.Add(sum.Other(mask))
		}
		part = w.column.Equal(c).Select(sum, part)
	}
	return part
}

// head is softmax and cross entropy of the thread's row, and four numbers of what goes
// below. Of sixteen threads, thread c has class c.
func (w *writer) head(logits, label ptx.Value) (below []ptx.Value) {
	m := w.m
	var l []ptx.Value
	for k := range m.groups() {
		l = append(l, logits.LoadIf(w.mine, 4*k*m.Batch*MostClasses).Float()) // other rows' are not awaited
	}
	z := l[0]
	for _, x := range l[1:] {
		z = z.Add(x)
	}
	class := w.column.Less(m.Classes)
	z = z.Add(w.Shared(w.p.b3).At(w.column, 4).Load(0).Float())
	z = class.Select(z, w.F32(math.Inf(-1)))
	most, which := z, w.column
	for mask := 1; mask < 16; mask *= 2 {
		x, i := most.Other(mask), which.Other(mask)
		wins := x.Greater(most).Or(x.Equal(most).And(i.Less(which)))
		most, which = wins.Select(x, most), wins.Select(i, which)
	}
	e := class.Select(z.Sub(most).Mul(math.Log2E).Exp2(), 0)
	total := e
	for mask := 1; mask < 16; mask *= 2 {
		total = total.Add(total.Other(mask))
	}
	right := z.Of(w.lane.And(16).Add(label.And(15)))
	hot := w.column.Equal(label).Select(w.F32(1), 0)
	g := class.Select(e.Mul(total.Reciprocal()).Sub(hot).Mul(1/float64(m.Batch)), 0)
	w.at(w.s.gz, w.group.Mul(m.Batch).Add(w.row).Mul(MostClasses).Add(w.column)).StoreIf(w.mine, 0, g)
	loss := total.Log2().FMA(math.Ln2, most.Sub(right))
	w.at(w.s.results, w.row.Shl(1)).StoreIf(w.mine.And(w.group.Equal(0)).And(w.column.Equal(0)), 0,
		loss, which.Equal(label).Select(w.F32(1), 0))
	for c := range m.Classes {
		gc := g.Of(w.lane.And(16).Add(c))
		l := w.Shared(w.p.w3).At(w.column, 16).LoadFloats(4, 4*wide*c)
		for e := range l {
			if c == 0 {
				below = append(below, gc.Mul(l[e]))
			} else {
				below[e] = gc.FMA(l[e], below[e])
			}
		}
	}
	return below
}

// takeHead copies to shared memory what the last layer's gradient is made of.
func (w *writer) takeHead() {
	m := w.m
	quarters := m.own() / 4
	w.times(m.Batch*quarters, func(i ptx.Value) {
		r, c := i.Shr(log2(quarters)), i.And(quarters-1)
		l := w.at(w.s.h2, r.Mul(m.stride()).Add(w.group.Mul(wide)).Add(w.slice.Mul(m.own())).Add(c.Shl(2))).LoadVector(4, 0)
		w.Shared(w.p.h).At(i, 16).Store(0, l...)
	})
	w.times(m.Batch*MostClasses/4, func(i ptx.Value) {
		l := w.at(w.s.gz, w.group.Mul(m.Batch*MostClasses).Add(i.Shl(2))).LoadVector(4, 0)
		w.Shared(w.p.gz).At(i, 16).Store(0, l...)
	})
}

// updateHead is a step on this block's rows of the last layer's weights, and on
// its biases, which every block keeps. Each half of a warp adds up half of the batch.
func (w *writer) updateHead() {
	m := w.m
	half, class := w.lane.Shr(4), w.column
	n := m.own() / 8
	sums := make([]ptx.Value, n+1)
	for i := range sums {
		sums[i] = w.Var(0.0)
	}
	add := func(g, h ptx.Value, offset int) {
		x := g.Load(4 * MostClasses * offset).Float()
		for q := range n {
			w.Set(sums[q], x.FMA(h.Load(4*(m.own()*offset+8*q)).Float(), sums[q]))
		}
		w.Set(sums[n], sums[n].Add(x))
	}
	g := w.Var(w.Shared(w.p.gz).At(half.Mul(MostClasses).Add(class), 4))
	h := w.Var(w.Shared(w.p.h).At(half.Mul(m.own()).Add(w.warp), 4))
	const unrolled = 5
	turns := m.Batch / 2
	w.For(0, turns/unrolled, 1, func(ptx.Value) {
		for k := range unrolled {
			add(g, h, 2*k)
		}
		w.Set(g, g.Add(4*MostClasses*2*unrolled))
		w.Set(h, h.Add(4*m.own()*2*unrolled))
	})
	for k := range turns % unrolled {
		add(g, h, 2*k)
	}
	if m.Batch%2 == 1 {
		w.If(half.Equal(0), func() { add(g, h, 2*(turns%unrolled)) })
	}
	for i := range sums {
		sums[i] = sums[i].Add(sums[i].Other(16))
	}
	w.If(w.lane.Less(m.Classes), func() {
		for q, s := range w.small {
			w.follow(s, sums[q])
			w.publish(w.s.w3, w.lane.Mul(m.stride()), 8*q, w.warp, s[0])
		}
		w.follow(w.last, sums[n])
	})
	w.If(w.thread.Less(m.Classes), func() { w.Shared(w.p.b3).At(w.thread, 4).Store(0, w.last[0]) })
}

// publish stores a weight of the block's own outputs where its group finds it.
func (w *writer) publish(place int, before ptx.Value, add int, i, weight ptx.Value) {
	w.at(place, before.Add(w.group.Mul(wide)).Add(w.slice.Mul(w.m.own())).Add(i)).Store(4*add, weight)
}

// updateBias is a step on the biases of this block's own outputs, by the threads
// from first on.
func (w *writer) updateBias(first, place int) {
	i := w.thread.Sub(first)
	w.If(i.Less(w.m.own()), func() {
		from := w.Shared(w.p.sums).At(w.slice.Mul(w.m.own()).Add(i), 4)
		sum := from.Load(0).Float()
		for k := 1; k < 16; k++ {
			sum = sum.Add(from.Load(4 * wide * k).Float())
		}
		w.follow(w.biases, sum)
		w.publish(place, w.U32(0), 0, i, w.biases[0])
	})
}

// results writes the step's row, by the second warp of the first block.
func (w *writer) results(s, at ptx.Value) {
	m := w.m
	w.If(w.warp.Equal(1).And(w.slice.Add(w.group).Equal(0)), func() {
		loss, hit := w.Var(0.0), w.Var(0.0)
		for first := 0; first < m.Batch; first += 32 {
			i := w.lane.Add(first)
			in := i.Less(m.Batch)
			a := w.at(w.s.results, i.Shl(1))
			w.Set(loss, loss.Add(a.LoadIf(in, 0).Float()))
			w.Set(hit, hit.Add(a.LoadIf(in, 4).Float()))
		}
		for mask := 1; mask < 32; mask *= 2 {
			w.Set(loss, loss.Add(loss.Other(mask)))
			w.Set(hit, hit.Add(hit.Other(mask)))
		}
		row := w.Output(len(m.States())).At(at.Add(s).Min(m.Rows-1), 12)
		first := w.lane.Equal(0)
		row.StoreIf(first, 0, loss.Mul(1/float64(m.Batch)))
		row.StoreIf(first, 4, w.F32(float64(m.Batch)))
		row.StoreIf(first, 8, hit)
	})
}
