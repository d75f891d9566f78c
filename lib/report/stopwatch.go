package report

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"gaiden/lib/timing/units"
)

// A Stopwatch is %time: it measures one run, from [StartWatch] to Stop.
type Stopwatch struct {
	began     time.Time
	user, sys time.Duration
	once      sync.Once
}

// StartWatch waits until the devices are idle and starts a stopwatch.
func StartWatch() *Stopwatch {
	idle()
	w := &Stopwatch{}
	w.user, w.sys = processTimes()
	w.began = time.Now()
	return w
}

// Stop waits until the devices are idle and shows the times in IPython's format.
// Later calls do nothing.
func (w *Stopwatch) Stop() {
	w.once.Do(func() {
		idle()
		wall := time.Since(w.began)
		user, sys := processTimes()
		user, sys = user-w.user, sys-w.sys
		fmt.Printf("CPU times: user %s, sys: %s, total: %s\nWall time: %s\n", ipython(user), ipython(sys), ipython(user+sys), ipython(wall))
	})
}

func ipython(d time.Duration) string {
	if d == 0 {
		return "0 ns"
	}
	return units.Seconds(d.Seconds())
}

// processTimes is the processor time of this process: the session's, which
// works for all cells, is not in it.
func processTimes() (user, sys time.Duration) {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0, 0
	}
	return time.Duration(u.Utime.Nano()), time.Duration(u.Stime.Nano())
}
