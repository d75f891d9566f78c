package device

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/wire"
)

// tries is how often a fault is injected.
func tries() int {
	if os.Getenv("GAIDEN_FAULTS") == "full" {
		return 1000
	}
	return 150
}

// damage changes a file somewhere: a flipped bit, a cut, bytes too many, a block
// of zeros, or it takes it away.
func damage(r *rand.Rand, path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	switch at := r.IntN(len(b)); r.IntN(5) {
	case 0:
		b[at] ^= 1 << r.IntN(8)
	case 1:
		b = b[:at]
	case 2:
		b = append(b, make([]byte, 1+r.IntN(100))...)
	case 3:
		n := min(len(b), at+1+r.IntN(512))
		if bytes.Count(b[at:n], []byte{0}) == n-at {
			b[at] = 1
		} else {
			clear(b[at:n])
		}
	case 4:
		return os.Remove(path)
	}
	return os.WriteFile(path, b, 0o600)
}

func TestDamagedPrograms(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "programs")
	plugin := filepath.Join(t.TempDir(), "plugin.so")
	if err := os.WriteFile(plugin, []byte("a plugin"), 0o600); err != nil {
		t.Fatal(err)
	}
	quiet := func(string, ...any) {}
	c := openCache(dir, 0, plugin, []string{"cpu"}, quiet)
	r := rand.New(rand.NewPCG(1, 2))
	code := bytes.Repeat([]byte("machine code "), 300)
	for i := range tries() {
		hash := [32]byte{byte(i), byte(i >> 8)}
		if err := c.store(hash, code); err != nil {
			t.Fatal(err)
		}
		path := c.path(c.key(hash))
		if err := damage(r, path); err != nil {
			t.Fatal(err)
		}
		if c.load(hash, func(b []byte) error { t.Errorf("try %d: a damaged file was loaded", i); return nil }) {
			t.Errorf("try %d: a damaged file was found", i)
		}
		if _, err := os.Lstat(path); err == nil {
			t.Errorf("try %d: the damaged file is still there", i)
		}
		got := []byte(nil)
		if err := c.store(hash, code); err != nil || !c.load(hash, func(b []byte) error { got = b; return nil }) || !bytes.Equal(got, code) {
			t.Errorf("try %d: it was not replaced: %v", i, err)
		}
		c.remove(hash)
	}
	// What use refuses is not found again; what it dies of neither.
	hash := [32]byte{1}
	c.store(hash, code)
	if c.load(hash, func([]byte) error { return fmt.Errorf("no") }) || c.has(hash) {
		t.Error("a program that could not be used is still there")
	}
	c.store(hash, code)
	func() {
		defer func() { recover() }()
		c.load(hash, func([]byte) error { panic("the plugin has crashed") })
	}()
	if c.has(hash) {
		t.Error("a program that has killed a worker is found again")
	}
	// Another plugin, device or processor is another key.
	c.store(hash, code)
	os.WriteFile(plugin, []byte("b plugin"), 0o600)
	if other := openCache(dir, 0, plugin, []string{"cpu"}, quiet); other.has(hash) {
		t.Error("a program of another plugin file is found")
	}
	os.WriteFile(plugin, []byte("a plugin"), 0o600)
	if other := openCache(dir, 0, plugin, []string{"cuda"}, quiet); other.has(hash) {
		t.Error("a program of another device is found")
	}
	if other := openCache(dir, 0, plugin, []string{"cpu"}, quiet); !other.has(hash) {
		t.Error("the same plugin does not find its program")
	}
}

func TestCacheBound(t *testing.T) {
	c := openCache(filepath.Join(t.TempDir(), "p"), 10_000, "", nil, func(string, ...any) {})
	for i := range 20 {
		if err := c.store([32]byte{byte(i)}, make([]byte, 1000)); err != nil {
			t.Fatal(err)
		}
		if i == 5 {
			os.Chtimes(c.path(c.key([32]byte{0})), time.Now(), time.Now().Add(time.Hour)) // it is used
		}
	}
	if err := c.store([32]byte{99}, make([]byte, 9000)); err != nil { // larger than half of the bound
		t.Fatal(err)
	}
	i := c.info()
	if i.Bytes > 10_000 || i.Entries < 8 || !c.has([32]byte{19}) || !c.has([32]byte{0}) || c.has([32]byte{1}) || c.has([32]byte{99}) {
		t.Errorf("got %+v, want the newest and the one that is used, within 10,000 bytes", i)
	}
}

// snapshotFile writes a snapshot by hand: arrays of four bytes, and those that
// older files have.
func snapshotFile(t *testing.T, a *archive, number int, arrays map[string]string, others []tensorRef) {
	t.Helper()
	h := &safetensors.Header{Metadata: map[string]string{aboutKey: string(wire.JSON(metadata{Space: a.space, Time: time.Now(), Elsewhere: others}))}}
	for n := range arrays {
		h.Tensors = append(h.Tensors, safetensors.Tensor{Name: n, DType: "U8", Shape: []int{4}})
	}
	f, err := safetensors.Create(a.path(&record{number: number, kind: auto}), h)
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range f.Tensors {
		if err := f.Write(i, []byte(arrays[x.Name])); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDamagedArchive damages files of an archive at random. What is read is
// right, or it is an error.
func TestDamagedArchive(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for i := range tries() {
		a := &archive{dir: t.TempDir(), space: "s"}
		snapshotFile(t, a, 1, map[string]string{"data": "dddd", "w": "1111"}, nil)
		snapshotFile(t, a, 2, map[string]string{"w": "2222"}, []tensorRef{{"data", 1, "data"}})
		snapshotFile(t, a, 3, map[string]string{"w": "3333"}, []tensorRef{{"renamed", 1, "data"}})
		victim := 1 + r.IntN(3)
		if err := damage(r, a.path(&record{number: victim, kind: auto})); err != nil {
			t.Fatal(err)
		}
		l, err := a.list()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range l {
			want := map[int]string{1: "data=dddd w=1111", 2: "data=dddd w=2222", 3: "renamed=dddd w=3333"}[rec.number]
			src, closeAll, err := a.sources(rec, "", nil)
			got := map[string]string{}
			for _, x := range src {
				b := make([]byte, 4)
				if e := x.file.Read(x.tensor, b); e != nil {
					err = e
				}
				got[x.name] = string(b)
			}
			closeAll()
			var parts []string
			for _, n := range []string{"data", "renamed", "w"} {
				if v, ok := got[n]; ok {
					parts = append(parts, n+"="+v)
				}
			}
			if s := strings.Join(parts, " "); err == nil && s != want {
				t.Errorf("try %d: snapshot %d after damage of file %d: got %s, want %s or an error", i, rec.number, victim, s, want)
			}
			if err != nil && rec.number < victim {
				t.Errorf("try %d: snapshot %d after damage of file %d: %v", i, rec.number, victim, err)
			}
		}
	}
}

// TestForeignFiles holds that an archive does not take what is not its own.
func TestForeignFiles(t *testing.T) {
	a, b := &archive{dir: t.TempDir(), space: "a"}, &archive{dir: t.TempDir(), space: "b"}
	snapshotFile(t, b, 1, map[string]string{"w": "1111"}, nil)
	if err := os.Rename(b.path(&record{number: 1, kind: auto}), a.path(&record{number: 1, kind: auto})); err != nil {
		t.Fatal(err)
	}
	for _, n := range []string{"00000002.auto.safetensors.new-1", "x.auto.safetensors", "3.odd.safetensors", ".new-123", "notes.txt"} {
		os.WriteFile(filepath.Join(a.dir, n), []byte("hello"), 0o600)
	}
	l, err := a.list()
	if err != nil || len(l) != 1 || l[0].foreign == nil || !strings.Contains(l[0].foreign.Error(), `notebook "b"`) {
		t.Errorf("got %d records, %v: want one that is of another notebook", len(l), err)
	}
	if _, why := a.find(""); why == nil {
		t.Error("a snapshot of another notebook is found")
	}
	os.WriteFile(filepath.Join(a.dir, "space.json"), []byte(`{"Space":"b","Names":["w"]}`), 0o600)
	if f, _ := a.readSpace(); len(f.Names) != 0 {
		t.Errorf("got %+v from another notebook", f)
	}
}

// TestJobLog holds that a torn log is cut at its last whole line.
func TestJobLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := openLog(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := l.append([]wire.JobEntry{{Name: "loss", Values: wire.Floats{float64(i)}}, {Name: "more"}}); err != nil {
			t.Fatal(err)
		}
	}
	l.close()
	whole, _ := os.ReadFile(path)
	for n := range whole {
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := openLog(path, 7)
		if err != nil {
			t.Fatal(err)
		}
		want := min(7, bytes.Count(whole[:n], []byte{'\n'}))
		if l.count() != want {
			t.Errorf("%d of %d bytes: got %d entries, want %d", n, len(whole), l.count(), want)
		}
		if err := l.append([]wire.JobEntry{{Name: "next"}}); err != nil {
			t.Fatal(err)
		}
		got, _, err := l.from(0)
		if err != nil || len(got) != want+1 || got[want].Name != "next" || got[want].Number != want {
			t.Errorf("%d of %d bytes: got %d entries, %v", n, len(whole), len(got), err)
		}
		l.close()
	}
	os.WriteFile(path, whole, 0o600)
	if l, err = openLog(path, 7); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if e, ok := l.last("loss"); !ok || e.Values[0] != 3 {
		t.Errorf("the last loss is %v, want 3", e.Values)
	}
}

// FuzzJobBody holds that a job that was accepted can be walked through.
func FuzzJobBody(f *testing.F) {
	f.Add([]byte(`{"Name":"a","Steps":[{"Program":0,"Inputs":[{"Name":"x"}]}],"Programs":[{"Inputs":[{"DType":11}],"Text":"aGVsbG8="}]}`))
	f.Add([]byte(`{"Name":"a","Steps":[{"Program":-1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var body wire.JobBody
		if json.Unmarshal(b, &body) != nil {
			return
		}
		if checkJob(&body) != nil {
			return
		}
		at := wire.Place{}
		for range 100 { // a place stays inside its job
			at = nextPlace(at, &body)
			if at.Step < 0 || at.Step >= len(body.Steps) {
				t.Fatalf("place %+v of %d steps", at, len(body.Steps))
			}
		}
	})
}
