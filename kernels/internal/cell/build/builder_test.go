package build

import (
	"os"
	"path/filepath"
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
