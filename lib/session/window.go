package session

import (
	"reflect"

	"github.com/gomlx/compute/dtypes"
	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// window is memory shared with the worker, through which bulk data goes.
type window struct {
	number uint32
	mem    []byte
	busy   bool
	empty  bool // its memory was released to the system
}

// windows are those of one connection; Session.mu protects them. They are kept
// for the next transfer, because the first use of fresh memory costs more than
// the copy. On the CPU a window may be busy for long: it is an array's memory.
type windows struct {
	all  []*window
	last uint32
}

// bulk is the size from which data goes through a window, in bytes: below it, a
// copy through the socket costs less than the page faults.
const bulk = 256 << 10

// keptWindows bounds the memory of windows that are kept, in bytes: those that
// nobody uses, and where windows do not become arrays, all.
const keptWindows = 1 << 30

// window returns a free window of at least n bytes, marked busy, or nil when
// the data should go through the socket.
func (s *Session) window(n int) *window {
	if n < bulk || s.remote {
		return nil
	}
	s.poll() // some may have come back
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return nil
	}
	var best *window
	for _, w := range s.windows.all {
		if !w.busy && len(w.mem) >= n && (best == nil || len(w.mem) < len(best.mem)) {
			best = w
		}
	}
	if best == nil {
		best = s.newWindow(n)
	}
	if best != nil {
		best.busy, best.empty = true, false
	}
	return best
}

// newWindow makes a window and tells the worker. Without shared memory the
// answer is nil, and data goes through the socket.
func (s *Session) newWindow(n int) *window {
	total := 0
	for _, w := range s.windows.all {
		if !w.busy && !w.empty || s.welcome.Platform != "cpu" {
			total += len(w.mem)
		}
	}
	if total+n > keptWindows && len(s.windows.all) > 0 {
		return nil
	}
	size := (n + 1<<21 - 1) &^ (1<<21 - 1)
	fd, err := unix.MemfdCreate("gaiden", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	if unix.Ftruncate(fd, int64(size)) != nil {
		return nil
	}
	if _, err := unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK|unix.F_SEAL_GROW); err != nil {
		return nil
	}
	mem, err := unix.Mmap(fd, 0, size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED|unix.MAP_POPULATE)
	if err != nil {
		return nil
	}
	s.windows.last++
	w := &window{number: s.windows.last, mem: mem}
	if s.out.SendFD(wire.Window, 0, wire.WindowBody{Window: w.number, Size: uint64(size)}.Append(nil), fd) != nil {
		unix.Munmap(mem)
		return nil
	}
	s.windows.all = append(s.windows.all, w)
	return w
}

// done makes a window free. Its memory goes when others that are free hold
// enough.
func (ws *windows) done(number uint32) {
	kept := 0
	for _, w := range ws.all {
		if !w.busy && !w.empty {
			kept += len(w.mem)
		}
	}
	for _, w := range ws.all {
		if w.number != number {
			continue
		}
		w.busy = false
		if kept+len(w.mem) > keptWindows {
			w.empty = unix.Madvise(w.mem, unix.MADV_REMOVE) == nil
		}
	}
}

// close forgets windows that nobody copies to or from; the rest end with the
// process.
func (ws *windows) close() {
	for _, w := range ws.all {
		if !w.busy {
			unix.Munmap(w.mem)
		}
	}
	ws.all = nil
}

// sliceOf takes a slice of numbers apart: element type, length, memory.
func sliceOf(flat any) (dtypes.DType, int, []byte) {
	v := reflect.ValueOf(flat)
	if v.Kind() != reflect.Slice {
		return dtypes.InvalidDType, 0, nil
	}
	t := dtypes.FromGoType(v.Type().Elem())
	if t == dtypes.InvalidDType || v.Type().Elem() != t.GoType() {
		return dtypes.InvalidDType, 0, nil
	}
	return t, v.Len(), dtypes.UnsafeByteSliceFromAny(flat)
}
