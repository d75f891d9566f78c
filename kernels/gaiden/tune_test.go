package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// TestTuneSays holds what gaiden tune says where there is nothing to do for it.
func TestTuneSays(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	say := func(args ...string) (code int, text string) {
		var out, errs strings.Builder
		code = gaiden(append([]string{"tune"}, args...), &out, &errs)
		return code, out.String() + errs.String()
	}
	if code, text := say(); code != 0 || !strings.Contains(text, "nothing waits") {
		t.Errorf("got %d and %q, want that nothing waits", code, text)
	}
	if code, text := say("all"); code != 2 || !strings.Contains(text, `got "all" after it, want nothing`) {
		t.Errorf("a word too many: got %d and %q", code, text)
	}
	lock, err := os.OpenFile(filepath.Join(wire.CacheDir(), "tilings", "requests", "lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if code, text := say(); code != 1 || !strings.Contains(text, "tunes already") || !strings.Contains(text, "gaiden session status") {
		t.Errorf("another tunes: got %d and %q, want an error that says so", code, text)
	}
	if code, text := say("-background"); code != 0 || text != "" {
		t.Errorf("another tunes, in the background: got %d and %q, want nothing said", code, text)
	}
}
