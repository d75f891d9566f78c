package fit

import (
	"sync/atomic"
	"time"
)

// saves asks the session for automatic snapshots. A short run needs none: the
// session makes one itself when names have not changed for two seconds. So the
// first is asked for when a run has taken that long.
type saves struct {
	last time.Time
	busy atomic.Bool
}

// between is how long two snapshots that a run asks for are apart. Writing them
// takes nothing from the device but the copy to the host.
const between = 5 * time.Second

// ask does not wait. A session that keeps no snapshots, or cannot write one,
// says so in its status.
func (x *saves) ask(snapshot func()) {
	if time.Since(x.last) < between || x.busy.Swap(true) {
		return
	}
	x.last = time.Now()
	go func() {
		defer x.busy.Store(false)
		snapshot()
	}()
}
