package data

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// oracle is a file that a script of testdata has written, with base64 for bytes.
func oracle(t testing.TB, name string, to any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name))
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPhotos compares images with what Pillow reads: turned as EXIF says, in CMYK, of one
// channel, of 16 bits, with alpha, with a palette.
func TestPhotos(t *testing.T) {
	var files map[string]struct {
		File          []byte
		Height, Width int
		Pixels        []byte // RGB
	}
	oracle(t, "photos.json", &files)
	for name, want := range files {
		img, err := decodeImage(want.File)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := img.Bounds().Size(); got != (image.Point{want.Width, want.Height}) {
			t.Errorf("%s: got %v, want %d×%d", name, got, want.Width, want.Height)
			continue
		}
		got, worst := make([]byte, len(want.Pixels)), 0
		resize(got, img, want.Height, want.Width, 3)
		for i := range got {
			worst = max(worst, max(int(got[i])-int(want.Pixels[i]), int(want.Pixels[i])-int(got[i])))
		}
		if worst > 3 { // JPEG decoders differ in their last bits
			t.Errorf("%s: pixels differ by %d: got %v, want %v", name, worst, got[:12], want.Pixels[:12])
		}
	}
}

func pngFile(t testing.TB, height, width int, v byte) []byte {
	img := image.NewGray(image.Rect(0, 0, width, height))
	for i := range img.Pix {
		img.Pix[i] = v
	}
	img.Set(0, 0, color.Gray{255 - v})
	var b bytes.Buffer
	if err := png.Encode(&b, img); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tree writes files below a directory.
func tree(t *testing.T, files map[string][]byte) string {
	t.Helper()
	dir := t.TempDir()
	for name, b := range files {
		path := filepath.Join(dir, name)
		os.MkdirAll(filepath.Dir(path), 0o700)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestFolders(t *testing.T) {
	img := pngFile(t, 2, 3, 7)
	dir := tree(t, map[string][]byte{"a/1.png": img, "a/2.png": pngFile(t, 4, 6, 9), "b/1.png": img, "b/.DS_Store": {1}, ".cache/x": {1}})
	if err := os.Symlink(filepath.Join(dir, "a"), filepath.Join(dir, "c")); err != nil {
		t.Skipf("needs symbolic links: %v; set TMPDIR to a folder of a file system that has them", err)
	}
	s, err := Images{Gray: true}.Read(dir)
	if err != nil || s.String() != "5 images, 2×3×1, 3 classes" || !strings.Contains(s.HTML(), "data:image/png;base64,") || !slices.Equal(s.Names([]int32{2}), []string{"c"}) {
		t.Errorf("got %v, %v, want the link's images too", s, err)
	}
	if _, _, err := (Images{}).Stream(dir, 0, 1); err == nil || !strings.Contains(err.Error(), "Images.Stream of 0 files at a time") {
		t.Errorf("no files at a time: got error %v", err)
	}
	if _, _, err := (Images{Height: 1 << 40, Width: 1 << 40}).Stream(dir, 1, 1); err == nil || !strings.Contains(err.Error(), "65536 at most") {
		t.Errorf("a size that has no product: got error %v", err)
	}
	all, set, err := Images{Height: 2, Width: 3}.Stream(dir, 2, 1)
	if err != nil || len(set.Files) != 5 {
		t.Fatalf("got %v, %v", set, err)
	}
	var orders [][]int32
	for range 2 {
		var labels []int32
		for e, err := range all {
			if err != nil {
				t.Fatal(err)
			}
			labels = append(labels, e.Y.([]int32)...)
		}
		orders = append(orders, labels)
	}
	if counts := map[int32]int{}; len(orders[0]) != 5 || slices.Equal(orders[0], orders[1]) {
		t.Errorf("got %v %v, want all in an order of each epoch's own", orders, counts)
	}
	if s, err := (Images{Classes: []string{"c", "b", "a"}}).Read(dir); err != nil || !reflect.DeepEqual(s.Y, []int32{2, 2, 1, 0, 0}) {
		t.Errorf("got %v, %v, want the labels of Classes", s, err)
	}
	_, err = Images{Classes: []string{"a", "b"}}.Read(dir)
	wants(t, "another class", err, `class "c" is none of Classes ["a" "b"]`)
	for _, tt := range []struct {
		name  string
		files map[string][]byte
		want  string
	}{
		{"an empty class", map[string][]byte{"a/1.png": img, "b/.x": nil}, "b: no files: want PNG, JPEG or GIF files of the class, or no such folder"},
		{"files without folders", map[string][]byte{"1.png": img}, "1.png: got a file, want a folder for each class"},
		{"a folder in a class", map[string][]byte{"a/1.png": img, "a/x/1.png": img}, "1 of 2 files cannot be read: convert or remove them: read "},
		{"other files", map[string][]byte{"a/1.png": img, "a/2.png": img[:len(img)-30], "a/3.webp": []byte("RIFF....WEBP"), "a/Thumbs.db": []byte("\xd0\xcf"), "a/z.jpg": nil}, "4 of 5 files cannot be read"},
		{"an image that is cut off", map[string][]byte{"a/1.png": img, "a/2.png": img[:len(img)-30]}, "a/2.png: damaged: png: invalid format: not enough pixel data"},
		{"WebP", map[string][]byte{"a/1.png": img, "a/2.webp": []byte("RIFF....WEBP")}, "got WebP or WAV, want PNG, JPEG or GIF"},
	} {
		_, err := Images{}.Read(tree(t, tt.files))
		wants(t, tt.name, err, tt.want)
	}
	os.Symlink("/no/such/folder", filepath.Join(dir, "d"))
	_, err = Images{}.Read(dir)
	wants(t, "a link that leads nowhere", err, "a link that leads nowhere?")
	_, err = Images{}.Read(filepath.Join(dir, "nothing"))
	wants(t, "no folder", err, "no such file")
}

func TestWAV(t *testing.T) {
	var files map[string]struct {
		File     []byte
		Rate     int
		Channels int
		Samples  []float64
	}
	oracle(t, "wav.json", &files)
	for name, want := range files {
		got, err := readWAV(want.File)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got.Rate != want.Rate || got.Channels != want.Channels || !slices.EqualFunc(got.Samples, want.Samples, func(a float32, b float64) bool { return math.Abs(float64(a)-b) < 1e-6 }) {
			t.Errorf("%s: got %v %v, want %+v", name, got, got.Samples, want)
		}
	}
	var b bytes.Buffer
	if err := (&Sound{8000, 2, []float32{0, 0.5, -1, 1}}).WriteWAV(&b); err != nil {
		t.Fatal(err)
	}
	whole := b.Bytes()
	if s, err := readWAV(whole); err != nil || !reflect.DeepEqual(s, &Sound{8000, 2, []float32{0, 0.5, -1, 32767. / 32768}}) || s.String() != "0.00025 s of sound, 8000 Hz, 2 channels" {
		t.Errorf("got %v, %v", s, err)
	}
	changed := func(at int, v ...byte) []byte {
		l := slices.Clone(whole)
		copy(l[at:], v)
		return l
	}
	for _, tt := range []struct {
		name string
		file []byte
		want string
	}{
		{"MP3", []byte("ID3............."), "no WAV: it does not begin with RIFF and WAVE"},
		{"cut off", whole[:len(whole)-1], "7 bytes of samples, want 8: the file is cut off"},
		{"no samples", whole[:36], "want a chunk named data"},
		{"ADPCM", changed(20, 2), "samples of 16 bits in format 2: want PCM"},
		{"12 bits", changed(34, 12), "samples of 12 bits in format 1"},
		{"no channels", changed(22, 0), "0 channels of 8000 samples a second"},
		{"NaN", append(changed(20, 3)[:34], append([]byte{32, 0}, append(whole[36:44:44], 0, 0, 0xc0, 0x7f, 0, 0, 0, 0)...)...), "sample 0 is NaN"},
	} {
		_, err := readWAV(tt.file)
		wants(t, tt.name, err, tt.want)
	}
	if s, err := readWAV(changed(40, 255, 255, 255, 255)); err != nil || s.Len() != 2 {
		t.Errorf("got %v, %v, want what a pipe has written", s, err)
	}
}

func TestSounds(t *testing.T) {
	wav := func(s Sound) []byte {
		var b bytes.Buffer
		s.WriteWAV(&b)
		return b.Bytes()
	}
	dir := tree(t, map[string][]byte{"a/1.wav": wav(Sound{8000, 1, []float32{0.5, 0.5, 0.5}}), "b/1.wav": wav(Sound{8000, 1, []float32{0.25}})})
	s, err := Sounds{}.Read(dir)
	if err != nil || !reflect.DeepEqual(s.X, Array{[]int{2, 3, 1}, []float32{0.5, 0.5, 0.5, 0.25, 0, 0}}) || !reflect.DeepEqual(s.Y, []int32{0, 1}) {
		t.Errorf("got %v, %v", s, err)
	}
	dir = tree(t, map[string][]byte{"a/1.wav": wav(Sound{8000, 1, []float32{0.5, 0.5}}), "b/1.wav": wav(Sound{16000, 2, []float32{0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5}})})
	_, err = Sounds{}.Read(dir)
	wants(t, "two channels", err, "1.wav: 2 channels, want 1, as the first file has: set Mono")
	_, err = Sounds{Mono: true}.Read(dir)
	wants(t, "another rate", err, "b/1.wav: 16000 Hz, want 8000, as the first file has: set Rate")
	if s, err = (Sounds{Mono: true, Rate: 4000, Samples: 2}).Read(dir); err != nil || !reflect.DeepEqual(s.X, Array{[]int{2, 2, 1}, []float32{0.5, 0, 0.5, 0}}) {
		t.Errorf("got %v, %v, want sounds of one sample, and silence", s.X, err)
	}
	if all, _, err := (Sounds{Mono: true, Rate: 8000, Samples: 2}).Stream(dir, 1, 1); err != nil {
		t.Error(err)
	} else {
		for e, err := range all {
			if err != nil || e.N != 1 {
				t.Errorf("got %v, %v", e, err)
			}
		}
	}
	_, _, err = Sounds{}.Stream(dir, 1, 1)
	wants(t, "a stream of any length", err, "Samples is 0")
}

func TestNumPyForms(t *testing.T) {
	var cases map[string]string
	oracle(t, "npy.json", &cases)
	for name, want := range map[string]Array{
		"fortran":  {[]int{2, 3}, []float32{0, 1, 2, 3, 4, 5}},
		"fortran3": {[]int{2, 3, 2}, []int32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}},
		"half":     {[]int{4}, []float32{0.5, -2, float32(math.Inf(1)), 5.9604645e-08}},
	} {
		b, _ := base64.StdEncoding.DecodeString(cases[name])
		if a, err := NPY(write(t, "x.npy", string(b))); err != nil || !reflect.DeepEqual(a, want) {
			t.Errorf("%s: got %v, %v, want %v", name, a, err, want)
		}
	}
	b, _ := base64.StdEncoding.DecodeString(cases["objects"])
	_, err := NPY(write(t, "x.npy", string(b)))
	wants(t, "objects", err, "it holds Python objects: want numbers or bools")
}

// bounded fails if reading a file allocates more than its size lets expect.
func bounded(t *testing.T, size int, read func()) {
	t.Helper()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read()
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; used > 1<<28+uint64(size)<<13 {
		t.Errorf("%d bytes are allocated for a file of %d", used, size)
	}
}

// TestBounded holds that small files that promise much take little memory.
func TestBounded(t *testing.T) {
	head := fmt.Sprintf("\x93NUMPY\x01\x00\x76\x00%-117s\n", "{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000,), }")
	var z bytes.Buffer
	w := zip.NewWriter(&z)
	f, err := w.CreateRaw(&zip.FileHeader{Name: "x.npy", Method: zip.Store, CompressedSize64: uint64(len(head)), UncompressedSize64: uint64(len(head)) + 4e9})
	if err != nil {
		t.Fatal(err)
	}
	f.Write([]byte(head))
	w.Close()
	path := write(t, "x.npz", z.String())
	bounded(t, z.Len(), func() {
		_, err := NPZ(path)
		wants(t, "an archive", err, "x.npy: ")
	})
	img := pngFile(t, 2, 2, 1)
	binary.BigEndian.PutUint32(img[16:], 60000)
	binary.BigEndian.PutUint32(img[20:], 60000)
	bounded(t, len(img), func() {
		_, err := decodeImage(img)
		wants(t, "an image", err, "")
	})
	lines := strings.Builder{}
	for i := range 20000 {
		fmt.Fprintf(&lines, "{\"k%d\":1}\n", i)
	}
	bounded(t, lines.Len(), func() {
		_, err := JSONLines{}.read("f.jsonl", []byte(lines.String()))
		wants(t, "keys that differ", err, "different keys, and few in common")
	})
}

func FuzzCSV(f *testing.F) {
	for _, s := range []string{houses, "a;b\r\n1,5;\"x\n\"\r\n", ",a\n0,2024-01-02\n", "\x1f\x8b\x08\x00", "a\n$1\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			r, err := plain(bytes.NewReader(b))
			if err != nil {
				return
			}
			x, err := CSV{}.read("f.csv", r)
			if err != nil {
				return
			}
			if err := x.check(); err != nil || x.Len() == 0 || x.String() == "" || x.HTML() == "" {
				t.Errorf("got %v, %v", x, err)
			}
			if e, err := x.Encoder(""); err == nil {
				if _, err := e.Encode(x); err != nil && !strings.Contains(err.Error(), "finite") {
					t.Error(err)
				}
			}
		})
	})
}

func FuzzJSONLines(f *testing.F) {
	for _, s := range []string{`{"a":1}{"a":null,"b":"x"}`, `[{"a":{"b":true}}]`, `{"a":"2024-01-02"}`, `{"a":1e999}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			if x, err := (JSONLines{}).read("f.jsonl", b); err == nil && (x.check() != nil || x.Len() == 0) {
				t.Errorf("got %v, %v", x, x.check())
			}
		})
	})
}

func FuzzWAV(f *testing.F) {
	var b bytes.Buffer
	(&Sound{8000, 1, []float32{0, 1}}).WriteWAV(&b)
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			if s, err := readWAV(b); err == nil && (s.Len() == 0 || len(s.Samples) > len(b)) {
				t.Errorf("got %v of %d bytes", s, len(b))
			}
		})
	})
}

func FuzzImage(f *testing.F) {
	f.Add(pngFile(f, 2, 2, 1))
	var files map[string]struct{ File []byte }
	oracle(f, "photos.json", &files)
	for _, x := range files {
		f.Add(x.File)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		bounded(t, len(b), func() {
			if img, err := decodeImage(b); err == nil {
				resize(make([]byte, 12), img, 2, 2, 3)
			}
		})
	})
}

func TestWords(t *testing.T) {
	dir := tree(t, map[string][]byte{"bad/1.txt": []byte("Don't go, no no!"), "good/1.txt": []byte("Zürich: go 2 go\n")})
	s, err := Texts{}.Read(dir)
	if err != nil || s.String() != "2 texts, 2 classes: bad, good" || !slices.Equal(s.Labels, []int32{0, 1}) {
		t.Fatalf("got %v, %v", s, err)
	}
	w := WordsOf(s.Texts, 3)
	if !slices.Equal(w.Words, []string{"go", "no", "2"}) || w.Vocab() != 5 {
		t.Errorf("got %q, want the most frequent words", w.Words)
	}
	if got := w.Rows(s.Texts, 4); !reflect.DeepEqual(got, Array{[]int{2, 4}, []int32{1, 1, 2, 3, 1, 2, 4, 2}}) {
		t.Errorf("got %v", got)
	}
	if got := w.Rows([]string{"go"}, 3); !reflect.DeepEqual(got.Flat, []int32{2, 0, 0}) || !slices.Equal(w.Encode("NO x"), []int32{3, 1}) {
		t.Errorf("got %v", got)
	}
	os.WriteFile(filepath.Join(dir, "bad", "2.txt"), []byte("a\n\xff"), 0o600)
	_, err = Texts{}.Read(dir)
	wants(t, "Latin-1", err, "bad/2.txt:2: byte 0xff")
}

// TestFolderPanics: a decoder that panics is an error of its file, in a goroutine too.
func TestFolderPanics(t *testing.T) {
	read := 0
	err := folder{files: []string{"good.png", "bad.png"}}.all(func(i int) error {
		if i == 1 {
			panic("index out of range")
		}
		read++
		return nil
	})
	if err == nil || read != 1 || !strings.Contains(err.Error(), "1 of 2 files cannot be read") || !strings.Contains(err.Error(), "bad.png: panic: index out of range") {
		t.Errorf("got %v after %d files, want an error of bad.png", err, read)
	}
}
