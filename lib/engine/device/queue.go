package device

import (
	"errors"
	"time"

	"gaiden/lib/engine/wire"
)

// item is a frame and its place in the order.
type item struct {
	wire.Frame
	seq int64
}

// maxQueue bounds the frames that wait to be obeyed. Who reads waits until half
// of them are, so that the two do not wake each other for every frame.
const maxQueue = 256

// inPlace bounds the device time of what the goroutine that reads waits for by
// itself: so long may what overtakes other frames have to wait.
const inPlace = time.Millisecond

// quick says whether a frame is obeyed in no time.
func (c *conn) quick(f wire.Frame) bool {
	w := c.w
	switch f.Kind {
	case wire.Free:
		return true
	case wire.Sync, wire.Download:
		return c.short()
	case wire.Execute:
		p := c.programs[wire.ExecuteProgram(f.Body)]
		if p == nil || !p.isReady() {
			return false
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		return p.pace > 0 && p.pace <= inPlace && !c.full(p) && c.isNext()
	}
	return false
}

// isNext says whether no execution of this client would wait for another space's. The
// caller holds w.mu.
func (c *conn) isNext() bool {
	for _, t := range c.w.turns {
		if !t.mayGo(c.space, c.slack()) {
			return false
		}
	}
	return true
}

// short says whether the device will soon have done what the client has asked
// for.
func (c *conn) short() bool {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	return c.unpaced == 0 && c.queued <= inPlace
}

// isProtocol says whether an error of one is a client's breach of the protocol,
// or a fault of ours that ends the connection too.
func isProtocol(err error) bool {
	var e *wire.Error
	return errors.As(err, &e)
}

// enqueue gives a frame to the goroutine that obeys.
func (c *conn) enqueue(it item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue)-c.head >= maxQueue {
		for len(c.queue)-c.head > maxQueue/2 {
			c.changed.Wait()
		}
	}
	c.queue = append(c.queue, it)
	c.behind = true
	c.changed.Broadcast()
}

// next is the next frame that was enqueued.
func (c *conn) next() (item, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.head == len(c.queue) {
		c.behind = false
		if c.closed {
			return item{}, false
		}
		c.changed.Wait()
	}
	it := c.queue[c.head]
	c.queue[c.head] = item{}
	c.head++
	switch left := len(c.queue) - c.head; {
	case left == 0:
		c.queue, c.head = c.queue[:0], 0
	case left == maxQueue/2:
		c.queue, c.head = append(c.queue[:0], c.queue[c.head:]...), 0
		c.changed.Broadcast()
	}
	return it, true
}

// alone says whether no frame waits behind the one that is obeyed.
func (c *conn) alone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.head == len(c.queue)
}

// obey takes frames in order. A frame that breaks the protocol ends the
// connection; the frames behind it are not obeyed. A client that has gone, and
// hears no answer, has broken nothing: what it had said is obeyed.
func (c *conn) obey() {
	broken := false
	for {
		it, ok := c.next()
		if !ok {
			break
		}
		if !broken {
			if err := c.one(it); err != nil && isProtocol(err) {
				broken = true
				c.end(err)
				c.sock.CloseRead()
			}
		}
		if it.FD != nil {
			it.FD.Close()
		}
		if it.Kind != wire.Upload {
			c.in.Recycle(it.Body)
		}
	}
	c.idle()
}
