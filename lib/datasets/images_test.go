package datasets

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestDecodeIDX(t *testing.T) {
	tests := []struct {
		name string
		file []byte
		rank int
		dims []int
		says string
	}{
		{"labels", []byte{0, 0, 8, 1, 0, 0, 0, 2, 7, 9}, 1, []int{2}, ""},
		{"no labels", []byte{0, 0, 8, 1, 0, 0, 0, 0}, 1, []int{0}, ""},
		{"images", encodeIDX([]int{1, 2, 2}, []byte{1, 2, 3, 4}), 3, []int{1, 2, 2}, ""},
		{"empty", nil, 1, nil, "got 0 bytes"},
		{"a web page", []byte("<html>"), 1, nil, "not an IDX file"},
		{"floats", []byte{0, 0, 13, 1, 0, 0, 0, 0}, 1, nil, "not an IDX file of bytes"},
		{"other rank", encodeIDX([]int{1}, []byte{1}), 3, nil, "got 1 dimensions, want 3"},
		{"no dimensions", []byte{0, 0, 8, 3, 0, 0, 0, 1}, 3, nil, "header ends after 1"},
		{"too short", encodeIDX([]int{3}, []byte{1}), 1, nil, "got 1 bytes of data, want 3"},
		{"too long", encodeIDX([]int{1}, []byte{1, 2}), 1, nil, "got 2 bytes of data, want 1"},
		{"huge", []byte{0, 0, 8, 3, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}, 3, nil, "too large"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dims, _, err := decodeIDX(tt.file, tt.rank)
			if tt.says != "" {
				if err == nil || !strings.Contains(err.Error(), tt.says) {
					t.Errorf("got %v, want an error with %q", err, tt.says)
				}
				return
			}
			if err != nil || !slices.Equal(dims, tt.dims) {
				t.Errorf("got %v, %v, want %v", dims, err, tt.dims)
			}
		})
	}
}

func FuzzDecodeIDX(f *testing.F) {
	f.Add([]byte{0, 0, 8, 1, 0, 0, 0, 2, 7, 9}, 1)
	f.Add(encodeIDX([]int{1, 2, 2}, []byte{1, 2, 3, 4}), 3)
	f.Fuzz(func(t *testing.T, file []byte, rank int) {
		if rank < 0 || rank > 300 {
			return
		}
		dims, data, err := decodeIDX(file, rank)
		if err != nil {
			return
		}
		size := 1
		for _, d := range dims {
			size *= d
		}
		if len(dims) != rank || len(data) != size {
			t.Errorf("got %d bytes in %v, want %d dimensions", len(data), dims, rank)
		}
	})
}

func TestCIFAR(t *testing.T) {
	record := make([]byte, cifarRecord)
	record[0] = 3
	for p := range cifarPlane {
		record[1+p], record[1+cifarPlane+p], record[1+2*cifarPlane+p] = byte(p), byte(p+1), byte(p+2)
	}
	s, err := decodeCIFAR(append(bytes.Clone(record), record...))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Image(1)[3*5:3*5+3], []byte{5, 6, 7}; !bytes.Equal(got, want) {
		t.Errorf("pixel 5: got %v, want %v", got, want)
	}
	if got, want := s.Labels, []int32{3, 3}; !slices.Equal(got, want) {
		t.Errorf("labels: got %v, want %v", got, want)
	}
	if _, err := decodeCIFAR(record[1:]); err == nil {
		t.Error("a cut record: got no error")
	}
}

// tinyCIFAR is an archive of the true layout with 2 records in each member.
func tinyCIFAR(label byte) (*archive, map[string][]byte) {
	a := cifar10
	a.member = 2 * cifarRecord
	var tarred bytes.Buffer
	w := tar.NewWriter(&tarred)
	for _, name := range append([]string{"readme.html"}, a.members...) {
		data := bytes.Repeat([]byte{label}, int(a.member))
		w.WriteHeader(&tar.Header{Name: "cifar-10-batches-bin/" + name, Size: int64(len(data)), Mode: 0o644, Typeflag: tar.TypeReg})
		w.Write(data)
	}
	w.Close()
	packed := pack(tarred.Bytes())
	sum := sha256.Sum256(packed)
	a.packed = file{a.packed.name, int64(len(packed)), hex.EncodeToString(sum[:])}
	return &a, map[string][]byte{a.packed.name: packed}
}

func TestArchive(t *testing.T) {
	a, files := tinyCIFAR(4)
	m := newMirror(t, files)
	o := Options{Dir: t.TempDir(), Mirrors: []string{newMirror(t, nil).URL, m.URL}}
	images, err := a.load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := images.String(), "CIFAR-10: 10 train and 2 test images, 32×32×3, 10 classes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	place(t, filepath.Join(o.Dir, "cifar10", a.unpacked), []byte("damaged"))
	images, err = a.load(t.Context(), o)
	if err != nil || len(images.Warnings) != 1 {
		t.Fatalf("after damage: got %v, %v, want one warning", images, err)
	}
	if _, err = a.load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if got, want := len(m.asked()), 2; got != want {
		t.Errorf("got %d requests, want %d", got, want)
	}
	if _, err := os.Stat(filepath.Join(o.Dir, "cifar10", a.packed.name)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the packed file is still there: %v", err)
	}
}

func TestArchiveResumesAndRefuses(t *testing.T) {
	a, files := tinyCIFAR(4)
	_, wrong := tinyCIFAR(5)
	part := a.packed.name + ".part"
	t.Run("resumed", func(t *testing.T) {
		m := newMirror(t, files)
		o := Options{Dir: t.TempDir(), Mirrors: []string{m.URL}}
		place(t, filepath.Join(o.Dir, "cifar10", part), files[a.packed.name][:50])
		if _, err := a.load(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		if got, want := m.asked(), []string{a.packed.name + " bytes=50-"}; !equal(got, want) {
			t.Errorf("got requests %q, want %q", got, want)
		}
	})
	t.Run("another file", func(t *testing.T) {
		o := Options{Dir: t.TempDir(), Mirrors: []string{newMirror(t, wrong).URL}}
		_, err := a.load(t.Context(), o)
		if damaged := new(ChecksumError); !errors.As(err, &damaged) {
			t.Errorf("got %v, want a ChecksumError", err)
		}
	})
	t.Run("placed by hand", func(t *testing.T) {
		o := Options{Dir: t.TempDir(), Offline: true}
		place(t, filepath.Join(o.Dir, "cifar10", a.packed.name), files[a.packed.name])
		if _, err := a.load(t.Context(), o); err != nil {
			t.Error(err)
		}
	})
}

func TestSynthetic(t *testing.T) {
	a, err := Synthetic(1, 600, 28, 28, 1)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Synthetic(1, 600, 28, 28, 1)
	c, _ := Synthetic(2, 600, 28, 28, 1)
	if !bytes.Equal(a.Train.Pixels, b.Train.Pixels) || !slices.Equal(a.Test.Labels, b.Test.Labels) {
		t.Error("one seed made two different sets")
	}
	if bytes.Equal(a.Train.Pixels, c.Train.Pixels) {
		t.Error("two seeds made the same set")
	}
	if sum, want := sha256.Sum256(a.Train.Pixels), "e6aeac39"; hex.EncodeToString(sum[:4]) != want {
		t.Errorf("the pixels of seed 1 have the sum %x, want %s: figures of earlier runs no longer compare", sum[:4], want)
	}
	if a.Train.Len() != 600 || a.Test.Len() != 100 {
		t.Errorf("got %d and %d images, want 600 and 100", a.Train.Len(), a.Test.Len())
	}
	if accuracy := nearestMean(a); accuracy < 0.8 {
		t.Errorf("the nearest class mean is right for %.2f of the test images, want 0.8: nothing to learn here", accuracy)
	}
	for _, bad := range [][4]int{{-1, 28, 28, 1}, {1, 0, 28, 1}, {1, 28, -1, 1}, {1, 28, 28, 0}, {1 << 28, 1 << 14, 1 << 14, 1 << 10}} {
		if _, err := Synthetic(1, bad[0], bad[1], bad[2], bad[3]); err == nil {
			t.Errorf("sizes %v: got no error", bad)
		}
	}
	if small, err := Synthetic(1, 7, 1, 3, 2); err != nil || small.check() != nil {
		t.Errorf("1×3×2: got %v, %v", small, err)
	}
}

// nearestMean is the share of test images whose nearest class mean, over the
// train images, is that of their own class.
func nearestMean(m *Images) float64 {
	means := make([][]float64, len(m.Classes))
	count := make([]float64, len(m.Classes))
	for i, label := range m.Train.Labels {
		if means[label] == nil {
			means[label] = make([]float64, m.Size())
		}
		count[label]++
		for p, v := range m.Train.Image(i) {
			means[label][p] += float64(v)
		}
	}
	right := 0
	for i, label := range m.Test.Labels {
		best, distance := -1, math.Inf(1)
		for c, mean := range means {
			d := 0.0
			for p, v := range m.Test.Image(i) {
				e := float64(v) - mean[p]/count[c]
				d += e * e
			}
			if d < distance {
				best, distance = c, d
			}
		}
		if best == int(label) {
			right++
		}
	}
	return float64(right) / float64(m.Test.Len())
}

func TestCurves(t *testing.T) {
	if got := Sine(5, 4); math.Abs(float64(got[1]-1)) > 1e-6 || math.Abs(float64(got[4])) > 1e-6 {
		t.Errorf("sine: got %v, want 0 1 0 -1 0", got)
	}
	s := Peaks(200)
	if len(s.X) != 2*200*200 || len(s.Y) != 200*200 || s.Axis[0] != -3 || s.Axis[199] != 3 {
		t.Errorf("peaks: got %d and %d values from %g to %g", len(s.X), len(s.Y), s.Axis[0], s.Axis[199])
	}
	// The known extremes of the function.
	if got := peaks(-0.0093, 1.5814); math.Abs(got-8.1062) > 1e-3 {
		t.Errorf("greatest: got %g, want 8.1062", got)
	}
	if got := peaks(0.2283, -1.6256); math.Abs(got+6.5511) > 1e-3 {
		t.Errorf("smallest: got %g, want -6.5511", got)
	}
	if got, want := s.Y[200*3+7], float32(peaks(float64(s.X[2*(200*3+7)]), float64(s.X[2*(200*3+7)+1]))); got != want {
		t.Errorf("row 607: got %g, want %g", got, want)
	}
	for _, n := range []int{-1, 0, 1} {
		if s, sine := Peaks(n), Sine(n, 1); len(s.Y) != max(n, 0)*max(n, 0) || len(sine) != max(n, 0) {
			t.Errorf("n=%d: got %d and %d values", n, len(s.Y), len(sine))
		}
	}
}

func TestImages(t *testing.T) {
	m, _ := Synthetic(1, 60, 4, 4, 3)
	cut := m.First(10, 99)
	if cut.Train.Len() != 10 || cut.Test.Len() != 10 || cut.check() != nil {
		t.Errorf("First(10, 99): got %v, want 10 and 10 images", cut)
	}
	if got := m.Train.Image(60); got != nil {
		t.Errorf("image 60 of 60: got %d bytes, want none", len(got))
	}
	if got := m.Train.Image(59); len(got) != 48 || cap(got) != 48 {
		t.Errorf("image 59: got %d bytes of %d, want 48 of 48", len(got), cap(got))
	}
	if got, want := m.Class(3)+m.Class(11)+m.Class(-1), "pattern 311-1"; got != want {
		t.Errorf("classes: got %q, want %q", got, want)
	}
	want, counts := 0, map[int32]int{}
	for _, label := range m.Train.Labels {
		if counts[label]++; counts[label] <= 8 {
			want++
		}
	}
	if page := m.HTML(); !strings.HasPrefix(page, "<div><div><small>synthetic 4×4×3 (seed 1): 60 train and 10 test images") || strings.Count(page, "<img src=") != want || !strings.Contains(page, `alt="image 0"`) {
		t.Errorf("got %.200s, want %d images", page, want)
	}
	labels := strings.Trim(fmt.Sprint(m.Train.Labels[:16]), "[]")
	if got, want := m.First(17, 0).Train.String()+(Split{}).String(), "17 images of 48 bytes, labels "+labels+" …no images"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	m.Train.Labels[5] = 10
	if err := m.check(); err == nil || !strings.Contains(err.Error(), "label 5 is 10") {
		t.Errorf("got %v, want an error for label 5", err)
	}
}

func TestLoad(t *testing.T) {
	for name, near := range map[string]string{"minst": "mnist", "cifar11": "cifar10", "fashon-mnist": "fashion-mnist", "imagenet": "", "": ""} {
		_, err := Load(name, Options{Context: t.Context()})
		missing := new(NameError)
		if !errors.As(err, &missing) || missing.Near != near {
			t.Errorf("%q: got %v, want a NameError near %q", name, err, near)
		}
	}
	for _, name := range []string{"MNIST", "fashion", "Fashion-MNIST", "CIFAR-10", "cifar10"} {
		_, err := Load(name, Options{Context: t.Context(), Dir: t.TempDir(), Offline: true, Exact: true})
		if missing := new(NameError); err == nil || errors.As(err, &missing) {
			// Fashion-MNIST may be installed on this machine.
			if err != nil || !strings.HasPrefix(strings.ToLower(name), "fashion") {
				t.Errorf("%q: got %v, want an UnavailableError", name, err)
			}
		}
	}
}
