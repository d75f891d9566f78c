package fit

import (
	"context"
	"time"

	"gaiden/lib/session"
)

// idleTime is how long the devices must have been left alone before something is
// tried on them in the background.
var idleTime = 2 * time.Second

// idleWatcher waits until a session is idle: no requests over other connections, no job.
type idleWatcher struct {
	watched  *session.Session
	requests int       // by others, at the last look
	since    time.Time // when that had changed; zero at first
}

// wait returns in a pause.
func (p *idleWatcher) wait(ctx context.Context) error {
	for {
		asked, busy, err := p.watched.Pulse()
		if err != nil {
			return err
		}
		if busy || asked != p.requests || p.since.IsZero() {
			p.requests, p.since = asked, time.Now()
		}
		left := idleTime - time.Since(p.since)
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(max(left, idleTime/10)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
