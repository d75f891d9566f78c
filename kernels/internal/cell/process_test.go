package cell

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestSweep: directories whose process is gone go, others stay.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	mine, err := NewTempDir()
	if err != nil {
		t.Fatal(err)
	}
	write(t, temp, tempPrefix+"dead/lock", "")
	write(t, temp, tempPrefix+"dead/cells/main.go", "package main")
	os.Mkdir(filepath.Join(temp, tempPrefix+"new"), 0o700)
	old := filepath.Join(temp, tempPrefix+"old")
	os.Mkdir(old, 0o700)
	hour := time.Now().Add(-time.Hour)
	os.Chtimes(old, hour, hour)
	write(t, temp, "other/lock", "")
	next, err := NewTempDir()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, _ := os.ReadDir(temp)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{filepath.Base(mine.Path), filepath.Base(next.Path), tempPrefix + "new", "other"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	mine.Close()
	if _, err := os.Stat(mine.Path); !os.IsNotExist(err) {
		t.Errorf("after Close got %v, want the directory gone", err)
	}
}

// TestSweepStrange: what others, or an accident, have put where locks are is not
// waited for, and what belongs to others stays.
func TestSweepStrange(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	hour := time.Now().Add(-time.Hour)
	strange := map[string]bool{} // whether it stays
	put := func(name string, stays bool, make func(lock string) error) {
		dir := filepath.Join(temp, tempPrefix+name)
		strange[filepath.Base(dir)] = stays
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, tempLock)); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(dir, hour, hour)
	}
	put("pipe", false, func(lock string) error { return syscall.Mkfifo(lock, 0o666) })
	put("link", false, func(lock string) error { return os.Symlink("/dev/zero", lock) })
	put("folder", false, func(lock string) error { return os.Mkdir(lock, 0o700) })
	if os.Geteuid() == 0 { // chown
		put("stranger", true, func(lock string) error {
			return errors.Join(syscall.Mkfifo(lock, 0o666), os.Chown(lock, 4711, 4711), os.Chown(filepath.Dir(lock), 4711, 4711))
		})
		put("given", false, func(lock string) error {
			return errors.Join(syscall.Mkfifo(lock, 0o666), os.Chown(lock, 4711, 4711))
		})
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(temp, tempPrefix+"elsewhere")); err != nil {
		t.Fatal(err)
	}
	strange[tempPrefix+"elsewhere"] = true
	done := make(chan error, 1)
	go func() {
		d, err := NewTempDir()
		if err == nil {
			d.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("NewTempDir waits for somebody else's pipe")
	}
	for name, stays := range strange {
		if _, err := os.Lstat(filepath.Join(temp, name)); (err == nil) != stays {
			t.Errorf("%s: got %v, want that it stays: %v", name, err, stays)
		}
	}
}

// TestTempForAll: where others could replace the directory that programs are built
// in, none is made.
func TestTempForAll(t *testing.T) {
	temp := t.TempDir()
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	var denied *wire.Error
	if d, err := NewTempDir(); !errors.As(err, &denied) {
		d.Close()
		t.Errorf("got error %v, want Denied", err)
	}
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	d, err := NewTempDir()
	if err != nil {
		t.Fatalf("sticky: got error %v, want none", err)
	}
	d.Close()
}

// TestKillMarked finds processes by what they inherited, wherever they are.
func TestKillMarked(t *testing.T) {
	start := func(mark string) *exec.Cmd {
		cmd := exec.Command("sh", "-c", "trap '' INT TERM HUP; while :; do sleep 100; done")
		cmd.Env = append(os.Environ(), wire.CellEnv+"="+mark)
		cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) })
		return cmd
	}
	mark := "test-" + filepath.Base(t.TempDir()) + strings.ReplaceAll(time.Now().Format("150405.000"), ".", "")
	one, two, other := start(mark), start(mark+".2"), start(mark+"2")
	time.Sleep(50 * time.Millisecond) // until they have called exec
	killed := KillMarked(mark)
	if len(killed) < 2 {
		t.Errorf("got %v killed, want two shells", killed)
	}
	one.Wait()
	two.Wait()
	if err := other.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the process with another mark: got %v, want it alive", err)
	}
	if got := KillMarked(""); got != nil {
		t.Errorf("no mark: got %v killed, want none", got)
	}
}

// TestCommand: what a program is given and what it returns.
func TestCommand(t *testing.T) {
	tests := []struct {
		name   string
		script string
		input  string
		stdout string
		stderr string
		exit   string
	}{
		{"output", "echo out; echo err >&2", "", "out\n", "err\n", "done"},
		{"no newline at the end", "printf x", "", "x", "", "done"},
		{"status", "exit 7", "", "", "", "exit status 7"},
		{"signal", "kill -TERM $$", "", "", "", "signal: terminated"},
		{"input", "cat", "a\nb", "a\nb", "", "done"},
		{"input not read", "true", strings.Repeat("x", 1<<20), "", "", "done"},
		{"no input", "cat", "", "", "", "done"},
		{"late output of a child", "(sleep 0.2; echo late) &", "", "late\n", "", "done"},
		{"the mark", "echo $" + wire.CellEnv, "", "test.1\n", "", "done"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var stdout, stderr strings.Builder
			c := Command{Path: "/bin/sh", Args: []string{"-c", tt.script}, Input: []byte(tt.input), Mark: "test.1",
				Stdout: func(p []byte) { stdout.Write(p) }, Stderr: func(p []byte) { stderr.Write(p) }}
			exit, err := c.Run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if stdout.String() != tt.stdout || stderr.String() != tt.stderr || exit.String() != tt.exit {
				t.Errorf("got %q, %q, %s; want %q, %q, %s", stdout.String(), stderr.String(), exit, tt.stdout, tt.stderr, tt.exit)
			}
		})
	}
	if _, err := (&Command{Path: "/nonexistent"}).Run(t.Context()); err == nil {
		t.Error("a program that is not there: got no error, want one")
	}
	if _, err := (&Command{Path: "/bin/true", Dir: "/nonexistent"}).Run(t.Context()); err == nil {
		t.Error("a directory that is not there: got no error, want one")
	}
}
