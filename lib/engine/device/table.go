package device

import "iter"

// table maps a connection's handles to arrays. Handles ascend and neighbours
// live and die together, so a page of them is found once and used often, which is
// faster than a map. The zero table is empty.
type table struct {
	pages map[uint64]*page
	last  *page   // the one that was used last
	free  []*page // empty ones
}

const pageBits = 7

type page struct {
	number uint64
	arrays [1 << pageBits]*array
	n      int // not nil
}

// page finds the page of h, nil if there is none.
func (t *table) page(h uint64) *page {
	if n := h >> pageBits; t.last == nil || t.last.number != n {
		p := t.pages[n]
		if p == nil {
			return nil
		}
		t.last = p
	}
	return t.last
}

func (t *table) get(h uint64) *array {
	if p := t.page(h); p != nil {
		return p.arrays[h&(1<<pageBits-1)]
	}
	return nil
}

// set makes h stand for a; nil forgets it.
func (t *table) set(h uint64, a *array) {
	p := t.page(h)
	if p == nil {
		if a == nil {
			return
		}
		p = t.open(h >> pageBits)
	}
	at := &p.arrays[h&(1<<pageBits-1)]
	if *at != nil {
		p.n--
	}
	if *at = a; a != nil {
		p.n++
	} else if p.n == 0 {
		t.close(p)
	}
}

// open adds an empty page.
func (t *table) open(number uint64) *page {
	var p *page
	if n := len(t.free); n > 0 {
		p, t.free = t.free[n-1], t.free[:n-1]
	} else {
		p = &page{}
	}
	if t.pages == nil {
		t.pages = map[uint64]*page{}
	}
	p.number, t.pages[number], t.last = number, p, p
	return p
}

// close takes an empty page away. A few are kept for the next ones.
func (t *table) close(p *page) {
	delete(t.pages, p.number)
	t.last = nil
	if len(t.free) < 8 {
		t.free = append(t.free, p)
	}
}

// all are the handles in use. The table may change meanwhile.
func (t *table) all() iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for n, p := range t.pages {
			for i, a := range p.arrays {
				if a != nil && !yield(n<<pageBits|uint64(i)) {
					return
				}
			}
		}
	}
}
