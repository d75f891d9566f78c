package linker

import (
	"context"
	"errors"
	"fmt"
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

// TestUnknownGo: a Go whose linker is not known is left alone, before anything is built.
func TestUnknownGo(t *testing.T) {
	tests := []struct{ name, version, source, want string }{
		{"newer", "go1.99.1", "", "linker: got go1.99.1, want go1.26 or go1.27"},
		{"older", "go1.25.10", "", "linker: got go1.25.10, want go1.26 or go1.27"},
		{"developer's", "devel go1.28-abcdef", "", "linker: got devel go1.28-abcdef, want go1.26 or go1.27"},
		{"no version", "", "", "linker: got , want go1.26 or go1.27"},
		{"changed", "go1.27.9", "package ld\n", "linker: cmd/link/internal/ld/lib.go of go1.27.9: got another text than that of go1.26 and go1.27"},
		{"without source", "go1.26.9 X:nodwarf5", "", "linker: open GOROOT/src/cmd/link/internal/ld/lib.go: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			command, source := filepath.Join(dir, "go"), filepath.Join(dir, "src", "cmd", "link", "internal", "ld")
			if tt.source != "" {
				if err := errors.Join(os.MkdirAll(source, 0o700), os.WriteFile(filepath.Join(source, "lib.go"), []byte(tt.source), 0o600)); err != nil {
					t.Fatal(err)
				}
			}
			script := fmt.Sprintf("#!/bin/sh\n[ $1 = env ] && echo '{\"GOROOT\": %q, \"GOVERSION\": %q}'\n", dir, tt.version)
			if err := os.WriteFile(command, []byte(script), 0o700); err != nil {
				t.Fatal(err)
			}
			_, err := Make(t.Context(), command, filepath.Join(dir, "made"))
			if e := (*SourceError)(nil); !errors.As(err, &e) || strings.ReplaceAll(e.Error(), dir, "GOROOT") != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
			if files, _ := os.ReadDir(filepath.Join(dir, "made")); len(files) > 0 {
				t.Errorf("got %v, want nothing made", files)
			}
		})
	}
}

// TestFailing: a linker that does not do its work leaves the program to the toolchain's.
func TestFailing(t *testing.T) {
	tests := []struct{ name, script string }{
		{"not there", ""},
		{"ends at once", "exit 0"},
		{"refuses its flags", "echo flag provided but not defined >&2; exit 2"},
		{"fails while it loads", "read line; exit 1"},
		{"fails when it links", "echo ready; read line; echo half >\"$line\"; exit 1"},
		{"writes nothing and ends well", "echo ready; read line; exit 0"},
		{"is killed", "echo ready; read line; kill -9 $$"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			program, out := filepath.Join(dir, "link"), filepath.Join(dir, "out")
			if tt.script != "" {
				if err := os.WriteFile(program, []byte("#!/bin/sh\n"+tt.script+"\n"), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			l := &Linker{Program: program}
			defer l.Close()
			job := Job{Config: filepath.Join(dir, "importcfg"), Object: filepath.Join(dir, "main.a"), Dir: dir, Packages: []string{"fmt"}}
			l.Prepare(job)
			if done, err := l.Link(t.Context(), job, out); done || err != nil {
				t.Errorf("got done %t, %v; want that the toolchain's linker does it", done, err)
			}
			if _, err := os.Stat(out); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("got %v, want no program", err)
			}
		})
	}
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
