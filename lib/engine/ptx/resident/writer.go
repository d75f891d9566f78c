package resident

import "gaiden/lib/engine/ptx"

// writer writes the kernel. What it holds are registers, and addresses in shared
// memory.
type writer struct {
	*ptx.Block
	m MLP
	p places
	s scratch

	thread, lane, warp ptx.Value
	slice, group       ptx.Value // the block's
	quad, four         ptx.Value // the thread's g and t in its warp: lane/4 and lane%4
	scratch            ptx.Value // address

	// of the rows that the block adds up
	row     ptx.Value // the thread's, one that exists
	column  ptx.Value // of 16 times four
	mine    ptx.Value // whether it is the thread's to store
	element ptx.Value // address of the element in the first array of the scratch

	moments [2]moments // of the large layers
	small   []state    // of the last layer: rows of the block's own, a class to a lane
	biases  state      // of the first layer by the first threads, of the second by those from 64 on
	last    state      // the last layer's biases, a class to a lane of the first warp

	scales []ptx.Value // the rule's scalars in this step
}

// moments are a large layer's: of each kind a thread's 32 elements.
type moments [][]ptx.Value

// state is one weight and its moments.
type state []ptx.Value

// nothing is a state that is to be set.
func (w *writer) nothing() (s state) {
	for range w.m.arrays() {
		s = append(s, w.Var(0.0))
	}
	return s
}

func newWriter(b *ptx.Block, m MLP) *writer {
	w := &writer{Block: b, m: m, p: m.places(), s: m.scratch()}
	w.thread = b.ThreadID()
	w.lane, w.warp = w.thread.And(31), w.thread.Shr(5)
	w.quad, w.four = w.lane.Shr(2), w.lane.And(3)
	block := b.BlockID()
	w.slice, w.group = block.And(m.along()-1), block.Shr(log2(m.along()))
	w.scratch = b.Output(len(m.States()) + 3)
	w.row = w.slice.Mul(m.share()).Add(w.thread.Shr(4))
	w.mine = w.thread.Less(16 * m.share()).And(w.row.Less(m.Batch))
	w.row = w.row.Min(m.Batch - 1)
	w.column = w.thread.And(15)
	w.element = w.scratch.At(w.row.Mul(m.stride()).Add(w.group.Mul(wide)).Add(w.column.Shl(2)), 4)
	return w
}

func log2(n int) (k int) {
	for ; n > 1; n /= 2 {
		k++
	}
	return k
}

// at is the address of an element of the scratch, from a place on.
func (w *writer) at(place int, i ptx.Value) ptx.Value { return w.scratch.At(i.Add(place), 4) }

// groupCounter is the address of one of a group's counters, and sliceCounter of one of a
// slice's.
func (w *writer) groupCounter(which int, group ptx.Value) ptx.Value {
	return w.Input(inCounters).At(group.Add(which*w.m.groups()), 4*apart)
}

func (w *writer) sliceCounter(which int, slice ptx.Value) ptx.Value {
	return w.Input(inCounters).At(slice.Add(groupCounters*w.m.groups()+which*w.m.along()), 4*apart)
}

// exchange makes what the block has stored known to its group, and waits for what the
// others have.
func (w *writer) exchange(counter, count ptx.Value) {
	w.Arrive(w.thread, counter)
	w.Await(w.thread, counter, count)
}

// times runs body for each of n elements that the block's threads share.
func (w *writer) times(n int, body func(i ptx.Value)) {
	for first := 0; first < n; first += threads {
		i := w.thread
		if first > 0 {
			i = i.Add(first)
		}
		if first+threads <= n {
			body(i)
		} else {
			w.If(i.Less(n), func() { body(i) })
		}
	}
}

// all writes everything.
func (w *writer) all() {
	at := w.Input(inAt).Load(0)
	w.clear()
	w.load()
	w.index(at)
	w.Sync()
	first := w.examples(w.U32(0), false)
	w.put(w.fetch(first), first)
	w.Sync()
	w.For(0, w.m.Steps, 1, func(s ptx.Value) { w.step(s, at) })
	w.save()
	w.If(w.thread.Equal(0).And(w.BlockID().Equal(0)), func() {
		w.Output(len(w.m.States())+1).Store(0, at.Add(w.m.Steps))
	})
}
