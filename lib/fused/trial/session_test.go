package main

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/engine/device"
	"gaiden/lib/session"
)

// TestMain lets the test program play the session's processes too.
func TestMain(m *testing.M) {
	var err error
	switch os.Getenv("GAIDEN_TEST_ROLE") {
	case "serve":
		s := device.Supervisor{Version: session.Version, Command: []string{"/proc/self/exe"}, Ready: os.NewFile(3, "ready"), Log: os.Stderr}
		os.Setenv("GAIDEN_TEST_ROLE", "worker")
		err = s.Run()
	case "worker":
		err = device.Work(session.Version)
	default:
		os.Exit(m.Run())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// serve starts a session for the test, and opens a desk on it.
func serve(t *testing.T) *desk {
	t.Helper()
	if os.Getenv("GAIDEN_PLUGIN") == "" {
		t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file, or use scripts/test, which fetches one")
	}
	dir := t.TempDir()
	t.Setenv("GAIDEN_SOCKET", filepath.Join(dir, "run", "session.sock"))
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "GAIDEN_TEST_ROLE=serve", "XDG_STATE_HOME="+filepath.Join(dir, "state"), "XDG_CACHE_HOME="+filepath.Join(dir, "cache"))
	cmd.ExtraFiles = []*os.File{w}
	log := &strings.Builder{}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	t.Cleanup(func() {
		cmd.Process.Signal(syscall.SIGTERM)
		cmd.Wait()
		if t.Failed() {
			t.Logf("session's log:\n%s", log)
		}
	})
	if line, _ := bufio.NewReader(r).ReadString('\n'); strings.TrimSpace(line) != "ready" {
		t.Fatalf("session said %q, want ready", line)
	}
	d := &desk{}
	if err := d.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.s.Close() })
	return d
}
