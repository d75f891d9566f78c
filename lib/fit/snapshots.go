package fit

import (
	"sync/atomic"
	"time"
)

// snapshots asks the session for automatic snapshots. A short run needs none: the
// session makes one itself when names have not changed for two seconds. So the
// first is asked for when a run has taken that long.
type snapshots struct {
	last time.Time // one was asked for
	busy atomic.Bool
}

// snapshotInterval is how far apart those are that a run asks for. The session makes fewer where
// one takes long: while it is written a training on the same processors is slower (the
// MLP by 40 % on 2 cores), and on a GPU the copies to the host are in its way.
const snapshotInterval = 5 * time.Second

// request does not wait. A session that keeps no snapshots, or cannot write one,
// says so in its status.
func (x *snapshots) request(save func()) {
	if x.busy.Load() || time.Since(x.last) < snapshotInterval {
		return
	}
	x.last = time.Now()
	x.busy.Store(true)
	go func() {
		defer x.busy.Store(false)
		save()
	}()
}
