package device

import (
	"errors"
	"slices"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// step is the memory one Execute needs; a connection reuses it.
type step struct {
	in, out []pjrt.Buffer
	inputs  []*array
	donate  []bool // what PJRT is told: not those that somebody reads
	shared  bool   // there are such
}

// execute runs a program. It returns as soon as PJRT has taken the work.
func (c *conn) execute(e *wire.ExecuteBody, seq int64) error {
	w := c.w
	p := c.programs[e.Program]
	if p == nil {
		return wire.Errorf(wire.BadFrame, "execute of unknown program handle %d", e.Program)
	}
	<-p.ready
	if err := c.fresh(e.Outputs); err != nil {
		return err
	}
	s := &c.step
	w.mu.Lock()
	defer w.mu.Unlock()
	device := p.on(e.Device, 0)
	cost := c.admit(p, device)
	why := c.fits(p, e.Device, seq)
	for again := why == nil; again; { // what was resolved may be gone after a wait
		if why, again = c.resolve(p, e, s), false; why == nil {
			again, why = c.affords(p, e, s, seq)
		}
	}
	if why == nil && c.quits(seq) {
		why = c.late(p, wire.Errorf(wire.Cancelled, "dropped before it ran"))
	}
	if why != nil {
		c.leave(cost, device)
		c.finished.Broadcast()
		c.poison(p, e, why)
		w.outOfStep(p, why, false)
		return nil
	}
	c.take(p, e, s)
	p.used = time.Now()
	w.most = max(w.most, w.bytes+p.need)
	c.launching, c.launched = p, p.used
	w.mu.Unlock()
	err := p.exe.Execute(s.in, s.out, s.donate, w.devices[e.Device], pjrt.Async, nil)
	w.mu.Lock()
	if errors.Is(err, pjrt.ErrOutOfMemory) && (w.spare() || s.shared) {
		err = c.again(p, e, s)
	}
	c.launching = nil
	if err != nil {
		c.leave(cost, device)
		c.finished.Broadcast()
		c.giveBack(e, s)
		why := c.late(p, w.deviceError(wire.ExecuteError, p.name, err))
		c.poison(p, e, why)
		w.outOfStep(p, why, false)
		c.watch(false) // what was left for this one
	} else {
		p.runs++
		f := p.execution(c, cost, device)
		c.publish(f, e, s)
		c.add(f)
	}
	for i, a := range s.inputs {
		if !s.donate[i] {
			w.unpin(a)
		}
	}
	w.unpinned.Broadcast()
	return nil
}

// take reserves the inputs for a call into PJRT: donated ones are nobody else's
// from here on, the others are pinned. A donated array that somebody reads at
// this moment, a snapshot say, is pinned too: PJRT is told to leave its memory
// alone and to take other memory for the result. So nobody waits, and the reader
// sees the old data. The caller holds w.mu.
func (c *conn) take(p *program, e *wire.ExecuteBody, s *step) {
	w := c.w
	s.donate, s.shared = append(s.donate[:0], e.Donate...), false
	if c.sock != nil { // no cell has done what a job does
		for _, b := range e.Bind {
			w.preserve(name{c.hello.Space, b.Name})
		}
	}
	for i, a := range s.inputs {
		if e.Donate[i] && a.execution != nil && a.execution.conn != c {
			a.execution.conn.watch(false) // its client's executions would have nothing left that tells of their end
		}
	}
	for i, a := range s.inputs {
		if e.Donate[i] {
			a.gone = p.taker
			if a.pins > 0 { // in all replicas, since they must agree
				s.shared = true
				for j := i % len(p.inputs); j < len(s.inputs); j += len(p.inputs) {
					s.donate[j] = false
				}
			}
		}
	}
	for i, a := range s.inputs {
		if !s.donate[i] {
			w.pin(a)
		}
	}
}

// again runs a program a second time, after there was no memory to spare arrays
// that were being read: it waits for their readers. The caller holds w.mu.
func (c *conn) again(p *program, e *wire.ExecuteBody, s *step) error {
	w := c.w
	for i, a := range s.inputs {
		if e.Donate[i] && !s.donate[i] {
			for a.pins > 1 {
				w.unpinned.Wait()
			}
			a.pins--
			a.refs--
			s.donate[i] = true
		}
	}
	w.mu.Unlock()
	defer w.mu.Lock()
	return p.exe.Execute(s.in, s.out, s.donate, w.devices[e.Device], pjrt.Async, nil)
}

// affords refuses outputs that the quota of the client's space has no room for, or has
// waited for readers, as fits does, and is to be asked again. The caller holds w.mu.
func (c *conn) affords(p *program, e *wire.ExecuteBody, s *step, seq int64) (again bool, why *wire.Error) {
	if c.space == nil || c.space.quota == 0 {
		return false, nil
	}
	more := int64(0)
	for _, n := range p.outBytes {
		more += n * int64(p.replicas)
	}
	for i, a := range s.inputs {
		if e.Donate[i] {
			more -= a.bytes
		}
	}
	if why = c.w.room(c.space, more); why == nil {
		return false, nil
	}
	waited := c.readers(seq)
	if c.quits(seq) {
		return false, nil
	}
	if waited {
		return true, nil
	}
	c.outOfMemory(why, true)
	return false, c.late(p, why)
}

// giveBack undoes what take did to donated inputs: PJRT has not had them. The
// caller holds w.mu.
func (c *conn) giveBack(e *wire.ExecuteBody, s *step) {
	for i, a := range s.inputs {
		if e.Donate[i] {
			a.gone = ""
		}
	}
}

// publish makes the outputs of an accepted execution known, and binds their
// names, all at once: the caller holds w.mu.
func (c *conn) publish(f *execution, e *wire.ExecuteBody, s *step) {
	w, p := c.w, f.program
	for i, a := range s.inputs {
		if s.donate[i] {
			w.charge(a, -a.bytes)
			a.buf = 0
		}
		if e.Donate[i] {
			c.forget(e.Inputs[i])
		}
	}
	for i, h := range e.Outputs {
		a := &f.outputs[i]
		a.buf, a.device, a.owner, a.used, a.execution, a.err, a.gone = s.out[i], p.device(e, i), c.space, p.used, f, nil, ""
		w.add(a)
		c.arrays.set(h, a)
	}
	for _, b := range e.Bind {
		a, n := &f.outputs[b.Output], name{c.hello.Space, b.Name}
		old := w.bind(n, a)
		if old != nil && old.gone != "" {
			w.release(old)
			old = nil
		}
		f.names = append(f.names, bound{n, a, old})
	}
	if len(e.Bind) > 0 {
		c.space.touch(p.used)
	}
}

// device is where output number i of an execution lives.
func (p *program) device(e *wire.ExecuteBody, i int) int {
	if p.replicas == 1 {
		return p.on(e.Device, 0)
	}
	return p.on(e.Device, i/len(p.outputs))
}

// on is the device that a replica runs on, which an execution may say of the only one.
func (p *program) on(device uint32, replica int) int {
	switch {
	case replica < len(p.devices):
		return p.devices[replica]
	case p.replicas == 1:
		return int(device)
	}
	return replica
}

// fresh refuses output handles that are in use or that come twice.
func (c *conn) fresh(hs []uint64) error {
	for i, h := range hs {
		if h == 0 || c.arrays.get(h) != nil {
			return wire.Errorf(wire.BadFrame, "array handle %d is in use", h)
		}
		if i > 0 && h <= hs[i-1] {
			return wire.Errorf(wire.BadFrame, "output handles are not ascending")
		}
	}
	return nil
}

// resolve finds and checks the inputs of an execution and fills s. The caller
// holds w.mu.
func (c *conn) resolve(p *program, e *wire.ExecuteBody, s *step) *wire.Error {
	w := c.w
	s.in, s.inputs = s.in[:0], s.inputs[:0]
	if int(e.Device) >= len(w.devices) {
		return c.late(p, wire.Errorf(wire.Invalid, "device %d: session has devices 0 to %d", int32(e.Device), len(w.devices)-1))
	}
	if p.err != nil {
		return p.err
	}
	if n := len(p.inputs) * p.replicas; len(e.Inputs) != n {
		return c.late(p, wire.Errorf(wire.Invalid, "got %d inputs, want %d", len(e.Inputs), n))
	}
	if n := len(p.outputs) * p.replicas; len(e.Outputs) != n {
		return c.late(p, wire.Errorf(wire.Invalid, "got %d output handles, want %d", len(e.Outputs), n))
	}
	for i, h := range e.Inputs {
		a := c.arrays.get(h)
		if a == nil {
			return c.late(p, wire.Errorf(wire.Gone, "input %d was freed, donated or is not of this connection", i).
				WithHint("use the array that the last program returned, or look it up by its name"))
		}
		if a.err != nil {
			return a.err // whoever made it has reported it
		}
		if why := a.check(); why != nil {
			return c.late(p, why)
		}
		if want := p.inputs[i%len(p.inputs)]; !a.typ.Equal(want) {
			return c.late(p, wire.Errorf(wire.Invalid, "input %d has type %s, want %s", i, a.typ, want))
		}
		s.in, s.inputs = append(s.in, a.buf), append(s.inputs, a)
	}
	for _, b := range e.Bind {
		if int(b.Output) >= len(e.Outputs) {
			return c.late(p, wire.Errorf(wire.Invalid, "binds %q to output %d of %d", b.Name, b.Output, len(e.Outputs)))
		}
		if why := wire.CheckName(b.Name); why != nil {
			return c.late(p, why)
		}
		if len(c.space.locks)+len(c.space.jobs) > 0 {
			if why := c.mayChange(c.space, b.Name); why != nil {
				return c.late(p, why)
			}
		}
	}
	if i, j := s.twice(e.Donate); j > 0 {
		return c.late(p, wire.Errorf(wire.Invalid, "inputs %d and %d are one array and it is donated", i, j))
	}
	for i, a := range s.inputs {
		if !e.Donate[i] {
			continue
		}
		if a.bound > 0 && !c.replaces(e, a) {
			return c.late(p, wire.Errorf(wire.Invalid, "donates array %q without replacing it", a.name))
		}
	}
	s.out = append(s.out[:0], make([]pjrt.Buffer, len(e.Outputs))...)
	return nil
}

// twice finds a donated input that comes a second time; j is 0 when there is
// none. The caller holds Worker.mu.
func (s *step) twice(donate []bool) (i, j int) {
	for i, a := range s.inputs {
		a.place = i
	}
	for j, a := range s.inputs {
		if i := a.place; i != j && (donate[i] || donate[j]) { // it is at i too, which is the last one
			return min(i, j), max(i, j)
		}
	}
	return 0, 0
}

// replaces says whether an execution gives other arrays all the names that a
// has. The caller holds w.mu.
func (c *conn) replaces(e *wire.ExecuteBody, a *array) bool {
	if a.bound == 1 && a.name.name != "" { // as good as always
		if a.name.space != c.hello.Space {
			return false
		}
		return slices.ContainsFunc(e.Bind, func(b wire.Binding) bool { return b.Name == a.name.name })
	}
	n := 0
	for _, b := range e.Bind {
		if c.w.names[name{c.hello.Space, b.Name}] == a {
			n++
		}
	}
	return n == a.bound
}

// poison makes the outputs of an execution that did not happen: each use of
// them gives why. Donated inputs stay where they are bound, for the names they
// have; the client's handles of them are gone, as it was promised. The caller
// holds w.mu.
func (c *conn) poison(p *program, e *wire.ExecuteBody, why *wire.Error) {
	for i, h := range e.Outputs {
		a := &array{err: why}
		if len(p.outputs) > 0 {
			a.typ = p.outputs[i%len(p.outputs)]
		}
		c.w.add(a)
		c.arrays.set(h, a)
	}
	for i, h := range e.Inputs {
		if e.Donate[i] {
			c.forget(h)
		}
	}
}

// late completes an error that the client hears of later: at its next Sync, or
// when it uses what the program should have made. The caller holds w.mu.
func (c *conn) late(p *program, e *wire.Error) *wire.Error {
	e.Program = p.name
	if e.Code == wire.OutOfMemory && e.Next == "" {
		c.outOfMemory(e, false)
	}
	c.postpone(e)
	return e
}

// quits says whether an execution is not to be done any more. The caller holds w.mu.
func (c *conn) quits(seq int64) bool {
	return c.w.ending && c.sock != nil || c.drops(seq) // a job ends between two steps
}

// drops says whether executions up to frame seq were cancelled.
func (c *conn) drops(seq int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return seq <= c.dropTo
}

// forget drops the client's handle h. The caller holds w.mu.
func (c *conn) forget(h uint64) {
	if a := c.arrays.get(h); a != nil {
		c.arrays.set(h, nil)
		c.w.release(a)
	}
}

// free drops handles of arrays and programs.
func (c *conn) free(hs []uint64) {
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	dropped := false
	for _, h := range hs {
		c.forget(h)
		if p := c.programs[h]; p != nil {
			delete(c.programs, h)
			p.refs--
			dropped = true
		}
	}
	if dropped {
		c.w.trim()
	}
}
