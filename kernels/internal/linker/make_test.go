package linker

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// slowGo is a go command whose builds do not end: it writes the process numbers of the
// build and of what that has started to the file PIDS.
const slowGo = `#!/bin/sh
[ "$1" = build ] || exec go "$@"
sleep 600 &
echo $$ $! >PIDS.new && mv PIDS.new PIDS
wait
`

// TestMakeEnds: the making of a linker ends with its context and with its process, and
// takes along what it has started.
func TestMakeEnds(t *testing.T) {
	if dir := os.Getenv("GAIDEN_TEST_MAKE"); dir != "" { // the process that is killed below
		Make(context.Background(), filepath.Join(dir, "go"), filepath.Join(dir, "made"))
		return
	}
	begin := func(t *testing.T) (dir string) {
		dir = t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "go"), []byte(strings.ReplaceAll(slowGo, "PIDS", filepath.Join(dir, "pids"))), 0o700); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Run("context", func(t *testing.T) {
		dir := begin(t)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := Make(ctx, filepath.Join(dir, "go"), filepath.Join(dir, "made"))
			done <- err
		}()
		pids := started(t, dir, done)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("got error %v, want %v", err, context.Canceled)
		}
		for _, pid := range pids {
			ended(t, pid)
		}
		if files, _ := os.ReadDir(filepath.Join(dir, "made")); len(files) > 0 {
			t.Errorf("got %v, want nothing left", files)
		}
	})
	t.Run("killed", func(t *testing.T) {
		dir := begin(t)
		cmd := exec.Command(os.Args[0], "-test.run=^TestMakeEnds$")
		cmd.Env = append(os.Environ(), "GAIDEN_TEST_MAKE="+dir)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		done := make(chan error, 1)
		go func() { done <- cmd.Wait() }()
		pids := started(t, dir, done)
		cmd.Process.Kill()
		<-done
		ended(t, pids[0])
		syscall.Kill(pids[1], syscall.SIGKILL) // what go has started itself ends when it is done
	})
}

// started waits for the build, and returns its process number and its child's.
func started(t *testing.T, dir string, done <-chan error) (pids []int) {
	t.Helper()
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "pids")); err == nil {
			for _, field := range strings.Fields(string(text)) {
				pid, err := strconv.Atoi(field)
				if err != nil {
					t.Fatal(err)
				}
				pids = append(pids, pid)
			}
			return pids
		}
		select {
		case err := <-done:
			var source *SourceError
			if errors.As(err, &source) {
				t.Skipf("%v; run it with the Go that go.mod names", err)
			}
			t.Fatalf("it ended before the build: %v", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// ended waits until a process has ended; one that nobody waits for is a zombie.
func ended(t *testing.T, pid int) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d is still there", pid)
}
