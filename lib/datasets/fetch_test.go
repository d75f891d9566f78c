package datasets

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tiny is a collection of 40 and 8 pictures with the true format and its own
// sums, and the packed files that a mirror has.
func tiny(t *testing.T, name string) (*collection, map[string][]byte) {
	t.Helper()
	made, err := Synthetic(uint64(len(name)), 48, 28, 28, 1)
	if err != nil {
		t.Fatal(err)
	}
	c := &collection{name: name, folder: strings.ToLower(name), classes: made.Classes}
	packed := map[string][]byte{}
	for i, f := range []struct {
		name string
		dims []int
		data []byte
	}{
		{"train-images-idx3-ubyte", []int{48, 28, 28}, made.Train.Pixels},
		{"train-labels-idx1-ubyte", []int{48}, narrow(made.Train.Labels)},
		{"t10k-images-idx3-ubyte", []int{8, 28, 28}, made.Test.Pixels},
		{"t10k-labels-idx1-ubyte", []int{8}, narrow(made.Test.Labels)},
	} {
		plain := encodeIDX(f.dims, f.data)
		sum := sha256.Sum256(plain)
		c.files[i] = file{f.name, int64(len(plain)), hex.EncodeToString(sum[:])}
		packed[f.name+".gz"] = pack(plain)
	}
	return c, packed
}

func narrow(labels []int32) []byte {
	b := make([]byte, len(labels))
	for i, l := range labels {
		b[i] = byte(l)
	}
	return b
}

func encodeIDX(dims []int, data []byte) []byte {
	b := []byte{0, 0, 8, byte(len(dims))}
	for _, d := range dims {
		b = append(b, byte(d>>24), byte(d>>16), byte(d>>8), byte(d))
	}
	return append(b, data...)
}

func pack(plain []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(plain)
	z.Close()
	return b.Bytes()
}

// A mirror is a real HTTP server whose faults can be chosen.
type mirror struct {
	*httptest.Server
	files map[string][]byte

	mu       sync.Mutex
	requests []string // "name range"
	answer   func(w http.ResponseWriter, r *http.Request, name string) bool
}

func newMirror(t *testing.T, files map[string][]byte) *mirror {
	m := &mirror{files: files}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		m.mu.Lock()
		m.requests = append(m.requests, strings.TrimSpace(name+" "+r.Header.Get("Range")))
		answer := m.answer
		m.mu.Unlock()
		if answer != nil && answer(w, r, name) {
			return
		}
		data, found := m.files[name]
		if !found {
			http.NotFound(w, r)
			return
		}
		http.ServeContent(w, r, name, time.Time{}, bytes.NewReader(data))
	}))
	t.Cleanup(m.Close)
	return m
}

func (m *mirror) asked() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return append([]string(nil), m.requests...)
}

func TestFirstLoadFetchesAndSecondDoesNot(t *testing.T) {
	c, files := tiny(t, "Tiny")
	m := newMirror(t, files)
	var heard []string
	last := map[string]int64{}
	o := Options{Dir: t.TempDir(), Mirrors: []string{m.URL}, Progress: func(what string, done, total int64) {
		if done < last[what] || done > total {
			t.Errorf("progress of %s: got %d of %d after %d", what, done, total, last[what])
		}
		last[what] = done
		if done == total {
			heard = append(heard, what)
		}
	}}
	place(t, filepath.Join(o.Dir, "tiny", "train-images-idx3-ubyte.new-1"), []byte("left by a killed program"))
	images, err := c.load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := images.String(), "Tiny: 48 train and 8 test images, 28×28×1, 10 classes"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if images.Source != m.URL {
		t.Errorf("source: got %q, want %q", images.Source, m.URL)
	}
	if got, want := len(heard), 4; got != want {
		t.Errorf("progress was complete for %v, want %d files", heard, want)
	}
	again, err := c.load(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(again.Train.Pixels, images.Train.Pixels) {
		t.Error("the second load has other pixels than the first")
	}
	if got, want := len(m.asked()), 4; got != want {
		t.Errorf("got %d requests %v, want %d: the second load needs none", got, m.asked(), want)
	}
	left, _ := filepath.Glob(filepath.Join(o.Dir, "tiny", "[^.]*"))
	if got, want := len(left), 4; got != want {
		t.Errorf("the folder has %v, want the %d files and no leavings", left, want)
	}
}

func TestDownloadGoesOnWhereItStopped(t *testing.T) {
	c, files := tiny(t, "Tiny")
	name := c.files[0].name + ".gz"
	half := len(files[name]) / 2
	m := newMirror(t, files)
	cuts := 0
	m.answer = func(w http.ResponseWriter, r *http.Request, asked string) bool {
		if asked != name || cuts > 0 {
			return false
		}
		cuts++
		w.Header().Set("Content-Length", strconv.Itoa(len(files[name])))
		w.Write(files[name][:half])
		panic(http.ErrAbortHandler) // the connection breaks here
	}
	if _, err := c.load(t.Context(), Options{Dir: t.TempDir(), Mirrors: []string{m.URL}}); err != nil {
		t.Fatal(err)
	}
	want := []string{name, fmt.Sprintf("%s bytes=%d-", name, half)}
	if got := m.asked()[:2]; !equal(got, want) {
		t.Errorf("got requests %q, want %q", got, want)
	}
}

func TestPartOfAnotherRunIsUsed(t *testing.T) {
	c, files := tiny(t, "Tiny")
	name := c.files[0].name + ".gz"
	whole := files[name]
	tests := []struct {
		name string
		part []byte
		want []string // requests for the file
	}{
		{"a good half", whole[:100], []string{name + " bytes=100-"}},
		{"all of it", whole, []string{fmt.Sprintf("%s bytes=%d-", name, len(whole))}},
		{"something else", bytes.Repeat([]byte("x"), 100), []string{name + " bytes=100-", name}},
		// gzip allows a second stream behind the first: only the sum sees it.
		{"longer than the file", append(bytes.Clone(whole), whole...), []string{fmt.Sprintf("%s bytes=%d-", name, 2*len(whole)), name}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			m := newMirror(t, files)
			o := Options{Dir: t.TempDir(), Mirrors: []string{m.URL}}
			place(t, filepath.Join(o.Dir, "tiny", name+".part"), tt.part)
			if _, err := c.load(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range m.asked() {
				if strings.HasPrefix(r, name) {
					got = append(got, r)
				}
			}
			if !equal(got, tt.want) {
				t.Errorf("got requests %q, want %q", got, tt.want)
			}
		})
	}
}

func TestDamagedFileIsReportedAndFetchedAgain(t *testing.T) {
	c, files := tiny(t, "Tiny")
	m := newMirror(t, files)
	o := Options{Dir: t.TempDir(), Mirrors: []string{m.URL}}
	if _, err := c.load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(o.Dir, "tiny", c.files[2].name)
	for _, damage := range []struct {
		name string
		make func([]byte) []byte
		says string
	}{
		{"one bit", func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "checksum is"},
		{"cut", func(b []byte) []byte { return b[:len(b)/2] }, "bytes"},
		{"empty", func(b []byte) []byte { return nil }, "got 0 bytes"},
	} {
		t.Run(damage.name, func(t *testing.T) {
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			place(t, path, damage.make(b))
			images, err := c.load(t.Context(), o)
			if err != nil {
				t.Fatal(err)
			}
			if len(images.Warnings) != 1 || !strings.Contains(images.String(), damage.says) || !strings.Contains(images.String(), "fetched again") {
				t.Errorf("got %q, want one warning with %q", images, damage.says)
			}
			images, err = c.load(t.Context(), o)
			if err != nil || len(images.Warnings) != 0 {
				t.Errorf("the load after it: got %v, %v, want no warning", images, err)
			}
		})
	}
}

func TestBadMirrors(t *testing.T) {
	c, files := tiny(t, "Tiny")
	good := newMirror(t, files)
	answers := func(status int, body string) *mirror {
		m := newMirror(t, files)
		m.answer = func(w http.ResponseWriter, r *http.Request, name string) bool {
			w.WriteHeader(status)
			w.Write([]byte(body))
			return true
		}
		return m
	}
	other, _ := tiny(t, "OtherName")
	_, wrong := tiny(t, "OtherName")
	if other.files[0].sha256 == c.files[0].sha256 {
		t.Fatal("the two collections are the same")
	}
	gone := newMirror(t, nil)
	gone.Close()
	tests := []struct {
		name   string
		mirror string
		says   string
	}{
		{"has nothing", newMirror(t, nil).URL, "404"},
		{"is broken", answers(500, "oh").URL, "500"},
		{"asks to log in", answers(200, "<html>please log in</html>").URL, "gzip"},
		{"is empty", answers(200, "").URL, "EOF"},
		{"has another set", newMirror(t, wrong).URL, "checksum"},
		{"has a giant", newMirror(t, map[string][]byte{c.files[0].name + ".gz": make([]byte, 1<<20)}).URL, "at most"},
		{"packs a giant", newMirror(t, map[string][]byte{c.files[0].name + ".gz": pack(make([]byte, 1<<24))}).URL, "checksum"},
		{"is switched off", gone.URL, "refused"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := c.load(t.Context(), Options{Dir: t.TempDir(), Mirrors: []string{tt.mirror}})
			unavailable := new(UnavailableError)
			if !errors.As(err, &unavailable) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("alone: got %v, want an UnavailableError with %q", err, tt.says)
			}
			images, err := c.load(t.Context(), Options{Dir: t.TempDir(), Mirrors: []string{tt.mirror, good.URL}})
			if err != nil {
				t.Fatalf("before a good one: %v", err)
			}
			if images.Source != good.URL {
				t.Errorf("source: got %q, want %q", images.Source, good.URL)
			}
		})
	}
}

func TestOfflineNamesTheAlternatives(t *testing.T) {
	c, _ := tiny(t, "Tiny")
	dir := t.TempDir()
	_, err := c.load(t.Context(), Options{Dir: dir, Offline: true})
	unavailable := new(UnavailableError)
	if !errors.As(err, &unavailable) {
		t.Fatalf("got %v, want an UnavailableError", err)
	}
	for _, want := range []string{filepath.Join(dir, "tiny"), "GAIDEN_DATA", "Fashion", "Synthetic", "train-images-idx3-ubyte"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %q lacks %q", err, want)
		}
	}
}

// A file that is damaged, and cannot be fetched again, is named.
func TestOfflineNamesTheDamage(t *testing.T) {
	c, files, o := byHand(t)
	path := filepath.Join(o.Dir, "tiny", c.files[1].name)
	for name := range files { // it could be unpacked again
		if name != c.files[1].name {
			os.Remove(filepath.Join(o.Dir, "tiny", name))
		}
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	kept[len(kept)-1]++
	place(t, path, kept)
	_, err = c.load(t.Context(), o)
	if damaged := new(ChecksumError); !errors.As(err, &damaged) || damaged.File != path || !strings.Contains(err.Error(), "checksum is ") {
		t.Errorf("got %v, want an error that names %s and its checksum", err, path)
	}
}

func TestFilesPlacedByHand(t *testing.T) { byHand(t) }

// byHand is a collection whose files were placed by hand, and have been read.
func byHand(t *testing.T) (*collection, map[string][]byte, Options) {
	t.Helper()
	c, files := tiny(t, "Tiny")
	o := Options{Dir: t.TempDir(), Offline: true}
	for name, data := range files {
		place(t, filepath.Join(o.Dir, "tiny", name), data)
	}
	if _, err := c.load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	return c, files, o
}

func TestTwoAtOnceFetchOnce(t *testing.T) {
	c, files := tiny(t, "Tiny")
	m := newMirror(t, files)
	dir := t.TempDir()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := c.load(t.Context(), Options{Dir: dir, Mirrors: []string{m.URL}}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got, want := len(m.asked()), 4; got != want {
		t.Errorf("got %d requests, want %d", got, want)
	}
}

func TestStopWhileWaiting(t *testing.T) {
	c, files := tiny(t, "Tiny")
	t.Run("for a mirror", func(t *testing.T) {
		m := newMirror(t, files)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		m.answer = func(w http.ResponseWriter, r *http.Request, name string) bool {
			w.WriteHeader(200)
			w.(http.Flusher).Flush()
			cancel()
			<-r.Context().Done() // the client hangs up
			return true
		}
		_, err := c.load(ctx, Options{Dir: t.TempDir(), Mirrors: []string{m.URL}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("got %v, want context.Canceled", err)
		}
	})
	t.Run("for the lock", func(t *testing.T) {
		o := Options{Dir: t.TempDir(), Offline: true}
		s, err := o.store(c.folder)
		if err != nil {
			t.Fatal(err)
		}
		unlock, err := s.lock(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer unlock()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := c.load(ctx, o); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want context.DeadlineExceeded", err)
		}
	})
}

func TestReadOnlyFolderIsEnoughWhenWhole(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root may write everywhere; run as an ordinary user to see this one")
	}
	c, files := tiny(t, "Tiny")
	m := newMirror(t, files)
	o := Options{Dir: t.TempDir(), Mirrors: []string{m.URL}}
	if _, err := c.load(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(o.Dir, "tiny")
	os.Chmod(folder, 0o555)
	defer os.Chmod(folder, 0o755)
	if _, err := c.load(t.Context(), o); err != nil {
		t.Error(err)
	}
}

func TestUnwritableFolder(t *testing.T) {
	c, _ := tiny(t, "Tiny")
	blocked := filepath.Join(t.TempDir(), "file")
	place(t, blocked, nil)
	_, err := c.load(t.Context(), Options{Dir: blocked, Offline: true})
	if err == nil || !strings.Contains(err.Error(), "GAIDEN_DATA") {
		t.Errorf("got %v, want an error that names GAIDEN_DATA", err)
	}
}

func TestFailureIsRememberedForAnHour(t *testing.T) {
	c, files := tiny(t, "Tiny")
	m := newMirror(t, nil)
	c.mirrors = []string{m.URL}
	o := Options{Dir: t.TempDir()}
	for range 2 {
		if _, err := c.load(t.Context(), o); err == nil {
			t.Fatal("got a data set from a mirror that has none")
		}
	}
	if got, want := len(m.asked()), 1; got != want {
		t.Errorf("got %d requests, want %d: the second load must not try again", got, want)
	}
	m.files = files
	note := filepath.Join(o.Dir, "tiny", failureFile)
	old := time.Now().Add(-failureHolds - time.Minute)
	if err := os.Chtimes(note, old, old); err != nil {
		t.Fatal(err)
	}
	if _, err := c.load(t.Context(), o); err != nil {
		t.Errorf("after an hour: %v", err)
	}
}

func place(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

func equal(a, b []string) bool { return fmt.Sprint(a) == fmt.Sprint(b) }
