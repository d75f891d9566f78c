package jupyter

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"time"
)

// A shell runs cells one after the other, and hands on the other requests that
// come by its way, in order. The kernel has one, and one more for each subshell
// that a front end requests (JEP 91), whose cells run at the same time as the others.
type shell struct {
	core  *core
	id    string // "" = the kernel's own
	queue queue
	cells chan request       // to the executor; not buffered
	ctx   context.Context    // ends with the shell
	end   context.CancelFunc // ends the shell, and the cell that runs in it

	// protected by core.mu
	cancel  context.CancelFunc // of the running cell
	aborted uint64             // execute_requests up to this serial are not run
	halted  uint64             // those up to this serial are stopped when they begin
	session string             // of the front end of the running cell
	waiting []string           // those of the cells that have arrived and not started
	left    chan struct{}      // of the running cell: see ExecuteRequest.Left; nil when it is closed
}

// arrived notes a cell that waits.
func (s *shell) arrived(session string) {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.waiting = append(s.waiting, session)
	s.leave()
}

// begins notes that the cell that has waited longest begins, and returns its Left.
func (s *shell) begins(session string) <-chan struct{} {
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	left := make(chan struct{})
	s.session, s.left = session, left
	s.waiting = s.waiting[min(1, len(s.waiting)):]
	s.leave()
	return left
}

// leave tells the running cell that one of another page waits.
func (s *shell) leave() {
	if s.left != nil && slices.ContainsFunc(s.waiting, func(session string) bool { return session != s.session }) {
		close(s.left)
		s.left = nil
	}
}

func (c *core) newShell(id string) *shell {
	s := &shell{core: c, id: id, cells: make(chan request)}
	s.ctx, s.end = context.WithCancel(c.ctx)
	return s
}

// serve answers requests until the shell ends.
func (s *shell) serve() {
	go s.core.work(&s.queue, s.dispatch)
	go func() {
		for {
			select {
			case r := <-s.cells:
				s.core.execute(s, r)
			case <-s.ctx.Done():
				return
			}
		}
	}()
	<-s.ctx.Done()
	s.queue.close()
}

// dispatch handles the next request.
func (s *shell) dispatch(r request) {
	switch r.Header.Type {
	case "execute_request":
		select {
		case s.cells <- r:
		case <-s.ctx.Done():
			if s.core.ctx.Err() == nil {
				s.core.drop(r)
			}
		}
	case "complete_request", "inspect_request":
		s.core.lookups.push(r)
	default:
		s.core.answer(r)
	}
}

// interrupt cancels the running cell; where none runs, the cells that have arrived
// and are about to begin.
func (s *shell) interrupt() {
	newest := s.queue.newest()
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	if s.cancel != nil {
		s.cancel()
	} else {
		s.halted = newest
	}
}

// A halt is an interrupt_request. It comes by another socket than the cells and may
// overtake the one that it is for: then that is sent before it and begins after it.
type halt struct {
	session string    // of the front end
	sent    time.Time // by the front end's clock
	came    time.Time
}

// overtaking is how long a cell may be on its way when a halt has overtaken it. It
// is bounded, as a front end's clock that is set back would make all cells old.
const overtaking = 2 * time.Second

// meant says whether the halt is for the cell of r, too.
func (h halt) meant(r request) bool {
	sent, err := time.Parse(time.RFC3339, r.Header.Date)
	return err == nil && r.Header.Session == h.session && sent.Before(h.sent) && time.Since(h.came) < overtaking
}

// abort marks the cells that have arrived so far as not to be run.
func (s *shell) abort() {
	newest := s.queue.newest()
	s.core.mu.Lock()
	defer s.core.mu.Unlock()
	s.aborted = max(s.aborted, newest)
}

// shells lists all that there are.
func (c *core) shells() []*shell {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append(slices.Collect(maps.Values(c.subshells)), c.main)
}

// interrupt cancels all running cells. A front end's Stop means them all.
func (c *core) interrupt() {
	for _, s := range c.shells() {
		s.interrupt()
	}
}

// abortAll lets no cell begin any more.
func (c *core) abortAll() {
	shells := c.shells()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range shells {
		s.aborted = math.MaxUint64
	}
}

// push gives a message to the shell that it is for; without one it is refused.
func (c *core) push(r request) {
	s := c.main
	if id := r.Header.Subshell; id != "" {
		c.mu.Lock()
		s = c.subshells[id]
		c.mu.Unlock()
	}
	if s != nil && r.Header.Type == "execute_request" {
		s.arrived(r.Header.Session)
	}
	if s != nil && s.queue.push(r) || c.ctx.Err() != nil {
		return
	}
	r.refused = noSubshell(r.Header.Subshell)
	c.control.push(r)
}

func noSubshell(id string) error {
	return fail("NoSubshell", "jupyter: subshell %q: there is none of this id; create_subshell_request makes one", id)
}

func (c *core) createSubshell(request) (fields, error) {
	s := c.newShell(NewID())
	c.mu.Lock()
	c.subshells[s.id] = s
	c.mu.Unlock()
	go s.serve()
	return fields{"subshell_id": s.id}, nil
}

// deleteSubshell ends a subshell. Its running cell is interrupted; what waits in
// it is not run.
func (c *core) deleteSubshell(r request) (fields, error) {
	var content struct {
		ID string `json:"subshell_id"`
	}
	if err := json.Unmarshal(r.Content, &content); err != nil {
		return nil, fail("BadRequest", "jupyter: %s: %v", r.Header.Type, err)
	}
	c.mu.Lock()
	s := c.subshells[content.ID]
	delete(c.subshells, content.ID)
	c.mu.Unlock()
	if s == nil {
		return nil, noSubshell(content.ID)
	}
	s.abort()
	waiting := s.queue.drain()
	s.end()
	for _, r := range waiting {
		c.drop(r)
	}
	return fields{}, nil
}

// drop answers a request that nobody will handle: each has its reply.
func (c *core) drop(r request) {
	if r.Header.Type != "execute_request" {
		r.refused = noSubshell(r.Header.Subshell)
		c.answer(r)
		return
	}
	c.busy(r, false)
	defer c.idle(r)
	c.reply(r, "execute_reply", fields{"status": "aborted", "execution_count": c.counted(false)}, nil)
}

func (c *core) listSubshells(request) (fields, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return fields{"subshell_id": orNone(slices.Sorted(maps.Keys(c.subshells)))}, nil
}
