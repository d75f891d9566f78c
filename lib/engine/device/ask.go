package device

import (
	"cmp"
	"fmt"
	"os"
	"sort"
	"time"

	"gaiden/lib/engine/wire"
)

// overtakes answers an Ask that must not wait behind queued work, and says
// whether it was one.
func (c *conn) overtakes(id uint32, a wire.AskBody) bool {
	switch a.Verb {
	case wire.Report:
		s := c.w.status()
		c.answer(id, &wire.AnswerBody{Status: &s})
	case wire.Pulse:
		c.answer(id, c.w.pulse(c))
	case wire.Programs:
		go func() {
			i := c.w.cache.info()
			c.answer(id, &wire.AnswerBody{Programs: c.w.programList(), Cache: &i})
		}()
	case wire.Cancel:
		c.answer(id, &wire.AnswerBody{Count: c.w.cancel(c.hello.Origin, a.PID)})
	case wire.Drain:
		go func() {
			ans := c.w.drain(c.hello.Origin, a.PID)
			ans.Trouble = c.w.unsaved(c.space)
			c.answer(id, ans)
		}()
	case wire.FollowJob:
		go c.followJob(id, a)
	case wire.Hosts:
		go c.askHosts(id, a)
	case wire.Stop:
		go func() { // the answer says that all is saved
			c.w.finish()
			c.answer(id, &wire.AnswerBody{})
			c.w.stop()
		}()
	default:
		return false
	}
	return true
}

// ask answers an Ask in its turn.
func (c *conn) ask(id uint32, a wire.AskBody) error {
	a.Space = cmp.Or(a.Space, c.hello.Space)
	switch a.Verb {
	case wire.Snapshot, wire.Save, wire.Snapshots, wire.Rollback, wire.Discard, wire.Diff, wire.Export, wire.Import:
		return c.askSnapshot(id, a)
	}
	ans, why := c.obeyAsk(a)
	if why != nil {
		c.told(why)
		return c.fail(id, why)
	}
	return c.answer(id, ans)
}

func (c *conn) answer(id uint32, a *wire.AnswerBody) error {
	return c.reply(id, func(b []byte) []byte { return append(b, wire.JSON(a)...) })
}

func (c *conn) obeyAsk(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	switch a.Verb {
	case wire.Evict:
		return w.evictPrograms(a)
	case wire.Pin:
		return w.pinPrograms(a.Names, a.Start)
	case wire.Quota:
		s := w.enter(a.Space)
		if why := w.setQuota(s, a.Bytes); why != nil {
			return nil, why
		}
		return &wire.AnswerBody{Spaces: w.spaceList()}, nil
	case wire.Mark:
		s := w.enter(a.Space)
		w.mu.Lock()
		defer w.mu.Unlock()
		w.mark(s, first(a.Names))
		return &wire.AnswerBody{}, nil
	case wire.Undo:
		return c.undoCell(w.enter(a.Space))
	case wire.Lock:
		return c.lock(a)
	case wire.Unlock:
		return c.unlock(a)
	case wire.Spaces:
		return &wire.AnswerBody{Spaces: w.spaceList()}, nil
	case wire.StartJob, wire.Jobs, wire.PauseJob, wire.ResumeJob, wire.StopJob, wire.ForgetJob:
		return c.askJob(a)
	case wire.Reset:
		return c.reset(a.Disk)
	case wire.Profile:
		data, err := w.profile(a.Start)
		if err != nil {
			return nil, w.deviceError(wire.Unsupported, "", err)
		}
		return &wire.AnswerBody{Data: data}, nil
	}
	if a.Space != "*" {
		w.enter(a.Space)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch a.Verb {
	case wire.Lookup:
		return c.lookupAll(a)
	case wire.Bind:
		return c.bindAll(a)
	case wire.Delete:
		return c.deleteAll(a)
	case wire.List:
		return &wire.AnswerBody{Arrays: w.list(a.Space, a.Prefix)}, nil
	}
	return nil, wire.Errorf(wire.Unsupported, "session does not know the request %q", a.Verb).WithHint("gaiden session status tells its version")
}

// lookupAll gives named arrays handles of this connection: all or none. It tells
// no more of them than the client needs: a deep net has a thousand. With a prefix
// it counts the arrays of that moment that begin with it.
func (c *conn) lookupAll(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	if len(a.Names) != len(a.Handles) {
		return nil, wire.Errorf(wire.Invalid, "lookup of %d names for %d handles", len(a.Names), len(a.Handles))
	}
	if a.Space != c.hello.Space {
		if why := c.w.strange(a.Space); why != nil {
			return nil, why
		}
	}
	var ans wire.AnswerBody
	var found []*array
	for i, s := range a.Names {
		n := name{a.Space, s}
		x, why := c.w.lookup(n)
		if why != nil {
			return nil, why
		}
		if h := a.Handles[i]; h == 0 || c.arrays.get(h) != nil {
			return nil, wire.Errorf(wire.Invalid, "array handle %d is in use", h)
		}
		found = append(found, x)
		ans.Arrays = append(ans.Arrays, wire.ArrayInfo{Type: x.typ, Device: x.device})
	}
	if a.Prefix != "" {
		ans.Count = c.w.under(name{a.Space, a.Prefix})
	}
	for i, x := range found {
		x.refs++
		x.used = time.Now()
		c.arrays.set(a.Handles[i], x)
	}
	return &ans, nil
}

// reset stops all jobs and whoever changes what it has locked, and forgets all names
// and all programs nobody holds; disk: also programs and snapshots there.
func (c *conn) reset(disk bool) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	w.stopJobs()
	w.mu.Lock()
	count := len(w.names)
	now := time.Now()
	for n := range w.names {
		w.unbind(n)
		w.spaceOf(n.space).touch(now)
	}
	for _, s := range w.spaces {
		for _, l := range s.locks {
			l.reset = fmt.Sprintf("%s (process %d) has reset the session at %s", c.hello.Client, c.pid, now.Format(time.TimeOnly))
		}
		w.forgetUndo(s, "the session was reset")
		s.note, s.unrestored, s.waiting = "", nil, nil
	}
	w.mu.Unlock()
	count += w.evict(nil)
	if !disk {
		return &wire.AnswerBody{Count: count}, nil
	}
	count += w.cache.clear()
	return &wire.AnswerBody{Count: count}, w.clearState()
}

// cancel drops the executions that connections of a process group have queued,
// and says how many connections that were.
func (w *Worker) cancel(origin string, group int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for c := range w.conns {
		if c.of(origin, group) {
			c.mu.Lock()
			c.dropTo = c.read
			c.mu.Unlock()
			n++
		}
	}
	w.unpinned.Broadcast() // one may wait for readers
	return n
}

// of says whether the client is the process of that number, or in its group.
func (c *conn) of(origin string, pid int) bool {
	return c.hello.Origin == origin && (c.pid == pid || c.group == pid)
}

// drain waits until the connections of a process group have ended and the
// device has done what they requested, and returns errors nobody has read, and
// the last that were read and have a hint. A client that stays is waited for a
// second: it may be a child of the cell that survives it.
func (w *Worker) drain(origin string, group int) *wire.AnswerBody {
	for deadline := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		w.mu.Lock()
		alive := false
		for c := range w.conns {
			alive = alive || c.of(origin, group)
		}
		if !alive || time.Now().After(deadline) {
			ans := &wire.AnswerBody{}
			kept := w.orphans[:0]
			for _, o := range w.orphans {
				switch {
				case o.origin != origin || o.pid != group && o.group != group:
					kept = append(kept, o)
				case o.told:
					ans.Told = append(ans.Told, o.err)
				default:
					ans.Errors = append(ans.Errors, o.err)
				}
			}
			w.orphans = kept
			w.mu.Unlock()
			return ans
		}
		w.mu.Unlock()
	}
}

// status describes the session.
func (w *Worker) status() wire.Status {
	started := time.Now().Add(-time.Since(w.started)) // by the clock of now: it may have been set since
	s := wire.Status{WelcomeBody: w.welcome(nil), PID: os.Getppid(), WorkerPID: os.Getpid(), Started: started, Socket: w.Socket, Log: w.Log,
		Cache: w.cache.info(), Spaces: w.spaceList(), Jobs: w.jobList("*"), Trouble: w.stateOff}
	if w.stateNext != "" {
		s.Trouble += "; " + w.stateNext
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		s.Clients = append(s.Clients, c.describe())
	}
	sort.Strings(s.Clients)
	for n, text := range w.troubles {
		s.Trouble = fmt.Sprintf("notebook %q is not saved: %s", n, text)
	}
	s.Arrays, s.Bytes, s.Programs = w.count, w.bytes, len(w.programs)
	return s
}

// describe says whose a connection is, and what the device does for it: a program
// that does not end is somebody's, who may be gone. The caller holds w.mu.
func (c *conn) describe() string {
	gone := ""
	c.mu.Lock()
	if c.closed {
		gone = "gone, "
	}
	c.mu.Unlock()
	s := fmt.Sprintf("%s (process %d, %snotebook %q, since %s)", c.hello.Client, c.pid, gone, c.hello.Space, c.since.Format(time.TimeOnly))
	p, began, more := c.launching, c.launched, len(c.running)
	if more > 0 {
		p, began, more = c.running[0].program, c.running[0].began, more-1
		if c.lastEnd.After(began) {
			began = c.lastEnd
		}
		if c.launching != nil {
			more++
		}
	}
	if p != nil {
		s += fmt.Sprintf(": %s for %s", p.name, time.Since(began).Round(time.Millisecond))
	}
	if more > 0 {
		s += fmt.Sprintf(", and %d behind it", more)
	}
	return s
}
