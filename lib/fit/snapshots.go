package fit

import (
	"sync/atomic"
	"time"
)

// snapshots requests automatic snapshots from the session. A short run needs none: the
// session makes one itself when names have not changed for two seconds.
type snapshots struct {
	last time.Time // one was requested
	busy atomic.Bool
}

// snapshotInterval is how often a run requests one. The session makes fewer where one takes
// long: while it is written, training is slower.
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
