package session

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
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

// TestStartRefuses: a session that cannot start, or must not, says what is at fault, what
// was wanted, and what to do: it is not always the plugin.
func TestStartRefuses(t *testing.T) {
	needPlugin(t)
	dir := t.TempDir()
	open := filepath.Join(dir, "open", "cpu.so")
	if err := errors.Join(os.Mkdir(filepath.Dir(open), 0o700), os.WriteFile(open, nil, 0o600), os.Chmod(filepath.Dir(open), 0o777)); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, env, text, next string
		code                  wire.Code
	}{
		{"unknown flag", "XLA_FLAGS=--xla_nosuch_flag=true", "XLA_FLAGS, which is \"--xla_nosuch_flag=true\": Unknown flag in XLA_FLAGS: --xla_nosuch_flag=true", "correct XLA_FLAGS", wire.Invalid},
		{"no flag", "XLA_FLAGS=fast", "XLA_FLAGS, which is \"fast\"", "correct XLA_FLAGS", wire.Invalid},
		{"bad value", "XLA_FLAGS=--xla_cpu_enable_fast_math=maybe", "XLA_FLAGS, which is ", "correct XLA_FLAGS", wire.Invalid},
		{"relative plugin", "GAIDEN_PLUGIN=cpu.so", "got a relative path, want an absolute one", "GAIDEN_PLUGIN", wire.Invalid},
		{"everybody's plugin", "GAIDEN_PLUGIN=" + open, filepath.Dir(open) + " can be changed by everybody", "chmod go-w " + filepath.Dir(open), wire.Denied},
		{"no plugin", "GAIDEN_PLUGIN=/no/such.so", "/no/such.so: no such file", "GAIDEN_PLUGIN", wire.Unavailable},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &process{t: t, dir: t.TempDir()}
			line := p.start("GAIDEN_SOCKET="+p.dir+"/run/s", "XDG_STATE_HOME="+p.dir, "XDG_CACHE_HOME="+p.dir, tt.env)
			var e wire.Error
			if err := json.Unmarshal([]byte(line), &e); err != nil || e.Code != tt.code || !strings.Contains(e.Text, tt.text) || !strings.Contains(e.Next, tt.next) {
				t.Errorf("got %s, want %s with %q, and %q to do", line, tt.code, tt.text, tt.next)
			}
		})
	}
}
