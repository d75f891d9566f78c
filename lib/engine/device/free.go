package device

import (
	"io/fs"
	"math"
	"os"

	"gaiden/lib/engine/hosts"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
	"gaiden/lib/sysinfo"
)

// hungry is the size, in bytes, of what a program needs, or an array, from which it is looked
// whether there is as much: see little.
const hungry = 256 << 20

// needs is how much memory a run of a program takes on each device besides its inputs, and of
// that besides its outputs, in bytes: 0 where the plugin does not tell.
func needs(exe *hosts.Program) (all, scratch int64) {
	m, err := exe.MemoryStats()
	if err != nil || m.Outputs < 0 || m.Temporary < 0 {
		return 0, 0
	}
	return m.Outputs - max(0, m.Aliased) + m.Temporary, m.Temporary
}

// fits refuses a program that there is no memory for. On a CPU, Linux would end the worker
// instead, after minutes of looking for pages. On a GPU, XLA would fail between the parts
// of what it needs, and never release those that it had. What the connection has requested before may have
// to end first, or a snapshot: the caller holds w.mu, which fits may give up while it waits
// for that, as long as the execution of frame seq is to be done.
func (c *conn) fits(p *program, device uint32, seq int64) *wire.Error {
	if c.w.little(p.need) {
		return nil
	}
	free, whose := c.w.memoryLeft(p, device)
	room := func() bool { return p.need <= free && !c.w.inPieces(p, device, free) }
	for _, more := range []func(){
		func() {
			c.watch(true)
			for c.inflight > 1 { // the program itself is one of them
				c.finished.Wait()
			}
		},
		func() { c.w.spare() },
		func() { c.readers(seq) },
		func() {
			if c.w.inline {
				pjrt.Trim() // what the allocator has kept
			}
			c.w.unused() // pages that are free can be together elsewhere
		},
	} {
		if room() {
			return nil
		}
		more()
		free, _ = c.w.memoryLeft(p, device)
	}
	if room() || c.quits(seq) {
		return nil
	}
	pieces := ""
	if p.need <= free {
		pieces = ", in pieces that are too small: gaiden session stop makes them whole, and the next cell has your arrays"
	}
	return c.late(p, wire.Errorf(wire.OutOfMemory, "it needs %s in addition to its inputs, and %s of the %s memory are free%s", megabytes(p.need), megabytes(free), whose, pieces))
}

// inPieces says whether XLA would find no room for a run of a program although so many bytes
// are free.
func (w *Worker) inPieces(p *program, device uint32, free int64) bool {
	for r := range p.replicas {
		d := p.on(device, r)
		switch {
		case d < len(w.pools):
			if p.need > free/2 && !w.pools[d].Fits(p.pieces()) {
				return true
			}
		case d < len(w.devices):
			if m, err := w.devices[d].Memory(); err == nil && tooSmall(m, p.scratch) {
				return true
			}
		}
	}
	return false
}

// pieces are sizes of what XLA takes for a run of a program, about: what it needs besides its
// outputs comes in one, and which of the outputs take the memory of inputs is not known.
func (p *program) pieces() []int64 {
	l := []int64{p.scratch}
	largest := int64(1 << 20)
	for _, n := range p.outBytes {
		largest = max(largest, n)
	}
	for rest := p.need - p.scratch; rest > 0; rest -= largest {
		l = append(l, min(rest, largest))
	}
	if p.scratch == 0 {
		l = l[1:]
	}
	return l
}

// tooSmall says whether BFC, XLA's own allocator, cannot have so many bytes in one piece: of
// what it holds, or of what it still may ask for.
func tooSmall(m pjrt.MemoryStats, bytes int64) bool {
	return m.Limit > 0 && m.Pool > 0 && m.LargestFree >= 0 && bytes > max(m.LargestFree, m.Limit-m.Pool)
}

// readers waits for those who read an array that nobody else has any more, as a snapshot
// does with what has another value since it began, and says whether there were some. It
// waits no longer when the execution of frame seq is not to be done any more. The caller
// holds w.mu.
func (c *conn) readers(seq int64) (waited bool) {
	for c.w.lent() && !c.quits(seq) {
		waited = true
		c.w.unpinned.Wait()
	}
	return waited
}

// lent says whether an array has readers, and nobody else but the undo of a cell. The
// caller holds w.mu.
func (w *Worker) lent() bool {
	undone := map[*array]int{}
	for _, s := range w.spaces {
		if s.undo == nil {
			continue
		}
		for _, a := range s.undo.names {
			undone[a]++
		}
	}
	for a := w.all.next; a != &w.all; a = a.next {
		if a.buf != 0 && a.pins > undone[a] && a.pins == a.refs {
			return true
		}
	}
	return false
}

// memoryLeft is how much memory there is for a run of a program, in bytes, and whose.
func (w *Worker) memoryLeft(p *program, device uint32) (free int64, whose string) {
	if w.inline {
		return freeMemory(os.DirFS("/")), "machine's"
	}
	free = math.MaxInt64
	for r := range p.replicas {
		if d := p.on(device, r); d < len(w.devices) {
			if _, left, err := w.memory(d); err == nil && left >= 0 {
				free = min(free, left)
			}
		}
	}
	return free, "device's"
}

// unclaimed is how much memory devices have in use that is no array's, in bytes, where all is
// quiet and it is much: what XLA has lost when it failed between the parts of what a program
// needs, see fits. The caller holds w.mu.
func (w *Worker) unclaimed() int64 {
	for c := range w.conns {
		if len(c.running) > 0 {
			return 0
		}
	}
	var all []pjrt.MemoryStats
	for i := range w.devices {
		if m, left, err := w.memory(i); err == nil {
			if i < len(w.pools) { // of whose limit others may have most
				m.Limit = min(m.Limit, m.InUse+left)
			}
			all = append(all, m)
		}
	}
	return besides(all, w.bytes)
}

// besides is how much more some devices have in use than arrays hold, in bytes; 0 where
// that may be what any program needs and an allocator leaves unused, up to an eighth.
func besides(devices []pjrt.MemoryStats, arrays int64) int64 {
	used, limit := int64(0), int64(0)
	for _, m := range devices {
		if m.Limit <= 0 || m.InUse < 0 {
			return 0
		}
		used, limit = used+m.InUse, limit+m.Limit
	}
	if more := used - arrays; more > max(2*hungry, limit/8) {
		return more
	}
	return 0
}

// memoryOf is what arrays on a device can be in at most, 0 where that is not known, and what
// of it nobody has, -1 where not, in bytes: of a device with a limit and with so much left.
func (w *Worker) memoryOf(limit, left int64) (all, free int64) {
	if !w.inline {
		return max(0, limit), left
	}
	if free = freeMemory(os.DirFS("/")); free == math.MaxInt64 {
		free = -1
	}
	return ownMemory(os.DirFS("/")), free
}

// allMemory is how much memory the machine has, or a container may have, in bytes; 0 where
// the files below root do not tell.
func allMemory(root fs.FS) int64 { return sysinfo.ReadMemoryOf(root).Total }

// ownMemory is what a process can have of that at most, and of the machine's swap.
func ownMemory(root fs.FS) int64 {
	m := sysinfo.ReadMemoryOf(root)
	if m.Total > 0 {
		m.Total += m.Swap
	}
	return m.Total
}

// freeMemory is how much memory Linux can still give this process, in bytes, by the files
// below root: the machine's, or what a container has left. It is math.MaxInt64 where they
// do not tell.
func freeMemory(root fs.FS) int64 {
	if m := sysinfo.ReadMemoryOf(root); m.Free >= 0 {
		return m.Free
	}
	return math.MaxInt64
}
