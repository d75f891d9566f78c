package tensorboard

import (
	"bytes"
	"errors"
	"flag"
	"image"
	"image/color"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write testdata/events.tfevents; then run testdata/read.py")

// The file is byte for byte the one that TensorBoard's reader has read: testdata/read.py
// checks it and writes what it saw to testdata/events.txt.
func TestEvents(t *testing.T) {
	dir := t.TempDir()
	w, err := Create(filepath.Join(dir, "run"))
	if err != nil {
		t.Fatal(err)
	}
	w.now = func() time.Time { return time.Unix(1_700_000_000, 250_000_000) }
	picture := image.NewNRGBA(image.Rect(0, 0, 3, 2))
	picture.Set(1, 1, color.NRGBA{255, 0, 0, 255})
	nan := float32(math.NaN())
	for _, err := range []error{
		w.Scalar("loss", 1, 2.5), w.Scalar("loss", 2, 0.125), w.Scalar("loss", math.MaxInt32+1, -1e30), w.Scalar("größe", 0, math.Inf(1)),
		w.Histogram("weights", 2, []float32{-1, 0, 0.5, 0.5, 2, nan}), w.Histogram("same", 2, []float32{3, 3, 3}), w.Histogram("none", 2, nil),
		w.Image("sample", 2, picture), w.Text("settings", 0, "| batch | 32 |"),
		w.Graph([]Node{{"input", "Placeholder", nil}, {"conv", "Conv2D", []string{"input"}}, {"sum", "Add", []string{"conv", "input"}}}),
		w.Flush(), w.Close(), w.Close(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Scalar("loss", 3, 1); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("after Close: got %v, want an error", err)
	}
	files, _ := filepath.Glob(filepath.Join(dir, "run", "events.out.tfevents.*"))
	if len(files) != 1 {
		t.Fatalf("got files %v, want one", files)
	}
	got, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	first := len(versionRecord()) // which has the time of Create
	got = got[first:]
	golden := filepath.Join("testdata", "events.tfevents")
	if *update {
		if err := os.WriteFile(golden, append(versionRecord(), got...), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if want = want[first:]; !bytes.Equal(got, want) {
		t.Errorf("got %d bytes %x, want %d bytes %x", len(got), got, len(want), want)
	}
}

func versionRecord() []byte {
	e := double(nil, 1, 1.7e9)
	return record(text(number(e, 2, 0), 3, "brain.Event:2"))
}

// The sums are those of the specification's test vectors: RFC 3720, B.4.
func TestRecord(t *testing.T) {
	r := record(make([]byte, 32))
	sum := uint32(0x8a9136aa)
	want := sum>>15 | sum<<17
	want += 0xa282ead8
	if got := uint32(r[44]) | uint32(r[45])<<8 | uint32(r[46])<<16 | uint32(r[47])<<24; got != want {
		t.Errorf("32 zeros: got %08x, want %08x", got, want)
	}
}

func TestBadFolder(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var pe *fs.PathError
	if _, err := Create(file); !errors.As(err, &pe) {
		t.Errorf("got %v, want one that names the path", err)
	}
}
