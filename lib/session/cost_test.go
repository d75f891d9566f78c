package session

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// TestCostMeter holds that a meter has what processes report to it, whether or
// not they end well, and gives it once.
func TestCostMeter(t *testing.T) {
	m, err := NewCostMeter()
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(m.Environ(), "=")
	other, err := openTally(value)
	if err != nil {
		t.Fatal(err)
	}
	other.program(&Program{Trace: time.Millisecond, Took: time.Second, From: 3})
	other.program(&Program{From: 1})
	other.program(&Program{From: 2})
	other.moved(costUpload, time.Now().Add(-time.Second), 100)
	other.moved(costDownload, time.Now().Add(-time.Second), 10)
	other.since(costDevice, time.Now().Add(-time.Second))
	got := m.Take()
	for _, d := range []time.Duration{got.Upload, got.Download, got.Device} {
		if d < time.Second || d > time.Minute {
			t.Errorf("got %+v, want a second of each", got)
		}
	}
	got.Upload, got.Download, got.Device = 0, 0, 0
	want := Cost{Graph: time.Millisecond, Compile: time.Second, Compiled: 1, Loaded: 1, Ready: 1, UploadBytes: 100, DownloadBytes: 10}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := m.Take(); got != (Cost{}) {
		t.Errorf("a second time: got %+v, want nothing", got)
	}
}

// TestCostMeterGone holds that a process which has inherited the environment of a kernel
// that has ended writes into no other file, whatever has the number of its descriptor now.
func TestCostMeterGone(t *testing.T) {
	m, err := NewCostMeter()
	if err != nil {
		t.Fatal(err)
	}
	_, value, _ := strings.Cut(m.Environ(), "=")
	token, path, _ := strings.Cut(value, "@")
	fd := int(m.file.Fd())
	another := strings.Repeat("x", tokenSize)
	for _, tt := range []struct{ name, text, value string }{
		{"a longer file", strings.Repeat("data", 1000), value},
		{"a file of that size", strings.Repeat("d", int(meterSize)), value},
		{"another kernel's meter", another + strings.Repeat("\x00", int(meterSize)-tokenSize), value},
		{"a short file", token, value},
		{"an empty file", "", value},
		{"the path alone, as it was once", strings.Repeat("d", int(meterSize)), path},
		{"no path", "", token + "@"},
		{"nothing", "", ""},
	} {
		file := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(file, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Dup3(int(f.Fd()), fd, syscall.O_CLOEXEC); err != nil { // the number is this file's now
			t.Fatal(err)
		}
		f.Close()
		if x, err := openTally(tt.value); err == nil {
			x.add(costGraph, 1)
			t.Errorf("%s: it was taken for the meter", tt.name)
		}
		if got, err := os.ReadFile(file); err != nil || string(got) != tt.text {
			t.Errorf("%s: the file has changed (%v)", tt.name, err)
		}
	}
}

// TestCostIsCounted holds that what a connection does is counted.
func TestCostIsCounted(t *testing.T) {
	s := serve(t).open("cost")
	before := *spent()
	shape := shapes.Make(dtypes.Float32, 100)
	a, err := s.Put(make([]float32, 100), shape, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Values(make([]float32, 100)); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(); err != nil {
		t.Fatal(err)
	}
	after := *spent()
	for _, what := range []int{costUpload, costUploadBytes, costDownload, costDownloadBytes, costDevice} {
		if after[what] <= before[what] {
			t.Errorf("count %d: got %d after %d, want more", what, after[what], before[what])
		}
	}
}
