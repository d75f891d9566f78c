package cell

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestCloseEndsLinker: a builder that is closed leaves no half-made linker behind.
func TestCloseEndsLinker(t *testing.T) {
	dir := t.TempDir()
	command, began := filepath.Join(dir, "go"), filepath.Join(dir, "began")
	script := "#!/bin/sh\n[ \"$1\" = build ] || exec go \"$@\"\n>BEGAN\nexec sleep 600\n"
	if err := os.WriteFile(command, []byte(strings.ReplaceAll(script, "BEGAN", began)), 0o700); err != nil {
		t.Fatal(err)
	}
	b := &Builder{Module: &Module{Go: command}, Linkers: filepath.Join(dir, "linkers")}
	done := make(chan bool)
	b.mu.Lock()
	b.beginLinker()
	b.mu.Unlock()
	go func() { b.making.Wait(); close(done) }()
	for {
		if _, err := os.Stat(began); err == nil {
			break
		}
		select {
		case <-done:
			t.Skip("the linker of this Go is not known; run it with the Go that go.mod names")
		case <-time.After(5 * time.Millisecond):
		}
	}
	b.Close()
	<-done
	if files, _ := os.ReadDir(b.Linkers); len(files) > 0 {
		t.Errorf("got %v, want nothing left", files)
	}
}

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
			b.Builder = &Builder{Module: b.Composer.Module, Linkers: t.TempDir()}
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
