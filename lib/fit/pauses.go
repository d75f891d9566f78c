package fit

import (
	"context"
	"time"

	"gaiden/lib/session"
)

// pause is how long the devices must have been left alone before something is
// tried on them in the background.
var pause = 2 * time.Second

// pauses are the times in which nothing is asked of a session over other connections, and
// no job is at work in it.
type pauses struct {
	watched *session.Session
	asked   int       // by others, when it was last looked at
	since   time.Time // when that had changed; zero at first
}

// wait returns in a pause.
func (p *pauses) wait(ctx context.Context) error {
	for {
		asked, busy, err := p.watched.Pulse()
		if err != nil {
			return err
		}
		if busy || asked != p.asked || p.since.IsZero() {
			p.asked, p.since = asked, time.Now()
		}
		left := pause - time.Since(p.since)
		if left <= 0 {
			return nil
		}
		select {
		case <-time.After(max(left, pause/10)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
