package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/kernels/internal/notebook"
	"gaiden/lib/engine/device"
	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// TestSilentSession: what takes connections and answers nothing holds nobody up.
func TestSilentSession(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "session.sock"))
	t.Setenv("GAIDEN_TEST_MAIN", "1") // what it would start is no test
	defer func(d time.Duration) { answerLimit = d }(answerLimit)
	answerLimit = 50 * time.Millisecond
	l, err := net.Listen("unix", wire.SocketPath())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for name, err := range map[string]error{"status": sessionStatus(io.Discard), "start": startSession(io.Discard)} {
		if !errors.Is(err, wire.Unavailable) || !strings.Contains(fmt.Sprint(err), "has not answered for 50ms") || !strings.Contains(hintOf(err), "gaiden session stop") {
			t.Errorf("%s: got %v, want that it has not answered, and a hint", name, err)
		}
	}
	// No supervisor holds the lock: the process that it names is not ours to end.
	other := exec.Command("sleep", "60")
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	defer other.Process.Kill()
	if err := os.WriteFile(wire.SocketPath()+".lock", fmt.Append(nil, other.Process.Pid), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := stopSession(io.Discard); err == nil || !strings.Contains(hintOf(err), "GAIDEN_SOCKET") {
		t.Errorf("stop: got %v, want a refusal", err)
	}
	// Nor is it where one in another container holds the lock, in which it has that number.
	lock, err := os.Open(wire.SocketPath() + ".lock")
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := stopSession(io.Discard); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("but not as process %d of this machine", other.Process.Pid)) {
		t.Errorf("stop of a session in another container: got %v, want a refusal", err)
	}
	lock.Close()
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("stop has ended a process that holds no lock: %v", err)
	}
	// A stopped cell of the kernel's ends, too, and so do those after it.
	cell := notebook.Ending{Imports: []string{"gaiden/lib/session"}, Interrupted: true, Spent: func(string) {}}
	answerLimit = time.Minute
	var a aftercare
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		if notes, err := a.ended(ctx, cell); err != nil || len(notes) != 1 || notes[0] != silent {
			t.Errorf("a stopped cell: got %q, %v, want %q", notes, err, silent)
		}
		cancel()
	}
	l.Close() // ends what still waits
	a.mu.Lock()
}

// TestHungSession: nor does one that has answered before, and hangs when a cell has
// gone its way.
func TestHungSession(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "session.sock"))
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: wire.SocketPath(), Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	greeted := make(chan net.Conn, 1)
	go func() {
		if c, err := l.AcceptUnix(); err == nil {
			wire.NewReader(c).Next()
			wire.NewWriter(c).Send(wire.Welcome, 1, func(b []byte) []byte { return append(b, wire.JSON(wire.WelcomeBody{Protocol: wire.Protocol})...) })
			greeted <- c
		}
	}()
	var a aftercare
	if a.session, err = connect(); err != nil {
		t.Fatal(err)
	}
	c := <-greeted
	defer func(d time.Duration) { answerLimit = d }(answerLimit)
	answerLimit = 50 * time.Millisecond
	cell := notebook.Ending{Imports: []string{"gaiden/lib/session"}, Panic: session.Hangs + ", and more", Spent: func(string) {}}
	if notes, err := a.ended(t.Context(), cell); notes != nil || err != nil {
		t.Errorf("a cell that has said it: got %q, %v, want nothing more", notes, err)
	}
	cell.Panic = ""
	if notes, err := a.ended(t.Context(), cell); err != nil || len(notes) != 1 || notes[0] != silent {
		t.Errorf("a cell: got %q, %v, want %q", notes, err, silent)
	}
	c.Close()
	l.Close() // ends what still waits
	a.mu.Lock()
}

// TestTheirSession: a session of another user is said to be theirs, not to be none.
func TestTheirSession(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs to listen as another user: run it as root")
	}
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "session.sock"))
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	runtime.LockOSThread() // whose socket it is says the thread that listens
	err = unix.Bind(fd, &unix.SockaddrUnix{Name: wire.SocketPath()})
	_, _, failed := unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 65534, ^uintptr(0))
	err = errors.Join(err, unix.Listen(fd, 8))
	unix.RawSyscall(unix.SYS_SETRESUID, ^uintptr(0), 0, ^uintptr(0))
	runtime.UnlockOSThread()
	if err != nil || failed != 0 {
		t.Fatal(err, failed)
	}
	for name, f := range map[string]func(io.Writer) error{"status": sessionStatus, "start": startSession, "stop": stopSession} {
		var out strings.Builder
		if err := f(&out); !errors.Is(err, wire.Denied) || !strings.Contains(err.Error(), "belongs to user 65534, you are user 0") || out.Len() > 0 {
			t.Errorf("%s: got %q, %v, want whose it is", name, &out, err)
		}
	}
	var out strings.Builder
	if infoMain(nil, &out, io.Discard); !strings.Contains(out.String(), "belongs to user 65534") {
		t.Errorf("info: got %s, want whose it is", &out)
	}
}

// TestLostSocket: a session whose socket has been removed is found, and ended.
func TestLostSocket(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "run", "session.sock"))
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	t.Setenv("GAIDEN_TEST_MAIN", "1")
	defer func(d time.Duration) { socketWait = d }(socketWait)
	socketWait = 0
	lock, err := lockSocket(wire.SocketPath())
	if err != nil {
		t.Fatal(err)
	}
	lost := exec.Command("sh", "-c", "trap exit TERM; while :; do sleep 0.02; done")
	lost.ExtraFiles = []*os.File{lock}
	if err := lost.Start(); err != nil {
		t.Fatal(err)
	}
	defer lost.Process.Kill()
	fmt.Fprintln(lock, lost.Process.Pid)
	lost.Process.Signal(syscall.SIGSTOP) // nor does it hear of its end then
	if err := awaitSession(time.Minute); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("(process %d)", lost.Process.Pid)) || !strings.Contains(hintOf(err), "gaiden session stop") {
		t.Errorf("start: got %v, want which process has no socket", err)
	}
	go func() {
		lost.Wait()
		lock.Close()
	}()
	var out strings.Builder
	if err := stopSession(&out); err != nil || !strings.HasSuffix(out.String(), "session stopped\n") {
		t.Errorf("stop: got %q, %v, want that it is stopped", &out, err)
	}
}

// TestBecause: a program that found no session brings the hint that it could not
// give itself.
func TestBecause(t *testing.T) {
	t.Setenv("GAIDEN_DEVICE", "tpu")
	_, missing := device.Find()
	for _, c := range []struct {
		name, panicked string
		want           error
	}{
		{"device", "session: " + missing.Error(), missing},
		{"version", "x: other", wire.Errorf(wire.BadVersion, "other")},
		{"another reason", "index out of range", nil},
	} {
		err := c.want
		if err == nil {
			err = errors.New("no session")
		}
		if got := because(c.panicked, err); got == nil != (c.want == nil) || got != nil && got.Error() != c.want.Error() {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

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
	old := exec.Command("sh", "-c", "trap 'sleep 0.7; exit' TERM; exec 9> "+wire.SocketPath()+".lock; echo $$ >&9; while :; do sleep 0.02; done")
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
