package session

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/wire"
)

// TestPrivate: a private session has a worker and files of its own, outlives its worker,
// and leaves nothing behind but the log of a worker that crashed.
func TestPrivate(t *testing.T) {
	needPlugin(t)
	for _, crashes := range []int{0, 1} {
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
		for generation := 1; generation <= 1+crashes; generation++ {
			s := awaitPrivate(t, p)
			if a, err := s.Put([]float32{1}, shapes.Make(dtypes.Float32, 1), 0); err != nil || a.Values(make([]float32, 1)) != nil {
				t.Fatalf("got %v, want an array", err)
			}
			st, err := s.Status()
			if err != nil || st.Generation != generation || !strings.HasPrefix(st.Socket, p.Dir) {
				t.Fatalf("got generation %d at %s and %v, want %d in a folder of its own", st.Generation, st.Socket, err, generation)
			}
			if generation <= crashes {
				syscall.Kill(st.WorkerPID, syscall.SIGKILL)
				s.Wait()
			}
			s.Close()
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
		if _, err := p.Open("test", "test"); err == nil {
			t.Error("after Close: a session answers")
		}
		var left []string // files, and the folder that somebody may use
		filepath.WalkDir(state, func(path string, e os.DirEntry, err error) error {
			if err == nil && (!e.IsDir() && e.Name() != "log" || path == recent || path == old) {
				left = append(left, path)
			}
			return err
		})
		if len(left) != 1+crashes || !slices.Contains(left, recent) || crashes > 0 && !strings.Contains(strings.Join(left, " "), "/crashes/worker-") {
			t.Errorf("got %q left after %d crashes, want %s and a log for each", left, crashes, recent)
		}
	}
}

// awaitPrivate connects when a worker is there.
func awaitPrivate(t *testing.T, p *Private) *Session {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		s, err := p.Open("test", "test")
		if err == nil {
			return s
		}
		if time.Now().After(end) {
			t.Fatal(err)
		}
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
