package device

import (
	"testing"
	"time"
)

// TestBackoff holds that a worker that works is replaced at once, and that ones that die
// soon are replaced ever more slowly, but never given up.
func TestBackoff(t *testing.T) {
	const soon = time.Second
	var b backoff
	total := time.Duration(0)
	for i := range 12 {
		pause := b.after(soon)
		if i == 0 && pause != 0 {
			t.Errorf("after the first that died: got %v, want none", pause)
		}
		total += pause
	}
	if got := b.after(soon); got != longestPause {
		t.Errorf("after many: got %v, want %v", got, longestPause)
	}
	if total < 20*time.Second {
		t.Errorf("12 workers that died soon were replaced within %v, want 20 s or more", total)
	}
	for range 100_000 { // no overflow
		if got := b.after(soon); got != longestPause {
			t.Fatalf("got %v, want %v", got, longestPause)
		}
	}
	if got := b.after(time.Minute); got != 0 {
		t.Errorf("after one that has worked: got %v, want none", got)
	}
	if got := b.after(soon); got != 0 {
		t.Errorf("after the next that died: got %v, want none", got)
	}
}
