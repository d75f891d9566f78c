package device

import (
	"time"

	"gaiden/lib/engine/wire"
)

// flight is an execution that the device may not have finished.
type flight struct {
	program *program
	began   time.Time
	cost    time.Duration // device time it was thought to take
	outputs []array
	kept    *array // an output that nobody wants, while it is the only one that tells of the end
	names   []bound
}

// bound is a name that an execution gave to one of its outputs, with the array
// that had it before, in case the execution fails on the device.
type bound struct {
	name  name
	array *array
	old   *array // nil when there was none or when it was donated
}

// enqueue waits until the device may be given one more execution of this client,
// and says what it is thought to take. The caller holds w.mu, which enqueue gives
// up while it waits.
func (c *conn) enqueue(p *program) (cost time.Duration) {
	for c.inflight > 0 && (c.inflight >= maxInflight || c.queued+p.pace > maxWait) {
		if len(c.flights) > 0 {
			c.watch(false)
		} else {
			c.landing.Wait()
		}
	}
	c.inflight++
	c.queued += p.pace
	return p.pace
}

// dequeue ends what enqueue began, for n executions. The caller holds w.mu.
func (c *conn) dequeue(n int, cost time.Duration) {
	c.inflight -= n
	c.queued -= cost
	c.landing.Broadcast()
}

// watch sees to the end of the flights so far. One answer of the device stands
// for many: an execution whose outputs were all donated is told of by the one
// that has them. With wait it returns when all have landed; without, the device
// tells later, which costs as much as a small step. The caller holds w.mu, which
// watch gives up while it waits.
func (c *conn) watch(wait bool) {
	w := c.w
	flights := c.flights
	c.flights = nil
	for len(flights) > 0 {
		n := 0
		var a *array
		for a == nil && n < len(flights) {
			a = flights[n].living()
			n++
		}
		group := flights[:n]
		flights = flights[n:]
		if a == nil {
			c.landed(group, nil)
			continue
		}
		w.pin(a)
		done := func(err error) {
			w.mu.Lock()
			w.unpin(a)
			c.landed(group, err)
			w.mu.Unlock()
		}
		if wait {
			w.mu.Unlock()
			done(w.client.Wait(a.buf))
			w.mu.Lock()
		} else if err := w.client.Ready(a.buf, done); err != nil {
			go done(err)
		}
	}
}

// living is an output that nobody has taken, nil if there is none.
func (f *flight) living() *array {
	for i := range f.outputs {
		if a := &f.outputs[i]; a.buf != 0 && a.gone == "" {
			return a
		}
	}
	return nil
}

// lives says whether an output other than a tells of the flight's end.
func (f *flight) lives(a *array) bool {
	for i := range f.outputs {
		if x := &f.outputs[i]; x != a && x.buf != 0 && x.gone == "" {
			return true
		}
	}
	return false
}

// landed ends flights; err is the last one's. The caller holds w.mu.
func (c *conn) landed(flights []*flight, err error) {
	for i, f := range flights {
		if i == len(flights)-1 {
			c.settle(f, err)
		} else {
			c.settle(f, nil)
		}
	}
	c.clock(flights)
}

// clock learns from the end of flights how long their programs take. It errs on
// the long side, where the device was idle or the end was heard of late. The
// caller holds w.mu.
func (c *conn) clock(flights []*flight) {
	now, p, queued := time.Now(), flights[0].program, time.Duration(0)
	began, same := flights[0].began, true
	for _, f := range flights {
		queued += f.cost
		same = same && f.program == p
	}
	if c.lastEnd.After(began) {
		began = c.lastEnd
	}
	c.lastEnd = now
	took := max(1, now.Sub(began)/time.Duration(len(flights)))
	c.dequeue(len(flights), queued)
	switch {
	case !same:
	case p.pace == 0 || took < p.pace:
		p.pace = took
	default:
		p.pace += (took - p.pace) / 8
	}
}

// settle frees what a successful execution replaced, or brings it back after a
// failed one. The caller holds w.mu.
func (c *conn) settle(f *flight, err error) {
	w := c.w
	for i := range f.outputs {
		f.outputs[i].flight = nil
	}
	if f.kept != nil {
		w.release(f.kept)
		f.kept = nil
	}
	if err == nil {
		for _, b := range f.names {
			if b.old != nil {
				w.release(b.old)
			}
		}
		return
	}
	why := c.late(f.program, deviceError(wire.ExecuteError, err))
	for i := range f.outputs {
		f.outputs[i].err = why
	}
	for _, b := range f.names {
		if w.names[b.name] != b.array {
			continue // something newer has the name
		}
		b.array.bound--
		w.release(b.array)
		delete(w.names, b.name)
		w.spaceOf(b.name.space).names++
		w.spaceOf(b.name.space).touch(time.Now())
		if b.old != nil {
			w.names[b.name] = b.old // the reference moves back
			b.old.bound++
		}
	}
}
