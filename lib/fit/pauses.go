package fit

import (
	"context"
	"sync"
	"time"

	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// pause is how long the device must have been left alone before something is
// tried on it in the background.
var pause = 2 * time.Second

// tuned is what has been begun, by net and step.
var tuned sync.Map

// tuneLater begins to tune in the background, in a notebook, once for each net
// and batch. It ends with the process; what it has found until then is kept. Nets
// with batch norm are left alone: to compile another program for one can take tens of
// seconds, in which the net's next run would wait.
func (n *Net) tuneLater(data *Set, t Train) {
	if !n.cuda() || n.config.Kernels != AutoKernels || n.config.Session != nil || n.model.HasBatchNorm() {
		return
	}
	if _, begun := tuned.LoadOrStore(n.name+" "+n.stepKey(t.Batch), true); begun {
		return
	}
	t.Progress, t.Validation = nil, nil
	go n.tuneInPauses(data, t) // a lost session or a full device ends it: nobody waits for this
}

// tuneInPauses tunes while this process asks the session for nothing else: what it
// measures meanwhile, with another net or by itself, is not to be disturbed. Kernels
// are tried over a connection of their own, so that they do not count as such work.
func (n *Net) tuneInPauses(data *Set, t Train) error {
	s, err := session.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	p := pauses{watched: n.session}
	return n.tune(context.Background(), data, t, s, tiling.Look{Before: func() error { p.wait(&n.mu); return nil }}, func(string) {})
}

// pauses are the times in which nothing is asked for over a connection.
type pauses struct {
	watched *session.Session
	asked   uint64    // when it was last looked at
	since   time.Time // when that had changed
}

// wait returns in a pause, in which nobody holds mu.
func (p *pauses) wait(mu *sync.Mutex) {
	for {
		asked, waiting := p.watched.Asked()
		if waiting || asked != p.asked {
			p.asked, p.since = asked, time.Now()
		}
		left := pause - time.Since(p.since)
		if left <= 0 && mu.TryLock() {
			mu.Unlock()
			return
		}
		time.Sleep(max(left, pause/10))
	}
}
