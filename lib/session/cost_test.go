package session

import (
	"os"
	"strings"
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
	_, path, ok := strings.Cut(m.Environ(), "=")
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if !ok || err != nil {
		t.Fatalf("%s: %v", m.Environ(), err)
	}
	defer f.Close()
	other, err := mapTally(f)
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
