package device

import (
	"strings"
	"time"

	"gaiden/lib/engine/wire"
)

// bindAll names arrays of this connection: all or none.
func (c *conn) bindAll(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	if len(a.Names) != len(a.Handles) {
		return nil, wire.Errorf(wire.Invalid, "bind of %d names for %d handles", len(a.Names), len(a.Handles))
	}
	twice := map[string]bool{}
	for i, s := range a.Names {
		if why := wire.CheckName(s); why != nil {
			return nil, why
		}
		if twice[s] {
			return nil, wire.Errorf(wire.Invalid, "bind of %q twice: want a name for each array", s)
		}
		twice[s] = true
		x := c.arrays.get(a.Handles[i])
		if x == nil {
			return nil, wire.Errorf(wire.Gone, "bind of %q: its array was freed, donated or is not of this connection", s)
		}
		if why := x.check(); why != nil {
			return nil, why
		}
	}
	space := c.w.spaceOf(a.Space)
	for _, s := range a.Names {
		if why := c.mayChange(space, s); why != nil {
			return nil, why
		}
	}
	if len(a.Was) > 0 && len(a.Was) != len(a.Names) {
		return nil, wire.Errorf(wire.Invalid, "bind of %d names that were %d arrays", len(a.Names), len(a.Was))
	}
	for i, h := range a.Was {
		if was := c.arrays.get(h); was == nil || c.w.names[name{a.Space, a.Names[i]}] != was {
			return nil, wire.Errorf(wire.Busy, "array %s has been replaced, by another program or a rollback, since it was looked up", wire.ShownBriefly(a.Names[i], 80)).
				WithHint("nothing was changed: look the arrays up again and compute from those; of two changes at the same time one would be lost")
		}
	}
	if c.sock != nil { // no cell has done what a job does
		for _, s := range a.Names {
			c.w.preserve(name{a.Space, s})
		}
	}
	for i, s := range a.Names {
		if old := c.w.bind(name{a.Space, s}, c.arrays.get(a.Handles[i])); old != nil {
			c.w.release(old)
		}
	}
	space.touch(time.Now())
	return &wire.AnswerBody{Count: len(a.Names)}, nil
}

// unbind takes a name away. The caller holds w.mu.
func (w *Worker) unbind(n name) {
	a := w.names[n]
	delete(w.names, n)
	w.file(n, -1)
	a.bound--
	w.spaceOf(n.space).names++
	if a.name == n {
		a.name = name{}
	}
	w.release(a)
}

func (c *conn) deleteAll(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	var hit []name
	for _, s := range a.Names {
		prefix, all := strings.CutSuffix(s, "*")
		if !all {
			if _, why := w.lookup(name{a.Space, s}); why != nil {
				return nil, why
			}
			hit = append(hit, name{a.Space, s})
			continue
		}
		for n := range w.names {
			if n.space == a.Space && strings.HasPrefix(n.name, prefix) {
				hit = append(hit, n)
			}
		}
	}
	for _, n := range hit {
		if why := c.mayChange(w.spaceOf(a.Space), n.name); why != nil {
			return nil, why
		}
	}
	count := 0
	for _, n := range hit {
		if w.names[n] != nil {
			w.preserve(n)
			w.unbind(n)
			count++
		}
	}
	w.spaceOf(a.Space).touch(time.Now())
	if count > 0 {
		w.tidy()
	}
	return &wire.AnswerBody{Count: count}, nil
}

func (c *conn) rename(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	if len(a.Names) != 2 {
		return nil, wire.Errorf(wire.Invalid, "rename takes 2 names, got %d", len(a.Names))
	}
	from, to := name{a.Space, a.Names[0]}, name{a.Space, a.Names[1]}
	x, why := w.lookup(from)
	if why != nil {
		return nil, why
	}
	if why := wire.CheckName(to.name); why != nil {
		return nil, why
	}
	if w.names[to] != nil {
		return nil, wire.Errorf(wire.Invalid, "rename to %q: there is an array of that name", to.name).WithHint("delete it first")
	}
	for _, n := range []name{from, to} {
		if why := c.mayChange(w.spaceOf(a.Space), n.name); why != nil {
			return nil, why
		}
	}
	w.preserve(to)
	w.preserve(from)
	w.bind(to, x)
	w.unbind(from)
	x.name = to
	w.spaceOf(a.Space).touch(time.Now())
	return &wire.AnswerBody{Count: 1}, nil
}
