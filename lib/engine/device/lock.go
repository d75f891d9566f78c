package device

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
)

// nameLock is a connection's right to be the only one that changes the names of a
// space that begin with a prefix. Who computes new values from old ones (a training)
// takes it before it looks the old ones up: else of two that do so at the same time
// the result of one is lost. It ends when its owner gives it up or has gone.
type nameLock struct {
	prefix, purpose string
	owner           *conn
	since           time.Time
	reset           string // who has cleared the session meanwhile, and when: what the owner has is of before; "" = nobody
}

// lock gives c the lock of a prefix, unless a connection has one that overlaps it. One
// whose client has gone, and whose last work is being done, frees it soon.
func (c *conn) lock(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	purpose := first(a.Names)
	if len(purpose) > 200 {
		return nil, wire.Errorf(wire.Invalid, "lock of %q: purpose of %d bytes: limit is 200", a.Prefix, len(purpose))
	}
	w, s := c.w, c.w.enter(a.Space)
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := s.jobUnder(a.Prefix); j != nil {
		return nil, j.needs(a.Prefix + "*")
	}
	for _, l := range s.locks {
		switch overlap := strings.HasPrefix(l.prefix, a.Prefix) || strings.HasPrefix(a.Prefix, l.prefix); {
		case overlap && l.owner.gone():
			return &wire.AnswerBody{Busy: true}, nil
		case overlap:
			return nil, l.busy(a.Prefix + "*")
		}
	}
	s.locks = append(s.locks, &nameLock{prefix: a.Prefix, purpose: purpose, owner: c, since: time.Now()})
	return &wire.AnswerBody{}, nil
}

// unlock gives a lock up.
func (c *conn) unlock(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.spaceOf(a.Space)
	i := slices.IndexFunc(s.locks, func(l *nameLock) bool { return l.owner == c && l.prefix == a.Prefix })
	if i < 0 {
		return nil, wire.Errorf(wire.NotFound, "unlock of %q: this client has not locked it", a.Prefix)
	}
	s.locks = slices.Delete(s.locks, i, i+1)
	return &wire.AnswerBody{}, nil
}

// unlockAll gives up what a connection has locked, because it ends. The caller holds
// w.mu.
func (c *conn) unlockAll() {
	for _, s := range c.w.spaces {
		for _, j := range s.jobs {
			if j.conn.starter == c {
				j.conn.starter = nil
			}
		}
		s.locks = slices.DeleteFunc(s.locks, func(l *nameLock) bool { return l.owner == c })
	}
}

// gone says whether the client has gone; what it had requested may still be done.
func (c *conn) gone() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// mayChange says why a client must not give a name of a space another meaning: another
// client has locked it, or a job that has not ended works with it. The caller holds
// w.mu.
func (c *conn) mayChange(s *space, n string) *wire.Error {
	for _, l := range s.locks {
		switch {
		case !strings.HasPrefix(n, l.prefix):
		case l.owner != c && l.owner != c.starter:
			return l.busy(n)
		case l.reset != "":
			return wire.Errorf(wire.Gone, "%s: %s", wire.ShownBriefly(n, 80), l.reset).WithHint("start it again; %%snapshot list shows what was saved before")
		}
	}
	if c.sock != nil { // no job: those that do not go together do not start
		for _, j := range s.jobs {
			if !j.state.Over() && j.names[n] {
				return j.needs(n)
			}
		}
	}
	return nil
}

// mayChangeAll is mayChange for all names of a space that begin with a prefix, those
// too that are not there yet. The caller holds w.mu.
func (c *conn) mayChangeAll(s *space, prefix string) *wire.Error {
	for _, l := range s.locks {
		if l.owner != c && (strings.HasPrefix(l.prefix, prefix) || strings.HasPrefix(prefix, l.prefix)) {
			return l.busy(l.prefix + "*")
		}
	}
	return nil
}

// busy says who has a name.
func (l *nameLock) busy(what string) *wire.Error {
	purpose := cmp.Or(l.purpose, "works with")
	e := wire.Errorf(wire.Busy, "%s: %s (process %d) %s it since %s", wire.ShownBriefly(what, 80), l.owner.hello.Client, l.owner.pid, purpose, l.since.Format(time.TimeOnly)).
		WithHint("wait for it or stop it: of two changes at the same time one would be lost. A kernel that no Jupyter server started shares the notebook %q with others like it: GAIDEN_SPACE in its environment gives it one of its own", "default")
	e.Purpose = l.purpose
	return e
}

// needs says that a job that has not ended works with a name.
func (j *runner) needs(what string) *wire.Error {
	return wire.Errorf(wire.Invalid, "job %s, which is %s, needs the array %s", wire.Shown(j.body.Name), j.state, wire.ShownBriefly(what, 80)).
		WithHint("%%jobs stop %s ends it and keeps its arrays; they can go then", j.body.Name)
}

// jobUnder is a job that has not ended and binds a name that begins with the prefix,
// nil if there is none. The caller holds w.mu.
func (s *space) jobUnder(prefix string) *runner {
	for _, j := range s.jobs {
		if j.state.Over() {
			continue
		}
		for n := range j.names {
			if strings.HasPrefix(n, prefix) && j.binds(n) {
				return j
			}
		}
	}
	return nil
}

// namesOf are the names that a job's steps take or bind.
func namesOf(b *wire.JobBody) map[string]bool {
	m := map[string]bool{}
	for _, s := range b.Steps {
		for _, in := range s.Inputs {
			m[in.Name] = true
			for _, n := range in.Each {
				m[n] = true
			}
		}
		for _, n := range s.Names {
			m[n] = true
		}
	}
	delete(m, "")
	return m
}

// binds says whether a step of the job gives a name another meaning.
func (j *runner) binds(n string) bool {
	return slices.ContainsFunc(j.body.Steps, func(s wire.JobStep) bool { return slices.Contains(s.Names, n) })
}

// goesWith says why a job cannot run now: something else changes what it works with, or
// it changes what something else works with. The caller holds w.mu.
func (c *conn) goesWith(s *space, b *wire.JobBody) *wire.Error {
	j := &runner{body: b, names: namesOf(b)}
	for n := range j.names {
		for _, l := range s.locks {
			if l.owner != c && strings.HasPrefix(n, l.prefix) {
				return l.busy(n)
			}
		}
		for _, o := range s.jobs {
			if !o.state.Over() && o.names[n] && (j.binds(n) || o.binds(n)) {
				return o.needs(n)
			}
		}
	}
	return nil
}
