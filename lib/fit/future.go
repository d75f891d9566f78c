package fit

import (
	"context"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// future is a program that is being made ready.
type future struct {
	key     string
	done    chan struct{}
	program *session.Program
	err     error
}

// prepare begins to make a program ready, once for each key. The text is
// written here, where its error is known at once; the session's compiler works
// meanwhile.
func (n *Net) prepare(key string, build func() (*hlo.Program, error), donate func(*hlo.Program) []bool) *future {
	if f := n.programs[key]; f != nil {
		return f
	}
	f := &future{key: key, done: make(chan struct{})}
	n.programs[key] = f
	p, err := build()
	if err != nil {
		f.err = err
		close(f.done)
		delete(n.programs, key)
		return f
	}
	var mask []bool
	if donate != nil {
		mask = donate(p)
	}
	go func() {
		defer close(f.done)
		f.program, f.err = n.compile(p, mask)
	}()
	return f
}

// tick is how often a long wait says that it is still there. One may end just before
// it would, and another begin: together they are silent for less than half a second.
const tick = 200 * time.Millisecond

// wait waits for a program. alive is called now and then.
func (n *Net) wait(ctx context.Context, f *future, alive func()) (*session.Program, error) {
	if err := until(ctx, f.done, alive); err != nil {
		return nil, err
	}
	if f.err != nil {
		delete(n.programs, f.key) // the next try may do better
	}
	return f.program, f.err
}

// wait is Net.wait for another program of the run.
func (r *run) wait(ctx context.Context, f *future) (*session.Program, error) {
	began := time.Now()
	defer func() { r.history.Compile += time.Since(began) }()
	return r.net.wait(ctx, f, func() { r.report("compile") })
}

// during runs work that cannot be stopped, such as waiting for the device, and
// returns before its end when ctx is over.
func during(ctx context.Context, alive func(), work func() error) error {
	if err := context.Cause(ctx); err != nil {
		return err
	}
	var err error
	done := make(chan struct{})
	go func() {
		defer close(done)
		err = work()
	}()
	if err := until(ctx, done, alive); err != nil {
		return err // work may not have ended
	}
	return err
}

// until waits for the end of something, or of ctx. alive is called now and then.
func until(ctx context.Context, done <-chan struct{}, alive func()) error {
	t := time.NewTicker(tick)
	defer t.Stop()
	for {
		select {
		case <-done:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-t.C:
			if alive != nil {
				alive()
			}
		}
	}
}
