package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gaiden/lib/engine/wire"
)

// Array looks up a named array. The error is wire.NotFound if there is none.
func (s *Session) Array(name string) (*Array, error) {
	l, err := s.Arrays(name)
	if err != nil {
		return nil, err
	}
	return l[0], nil
}

// Arrays looks up named arrays in one atomic operation: they belong to the same step
// even while another client trains them.
func (s *Session) Arrays(names ...string) ([]*Array, error) { return s.ArraysOf("", names...) }

// ArraysOf looks up arrays in the name space of another notebook: its path without
// the extension, as %device lists it.
func (s *Session) ArraysOf(space string, names ...string) ([]*Array, error) {
	l, _, err := s.lookup(wire.AskBody{Space: space, Names: names})
	return l, err
}

// ArraysUnder is Arrays, and also returns the number of arrays whose names begin with
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
const foreignHint = "look it up with this one: by its name with Session.Array, a net's data with net.Data"

// Bind gives names to arrays in one atomic operation. Arrays that had these names
// before lose them. Arrays of another connection are a wire.Invalid error, because
// handles are numbers of one connection.
func (s *Session) Bind(names []string, arrays []*Array) error {
	return s.bind(wire.AskBody{Names: names}, arrays)
}

// Replace is Bind, and deletes other names in the same atomic operation: those of
// remove that exist; a name that ends in * is a prefix. Use it to replace a set of
// arrays by one with different names: a crash leaves either the old set or the new
// one.
func (s *Session) Replace(names []string, arrays []*Array, remove ...string) error {
	return s.bind(wire.AskBody{Names: names, Remove: remove}, arrays)
}

// CompareAndBind is Bind for arrays that were computed from the arrays in was, which
// had these names. If one of the names now belongs to another array, nothing changes
// and the error is [wire.Busy]. A program that updates arrays in every step should
// use Lock instead.
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

// Lock gives this connection the exclusive right to change names that begin with
// prefix, such as "cnn/" for a net, until unlock is called or the connection ends.
// Lock before looking up arrays that you update over many steps: otherwise one of two
// concurrent writers loses its work. Other connections can still read the arrays.
// Their changes fail with [wire.Busy] and a message that says who holds the lock,
// since when, and for what purpose (a verb: "trains"). Lock fails in the same way if
// an overlapping lock, even of this connection, is not released within wait, with the
// purpose of the lock that is held in the error's Purpose. When ctx ends, Lock stops
// waiting and returns ctx's error.
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

// List describes the named arrays whose names begin with prefix, sorted by name.
func (s *Session) List(prefix string) ([]wire.ArrayInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.List, Prefix: prefix})
	return ans.Arrays, err
}

// Delete deletes names and returns how many it deleted; a name that ends in * is a
// prefix.
func (s *Session) Delete(names ...string) (int, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Delete, Names: names})
	return ans.Count, err
}

// Pulse returns how many requests the session has received from other connections so
// far, and whether one of them, or a job, is waiting for a device. The devices are
// idle while asked does not change and busy is false.
func (s *Session) Pulse() (asked int, busy bool, err error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Pulse})
	return ans.Count, ans.Busy, err
}

// Status returns the current state of the session.
func (s *Session) Status() (*wire.Status, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Report})
	return ans.Status, err
}
