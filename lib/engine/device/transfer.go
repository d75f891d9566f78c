package device

import (
	"errors"
	"math"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// window is shared memory that a client offers for bulk data.
type window struct {
	mem    []byte
	users  int  // transfers under way; protected by Worker.mu
	closed bool // the client has gone; the last transfer unmaps it
}

// openWindow maps a client's window.
func (c *conn) openWindow(b wire.WindowBody, fd *os.File) error {
	if fd == nil || b.Window == 0 || c.windows[b.Window] != nil {
		return wire.Errorf(wire.BadFrame, "window %d: no descriptor, or its number is in use", b.Window)
	}
	// A window that could shrink would kill the worker with SIGBUS.
	seals, err := unix.FcntlInt(fd.Fd(), unix.F_GET_SEALS, 0)
	if err != nil || seals&unix.F_SEAL_SHRINK == 0 {
		return wire.Errorf(wire.BadFrame, "window %d is not a memfd sealed against shrinking", b.Window)
	}
	st, err := fd.Stat()
	if err != nil || b.Size == 0 || uint64(st.Size()) < b.Size {
		return wire.Errorf(wire.BadFrame, "window %d has not the %d bytes it announces", b.Window, b.Size)
	}
	mem, err := unix.Mmap(int(fd.Fd()), 0, int(b.Size), syscall.PROT_READ|syscall.PROT_WRITE, syscall.MAP_SHARED)
	if err != nil {
		return wire.Errorf(wire.Invalid, "window of %d bytes: %v", b.Size, err)
	}
	c.windows[b.Window] = &window{mem: mem}
	return nil
}

// slice returns the part of a window that a transfer names, and holds it.
func (c *conn) slice(n uint32, offset uint64, size int64) ([]byte, *window, error) {
	win := c.windows[n]
	if win == nil {
		return nil, nil, wire.Errorf(wire.BadFrame, "unknown window %d", n)
	}
	if offset > uint64(len(win.mem)) || uint64(size) > uint64(len(win.mem))-offset {
		return nil, nil, wire.Errorf(wire.BadFrame, "bytes %d to %d of a window of %d", offset, offset+uint64(size), len(win.mem))
	}
	c.w.mu.Lock()
	win.users++
	c.w.mu.Unlock()
	return win.mem[offset : offset+uint64(size)], win, nil
}

// unhold ends a transfer. The caller holds w.mu.
func (win *window) unhold() {
	win.users--
	if win.users == 0 && win.closed {
		unix.Munmap(win.mem)
	}
}

// upload makes an array from a client's data.
func (c *conn) upload(b *wire.UploadBody) error {
	w := c.w
	if err := c.fresh([]uint64{b.Handle}); err != nil {
		return err
	}
	size, err := b.Type.Bytes()
	if err != nil {
		return err
	}
	data := b.Data
	var win *window
	if b.Window != 0 {
		if data, win, err = c.slice(b.Window, b.Offset, size); err != nil {
			return err
		}
	}
	a := &array{typ: b.Type, bytes: size, device: int(b.Device), owner: c.space, used: time.Now()}
	done := func(error) {
		if win != nil {
			c.out.Send(wire.Done, 0, wire.DoneBody{Window: b.Window}.Append)
			w.mu.Lock()
			win.unhold()
			w.mu.Unlock()
		}
	}
	failed := c.allows(size)
	switch {
	case failed != nil:
	case int64(len(data)) != size:
		failed = wire.Errorf(wire.Invalid, "upload of %s: got %d bytes, want %d", b.Type, len(data), size)
	case a.device >= len(w.devices):
		failed = wire.Errorf(wire.Invalid, "upload to device %d: session has devices 0 to %d", int32(b.Device), len(w.devices)-1)
	default:
		put := func() {
			if failed = w.affords(a.device, size); failed != nil {
				return
			}
			switch {
			case win == nil:
				a.buf, failed = w.client.Upload(data, dtype(b.Type.DType), b.Type.Dims, w.devices[b.Device])
			case w.inline && b.Adopts(len(win.mem)):
				a.buf, failed = w.client.Adopt(data, dtype(b.Type.DType), b.Type.Dims, w.devices[b.Device], done)
			default:
				a.buf, failed = w.client.UploadAsync(data, dtype(b.Type.DType), b.Type.Dims, w.devices[b.Device], done)
			}
		}
		if put(); crammed(failed) && c.spares() {
			put()
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if failed != nil {
		if win != nil {
			go done(nil)
		}
		a.err = w.transferError(wire.Invalid, failed)
		if a.err.Code == wire.OutOfMemory && a.err.Next == "" {
			c.outOfMemory(a.err, false)
		}
		c.postpone(a.err)
	}
	w.add(a)
	c.arrays.set(b.Handle, a)
	return nil
}

// transferError is why an array did not get to a device, ours or PJRT's, which is of a class.
func (w *Worker) transferError(code wire.Code, err error) *wire.Error {
	if e := asError(err); e.Code != wire.Internal {
		return e
	}
	return w.deviceError(code, "", err)
}

// crammed says that an error is of a device that has no memory left.
func crammed(err error) bool {
	return errors.Is(err, pjrt.ErrOutOfMemory) || errors.Is(err, wire.OutOfMemory)
}

// allows refuses bytes more than the quota of the client's space.
func (c *conn) allows(bytes int64) error {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	why := c.w.room(c.space, bytes)
	if why != nil && c.readers(math.MaxInt64) {
		why = c.w.room(c.space, bytes)
	}
	if why != nil {
		c.outOfMemory(why, true)
		return why
	}
	return nil
}

// spares gives up what can be, waits for readers, and says whether there was something. The
// caller does not hold w.mu.
func (c *conn) spares() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	undone := c.w.spare()
	return c.readers(math.MaxInt64) || undone
}

// use finds an array for a call into PJRT and pins it. When it cannot be used
// the answer is why.
func (c *conn) use(h uint64) (*array, *wire.Error) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	a := c.arrays.get(h)
	if a == nil {
		return nil, wire.Errorf(wire.Gone, "array handle %d was freed, donated or is not of this connection", h)
	}
	if why := a.check(); why != nil {
		return nil, why
	}
	c.w.pin(a)
	return a, nil
}

// download sends an array's data.
func (c *conn) download(id uint32, b wire.DownloadBody) error {
	w := c.w
	a, why := c.use(b.Handle)
	if why != nil {
		c.told(why)
		return c.fail(id, why)
	}
	unpin := func() {
		w.mu.Lock()
		w.unpin(a)
		w.mu.Unlock()
	}
	var dst []byte
	var win *window
	var pinner runtime.Pinner
	if b.Window != 0 {
		var err error
		if dst, win, err = c.slice(b.Window, b.Offset, a.bytes); err != nil {
			unpin()
			return err
		}
	} else {
		dst = make([]byte, max(1, a.bytes))
		pinner.Pin(&dst[0])
		dst = dst[:a.bytes]
	}
	done := func(err error) {
		pinner.Unpin()
		w.mu.Lock()
		w.unpin(a)
		if win != nil {
			win.unhold()
		}
		why := c.outcome(a, err)
		w.mu.Unlock()
		switch {
		case why != nil:
			c.told(why)
			c.fail(id, why)
		case win != nil:
			c.reply(id, nil)
		default:
			c.reply(id, func(to []byte) []byte { return append(to, dst...) })
		}
	}
	if c.alone() && c.short() { // nothing waits behind it: waiting in place is faster
		done(w.client.Download(a.buf, dst))
	} else if err := w.client.DownloadAsync(a.buf, dst, done); err != nil {
		done(err)
	}
	return nil
}

// copy copies an array to another device.
func (c *conn) copy(b wire.CopyBody) error {
	w := c.w
	if err := c.fresh([]uint64{b.To}); err != nil {
		return err
	}
	n := &array{device: int(b.Device), owner: c.space, used: time.Now()}
	a, why := c.use(b.From)
	if why == nil {
		n.typ, n.bytes = a.typ, a.bytes
		if full := c.allows(a.bytes); full != nil {
			why = asError(full)
		} else if int(b.Device) >= len(w.devices) {
			why = wire.Errorf(wire.Invalid, "copy to device %d: session has devices 0 to %d", int32(b.Device), len(w.devices)-1)
		} else {
			put := func() (pjrt.Buffer, error) {
				if err := w.affords(n.device, a.bytes); err != nil {
					return 0, err
				}
				return w.client.CopyToDevice(a.buf, a.typ, w.devices[b.Device])
			}
			buf, err := put()
			if crammed(err) {
				w.mu.Lock()
				undone := w.spare() // and no readers: the copy is one
				w.mu.Unlock()
				if undone {
					buf, err = put()
				}
			}
			if n.buf = buf; err != nil {
				n.buf, why = 0, w.transferError(wire.ExecuteError, err)
			}
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if a != nil {
		w.unpin(a)
	}
	if why != nil {
		if why.Code == wire.OutOfMemory && why.Next == "" {
			c.outOfMemory(why, false)
		}
		n.err = why
		c.postpone(why)
	}
	w.add(n)
	c.arrays.set(b.To, n)
	return nil
}

// leaveAll drops all that the connection holds.
func (c *conn) leaveAll() {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	for h := range c.arrays.all() {
		c.forget(h)
	}
	for h, p := range c.programs {
		delete(c.programs, h)
		p.refs--
	}
	w.trim()
	for _, win := range c.windows {
		win.closed = true
		win.users++
		win.unhold()
	}
}
