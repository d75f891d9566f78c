package emulate

import (
	"fmt"
	"math"
	"strings"
)

const (
	everyone = math.MaxUint32 // the threads of a warp
	lanes    = 32
	unset    = 0xFFFFDEAD // what registers start with: a NaN, and a large integer
	enough   = 1 << 32    // instructions of warps, more than ten minutes
	patience = 1000       // rounds in which warps do nothing but wait
)

// machine is a device that runs a kernel.
type machine struct {
	*program
	arrays      []*array
	parameters  []uint64
	sharedBytes int
	blocks      []*block
	warps       []*warp
	counters    map[uint64][]uint64 // the clock of each counter's releases
	progress    bool                // since the round began, something was done but waiting
	steps       int
}

// block is threads that share memory and meet at bar.sync.
type block struct {
	number int
	words  []uint32
	marks  []shared
	// clock says of each block up to when this one has seen what it did. A time is
	// the number of bar.syncs, from 1, and in the low 16 bits that of releases.
	clock   []uint64
	waiting int // warps
	warps   []*warp
}

func (b *block) now() uint64 { return b.clock[b.number] }

// warp is 32 threads. Those of mask are at the place at, all others further down.
type warp struct {
	*machine
	block      *block
	first      int // its first thread's number
	words      [][lanes]uint32
	addresses  [][lanes]uint64
	conditions []uint32 // a bit for each thread
	at, next   int32    // next is where the nearest other threads are
	mask, live uint32
	places     [lanes]int32 // of threads that are not in mask
	waits      bool         // at bar.sync
	looked     bool         // it has just read a counter:
	seen       [3]uint64    // the instruction, the address and the number
}

func (m *machine) run(blocks, threads int) error {
	m.counters = map[uint64][]uint64{}
	for n := range blocks {
		b := &block{number: n, clock: make([]uint64, blocks), words: make([]uint32, m.sharedBytes/4), marks: make([]shared, m.sharedBytes/4)}
		b.clock[n] = 1 << 16
		for first := 0; first < threads; first += lanes {
			w := &warp{machine: m, block: b, first: first, mask: everyone, live: everyone, next: math.MaxInt32,
				words: make([][lanes]uint32, m.program.words+1), addresses: make([][lanes]uint64, m.program.addresses), conditions: make([]uint32, m.program.conditions)}
			for r := range w.words {
				for lane := range w.words[r] {
					w.words[r][lane] = unset
				}
			}
			for r := range w.addresses {
				for lane := range w.addresses[r] {
					w.addresses[r][lane] = unset << 32
				}
			}
			b.warps, m.warps = append(b.warps, w), append(m.warps, w)
		}
		m.blocks = append(m.blocks, b)
	}
	for idle := 0; idle < patience; {
		alive := false
		m.progress = false
		for _, w := range m.warps {
			if w.live == 0 {
				continue
			}
			alive = true
			if w.waits {
				continue
			}
			if err := w.turn(); err != nil {
				return err
			}
		}
		if !alive {
			return nil
		}
		if idle++; m.progress {
			idle = 0
		}
	}
	return m.deadlock()
}

// deadlock says where the warps wait, each line once.
func (m *machine) deadlock() error {
	var places []string
	listed := map[int32]bool{}
	for _, w := range m.warps {
		at, what := w.at, ""
		if w.live == 0 {
			continue
		}
		if !w.waits {
			at, what = int32(w.seen[0]), fmt.Sprintf(", which reads %d", w.seen[2])
		}
		if !listed[at] {
			listed[at] = true
			places = append(places, w.where(&m.code[at], w.lane())+what)
		}
	}
	return fmt.Errorf("deadlock: all wait, at %s", strings.Join(places, "; at "))
}

// lane is the first thread of mask.
func (w *warp) lane() int {
	for lane := range lanes {
		if w.mask>>lane&1 != 0 {
			return lane
		}
	}
	return 0
}

func (m *machine) line(in *instruction) string {
	return fmt.Sprintf("line %d: %s", in.line, m.lines[in.line-1])
}

// where is a line, a block and a thread, for messages.
func (w *warp) where(in *instruction, lane int) string {
	return fmt.Sprintf("%s block %d thread %d", w.line(in), w.block.number, w.first+lane)
}

func (w *warp) fail(in *instruction, lane int, format string, args ...any) error {
	return fmt.Errorf("%s: %s", w.where(in, lane), fmt.Sprintf(format, args...))
}

// turn runs a warp until it waits, ends or has read a counter.
func (w *warp) turn() error {
	w.looked = false
	for w.live != 0 && !w.waits && !w.looked {
		in := &w.code[w.at]
		if w.steps++; w.steps > enough {
			return w.fail(in, w.lane(), "it has run %d instructions, want an end", enough)
		}
		mask := w.mask
		if in.guard >= 0 {
			holds := w.conditions[in.guard]
			if in.not {
				holds = ^holds
			}
			mask &= holds
		}
		switch in.code {
		case branch:
			w.branch(mask, in.n)
			continue
		case end:
			w.live &^= mask
			w.progress = true
			w.branch(mask, math.MaxInt32)
			continue
		}
		if mask != 0 {
			if err := w.step(in, mask); err != nil {
				return err
			}
		}
		if w.waits {
			return nil // barrier goes on from here
		}
		if w.at++; w.at >= w.next {
			w.gather()
		}
	}
	return nil
}

// branch sends the threads of taken to a place, and others of mask on.
func (w *warp) branch(taken uint32, to int32) {
	switch {
	case taken == 0:
		w.at++
	case taken == w.mask && to < w.next:
		w.at = to
		return
	default:
		for lane := range lanes {
			if taken>>lane&1 != 0 {
				w.places[lane] = to
			}
		}
		w.mask &^= taken
		w.at++
		w.gather()
		return
	}
	if w.at >= w.next {
		w.gather()
	}
}

// gather picks the threads that are at the first place of all.
func (w *warp) gather() {
	for lane := range lanes {
		if w.mask>>lane&1 != 0 {
			w.places[lane] = w.at
		}
	}
	w.at, w.next, w.mask = math.MaxInt32, math.MaxInt32, 0
	for lane, at := range w.places {
		switch {
		case w.live>>lane&1 == 0:
		case at < w.at:
			w.at, w.next, w.mask = at, w.at, 1<<lane
		case at == w.at:
			w.mask |= 1 << lane
		case at < w.next:
			w.next = at
		}
	}
}

// barrier waits for the block, and sends its warps on when all have come.
func (w *warp) barrier() {
	b := w.block
	w.waits, w.progress = true, true
	if b.waiting++; b.waiting < len(b.warps) {
		return
	}
	b.waiting = 0
	b.clock[b.number] = (b.now()>>16 + 1) << 16
	for _, v := range b.warps {
		v.waits = false
		if v != w { // which goes on by itself
			v.at++
		}
	}
}
