package device

import (
	"slices"
	"time"

	"gaiden/lib/engine/wire"
)

// execution is an execution that the device may not have finished, and the arrays
// that it makes. It is used again for the same program when it has ended and
// all its arrays are gone, which in a training loop is soon: memory that is in
// the processor's cache, and nothing to collect. One that has given a name is not
// used again: whoever has found an array by its name may look at it later.
type execution struct {
	program  *program
	conn     *conn // whose it is, nil when it has ended
	began    time.Time
	cost     time.Duration // device time it was thought to take, 0 if nobody knew
	device   int           // the first that it runs on
	outputs  []array
	kept     *array // an output that nobody wants, while it is the only one that tells of the end
	names    []bound
	onDevice bool
	alive    int // outputs that are not gone
}

// execution is one with outputs that are ready to be filled in. The caller holds
// w.mu.
func (p *program) execution(c *conn, cost time.Duration, device int) *execution {
	var f *execution
	if n := len(p.idle); n > 0 {
		f, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		f = &execution{program: p, outputs: make([]array, len(p.outputs)*p.replicas)}
		for i := range f.outputs {
			a, k := &f.outputs[i], i%len(p.outputs)
			a.typ, a.bytes, a.maker = p.outputs[k], p.outBytes[k], f
		}
	}
	f.conn, f.began, f.cost, f.device, f.onDevice, f.alive = c, p.used, cost, device, true, len(f.outputs)
	return f
}

// rest keeps an execution that is over for the next execution. The caller holds
// w.mu.
func (f *execution) rest() {
	if !f.onDevice && f.alive == 0 && len(f.names) == 0 && len(f.program.idle) < maxInflight {
		f.program.idle = append(f.program.idle, f)
	}
}

// bound is a name that an execution gave to one of its outputs, with the array
// that had it before, in case the execution fails on the device.
type bound struct {
	name  name
	array *array
	old   *array // nil when there was none or when it was donated
}

// admit waits until the device may be given one more execution of this client, which
// other spaces may have to go before, and says what it is thought to take. The caller holds w.mu, which admit gives
// up while it waits.
func (c *conn) admit(p *program, device int) (cost time.Duration) {
	t := c.w.turnsOf(device)
	if t != nil {
		t.want(c.space)
	}
	for {
		switch {
		case c.full(p) && len(c.unwatched) > 0:
			c.watch(false)
			continue
		case c.full(p):
			c.finished.Wait()
			continue
		case t != nil && !t.mayGo(c.space, c.slack()):
			t.wait()
			continue
		}
		break
	}
	if t != nil {
		t.start(c.space, p.pace)
	}
	c.inflight++
	if p.pace == 0 {
		c.unpaced++
	}
	c.queued += p.pace
	return p.pace
}

// full says whether admit would wait. A long program goes behind short ones, such
// as those that prepare it. The caller holds w.mu.
func (c *conn) full(p *program) bool {
	wait := maxWait
	if c.w.inline {
		wait = inlineWait
	}
	return c.inflight > 0 && (c.inflight >= maxInflight || c.queued > wait/10 && c.queued+p.pace > wait)
}

// inlineWait is maxWait where the device is a CPU, whose paces are less sure by the
// other processes that want it: one chunk is in XLA, and the next one when it has
// ended, which leaves the device idle only for a moment.
const inlineWait = maxWait / 2

// leave ends what admit began. The caller holds w.mu, and tells who waits
// for finished.
func (c *conn) leave(cost time.Duration, device int) {
	if t := c.w.turnsOf(device); t != nil {
		t.done(c.space)
	}
	c.inflight--
	if cost == 0 {
		c.unpaced--
	}
	c.queued -= cost
}

// add notes an execution that has started. The caller holds w.mu.
func (c *conn) add(f *execution) {
	c.unwatched, c.running = append(c.unwatched, f), append(c.running, f)
	switch {
	case c.w.inline && 0 < f.cost && f.cost <= inlineTime:
		c.watch(true)
	case len(c.unwatched) >= maxInflight/2 || f.cost == 0:
		c.watch(false)
	case !c.armed:
		c.armed = true
		if c.lullTimer == nil {
			c.lullTimer = time.AfterFunc(quiet, c.onIdle)
		} else {
			c.lullTimer.Reset(quiet)
		}
	}
}

// inlineTime is the device time of programs whose end is waited for at once where
// the device is a CPU. The shortest run inside Execute anyway: that they have ended
// is known for less than it costs to be told later, and the execution's memory is used
// again while it is in the cache. Of the others none is queued in XLA, which serves
// clients in the order of their calls, so that a short program need not wait for a training.
const inlineTime = 2 * time.Millisecond

// quiet is how long nothing comes from a client before it is heard of the end of
// its last executions.
const quiet = time.Millisecond

// onIdle watches the executions when there has been none for a while.
func (c *conn) onIdle() {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if n := len(c.unwatched); n > 0 && time.Since(c.unwatched[n-1].began) < quiet {
		c.lullTimer.Reset(quiet)
		return
	}
	c.armed = false
	c.watch(false)
}

// watch sees to the end of the executions so far. One answer of the device stands
// for many: an execution whose outputs were all donated is told of by the one
// that has them. With wait it returns when all have ended; without, the device
// tells later, which costs as much as a small step. The caller holds w.mu, which
// watch gives up while it waits.
func (c *conn) watch(wait bool) {
	w := c.w
	executions := c.unwatched
	c.unwatched = nil
	for len(executions) > 0 {
		n := 0
		var a *array
		for a == nil && n < len(executions) {
			a = executions[n].living()
			n++
		}
		group := executions[:n]
		executions = executions[n:]
		if a == nil && c.launching != nil {
			c.unwatched = append(group, c.unwatched...)
			continue
		}
		if a == nil {
			c.finish(group, nil)
			continue
		}
		w.pin(a)
		done := func(err error) {
			w.mu.Lock()
			w.unpin(a)
			c.finish(group, err)
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
func (f *execution) living() *array {
	for i := range f.outputs {
		if a := &f.outputs[i]; a.buf != 0 && a.gone == "" {
			return a
		}
	}
	return nil
}

// lives says whether an output other than a tells of the execution's end.
func (f *execution) lives(a *array) bool {
	for i := range f.outputs {
		if x := &f.outputs[i]; x != a && x.buf != 0 && x.gone == "" {
			return true
		}
	}
	return false
}

// finish ends executions; err is the last one's. The caller holds w.mu.
func (c *conn) finish(executions []*execution, err error) {
	for i, f := range executions {
		if i == len(executions)-1 {
			c.settle(f, err)
		} else {
			c.settle(f, nil)
		}
	}
	c.clock(executions)
}

// clock learns from the end of executions how long their programs take: of several
// that end as one, it learns about the program that takes longest, the others being
// taken for what they are known to be. Where the device was idle before, it errs on
// the long side only, as an end may be heard of late, so what is shorter is believed
// at once. In a chain an end that is heard of late makes one time long and the next
// one short: both count alike, so that the two cancel. The caller holds w.mu.
func (c *conn) clock(executions []*execution) {
	now, began := time.Now(), executions[0].began
	for _, f := range executions {
		c.leave(f.cost, f.device)
	}
	c.finished.Broadcast()
	chained := c.lastEnd.After(began)
	if chained {
		began = c.lastEnd
	}
	c.lastEnd = now
	p, runs, rest := longest(executions)
	took := max(1, (now.Sub(began)-rest)/time.Duration(runs))
	switch {
	case p.pace == 0, !chained && took < p.pace:
		p.pace = took
	case chained:
		p.pace += (took - p.pace) / 4
	default:
		p.pace += (took - p.pace) / 8
	}
}

// longest is the program of some executions that takes longest, or one of which that
// is not known, how often it is among them, and what the others are thought to take.
func longest(executions []*execution) (p *program, runs int, rest time.Duration) {
	top := executions[0]
	for _, f := range executions {
		if top.cost > 0 && (f.cost == 0 || f.cost > top.cost) {
			top = f
		}
	}
	for _, f := range executions {
		if f.program == top.program {
			runs++
		} else {
			rest += f.cost
		}
	}
	return top.program, runs, rest
}

// settle frees what a successful execution replaced, or brings it back after a
// failed one. The caller holds w.mu.
func (c *conn) settle(f *execution, err error) {
	w := c.w
	defer func() {
		f.onDevice, f.conn = false, nil
		c.running = slices.DeleteFunc(c.running, func(x *execution) bool { return x == f })
		f.rest()
	}()
	for i := range f.outputs {
		f.outputs[i].execution = nil
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
	why := w.deviceError(wire.ExecuteError, f.program.name, err)
	for i := range f.outputs {
		f.outputs[i].err = why
	}
	c.late(f.program, why)
	w.outOfStep(f.program, why, true)
	for _, b := range f.names {
		if w.names[b.name] != b.array {
			continue // something newer has the name
		}
		b.array.bound--
		w.release(b.array)
		w.spaceOf(b.name.space).names++
		w.spaceOf(b.name.space).touch(time.Now())
		if b.old != nil {
			w.names[b.name] = b.old // the reference moves back
			b.old.bound++
		} else {
			delete(w.names, b.name)
			w.file(b.name, -1)
		}
	}
}
