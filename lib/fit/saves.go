package fit

import (
	"sync/atomic"
	"time"
)

// saves asks the session for automatic snapshots. A short run needs none: the
// session makes one itself when names have not changed for two seconds. So the
// first is asked for when a run has taken that long.
type saves struct {
	last time.Time     // one was asked for
	took time.Duration // that one
	busy atomic.Bool   // protects took
}

// Two snapshots that a run asks for are so long apart, and so much longer than
// one takes: while it is written a training on the same processors is slower (the
// MLP by 40 % on 2 cores), and on a GPU the copies to the host are in its way.
const (
	between = 5 * time.Second
	rarely  = 20
)

// ask does not wait. A session that keeps no snapshots, or cannot write one,
// says so in its status.
func (x *saves) ask(snapshot func()) {
	if x.busy.Load() || time.Since(x.last) < max(between, rarely*x.took) {
		return
	}
	began := time.Now()
	x.last = began
	x.busy.Store(true)
	go func() {
		defer x.busy.Store(false)
		snapshot()
		x.took = time.Since(began)
	}()
}
