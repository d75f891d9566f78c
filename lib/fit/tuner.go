package fit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// RunTuneRequests tunes what Fit has requested while the session is idle. The error is
// wire.Busy where another process tunes; cautious skips what crashed the session before.
func RunTuneRequests(ctx context.Context, cautious bool, tell func(line string)) (done int, err error) {
	return tuner{tell, cautious}.run(ctx)
}

// tuner handles the requests that trainings have left.
type tuner struct {
	tell     func(line string)
	cautious bool
}

func (t tuner) run(ctx context.Context) (done int, err error) {
	var lock *os.File
	if err = os.MkdirAll(requestDir(), 0o700); err == nil {
		lock, err = wire.OpenOwn(filepath.Join(requestDir(), "lock"), os.O_CREATE|os.O_RDWR)
	}
	if err != nil {
		return 0, fmt.Errorf("fit: no place for what is left to be tuned: %w", err)
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		pid := make([]byte, 20)
		n, _ := lock.Read(pid)
		return 0, wire.Errorf(wire.Busy, "fit: process %s tunes already", pid[:n]).WithHint("it handles the waiting requests, too; gaiden session status shows what it is doing")
	}
	lock.Truncate(0)
	fmt.Fprint(lock, os.Getpid())
	for {
		w, err := t.next()
		if err != nil || w == nil {
			return done, err
		}
		path := w.path()
		switch err := t.handle(ctx, w); {
		case err == nil:
		case ctx.Err() != nil:
			return done, err
		case errors.Is(err, wire.Lost) || errors.Is(err, errNoSandbox):
			return done, errors.Join(err, w.save())
		case errors.Is(err, wire.Unavailable):
			return done, err
		default:
			t.tell(fmt.Sprintf("%s: not tuned: %v", w.Net.Name, err))
		}
		done++
		if err := os.Remove(path); err != nil {
			return done, err
		}
	}
}

// next is the oldest request, nil if there is none.
func (t tuner) next() (*tuneRequest, error) {
	files, err := os.ReadDir(requestDir())
	if err != nil {
		return nil, err
	}
	age := func(e os.DirEntry) int64 {
		st, err := e.Info()
		if err != nil {
			return 0
		}
		return st.ModTime().UnixNano()
	}
	slices.SortFunc(files, func(a, b os.DirEntry) int { return int(age(a) - age(b)) })
	for _, f := range files {
		path := filepath.Join(requestDir(), f.Name())
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		w, err := readRequest(path)
		switch {
		case err != nil || w.path() != path: // another version's
			os.Remove(path)
		case w.Socket == wire.SocketPath() && !(t.cautious && w.Crashes >= maxCrashes):
			return &w, nil
		}
	}
	return nil, nil
}

// handle tunes the steps of one net. It counts in the request that a session crashed, or
// that there was none to try kernels in, while nothing was found: the net's own answers
// then. One that was stopped does not.
func (t tuner) handle(ctx context.Context, w *tuneRequest) error {
	s, err := session.Config{Socket: w.Socket, Space: w.Space, Client: "gaiden tune", NoStart: true}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	m, c := w.Net.Model, w.Net.Config
	c.Session, c.Origin = s, "gaiden tune"
	n := New(w.Net.Name, m, c)
	n.readOnly = true
	data, err := n.Data(w.Data)
	if err != nil {
		return err
	}
	if key := n.stepKey(w.Batch); key != w.Step {
		return fmt.Errorf("the net is not the one that was trained: its step is %s, want %s", key, w.Step)
	}
	before := n.tilings().Tried()
	p := idleWatcher{watched: s}
	err = n.tune(ctx, data, Train{Batch: w.Batch, InOrder: w.InOrder}, tiling.Options{Before: func() error { return p.wait(ctx) }}, t.tell)
	if (errors.Is(err, wire.Lost) || errors.Is(err, errNoSandbox)) && n.tilings().Tried() == before {
		if next, failed := (session.Config{Socket: w.Socket, Client: "gaiden tune", NoStart: true}).Open(); failed == nil {
			next.Close()
			w.Crashes++
		}
	}
	return err
}
