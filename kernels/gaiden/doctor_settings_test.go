package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// TestDoctorSettings: the doctor knows what of Go's settings reaches the cells.
func TestDoctorSettings(t *testing.T) {
	level := func(state string) string {
		if runtime.GOARCH != "amd64" {
			return "" // it has no such setting
		}
		return state
	}
	for _, c := range []struct{ name, env, file, state, says string }{
		{name: "none"},
		{name: "level in the environment", env: "GOAMD64=v2", state: level("ok"), says: "GOAMD64=v2"},
		{name: "level in Go's file", file: "GOAMD64=v2\n", state: level("ok"), says: "GOAMD64=v2"},
		{name: "no such level", env: "GOAMD64=v9", state: level("fail"), says: "want v1, v2, v3 or v4"},
		{name: "experiment", file: "GOEXPERIMENT=jsonv2\n", state: "ok", says: "GOEXPERIMENT=jsonv2"},
		{name: "no such experiment", env: "GOEXPERIMENT=strange", state: "fail", says: "unknown GOEXPERIMENT strange"},
		{name: "flags", env: "GOFLAGS=-tags=mine", state: "warn", says: "%goflags"},
		{name: "another proxy", env: "GOPROXY=https://proxy.example"},
	} {
		t.Run(c.name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "env")
			if err := os.WriteFile(file, []byte(c.file), 0o600); err != nil {
				t.Fatal(err)
			}
			for _, name := range []string{"GOAMD64", "GOEXPERIMENT", "GOFLAGS"} {
				t.Setenv(name, "")
			}
			t.Setenv("GOENV", file)
			if name, value, ok := strings.Cut(c.env, "="); ok {
				t.Setenv(name, value)
			}
			got := checkGo(t.Context())
			if n := len(got) - 1; got[n].State == "ok" && strings.Contains(got[n].Found, runtime.Version()) {
				got = got[:n]
			}
			if c.state == "" {
				if len(got) > 0 {
					t.Errorf("got %v, want nothing", got)
				}
				return
			}
			if len(got) != 1 || got[0].State != c.state || !strings.Contains(got[0].Found+got[0].Do, c.says) {
				t.Errorf("got %v, want %s with %q", got, c.state, c.says)
			}
		})
	}
}
