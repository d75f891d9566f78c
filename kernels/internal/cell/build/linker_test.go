package build_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"gaiden/kernels/internal/cell/build"
)

// TestNoLinker: cells run whatever became of the linker that loads packages ahead.
func TestNoLinker(t *testing.T) {
	version, err := exec.Command("go", "env", "GOVERSION").Output()
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name string
		make func(dir string) error
	}{
		{"no folder", func(dir string) error { return os.Remove(dir) }},
		{"none made", func(dir string) error { return nil }},
		{"another Go's", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "link-go1.99.1-000000000000"), []byte("#!/bin/sh\n"), 0o700)
		}},
		{"another Gaiden's", func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "link-"+strings.TrimSpace(string(version))+"-000000000000"), []byte("#!/bin/sh\n"), 0o700)
		}},
	}
	b := newBench(t, "")
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b.Builder.Close()
			b.Builder = &build.Builder{Module: b.Composer.Module, Linkers: t.TempDir()}
			if err := tt.make(b.Linkers); err != nil {
				t.Fatal(err)
			}
			b.Ahead("fmt")
			if out, _, err := b.run("fmt.Print(" + strconv.Itoa(i) + ")"); out != strconv.Itoa(i) || err != nil {
				t.Errorf("got %q, %v; want %d", out, err, i)
			}
		})
	}
}
