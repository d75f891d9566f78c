package session

import (
	"testing"
	"time"
)

// TestPulse holds that a client learns of what others ask for, also of those that have
// gone, and not of what it asks for itself.
func TestPulse(t *testing.T) {
	p := serve(t)
	a, b, c := p.open("pulse"), p.open("pulse"), p.open("elsewhere")
	pulse := func() int {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			asked, busy, err := a.Pulse()
			if err != nil {
				t.Fatal(err)
			}
			if !busy {
				return asked
			}
			if time.Now().After(end) {
				t.Fatal("busy for 10 s with nothing to do")
			}
		}
	}
	last := pulse()
	for _, tt := range []struct {
		name string
		do   func()
		more bool
	}{
		{"its own array", func() { put(t, a, 1) }, false},
		{"a list", func() { b.List("") }, false},
		{"an array", func() { put(t, b, 1); b.Wait() }, true},
		{"an array of another notebook", func() { put(t, c, 1); c.Wait() }, true},
		{"nothing", func() {}, false},
	} {
		tt.do()
		if now := pulse(); now > last != tt.more {
			t.Errorf("%s: got %d after %d, want more: %t", tt.name, now, last, tt.more)
		} else {
			last = now
		}
	}
	b.Close()
	if now := pulse(); now < last {
		t.Errorf("when a client has gone: got %d after %d, want what it had asked for to count still", now, last)
	}
}
