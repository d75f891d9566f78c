package session

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// TestDiesWithWords: what a worker says when it crashes comes to the clients, and
// is kept.
func TestDiesWithWords(t *testing.T) {
	p := serve(t)
	s := p.open("crash")
	// To the main thread, which is Go's: a thread of the plugin would end the process
	// without Go's words.
	if err := unix.Tgkill(p.worker(s), p.worker(s), syscall.SIGABRT); err != nil {
		t.Fatal(err)
	}
	err := s.Wait()
	for end := time.Now().Add(10 * time.Second); err == nil && time.Now().Before(end); err = s.Wait() { // a signal takes its time
	}
	if !errors.Is(err, wire.Lost) || !strings.Contains(err.Error(), "worker 1 ended at ") || !strings.Contains(err.Error(), "SIGABRT: abort") {
		t.Errorf("got error %v, want the worker's last words", err)
	}
	l, _ := filepath.Glob(p.dir + "/state/gaiden/crashes/worker-*-1.log")
	if len(l) != 1 || !strings.Contains(err.Error(), l[0]) {
		t.Fatalf("got files %v, want the one that the error names", l)
	}
	if b, err := os.ReadFile(l[0]); err != nil || !strings.Contains(string(b), "goroutine ") {
		t.Errorf("file has %d bytes, %v, want stacks", len(b), err)
	}
}
