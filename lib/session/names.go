package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gaiden/lib/engine/wire"
)

// Array looks a named array up.
func (s *Session) Array(name string) (*Array, error) {
	l, err := s.Arrays(name)
	if err != nil {
		return nil, err
	}
	return l[0], nil
}

// Arrays looks named arrays up, all at once: they are of one moment, also while
// another client trains them.
func (s *Session) Arrays(names ...string) ([]*Array, error) { return s.ArraysOf("", names...) }

// ArraysOf looks up arrays of another notebook's name space: its path without
// the ending, as %device lists it.
func (s *Session) ArraysOf(space string, names ...string) ([]*Array, error) {
	l, _, err := s.lookup(wire.AskBody{Space: space, Names: names})
	return l, err
}

// ArraysUnder is Arrays, and says how many arrays have names that begin with the
// prefix, at the same moment.
func (s *Session) ArraysUnder(prefix string, names ...string) ([]*Array, int, error) {
	return s.lookup(wire.AskBody{Prefix: prefix, Names: names})
}

func (s *Session) lookup(a wire.AskBody) ([]*Array, int, error) {
	a.Verb = wire.Lookup
	for range a.Names {
		a.Handles = append(a.Handles, s.handles.Add(1))
	}
	ans, err := s.Ask(a)
	if err != nil {
		return nil, 0, err
	}
	var l []*Array
	for i, info := range ans.Arrays {
		l = append(l, s.newArray(a.Handles[i], shapeOf(info.Type), info.Device))
	}
	return l, ans.Count, nil
}

// foreignHint is what to do with an array of another connection.
const foreignHint = "look it up with this one: by its name with Session.Array, a net's data with net.Find"

// Bind gives arrays names in the connection's space, all at once. Arrays that
// had them before lose them. An array of another connection is refused here: its
// handle may be that of some other array of this one.
func (s *Session) Bind(names []string, arrays []*Array) error {
	return s.bind(wire.AskBody{Names: names}, arrays)
}

// Replace is Bind, and takes other names away at the same moment: those of remove that
// there are; one that ends in * is a prefix. Whoever replaces a set of names that is not
// of the same names leaves the old set or the new one, and never neither.
func (s *Session) Replace(names []string, arrays []*Array, remove ...string) error {
	return s.bind(wire.AskBody{Names: names, Remove: remove}, arrays)
}

// CompareAndBind is Bind for arrays that were computed from those that have the names:
// where one of these has been replaced since it was looked up, nothing is changed, and the
// error is [wire.Busy]. A program that does so step after step is better off with Lock.
func (s *Session) CompareAndBind(names []string, was, arrays []*Array) error {
	if len(was) != len(names) {
		return wire.Errorf(wire.Invalid, "session: bind of %d names that were %d arrays", len(names), len(was))
	}
	a := wire.AskBody{Names: names}
	for i, x := range was {
		if x == nil || x.s != s || x.over.Load() {
			return wire.Errorf(wire.Invalid, "session: bind of %q: got no array of this connection that is there, want the one that was looked up", names[i]).WithHint(foreignHint)
		}
		a.Was = append(a.Was, x.handle)
	}
	return s.bind(a, arrays)
}

func (s *Session) bind(a wire.AskBody, arrays []*Array) error {
	a.Verb = wire.Bind
	names := a.Names
	if len(names) != len(arrays) {
		return wire.Errorf(wire.Invalid, "session: bind of %d names to %d arrays", len(names), len(arrays))
	}
	for i, x := range arrays {
		switch {
		case x == nil:
			return wire.Errorf(wire.Invalid, "session: bind of %q: array is nil", names[i])
		case x.s != s:
			return wire.Errorf(wire.Invalid, "session: bind of %q: array belongs to another connection", names[i]).WithHint(foreignHint)
		case x.over.Load():
			return x.usedUp()
		}
		a.Handles = append(a.Handles, x.handle)
	}
	_, err := s.Ask(a)
	return err
}

// Lock makes this connection the only one that changes the names that begin with a
// prefix, "cnn/" for a net's, until the function that it returns is called or the
// connection ends. A program that computes new values from old ones in many steps locks
// their names before it looks them up: of two that do so at the same time, one would
// lose its work. Others can still read them. What they want to change there is refused
// with [wire.Busy] and a text that says who has it, why (purpose, a verb: "trains") and
// since when; so is another Lock that overlaps, also of this connection, when it is not
// free within the time of wait; the error's Purpose is then that of the lock that there is.
// When ctx ends Lock waits no longer, and returns ctx's error.
func (s *Session) Lock(ctx context.Context, prefix, purpose string, wait time.Duration) (unlock func() error, err error) {
	for began, pause := time.Now(), time.Millisecond; ; pause = min(2*pause, 50*time.Millisecond) {
		ans, err := s.Ask(wire.AskBody{Verb: wire.Lock, Prefix: prefix, Names: []string{purpose}})
		gone := err == nil && ans.Busy // who has it was stopped, and its last steps are being done
		switch {
		case err == nil && !gone:
			return func() error {
				_, err := s.Ask(wire.AskBody{Verb: wire.Unlock, Prefix: prefix})
				return err
			}, nil
		case !gone && (!errors.Is(err, wire.Busy) || time.Since(began) >= wait):
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, fmt.Errorf("session: lock of %q: %w", prefix, ctx.Err())
		}
	}
}

// List describes the named arrays whose name has the prefix, by name.
func (s *Session) List(prefix string) ([]wire.ArrayInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.List, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return ans.Arrays, nil
}

// Delete takes names away; one that ends in * is a prefix. It says how many.
func (s *Session) Delete(names ...string) (int, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Delete, Names: names})
	if err != nil {
		return 0, err
	}
	return ans.Count, nil
}

// Pulse says how much has been asked of the session so far over other connections than
// this one, and whether one of them, or a job, waits for a device now. Where the first
// does not change and the second is false, the devices are left alone.
func (s *Session) Pulse() (asked int, busy bool, err error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Pulse})
	if err != nil {
		return 0, false, err
	}
	return ans.Count, ans.Busy, nil
}

// Status describes the session as it is now.
func (s *Session) Status() (*wire.Status, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Report})
	if err != nil {
		return nil, err
	}
	return ans.Status, nil
}
