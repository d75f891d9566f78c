package build_test

import (
	"bytes"
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// objectHeader is the line by which compiler and linker know whether objects fit
// to each other: system, version and settings.
func objectHeader(t *testing.T, archive string) string {
	t.Helper()
	data, err := os.ReadFile(archive)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := bytes.Cut(data, []byte("\ngo object "))
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	if !ok {
		t.Fatalf("%s has no header", archive)
	}
	return string(line)
}

// TestSettings: Go's settings hold for packages, cells and programs alike, wherever
// they were written, with a cache that was made with others, in a kernel's life too.
func TestSettings(t *testing.T) {
	if runtime.GOARCH != "amd64" {
		t.Skip("GOAMD64 is a setting of amd64: run it on such a machine")
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "goenv")
	t.Setenv("GOENV", file)
	t.Setenv("GOAMD64", "")
	t.Setenv("GOEXPERIMENT", "")
	cache := filepath.Join(dir, "cache")
	steps := []struct {
		name, text string // of Go's file of settings
		env        map[string]string
		old        bool // the kernel of the step before
		want       string
	}{
		{name: "none", want: "GOAMD64=v1"},
		{name: "environment", env: map[string]string{"GOAMD64": "v2"}, want: "GOAMD64=v2"},
		{name: "no more", env: map[string]string{"GOAMD64": ""}, want: "GOAMD64=v1"},
		{name: "go env -w", text: "GOAMD64=v2\n", want: "GOAMD64=v2"},
		{name: "go env -w in a kernel's life", text: "GOAMD64=v1\n", old: true, want: "GOAMD64=v1"},
		{name: "another system", text: "GOOS=windows\nGOARCH=arm64\n", want: "linux amd64"},
		{name: "flags", text: "GOFLAGS=-mod=vendor\n", want: "GOAMD64=v1"},
		{name: "experiment", env: map[string]string{"GOEXPERIMENT": "jsonv2"}, want: "jsonv2"},
		{name: "experiment in Go's file", env: map[string]string{"GOEXPERIMENT": ""}, text: "GOEXPERIMENT=jsonv2\n", want: "jsonv2"},
	}
	var b *bench
	for _, s := range steps {
		if err := os.WriteFile(file, []byte(s.text), 0o600); err != nil {
			t.Fatal(err)
		}
		for name, value := range s.env {
			t.Setenv(name, value)
		}
		if !s.old {
			b = newKernel(t, "", cache)
		}
		// The first is in the cache, the second has to be built.
		for _, cell := range []string{`fmt.Print("same")`, `fmt.Print("` + s.name + `")`} {
			if out, _, err := b.run(cell); err != nil || out != cell[11:len(cell)-2] {
				t.Errorf("%s: got %q, %v; want %s", s.name, out, err, cell[11:len(cell)-2])
			}
		}
		fmt, main := objectHeader(t, b.Builder.Module.Compiled()["fmt"].Export), objectHeader(t, b.Object())
		if fmt != main || !bytes.Contains([]byte(main), []byte(s.want)) {
			t.Errorf("%s: got fmt of %q, cell of %q; want both with %q", s.name, fmt, main, s.want)
		}
	}
}
