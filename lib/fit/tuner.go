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

// Tuner does in the background, for nets that were trained on a GPU, what [Net.Tune] does:
// Train leaves requests, and starts the process "gaiden tune -background", unless
// GAIDEN_TUNE is off. The tuner works while nobody else uses the session and no job runs. The next
// cell that trains the net finds the results, and the programs compiled.
type Tuner struct {
	// Tell, if not nil, gets a line for each result.
	Tell func(line string)
	// Cautious skips requests during which the session crashed several times.
	Cautious bool
}

// TunerError says that another process tunes.
type TunerError struct{ PID string }

func (e *TunerError) Error() string {
	return fmt.Sprintf("fit: process %s tunes already", e.PID)
}

// Hint says what it means.
func (e *TunerError) Hint() string {
	return "it does the waiting requests, too; gaiden session status shows what it is doing"
}

// Run does all requests for the session at the usual socket, and returns how many there
// were. Its error is a [*TunerError] if another process tunes, or that of a session that is
// lost or not running: the requests that are left wait for the next Run. A request whose
// net is gone is dropped; Tell gets the reason.
func (t Tuner) Run(ctx context.Context) (done int, err error) {
	if t.Tell == nil {
		t.Tell = func(string) {}
	}
	if err := os.MkdirAll(wishDir(), 0o700); err != nil {
		return 0, fmt.Errorf("fit: no place for what is left to be tuned: %w", err)
	}
	lock, err := wire.OpenOwn(filepath.Join(wishDir(), "lock"), os.O_CREATE|os.O_RDWR)
	if err != nil {
		return 0, fmt.Errorf("fit: no place for what is left to be tuned: %w", err)
	}
	defer lock.Close()
	if unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB) != nil {
		pid := make([]byte, 20)
		n, _ := lock.Read(pid)
		return 0, &TunerError{string(pid[:n])}
	}
	lock.Truncate(0)
	fmt.Fprint(lock, os.Getpid())
	for {
		w, err := t.next()
		if err != nil || w == nil {
			return done, err
		}
		path := w.path()
		switch err := t.fulfil(ctx, w); {
		case err == nil:
		case ctx.Err() != nil:
			return done, err
		case errors.Is(err, wire.Lost) || errors.Is(err, errAside):
			return done, errors.Join(err, w.save())
		case errors.Is(err, wire.Unavailable):
			return done, err
		default:
			t.Tell(fmt.Sprintf("%s: not tuned: %v", w.Net.Name, err))
		}
		done++
		if err := os.Remove(path); err != nil {
			return done, err
		}
	}
}

// next is the wish that has waited longest, nil if there is none.
func (t Tuner) next() (*wish, error) {
	files, err := os.ReadDir(wishDir())
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
		path := filepath.Join(wishDir(), f.Name())
		if !strings.HasSuffix(path, ".json") {
			continue
		}
		w, err := readWish(path)
		switch {
		case err != nil || w.path() != path: // another version's
			os.Remove(path)
		case w.Socket == wire.SocketPath() && !(t.Cautious && w.Lost >= tolerance):
			return &w, nil
		}
	}
	return nil, nil
}

// fulfil tunes the steps of one net. It counts in the wish that a session crashed, or
// that there was none to try kernels in, while nothing was found: the net's own answers
// then. One that was stopped does not.
func (t Tuner) fulfil(ctx context.Context, w *wish) error {
	s, err := session.Config{Socket: w.Socket, Space: w.Space, Client: "gaiden tune", NoStart: true}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	m, c, err := w.Net.net()
	if err != nil {
		return err
	}
	c.Session, c.Origin = s, "gaiden tune"
	n := New(w.Net.Name, m, c)
	n.visits = true
	data, err := n.Find(w.Data)
	if err != nil {
		return err
	}
	if key := n.stepKey(w.Batch); key != w.Step {
		return fmt.Errorf("the net is not the one that was trained: its step is %s, want %s", key, w.Step)
	}
	before := n.tilings().Tried()
	p := pauses{watched: s}
	err = n.tune(ctx, data, Train{Batch: w.Batch, InOrder: w.InOrder}, tiling.Look{Before: func() error { return p.wait(ctx) }}, t.Tell)
	if (errors.Is(err, wire.Lost) || errors.Is(err, errAside)) && n.tilings().Tried() == before {
		if next, failed := (session.Config{Socket: w.Socket, Client: "gaiden tune", NoStart: true}).Open(); failed == nil {
			next.Close()
			w.Lost++
		}
	}
	return err
}
