package emulate

import "fmt"

// array is global memory. Each is far from all others, so that an index that is
// too large or below 0 leaves it.
type array struct {
	name  string
	bytes int
	data  []uint32
	marks []mark // nil for what may only be read
}

// base is the address of array i.
func base(i int) uint64 { return uint64(i+1) << 40 }

// find is the array that an address is in or nearest to, nil for none, and the
// byte in it.
func (m *machine) find(address uint64) (a *array, at int64) {
	number := int((address+1<<39)>>40) - 1
	if number < 0 || number >= len(m.arrays) {
		return nil, 0
	}
	return m.arrays[number], int64(address - base(number))
}

// stamp is a time of a block (see block.clock), and in the low 16 bits a thread.
type stamp uint64

const several = 0xFFFF // threads

func stamped(time uint64, thread int) stamp { return stamp(time<<16 | uint64(thread)) }

func (s stamp) time() uint64  { return uint64(s >> 16) }
func (s stamp) epoch() uint64 { return uint64(s >> 32) } // of bar.sync
func (s stamp) thread() int   { return int(s & 0xFFFF) }

// races says whether another thread of the block was there since the last bar.sync.
func (s stamp) races(now stamp) bool {
	return s.epoch() == now.epoch() && s.thread() != now.thread()
}

// joined is the mark of a read by both; s is the earlier one.
func (s stamp) joined(now stamp) stamp {
	if s.races(now) {
		return now | several
	}
	return now
}

func (s stamp) String() string {
	if s.thread() == several {
		return "several threads"
	}
	return fmt.Sprintf("thread %d", s.thread())
}

// shared is what is known of a word of shared memory: who wrote it, 0 for nobody,
// and who has read it.
type shared struct{ wrote, read stamp }

// mark is what is known of a word of global memory.
type mark struct {
	writer  int32 // a block's number + 1; 0 for none
	reader  int32 // the same, since then
	wrote   stamp
	read    stamp
	readers []stamp // of each block, where several read unordered
	counter bool    // it orders blocks and is not to be ordered
}

const host = -1 // the writer of inputs

// accessShared checks and marks a read or a write of a word of shared memory.
func (w *warp) accessShared(in *instruction, lane int, word int, write bool) error {
	m, now := &w.block.marks[word], stamped(w.block.now(), w.first+lane)
	switch {
	case m.wrote.races(now):
		return w.fail(in, lane, "race at byte %d of shared memory, which %s wrote since the last bar.sync", 4*word, m.wrote)
	case write && m.read.races(now):
		return w.fail(in, lane, "race at byte %d of shared memory, which %s read since the last bar.sync", 4*word, m.read)
	case write:
		m.wrote = now
	case m.wrote == 0:
		return w.fail(in, lane, "read of byte %d of shared memory, want one that was written", 4*word)
	default:
		m.read = m.read.joined(now)
	}
	return nil
}

// accessGlobal is the same of global memory.
func (w *warp) accessGlobal(in *instruction, lane int, a *array, word int, write bool) error {
	if a.marks == nil {
		if write {
			return w.fail(in, lane, "store to %s, want an output or its alias", a.name)
		}
		return nil
	}
	b, m := w.block, &a.marks[word]
	now, me := stamped(b.now(), w.first+lane), int32(b.number+1)
	if !write && m.writer == 0 {
		return w.fail(in, lane, "read of byte %d of %s, want one that was written", 4*word, a.name)
	}
	if m.counter {
		return nil
	}
	if m.writer == me && m.wrote.races(now) {
		return w.fail(in, lane, "race at byte %d of %s, which %s of the block wrote since the last bar.sync", 4*word, a.name, m.wrote)
	}
	if m.writer > 0 && m.writer != me && b.clock[m.writer-1] < m.wrote.time() {
		return w.fail(in, lane, "race at byte %d of %s, which block %d wrote with no release that this block has acquired", 4*word, a.name, m.writer-1)
	}
	if !write {
		m.see(b, me, now)
		return nil
	}
	check := func(reader int32, read stamp) error {
		if reader == me && read.races(now) {
			return w.fail(in, lane, "race at byte %d of %s, which %s of the block read since the last bar.sync", 4*word, a.name, read)
		}
		if reader != me && b.clock[reader-1] < read.time() {
			return w.fail(in, lane, "race at byte %d of %s, which block %d read with no release that this block has acquired", 4*word, a.name, reader-1)
		}
		return nil
	}
	if m.reader > 0 {
		if err := check(m.reader, m.read); err != nil {
			return err
		}
	}
	for i, read := range m.readers {
		if read != 0 {
			if err := check(int32(i+1), read); err != nil {
				return err
			}
		}
	}
	m.writer, m.wrote, m.reader, m.readers = me, now, 0, nil
	return nil
}

// see marks a read. A read that is ordered after all others stands for them.
func (m *mark) see(b *block, me int32, now stamp) {
	switch {
	case m.readers != nil:
		m.readers[b.number] = m.readers[b.number].joined(now)
	case m.reader == me:
		m.read = m.read.joined(now)
	case m.reader == 0 || b.clock[m.reader-1] >= m.read.time():
		m.reader, m.read = me, now
	default:
		m.readers = make([]stamp, len(b.clock))
		m.readers[m.reader-1], m.readers[b.number] = m.read, now
		m.reader = 0
	}
}

// locate is the array and the word at an address, where so many bytes are.
func (w *warp) locate(in *instruction, lane int, address uint64, bytes int64) (*array, int, error) {
	a, at := w.find(address)
	switch {
	case a == nil:
		return nil, 0, w.fail(in, lane, "got address %#x, want one in an array", address)
	case at < 0 || at+bytes > int64(a.bytes):
		return nil, 0, w.fail(in, lane, "got %d bytes at byte %d of %s, want some of its %d bytes", bytes, at, a.name, a.bytes)
	case at%bytes != 0:
		return nil, 0, w.fail(in, lane, "got %d bytes at byte %d of %s, want a multiple of %d", bytes, at, a.name, bytes)
	}
	return a, int(at / 4), nil
}

// memory is ld and st of global memory.
func (w *warp) memory(in *instruction, mask uint32, write bool) error {
	from, data := in.at[in.n], in.at[:in.n]
	if write {
		from, data = in.at[0], in.at[1:in.n+1]
	}
	w.progress = w.progress || write
	for lane := range lanes {
		if mask>>lane&1 == 0 {
			continue
		}
		a, word, err := w.locate(in, lane, w.addresses[from][lane]+uint64(in.offset), 4*int64(in.n))
		if err != nil {
			return err
		}
		for i, r := range data {
			if err := w.accessGlobal(in, lane, a, word+i, write); err != nil {
				return err
			}
			if write {
				a.data[word+i] = w.row(r)[lane]
			} else {
				w.words[r][lane] = a.data[word+i]
			}
		}
	}
	return nil
}

// sharedMemory is ld and st of shared memory.
func (w *warp) sharedMemory(in *instruction, mask uint32, write bool) error {
	from, data := in.at[in.n], in.at[:in.n]
	if write {
		from, data = in.at[0], in.at[1:in.n+1]
	}
	w.progress = w.progress || write
	addresses := *w.row(from) // a copy: a load may set its own address
	for lane := range lanes {
		if mask>>lane&1 == 0 {
			continue
		}
		at, bytes := int64(int32(addresses[lane]))+in.offset, 4*int64(in.n)
		if at < 0 || at+bytes > int64(w.sharedBytes) {
			return w.fail(in, lane, "got %d bytes at byte %d of shared memory, want some of its %d bytes", bytes, at, w.sharedBytes)
		}
		if at%bytes != 0 {
			return w.fail(in, lane, "got %d bytes at byte %d of shared memory, want a multiple of %d", bytes, at, bytes)
		}
		word := int(at / 4)
		for i, r := range data {
			if err := w.accessShared(in, lane, word+i, write); err != nil {
				return err
			}
			if write {
				w.block.words[word+i] = w.row(r)[lane]
			} else {
				w.words[r][lane] = w.block.words[word+i]
			}
		}
	}
	return nil
}

// matrices is ldmatrix: matrix i has its rows where the threads from 8i on say, and
// thread 4g+t gets two numbers of row g, or, turned, of column g.
func (w *warp) matrices(in *instruction) error {
	addresses := *w.row(in.at[in.n])
	for i, r := range in.at[:in.n] {
		for lane := range lanes {
			var halves [2]uint32
			for e := range halves {
				row, column := lane/4, lane%4*2+e
				if in.code == turned {
					row, column = column, row
				}
				from := 8*i + row
				at := int64(int32(addresses[from])) + in.offset
				switch {
				case at < 0 || at+16 > int64(w.sharedBytes):
					return w.fail(in, from, "got 16 bytes at byte %d of shared memory, want some of its %d bytes", at, w.sharedBytes)
				case at%16 != 0:
					return w.fail(in, from, "got 16 bytes at byte %d of shared memory, want a multiple of 16", at)
				}
				word := int(at/4) + column/2
				if err := w.accessShared(in, lane, word, false); err != nil {
					return err
				}
				halves[e] = w.block.words[word] >> (column % 2 * 16) & 0xFFFF
			}
			w.words[r][lane] = halves[0] | halves[1]<<16
		}
	}
	return nil
}

// release adds to counters, and says by them what the block has done.
func (w *warp) release(in *instruction, mask uint32) error {
	w.progress = true
	b := w.block
	for lane := range lanes {
		if mask>>lane&1 == 0 {
			continue
		}
		address := w.addresses[in.at[0]][lane] + uint64(in.offset)
		a, word, err := w.counter(in, lane, address, true)
		if err != nil {
			return err
		}
		a.data[word] += w.row(in.at[1])[lane]
		clock := w.counters[address]
		if clock == nil {
			clock = make([]uint64, len(b.clock))
			w.counters[address] = clock
		}
		join(clock, b.clock)
		b.clock[b.number]++
	}
	return nil
}

// acquire reads counters, and lets the block see what they say is done.
func (w *warp) acquire(in *instruction, mask uint32) error {
	w.looked = true
	to := in.at[0]
	for lane := range lanes {
		if mask>>lane&1 == 0 {
			continue
		}
		address := w.addresses[in.at[1]][lane] + uint64(in.offset)
		a, word, err := w.counter(in, lane, address, false)
		if err != nil {
			return err
		}
		w.words[to][lane] = a.data[word]
		join(w.block.clock, w.counters[address])
		if seen := [3]uint64{uint64(w.at), address, uint64(a.data[word])}; lane == w.lane() && seen != w.seen {
			w.seen, w.progress = seen, true
		}
	}
	return nil
}

// counter finds the word at an address and marks it as one.
func (w *warp) counter(in *instruction, lane int, address uint64, write bool) (a *array, word int, err error) {
	if a, word, err = w.locate(in, lane, address, 4); err != nil {
		return nil, 0, err
	}
	if a.marks == nil {
		return a, word, w.accessGlobal(in, lane, a, word, write)
	}
	if a.marks[word].writer == 0 {
		return nil, 0, w.fail(in, lane, "read of byte %d of %s, want one that was written", 4*word, a.name)
	}
	a.marks[word].counter = true
	return a, word, nil
}

func join(clock, other []uint64) {
	for i, t := range other {
		clock[i] = max(clock[i], t)
	}
}
