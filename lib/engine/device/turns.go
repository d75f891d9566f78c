package device

import (
	"sync"
	"time"
)

// turns shares the time of one device among spaces, by start-time fair queueing: each
// execution begins, in the device time that its space has had, where the space's last one
// ended, and one that would begin later than what another space wants waits for that. So of
// spaces that want the device all the time, none gets more of it than another by more than
// the slack and one program, however many kernels there are, however short or long their
// programs, and however deep they queue. Who does not want the device loses and saves
// nothing, and nobody waits for it. All methods are called with Worker.mu held.
type turns struct {
	shares  map[*space]*share
	active  int           // spaces that want the device
	now     time.Duration // where the execution began that was let go last
	waiting int           // calls of wait
	changed *sync.Cond    // signalled when one of those may go; its lock is Worker.mu
}

// share is what a space has had.
type share struct {
	wants int           // executions that wait for the device, or are at work there
	tag   time.Duration // where the next one begins
}

// leastCost is what an execution counts of which nobody knows how long it takes.
const leastCost = 10 * time.Microsecond

func newTurns(mu *sync.Mutex) *turns {
	return &turns{shares: map[*space]*share{}, changed: sync.NewCond(mu)}
}

// want notes that an execution of a space wants the device: until done.
func (t *turns) want(s *space) {
	x := t.shares[s]
	if x == nil {
		x = &share{}
		t.shares[s] = x
	}
	if x.wants++; x.wants == 1 {
		t.active++
		x.tag = max(x.tag, t.now)
	}
}

// mayGo says whether the next execution of a space need not wait for other spaces.
func (t *turns) mayGo(s *space, slack time.Duration) bool {
	if t.active <= 1 {
		return true
	}
	tag := t.now
	if x := t.shares[s]; x != nil {
		tag = max(tag, x.tag)
		if x.wants > 0 {
			tag = x.tag
		}
	}
	for o, x := range t.shares {
		if o != s && x.wants > 0 && x.tag+slack < tag {
			return false
		}
	}
	return true
}

// wait waits until something has changed.
func (t *turns) wait() {
	t.waiting++
	t.changed.Wait()
	t.waiting--
}

// start lets an execution go that is thought to take so long.
func (t *turns) start(s *space, cost time.Duration) {
	x := t.shares[s]
	t.now = max(t.now, x.tag)
	x.tag += max(cost, leastCost)
	t.wake()
}

// done notes that the device has finished an execution, or will not do it.
func (t *turns) done(s *space) {
	x := t.shares[s]
	if x.wants--; x.wants == 0 {
		t.active--
	}
	t.wake()
}

func (t *turns) wake() {
	if t.waiting > 0 {
		t.changed.Broadcast()
	}
}

// turnsOf are those of a device; of what runs on several the first counts.
func (w *Worker) turnsOf(device int) *turns {
	if w == nil || device >= len(w.turns) {
		return nil
	}
	return w.turns[device]
}

// slack is how much more of a device a space may have had than another one.
func (c *conn) slack() time.Duration {
	if c.w.inline {
		return inlineWait
	}
	return maxWait
}
