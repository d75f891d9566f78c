package fit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gaiden/lib/engine/wire"
)

// training is the purpose of a training's lock. It may last long, so nothing waits for it.
const training = "trains"

// acquire makes the net ready to be changed in many steps: until done no other program may
// change it, and no job may be training it. The purpose is a verb. It stops
// waiting when ctx ends.
func (n *Net) acquire(ctx context.Context, purpose string) (done func(), err error) {
	if err := n.wholeOnly(); err != nil {
		return nil, err
	}
	if err := n.openUntil(ctx); err != nil {
		return nil, err
	}
	if done, err = n.lockUnlessTraining(ctx, purpose); errors.Is(err, wire.Invalid) {
		if job := n.jobError(); job != nil { // says more
			err = job
		}
	}
	return done, err
}

// lockUnlessTraining is lock. It waits where another program creates or changes the net at once, and
// is an error where one trains it.
func (n *Net) lockUnlessTraining(ctx context.Context, purpose string) (done func(), err error) {
	done, err = n.lock(ctx, purpose, 0)
	if e := (*wire.Error)(nil); errors.As(err, &e) && e.Code == wire.Busy && e.Purpose != training {
		done, err = n.lock(ctx, purpose, creationTime)
	}
	return done, err
}

// lock keeps others from changing the net's arrays until done. It waits so long for their
// locks.
func (n *Net) lock(ctx context.Context, purpose string, wait time.Duration) (done func(), err error) {
	if n.hold == calling {
		return nil, fmt.Errorf("fit: %s: OnEpoch or OnStep of its training %s it: want there what does not change the net, such as Evaluate, Predict or SaveWeights, or Control", n.name, purpose)
	}
	if n.hold == locked {
		return func() {}, nil
	}
	unlock, err := n.session.Lock(ctx, n.name+"/", purpose, wait)
	if err != nil {
		return nil, fmt.Errorf("fit: %w", err)
	}
	n.hold = locked
	return func() {
		n.hold = unlocked
		unlock() // it fails where the session has gone, and the lock with it
	}, nil
}

// assertFree makes the net ready to be changed at once: nobody may be training it, neither a
// job nor another Net of this name in this program.
func (n *Net) assertFree() error {
	done, err := n.acquire(context.Background(), "changes")
	if err == nil {
		done()
	}
	return err
}

// jobError is an error while a job trains the net.
func (n *Net) jobError() error {
	l, err := n.session.Jobs()
	for _, j := range l {
		if j.Name == n.name && !j.State.Over() && j.State != wire.JobWaits {
			return wire.Errorf(wire.Invalid, "fit: %s: a job trains it (%s, turn %d of %d): want one training at a time; %%jobs stop %[1]s ends it and keeps the weights", n.name, j.State, j.Place.Turn+1, j.Turns).
				WithHint("%%jobs attach %s follows it, %%jobs stop %[1]s ends it", n.name)
		}
	}
	return err
}
