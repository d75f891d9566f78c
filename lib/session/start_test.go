package session

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestDyingSession: a session that takes a connection and dies is one that does
// not run: the client starts another.
func TestDyingSession(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("GAIDEN_SOCKET", "")
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(dir, "run"))
	t.Setenv("XDG_DATA_HOME", dir)
	started := filepath.Join(dir, "started")
	bin := filepath.Join(dir, "gaiden", "bin")
	if err := errors.Join(os.MkdirAll(filepath.Dir(wire.SocketPath()), 0o700), os.MkdirAll(bin, 0o700),
		os.WriteFile(filepath.Join(bin, "gaiden"), []byte("#!/bin/sh\necho $* > "+started+"\n"), 0o700)); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", wire.SocketPath())
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			conn.Close()
		}
	}()
	_, err = Config{NoStart: true}.Open()
	var none *DialError
	if !errors.As(err, &none) {
		t.Errorf("got %v, want that none answers", err)
	}
	if _, err := os.Stat(started); err == nil {
		t.Error("NoStart has started one")
	}
	if _, err = Open(); !errors.As(err, &none) {
		t.Errorf("got %v, want that the one that was started does not answer either", err)
	}
	if b, _ := os.ReadFile(started); string(b) != "session start\n" {
		t.Errorf("got the command %q, want session start", b)
	}
}
