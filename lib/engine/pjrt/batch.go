package pjrt

// entry is one C call of a batch. First the word at src, if any, goes to dst:
// so an entry uses what an earlier one returned. Then fn(arg) is called.
type entry struct{ fn, arg, src, dst uintptr }

const entrySize = 32

// list is what the assembly walks. It stops when a call returns an error, with
// entries and n set to what is left.
type list struct{ entries, n, err uintptr }

// batch is a list of C calls that cost one transition together. All of it is C
// memory, so that it can be made once and used again.
type batch struct {
	list    *list
	entries []entry
	n       int
}

func newBatch(a *arena, n int) batch {
	return batch{make1[list](a), makeN[entry](a, n), 0}
}

func (b *batch) reset() { b.n = 0; b.list.n = 0 }

// add appends a call. The first add after reset starts a new list.
func (b *batch) add(fn, arg, src, dst uintptr) {
	b.entries[b.n] = entry{fn, arg, src, dst}
	b.n++
}

// run makes the calls from where it stopped last. err is the PJRT_Error of the
// call with index at, or 0 when all were made.
func (b *batch) run() (at int, err uintptr) {
	if b.list.n == 0 {
		b.list.entries, b.list.n = address(&b.entries[0]), uintptr(b.n)
	}
	b.list.err = 0
	walk(b.list)
	return b.n - int(b.list.n) - 1, b.list.err
}

// more says whether calls are left after a failed one.
func (b *batch) more() bool { return b.list.n > 0 }
