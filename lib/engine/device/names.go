package device

import (
	"maps"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/wire"
)

// bindAll names arrays of this connection, and takes the names of a.Remove away: all or
// none.
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
	if len(a.Was) > 0 && len(a.Was) != len(a.Names) {
		return nil, wire.Errorf(wire.Invalid, "bind of %d names that were %d arrays", len(a.Names), len(a.Was))
	}
	gone := c.w.matching(a.Space, a.Remove)
	for _, s := range a.Names {
		delete(gone, name{a.Space, s})
	}
	space := c.w.spaceOf(a.Space)
	changed := slices.Collect(maps.Keys(gone))
	for _, s := range a.Names {
		changed = append(changed, name{a.Space, s})
	}
	for _, n := range changed {
		if why := c.mayChange(space, n.name); why != nil {
			return nil, why
		}
	}
	for i, h := range a.Was {
		if was := c.arrays.get(h); was == nil || c.w.names[name{a.Space, a.Names[i]}] != was {
			return nil, wire.Errorf(wire.Busy, "array %s has been replaced, by another program or a rollback, since it was looked up", wire.ShownBriefly(a.Names[i], 80)).
				WithHint("nothing was changed: look the arrays up again and compute from those; of two changes at the same time one would be lost")
		}
	}
	if c.sock != nil { // no cell has done what a job does
		for _, n := range changed {
			c.w.preserve(n)
		}
	}
	for i, s := range a.Names {
		if old := c.w.bind(name{a.Space, s}, c.arrays.get(a.Handles[i])); old != nil {
			c.w.release(old)
		}
	}
	for n := range gone {
		c.w.unbind(n)
	}
	space.touch(time.Now())
	return &wire.AnswerBody{Count: len(a.Names)}, nil
}

// matching are the names of a space that are given, or begin with one that ends in *. The
// caller holds w.mu.
func (w *Worker) matching(space string, given []string) map[name]bool {
	hit := map[name]bool{}
	for _, s := range given {
		prefix, all := strings.CutSuffix(s, "*")
		if n := (name{space, s}); !all && w.names[n] != nil {
			hit[n] = true
		}
		for n := range w.names {
			if all && n.space == space && strings.HasPrefix(n.name, prefix) {
				hit[n] = true
			}
		}
	}
	return hit
}

// unbind takes a name away. The caller holds w.mu.
func (w *Worker) unbind(n name) {
	a := w.names[n]
	delete(w.names, n)
	w.file(n, -1)
	a.bound--
	a.dropped = a.bound == 0
	w.spaceOf(n.space).names++
	if a.name == n {
		a.name = name{}
	}
	w.release(a)
}

func (c *conn) deleteAll(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	for _, s := range a.Names {
		if strings.HasSuffix(s, "*") {
			continue
		}
		if _, why := w.lookup(name{a.Space, s}); why != nil {
			return nil, why
		}
	}
	hit := w.matching(a.Space, a.Names)
	for n := range hit {
		if why := c.mayChange(w.spaceOf(a.Space), n.name); why != nil {
			return nil, why
		}
	}
	for n := range hit {
		w.preserve(n)
		w.unbind(n)
	}
	w.spaceOf(a.Space).touch(time.Now())
	return &wire.AnswerBody{Count: len(hit)}, nil
}
