package device

import (
	"testing"
	"time"
)

// TestDue holds when an automatic snapshot is made: two seconds after the last change, but
// where somebody works with the space only as often as the last one was cheap, and in a
// training without end once a minute.
func TestDue(t *testing.T) {
	const hour = time.Hour
	for _, tt := range []struct {
		name                         string
		changed, since, kept, effort time.Duration // ago, ago, ago, and what the last one took
		works                        bool
		want                         bool
	}{
		{"just changed", time.Second, time.Second, hour, time.Second, false, false},
		{"quiet", 2 * time.Second, 3 * time.Second, hour, time.Second, false, true},
		{"quiet, the last one was long", 2 * time.Second, 3 * time.Second, 4 * time.Second, time.Second, false, true},
		{"a step of two seconds", 2 * time.Second, 3 * time.Second, hour, time.Second, true, true},
		{"a step of two seconds, the last one was long", 2 * time.Second, 3 * time.Second, 19 * time.Second, time.Second, true, false},
		{"a step of two seconds, it is long ago", 2 * time.Second, 3 * time.Second, 20 * time.Second, time.Second, true, true},
		{"the first one, at work", 2 * time.Second, 3 * time.Second, hour, 0, true, true},
		{"always changed", 0, 59 * time.Second, hour, 0, true, false},
		{"always changed for a minute", 0, time.Minute, hour, 0, true, true},
		{"always changed, the last one was long", 0, 99 * time.Second, hour, time.Second, true, false},
	} {
		now := time.Now()
		s := &space{saving: saving{version: 2, saved: 1, changed: now.Add(-tt.changed), since: now.Add(-tt.since), kept: now.Add(-tt.kept), effort: tt.effort}}
		other := &conn{space: &space{}, inFlight: inFlight{inflight: 1}}
		own := &conn{space: s}
		if tt.works {
			own.inflight = 1
		}
		w := &Worker{holdings: holdings{conns: map[*conn]struct{}{other: {}, own: {}}}}
		if got := w.due(s, now); got != tt.want {
			t.Errorf("%s: got %t, want %t", tt.name, got, tt.want)
		}
		s.saved = s.version
		if w.due(s, now) {
			t.Errorf("%s, and saved: got true", tt.name)
		}
	}
}
