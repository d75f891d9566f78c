package device

import "time"

// backoff is how long a supervisor waits before it starts the next worker: not at all
// after one that has worked for a while, and longer each time after those that have not.
type backoff struct{ quick int }

const (
	longLife     = 10 * time.Second // of a worker that has worked
	firstPause   = 50 * time.Millisecond
	longestPause = 5 * time.Second
)

// after is the pause after a worker that has lived so long; the first one that has not
// lived long is forgiven.
func (b *backoff) after(life time.Duration) time.Duration {
	if life >= longLife {
		b.quick = 0
		return 0
	}
	b.quick++
	if b.quick == 1 {
		return 0
	}
	return min(longestPause, firstPause<<min(b.quick-2, 10))
}
