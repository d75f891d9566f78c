package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "none.sock"))
	tests := []struct {
		args   string
		code   int
		stdout string // must be part of it
		stderr string
	}{
		{"", 0, "usage: gaiden COMMAND", ""},
		{"help", 0, "session", ""},
		{"version", 0, "gaiden 0.", ""},
		{"sesion", 2, "", `no command "sesion"`},
		{"session", 2, "", "start|stop|status|reset"},
		{"session strat", 2, "", `no command "strat"`},
		{"session status", 1, "", "no device session at"},
		{"session reset -disc", 2, "", "-disc"},
		{"session stop", 0, "no session runs", ""},
		{"info -jason", 2, "", "-jason"},
		{"info", 0, "session     not running", ""},
		{"kernel", 2, "", "connection file"},
		{"bench", 2, "", "dispatch"},
		{"bench dispach", 1, "", `no benchmark "dispach"`},
		{"install -name Bad/Name", 1, "", "lower-case"},
		{"install -source /no/such/dir", 1, "", "not Gaiden's source"},
		{"install -uninstall -prefix /no/such/dir", 1, "", "no kernelspec"},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			code := gaiden(strings.Fields(tt.args), &stdout, &stderr)
			if code != tt.code || !strings.Contains(stdout.String(), tt.stdout) || !strings.Contains(stderr.String(), tt.stderr) {
				t.Errorf("got code %d, stdout %q, stderr %q; want %d, %q, %q", code, stdout.String(), stderr.String(), tt.code, tt.stdout, tt.stderr)
			}
		})
	}
}

func TestInfoJSON(t *testing.T) {
	t.Setenv("GAIDEN_SOCKET", filepath.Join(t.TempDir(), "none.sock"))
	var stdout, stderr bytes.Buffer
	if code := gaiden([]string{"info", "-json"}, &stdout, &stderr); code != 0 {
		t.Fatalf("got code %d: %s", code, stderr.String())
	}
	var i info
	if err := json.Unmarshal(stdout.Bytes(), &i); err != nil {
		t.Fatal(err)
	}
	if i.Version == "" || i.Machine.Machine.Cores == 0 || i.Dirs["cache"] == "" {
		t.Errorf("got %+v, want version, cores and directories", i)
	}
}

func TestCopyLibrary(t *testing.T) {
	to := filepath.Join(t.TempDir(), "src")
	if err := os.MkdirAll(filepath.Join(to, "lib", "old"), 0o755); err != nil {
		t.Fatal(err)
	}
	gone := filepath.Join(to, "lib", "old", "gone.go")
	os.WriteFile(gone, []byte("package old\n"), 0o644)
	for range 2 { // the second time there is nothing to do
		if err := copyLibrary("../..", to); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range []string{"go.mod", "go.sum", "lib/session/session.go", "lib/fit/doc.go"} {
		if !exists(filepath.Join(to, f)) {
			t.Errorf("%s is not there", f)
		}
	}
	for _, f := range []string{"lib/session/session_test.go", "lib/engine/device/worker.go", "lib/old/gone.go", "README.md"} {
		if exists(filepath.Join(to, f)) {
			t.Errorf("%s is there: cells do not import it", f)
		}
	}
}

func TestSpec(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kernels", "gaiden")
	if err := writeSpec(dir, "Go (Gaiden)"); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "kernel.json"))
	if err != nil {
		t.Fatal(err)
	}
	var spec struct {
		Argv        []string
		DisplayName string `json:"display_name"`
		Language    string
		Interrupt   string `json:"interrupt_mode"`
	}
	if err := json.Unmarshal(b, &spec); err != nil {
		t.Fatal(err)
	}
	if len(spec.Argv) != 3 || spec.Argv[1] != "kernel" || spec.Argv[2] != "{connection_file}" || spec.Language != "go" || spec.Interrupt != "message" || spec.DisplayName != "Go (Gaiden)" {
		t.Errorf("got %+v", spec)
	}
}

// TestPeerScripts holds that the peers' scripts are there and are Python.
func TestPeerScripts(t *testing.T) {
	l, err := peers.ReadDir("peers")
	if err != nil || len(l) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, f := range l {
		b, err := peers.ReadFile("peers/" + f.Name())
		if err != nil || !bytes.Contains(b, []byte("json.dumps")) {
			t.Errorf("%s prints no JSON: %v", f.Name(), err)
		}
	}
}
