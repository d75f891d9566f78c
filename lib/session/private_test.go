package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/wire"
)

// TestPrivate: a private session has a worker and files of its own, outlives its worker,
// and leaves nothing behind.
func TestPrivate(t *testing.T) {
	needPlugin(t)
	state := t.TempDir()
	t.Setenv("XDG_STATE_HOME", state)
	t.Setenv("GAIDEN_TEST_ROLE", "serve")
	old, recent := filepath.Join(state, "gaiden", "private-1"), filepath.Join(state, "gaiden", "private-2")
	for dir, age := range map[string]time.Duration{old: 2 * forgotten, recent: forgotten / 2} { // of processes that were killed
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-age)); err != nil {
			t.Fatal(err)
		}
	}
	p, err := StartPrivate("/proc/self/exe", os.Getenv("GAIDEN_PLUGIN"))
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	worker := 0
	for range 2 {
		var s *Session
		for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
			if s, err = p.Open("test", "test"); err == nil {
				break
			}
			if time.Now().After(end) {
				t.Fatal(err)
			}
		}
		defer s.Close()
		if a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0); err != nil || a.Values(make([]float32, 1)) != nil {
			t.Fatalf("got %v, want an array", err)
		}
		st, err := s.Status()
		if err != nil || st.WorkerPID == worker || !strings.HasPrefix(st.Socket, p.Dir) {
			t.Fatalf("got worker %d at %s and %v, want one of its own", st.WorkerPID, st.Socket, err)
		}
		worker = st.WorkerPID
		syscall.Kill(worker, syscall.SIGKILL)
		s.Wait()
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if left, err := filepath.Glob(filepath.Join(state, "gaiden", "private-*")); err != nil || len(left) != 1 || left[0] != recent {
		t.Errorf("got %q left, want what somebody may use", left)
	}
	if _, err := p.Open("test", "test"); err == nil {
		t.Error("after Close: a session answers")
	}
}

// TestPrivateRefused: why there is no private session is said, and no file of it is left.
func TestPrivateRefused(t *testing.T) {
	for _, tt := range []struct{ name, bin, plugin, says string }{
		{"no plugin", "/proc/self/exe", "/nowhere/plugin.so", "/nowhere/plugin.so"},
		{"no program", "/nowhere/gaiden", "plugin.so", "/nowhere/gaiden"},
		{"another program", "/bin/false", "plugin.so", `got ""`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			state := t.TempDir()
			t.Setenv("XDG_STATE_HOME", state)
			t.Setenv("GAIDEN_TEST_ROLE", "serve")
			_, err := StartPrivate(tt.bin, tt.plugin)
			if !errors.Is(err, wire.Unavailable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %v, want %s", err, tt.says)
			}
			if left, _ := filepath.Glob(filepath.Join(state, "gaiden", "*")); len(left) > 0 {
				t.Errorf("got %q left, want nothing", left)
			}
		})
	}
}

// TestStartBound holds that a process dies with the one that started it, even if
// nothing of that one's own can run any more.
func TestStartBound(t *testing.T) {
	if os.Getenv("GAIDEN_TEST_BOUND") != "" {
		cmd := exec.Command("sleep", "1000")
		if err := StartBound(cmd, syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		fmt.Printf("started %d\n", cmd.Process.Pid)
		select {}
	}
	cmd := exec.Command(os.Args[0], "-test.run", "^TestStartBound$")
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_BOUND=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var pid int
	_, err = fmt.Fscanf(out, "started %d\n", &pid)
	if err == nil {
		err = syscall.Kill(pid, 0) // it lives
	}
	cmd.Process.Kill()
	cmd.Wait()
	if err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if syscall.Kill(pid, 0) != nil {
			return
		}
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid)); err == nil && strings.Contains(string(stat), ") Z ") {
			return // dead, but nobody has asked for its end
		}
		time.Sleep(50 * time.Millisecond)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	t.Errorf("process %d is there 10 s after the benchmark was killed", pid)
}
