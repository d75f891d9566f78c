package main

import (
	"bytes"
	"encoding/json"
	"io"
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
		{"session", 2, "", "--ssh USER@HOST"},
		{"session strat", 2, "", `no command "strat"`},
		{"session status", 1, "", "no device session at"},
		{"session status all", 2, "", `got "all" after it, want nothing`},
		{"session reset hard", 2, "", `got "hard" after it, want nothing`},
		{"session reset -disc", 2, "", "-disc"},
		{"session agent all", 2, "", `session agent: got "all" after it, want nothing`},
		{"session stop", 0, "no session runs", ""},
		{"info -jason", 2, "", "-jason"},
		{"info all", 2, "", `info: got "all" after it, want nothing`},
		{"doctor all", 2, "", `doctor: got "all" after it, want nothing`},
		{"version all", 2, "", `version: got "all" after it, want nothing`},
		{"install all", 2, "", `install: got "all" after it, want nothing`},
		{"help info", 0, "", "usage: gaiden info [-json]"},
		{"help session", 0, "usage: gaiden session COMMAND", ""},
		{"help sesion", 2, "", `no command "sesion"`},
		{"info", 0, "session     not running", ""},
		{"kernel", 2, "", "connection file"},
		{"--version", 0, "gaiden 0.", ""},
		{"install -user -prefix /x", 1, "", "-user, -sys-prefix and -prefix, want one"},
		{"install -user -sys-prefix", 1, "", "want one"},
		{"install -package /x -source /no/such/dir", 1, "", "not Gaiden's source"},
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
	if i.Version == "" || i.Machine.Cores == 0 || i.Time.IsZero() || i.Dirs["cache"] == "" {
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

// A program that go build has made knows its source.
func TestOwnSource(t *testing.T) {
	if got := ownSource(); !exists(filepath.Join(got, "kernels", "gaiden", "install.go")) {
		t.Errorf("got %q, want this repository", got)
	}
}

func TestSpec(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "kernels", "gaiden")
	if err := writeSpec(dir, "Go (Gaiden)", "/bin/gaiden", nil); err != nil {
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

// TestSideBySide: a kernelspec of another name has program and library for
// itself, and nothing of it is left when it goes.
func TestSideBySide(t *testing.T) {
	if testing.Short() {
		t.Skip("skipped: it compiles what cells import; run it without -short")
	}
	home := t.TempDir()
	t.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
	t.Setenv("JUPYTER_DATA_DIR", "")
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	old := cellPackages
	cellPackages = []string{"fmt"}
	defer func() { cellPackages = old }()
	kernels := filepath.Join(home, "data", "jupyter", "kernels")
	t.Chdir(home)
	for _, args := range [][]string{{"-source", root}, {"-name", "gaiden-0.0.9"}, {"-name", "gaiden-next", "-prefix", "env", "-display", "Next"}} {
		os.Setenv("XDG_DATA_HOME", filepath.Join(home, "data")) // each is a process of its own
		var out, said bytes.Buffer
		if code := gaiden(append([]string{"install"}, args...), &out, &said); code != 0 {
			t.Fatalf("install %q: got status %d: %s%s", args, code, out.String(), said.String())
		}
	}
	os.Setenv("XDG_DATA_HOME", filepath.Join(home, "data"))
	for _, c := range []struct{ dir, display, own string }{
		{filepath.Join(kernels, "gaiden"), "Go (Gaiden)", ""},
		{filepath.Join(kernels, "gaiden-0.0.9"), "Go (gaiden-0.0.9)", "home"},
		{filepath.Join(home, "env/share/jupyter/kernels/gaiden-next"), "Next", "home"},
	} {
		b, err := os.ReadFile(filepath.Join(c.dir, "kernel.json"))
		if err != nil {
			t.Fatal(err)
		}
		var spec struct {
			Argv    []string
			Display string `json:"display_name"`
			Env     map[string]string
		}
		if err := json.Unmarshal(b, &spec); err != nil {
			t.Fatal(err)
		}
		if spec.Display != c.display {
			t.Errorf("%s: got %q, want %q", c.dir, spec.Display, c.display)
		}
		if c.own == "" {
			if spec.Env != nil {
				t.Errorf("%s: got environment %v, want none", c.dir, spec.Env)
			}
			continue
		}
		own := filepath.Join(c.dir, c.own)
		if spec.Env["XDG_DATA_HOME"] != own || !strings.HasPrefix(spec.Argv[0], own) || !exists(spec.Argv[0]) || !exists(filepath.Join(own, "gaiden/src/lib/fit/net.go")) {
			t.Errorf("%s: got %+v, want program and library in %s", c.dir, spec, own)
		}
	}
	if code := gaiden([]string{"install", "-uninstall", "-name", "gaiden-0.0.9"}, io.Discard, io.Discard); code != 0 {
		t.Errorf("uninstall: got status %d", code)
	}
	if exists(filepath.Join(kernels, "gaiden-0.0.9")) || !exists(filepath.Join(kernels, "gaiden", "kernel.json")) {
		t.Error("uninstall: want the one gone and the other there")
	}
}
