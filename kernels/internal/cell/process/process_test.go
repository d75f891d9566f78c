package process

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

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

// TestKillMarkedExec finds a process that becomes another program again and again: for a
// moment each time it has no environment.
func TestKillMarkedExec(t *testing.T) {
	file := filepath.Join(t.TempDir(), "again")
	if err := os.WriteFile(file, []byte("#!/bin/sh\nexec \"$0\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for i := range 50 {
		mark := fmt.Sprintf("exec-%d-%d", os.Getpid(), i)
		cmd := exec.Command(file)
		cmd.Env = append(os.Environ(), wire.CellEnv+"="+mark)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		KillMarked(mark)
		select {
		case <-ended:
		case <-time.After(10 * time.Second):
			cmd.Process.Kill()
			t.Fatalf("round %d: it lives", i)
		}
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
