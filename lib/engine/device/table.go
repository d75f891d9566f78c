package device

import "iter"

// table maps a connection's handles to arrays. Handles ascend and neighbours
// live and die together, so a page of them is found once and used often: for a
// step with 31 parameters that is 6 µs less than with a map.
type table map[uint64]*page

const pageBits = 7

type page struct {
	arrays [1 << pageBits]*array
	n      int // not nil
}

func (t table) get(h uint64) *array {
	if p := t[h>>pageBits]; p != nil {
		return p.arrays[h&(1<<pageBits-1)]
	}
	return nil
}

// set makes h stand for a; nil forgets it.
func (t table) set(h uint64, a *array) {
	p := t[h>>pageBits]
	if p == nil {
		if a == nil {
			return
		}
		p = &page{}
		t[h>>pageBits] = p
	}
	at := &p.arrays[h&(1<<pageBits-1)]
	if *at == nil {
		p.n++
	}
	if *at = a; a == nil {
		if p.n--; p.n == 0 {
			delete(t, h>>pageBits)
		}
	}
}

// all are the handles in use. The table may change meanwhile.
func (t table) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n, p := range t {
			for i, a := range p.arrays {
				if a != nil && !yield(n<<pageBits|uint64(i)) {
					return
				}
			}
		}
	}
}
