package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// TestStopWaits: a session that does not understand us, and takes its time over
// the end, is waited for, and we say so.
func TestStopWaits(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GAIDEN_SOCKET", filepath.Join(dir, "session.sock"))
	defer func(d time.Duration) { patience = d }(patience)
	patience = 200 * time.Millisecond
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: wire.SocketPath(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() { // of another version
		for {
			c, err := l.AcceptUnix()
			if err != nil {
				return
			}
			wire.NewReader(c).Next()
			wire.NewWriter(c).Send(wire.Failed, 0, func(b []byte) []byte { return append(b, wire.JSON(wire.Errorf(wire.BadVersion, "other"))...) })
			c.Close()
		}
	}()
	old := exec.Command("sh", "-c", "trap 'sleep 0.7; exit' TERM; echo $$ > "+wire.SocketPath()+".lock; while :; do sleep 0.02; done")
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	defer old.Process.Kill()
	var lock *os.File
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		if b, err := os.ReadFile(wire.SocketPath() + ".lock"); err == nil && len(b) > 1 {
			lock, _ = os.Open(wire.SocketPath() + ".lock")
			break
		}
		if time.Now().After(end) {
			t.Fatal("the process writes no lock")
		}
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	gone := make(chan struct{})
	go func() {
		old.Wait()
		close(gone)
		lock.Close()
	}()
	var out strings.Builder
	if err := stopSession(&out); err != nil {
		t.Fatal(err)
	}
	select {
	case <-gone:
	default:
		t.Error("it has returned before the process has ended")
	}
	if !strings.Contains(out.String(), "waiting for the session, which ends (process ") || !strings.HasSuffix(out.String(), "session stopped\n") {
		t.Errorf("it has said %q", out.String())
	}
}
