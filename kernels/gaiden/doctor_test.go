package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// bare is a machine with nothing installed: an empty PATH and a home of its own.
func bare(t *testing.T) (home string) {
	home = t.TempDir()
	for _, v := range []string{"XDG_CACHE_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "JUPYTER_DATA_DIR", "GAIDEN_PLUGIN", "GAIDEN_SOCKET", "GAIDEN_DEVICE", "VIRTUAL_ENV", "GOCACHE"} {
		t.Setenv(v, "")
	}
	t.Setenv("GAIDEN_TEST_MAIN", "1") // the doctor runs itself to load a plugin
	t.Setenv("HOME", home)
	t.Setenv("PATH", filepath.Join(home, "bin"))
	t.Setenv("XDG_RUNTIME_DIR", filepath.Join(home, "run"))
	t.Setenv("TMPDIR", home)
	return home
}

func doctor(t *testing.T, args ...string) (code int, found map[string][]finding, text string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	code = gaiden(append([]string{"doctor"}, args...), &stdout, &stderr)
	found = map[string][]finding{}
	var all []finding
	if json.Unmarshal(stdout.Bytes(), &all) == nil {
		for _, f := range all {
			found[f.Check] = append(found[f.Check], f)
		}
	}
	return code, found, stdout.String() + stderr.String()
}

// thePlugin is the real one, which a bare machine does not have.
var thePlugin = os.Getenv("GAIDEN_PLUGIN")

// Each row breaks one thing; the doctor has to name it and what to do.
func TestDoctor(t *testing.T) {
	script := func(home, name, text string) {
		os.MkdirAll(filepath.Join(home, "bin"), 0o700)
		os.WriteFile(filepath.Join(home, "bin", name), []byte("#!/bin/sh\n"+text+"\n"), 0o700)
	}
	for _, c := range []struct {
		name  string
		begin func(t *testing.T, home string)
		check string
		state string
		says  string // in what it found, or in what to do
	}{
		{"nothing", func(*testing.T, string) {}, "go", "fail", "go.dev/dl"},
		{"nothing", func(*testing.T, string) {}, "library", "fail", "install"},
		{"nothing", func(*testing.T, string) {}, "gopls", "warn", "cells run"},
		{"nothing", func(*testing.T, string) {}, "plugin", "fail", "GAIDEN_PLUGIN"},
		{"nothing", func(*testing.T, string) {}, "python", "warn", "apt-get install python3"},
		{"nothing", func(*testing.T, string) {}, "kernelspec", "warn", "gaiden install"},
		{"nothing", func(*testing.T, string) {}, "session", "ok", "not running"},
		{"no home", func(t *testing.T, _ string) { t.Setenv("HOME", "") }, "home", "warn", "HOME"},
		{"home is relative", func(t *testing.T, _ string) { t.Chdir(t.TempDir()); t.Setenv("HOME", "rel") }, "home", "warn", "HOME is rel"},
		{"cache is relative", func(t *testing.T, _ string) { t.Chdir(t.TempDir()); t.Setenv("XDG_CACHE_HOME", "rel") }, "home", "warn", "XDG_CACHE_HOME is rel"},
		{"home is a file", func(t *testing.T, home string) {
			os.WriteFile(home+"/file", nil, 0o600)
			t.Setenv("HOME", home+"/file")
		}, "directories", "fail", "XDG_"},
		{"old Go", func(_ *testing.T, home string) { script(home, "go", `echo '{"GOVERSION":"go1.21.3"}'`) }, "go", "fail", "go1.21.3"},
		{"broken Go", func(_ *testing.T, home string) { script(home, "go", `echo "go: no such tool" >&2; exit 2`) }, "go", "fail", "no such tool"},
		{"Go without compiler", func(_ *testing.T, home string) {
			script(home, "go", `echo '{"GOVERSION":"go1.26.8","GOTOOLDIR":"/nowhere"}'`)
		}, "go", "fail", "compile"},
		{"Go's cache is everybody's", func(_ *testing.T, home string) {
			script(home, "compile", "")
			script(home, "link", "")
			os.MkdirAll(home+"/builds", 0o700)
			os.Chmod(home+"/builds", 0o777)
			script(home, "go", fmt.Sprintf(`echo '{"GOVERSION":"go1.26.8","GOTOOLDIR":"%s/bin","GOCACHE":"%[1]s/builds"}'`, home))
		}, "go", "fail", "builds can be changed by everybody"},
		{"old Python", func(_ *testing.T, home string) { script(home, "python3", "echo 3.8.1") }, "python", "warn", "3.8.1"},
		{"Python without venv", func(_ *testing.T, home string) { script(home, "python3", "echo No module named venv; exit 1") }, "python", "warn", "venv"},
		{"plugin is gone", func(t *testing.T, home string) { t.Setenv("GAIDEN_PLUGIN", home+"/no.so") }, "plugin", "fail", "no.so"},
		{"plugin is text", func(t *testing.T, home string) {
			os.WriteFile(home+"/x.so", []byte("hello, hello, hello, hello"), 0o600)
			t.Setenv("GAIDEN_PLUGIN", home+"/x.so")
		}, "plugin", "fail", "not a shared library"},
		{"plugin is for another processor", func(t *testing.T, home string) {
			os.WriteFile(home+"/x.so", append([]byte("\x7fELF"), make([]byte, 60)...), 0o600)
			t.Setenv("GAIDEN_PLUGIN", home+"/x.so")
		}, "plugin", "fail", "processor"},
		{"plugin is cut off", func(t *testing.T, home string) {
			self, _ := os.ReadFile("/proc/self/exe")
			os.WriteFile(home+"/x.so", self[:4096], 0o600)
			t.Setenv("GAIDEN_PLUGIN", home+"/x.so")
		}, "plugin", "fail", "pjrt: load: "},
		{"plugin is relative", func(t *testing.T, home string) { t.Setenv("GAIDEN_PLUGIN", "plugins/x.so") }, "plugin", "fail", "relative path, want an absolute one"},
		{"plugin is everybody's", func(t *testing.T, home string) {
			os.WriteFile(home+"/x.so", nil, 0o600)
			os.Chmod(home+"/x.so", 0o666)
			t.Setenv("GAIDEN_PLUGIN", home+"/x.so")
		}, "plugin", "fail", "chmod go-w"},
		{"plugin lies in everybody's directory", func(t *testing.T, home string) {
			os.MkdirAll(home+"/plugins/cpu", 0o700)
			os.Chmod(home+"/plugins", 0o777)
			os.WriteFile(home+"/plugins/cpu/x.so", nil, 0o600)
			t.Setenv("GAIDEN_PLUGIN", home+"/plugins/cpu/x.so")
		}, "plugin", "fail", "/plugins can be changed by everybody"},
		{"flags that XLA does not know", func(t *testing.T, _ string) {
			if thePlugin == "" {
				t.Skip("needs an XLA plugin: set GAIDEN_PLUGIN to its file")
			}
			t.Setenv("GAIDEN_PLUGIN", thePlugin)
			t.Setenv("XLA_FLAGS", "--xla_nosuch_flag=true")
		}, "plugin", "fail", "correct XLA_FLAGS, or unset it"},
		{"programs in everybody's directory", func(_ *testing.T, home string) {
			os.MkdirAll(home+"/.cache/gaiden/programs", 0o700)
			os.Chmod(home+"/.cache/gaiden", 0o777)
		}, "directories", "fail", "/.cache/gaiden can be changed by everybody"},
		{"cells in everybody's directory", func(_ *testing.T, home string) {
			os.MkdirAll(home+"/.cache/gaiden/cells/binaries", 0o700)
			os.Chmod(home+"/.cache/gaiden/cells/binaries", 0o777)
		}, "directories", "fail", "/cells/binaries can be changed by everybody"},
		{"library in everybody's directory", func(_ *testing.T, home string) {
			os.MkdirAll(home+"/.local/share/gaiden/src", 0o700)
			os.Chmod(home+"/.local/share/gaiden/src", 0o777)
		}, "directories", "fail", "/src can be changed by everybody"},
		{"temporary directory is everybody's", func(t *testing.T, home string) {
			os.Mkdir(home+"/tmp", 0o700)
			os.Chmod(home+"/tmp", 0o777)
			t.Setenv("TMPDIR", home+"/tmp")
		}, "directories", "fail", "/tmp can be changed by everybody"},
		{"temporary directory is shared, as /tmp is", func(t *testing.T, home string) {
			os.MkdirAll(home+"/tmp/src", 0o700)
			os.Chmod(home+"/tmp/src", 0o777) // somebody else's, which Gaiden does not use
			os.Chmod(home+"/tmp", os.ModeSticky|0o777)
			t.Setenv("TMPDIR", home+"/tmp")
		}, "directories", "ok", "all can be written to"},
		{"wrong device", func(t *testing.T, _ string) { t.Setenv("GAIDEN_DEVICE", "tpu") }, "plugin", "fail", "tpu"},
		{"GPU that is not there", func(t *testing.T, _ string) {
			if _, err := os.Stat("/proc/driver/nvidia/version"); err == nil {
				t.Skip("needs a machine without an NVIDIA driver: run it on one, or in a container that is started without --gpus")
			}
			t.Setenv("GAIDEN_DEVICE", "cuda")
		}, "gpu", "fail", "GAIDEN_DEVICE is cuda"},
		{"run-time directory is open to all", func(_ *testing.T, home string) {
			os.MkdirAll(home+"/run/gaiden", 0o755)
			os.Chmod(home+"/run/gaiden", 0o755)
		}, "directories", "fail", "chmod 700"},
		{"nobody listens", func(_ *testing.T, home string) {
			os.MkdirAll(home+"/run/gaiden", 0o700)
			os.WriteFile(home+"/run/gaiden/session.sock", nil, 0o600)
		}, "session", "warn", "session"},
		{"kernelspec of a program that is gone", func(_ *testing.T, home string) {
			dir := home + "/.local/share/jupyter/kernels/gaiden"
			os.MkdirAll(dir, 0o700)
			os.WriteFile(dir+"/kernel.json", []byte(`{"argv":["/no/gaiden","kernel"],"metadata":{"gaiden":"0.0.1"}}`), 0o600)
		}, "kernelspec", "warn", "/no/gaiden"},
		{"kernelspec is torn", func(_ *testing.T, home string) {
			dir := home + "/.local/share/jupyter/kernels/gaiden"
			os.MkdirAll(dir, 0o700)
			os.WriteFile(dir+"/kernel.json", []byte(`{"argv":`), 0o600)
		}, "kernelspec", "warn", "cannot be read"},
	} {
		t.Run(c.name+" "+c.check, func(t *testing.T) {
			c.begin(t, bare(t))
			code, found, text := doctor(t, "-json")
			if code != 1 {
				t.Errorf("exit status: got %d, want 1 on a machine without Go\n%s", code, text)
			}
			for _, f := range found[c.check] {
				if f.State == c.state && strings.Contains(f.Found+f.Do, c.says) {
					return
				}
			}
			t.Errorf("%s: got %+v, want %s with %q", c.check, found[c.check], c.state, c.says)
		})
	}
}

// Every check says what to do unless all is well, and leaves nothing behind.
func TestDoctorLeavesNothing(t *testing.T) {
	home := bare(t)
	_, found, text := doctor(t, "-json")
	for _, c := range checks {
		for _, f := range found[c.name] {
			if f.State != "ok" && f.Do == "" {
				t.Errorf("%s: %q says not what to do", c.name, f.Found)
			}
		}
		if len(found[c.name]) == 0 && c.name != "cuda" {
			t.Errorf("no finding of %s in %s", c.name, text)
		}
	}
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("left behind: got %v, want nothing", left)
	}
	if _, _, text := doctor(t); !strings.Contains(text, "fail  go ") || !strings.Contains(text, "→") {
		t.Errorf("as text: got %s", text)
	}
}

// TestOfGoRun holds which programs go run removes, so that a kernelspec needs a copy.
func TestOfGoRun(t *testing.T) {
	for program, want := range map[string]bool{"/tmp/go-build485882172/b001/exe/gaiden": true, "/home/u/go/bin/gaiden": false, "/home/u/exe/gaiden": false} {
		if got := ofGoRun(program); got != want {
			t.Errorf("%s: got %t, want %t", program, got, want)
		}
	}
}

// TestInstallRefuses: what cannot be installed, and what it says.
func TestInstallRefuses(t *testing.T) {
	home := bare(t)
	other := filepath.Join(home, "other")
	os.MkdirAll(other, 0o700)
	os.WriteFile(filepath.Join(other, "go.mod"), []byte("module other\n"), 0o600)
	source, _ := filepath.Abs("../..")
	unnamed := "name Gaiden's source with -source"
	if ownSource() != "" { // this test was built without -trimpath
		unnamed = "go is not in PATH: install Go"
	}
	for _, tt := range []struct{ args, want string }{
		{"", unnamed},
		{"-source " + home + "/nowhere", "no such file"},
		{"-source " + other, "does not begin with"},
		{"-source " + source, "go is not in PATH: install Go"},
		{"-name A", "want lower-case letters"},
		{"-name ../x", "want lower-case letters"},
		{"-name .. -uninstall", "no '.' first"},
		{"-uninstall", "no kernelspec"},
		{"-prefix=", "want the directory of an environment"},
		{"-prefix= -user", "want one"},
	} {
		var stdout, stderr bytes.Buffer
		code := gaiden(append([]string{"install"}, strings.Fields(tt.args)...), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), tt.want) {
			t.Errorf("install %s: got status %d, %q; want 1, %q", tt.args, code, stderr.String(), tt.want)
		}
	}
}
