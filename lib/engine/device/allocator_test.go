package device

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// TestAllocator holds that a CPU's worker gets the allocator, and that WithoutAllocator
// takes it away again.
func TestAllocator(t *testing.T) {
	t.Setenv("GLIBC_TUNABLES", "")
	got := Allocator(Plugin{Device: "cpu"})
	if !slices.Equal(got, []string{AllocatorEnv}) {
		t.Errorf("a CPU: got %q", got)
	}
	if got := WithoutAllocator(append([]string{"A=b"}, got...)); !slices.Equal(got, []string{"A=b"}) {
		t.Errorf("got %q without it, want the rest", got)
	}
	if got := Allocator(Plugin{Device: "cuda"}); got != nil {
		t.Errorf("a GPU: got %q", got)
	}
	t.Setenv("GLIBC_TUNABLES", "glibc.malloc.arena_max=1")
	if got := Allocator(Plugin{Device: "cpu"}); got != nil {
		t.Errorf("the user's allocator: got %q", got)
	}
}

// TestRest holds when memory is given back: after a time in which nothing was asked for,
// once, and where there is too much.
func TestRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Worker{lifetime: lifetime{stopped: make(chan struct{})}}
		var given []int // s
		began := time.Now()
		seconds := func() int { return int(time.Since(began) / time.Second) }
		go w.rest(idle, func() bool { return seconds() == 370 || seconds() == 371 }, func() { given = append(given, seconds()) })
		asked := func(at time.Duration) { // between two looks
			time.Sleep(at*time.Second + time.Second/2 - time.Since(began))
			w.mu.Lock()
			w.left++
			w.mu.Unlock()
		}
		asked(24) // nothing was there to be given back before
		asked(28)
		asked(32)
		asked(360)
		asked(368)
		time.Sleep(2 * idle)
		close(w.stopped)
		synctest.Wait()
		if want := []int{333, 370, 371, 669}; !slices.Equal(given, want) {
			t.Errorf("given back after %v s, want %v", given, want)
		}
	})
}

// TestWasteful holds how much memory a session may keep: as much as several of what was in
// use at once, or, where the machine has little left, what small programs need.
func TestWasteful(t *testing.T) {
	const mb = 1 << 20
	for _, tt := range []struct {
		name                     string
		has, floor, most, arrays int64 // MB
		scarce, want             bool
	}{
		{"ResNet152 with three states in use", 4101, 0, 1913, 1333, false, false},
		{"a small net's scattered memory", 2700, 0, 60, 20, false, true},
		{"less than any session has", 1000, 0, 0, 0, false, false},
		{"what could not be given back", 3000, 2500, 60, 20, false, false},
		{"memory is scarce", 4101, 0, 1913, 1333, true, true},
		{"scarce, but it is in use", 2300, 0, 1913, 1333, true, false},
	} {
		w := &Worker{totals: totals{floor: tt.floor * mb, most: tt.most * mb, bytes: tt.arrays * mb}}
		if got := w.wasteful(tt.has*mb, tt.scarce); got != tt.want || got && w.most != 0 {
			t.Errorf("%s: got %t, and %d MB were in use at once", tt.name, got, w.most/mb)
		}
	}
}
