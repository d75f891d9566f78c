package session

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestDiscardNewest: when the snapshot is deleted that alone has what there is,
// it is saved anew, by itself and when asked.
func TestDiscardNewest(t *testing.T) {
	p := serve(t)
	s := p.open("discard")
	bindAll(t, s, map[string][]float32{"w": {1}})
	first, err := s.Snapshot("first")
	if err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"w": {2}})
	second, err := s.Snapshot("second")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Discard("second"); err != nil {
		t.Fatal(err)
	}
	third, err := s.Snapshot("")
	if err != nil || third.Number <= second.Number {
		t.Errorf("got snapshot %d, %v; want one after %d, which is deleted: %d has other arrays", third.Number, err, second.Number, first.Number)
	}
	bindAll(t, s, map[string][]float32{"w": {3}})
	if _, err := s.Snapshot("fourth"); err != nil {
		t.Fatal(err)
	}
	if err := s.Discard("fourth"); err != nil {
		t.Fatal(err)
	}
	within(t, "an automatic snapshot", func() bool {
		l, err := s.Snapshots()
		return err == nil && len(l) > 0 && l[len(l)-1].Number > third.Number
	})
	p.kill()
	p.again()
	if got := look(t, p.reopen("discard")); got != "w[3]" {
		t.Errorf("after a crash: got %s, want w[3]", got)
	}
}

// TestDamagedUnderneath: when a snapshot turns out to be damaged, later ones do
// not stand on its file.
func TestDamagedUnderneath(t *testing.T) {
	p := serve(t)
	s := p.open("under")
	bindAll(t, s, map[string][]float32{"data": {7, 7, 7, 7}, "w": {1}})
	if _, err := s.Snapshot("first"); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"w": {2}})
	second, err := s.Snapshot("second")
	if err != nil || second.Written != 4 {
		t.Fatalf("got %+v, %v; want a snapshot whose data is in the first one's file", second, err)
	}
	files, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/00000001.*")
	if len(files) != 1 {
		t.Fatalf("got files %q, want one", files)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 { // both arrays
		b[len(b)-1-i] ^= 1
	}
	if err := os.WriteFile(files[0], b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Rollback("first", ""); !errors.Is(err, wire.Invalid) || !strings.Contains(err.Error(), "checksum") {
		t.Fatalf("rollback: got %v, want that it is damaged", err)
	}
	if got := look(t, s); got != "data[7 7 7 7] w[2]" {
		t.Errorf("after a rollback that failed: got %s", got)
	}
	if third, err := s.Snapshot(""); err != nil || third.Written != 16 {
		t.Errorf("got %+v, %v; want a snapshot with the 16 bytes of data", third, err)
	}
	p.kill()
	p.again()
	if got := look(t, p.reopen("under")); got != "data[7 7 7 7] w[2]" {
		t.Errorf("after a crash: got %s", got)
	}
}

// TestDeletedIsNotLost: what was deleted before the snapshot that comes back is not
// said to be lost, though the worker died before it wrote the names down again.
func TestDeletedIsNotLost(t *testing.T) {
	p := serve(t)
	s := p.open("deleted")
	bindAll(t, s, map[string][]float32{"kept": {1}, "old": {2}})
	var names []byte
	var path string
	within(t, "the names to be written down", func() bool {
		l, _ := filepath.Glob(p.dir + "/state/gaiden/snapshots/*/space.json")
		if len(l) != 1 {
			return false
		}
		path = l[0]
		names, _ = os.ReadFile(path)
		return strings.Contains(string(names), "old")
	})
	if _, err := s.Delete("old"); err != nil {
		t.Fatal(err)
	}
	info, err := s.Snapshot("")
	if err != nil {
		t.Fatal(err)
	}
	p.kill()
	if err := os.WriteFile(path, names, 0o600); err != nil {
		t.Fatal(err)
	}
	p.again()
	want := fmt.Sprintf("1 array is back as it was at %s (snapshot %d)", info.Time.Format(time.TimeOnly), info.Number)
	if got := p.reopen("deleted").Welcome().Note; !strings.HasSuffix(got, want) {
		t.Errorf("got note %q, want %q at its end", got, want)
	}
}

// TestOpenedToOthers: a notebook's folder that others can read is not written
// to, what to do is said, and once it is done all is as before.
func TestOpenedToOthers(t *testing.T) {
	p := serve(t)
	s := p.open("opened")
	bindAll(t, s, map[string][]float32{"w": {1}})
	info, err := s.Snapshot("one")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(info.File)
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	bindAll(t, s, map[string][]float32{"w": {2}})
	_, err = s.Snapshot("two")
	var e *wire.Error
	if !errors.As(err, &e) || e.Code != wire.Denied || e.Next != "chmod 700 "+dir {
		t.Errorf("got %v, want a refusal that says chmod 700 %s", err, dir)
	}
	if st, err := s.Status(); err != nil || !strings.HasSuffix(st.Trouble, "want 0700; chmod 700 "+dir) {
		t.Errorf("status says %q, %v", st.Trouble, err)
	}
	if got := look(t, s); got != "w[2]" {
		t.Errorf("arrays are %s, want those of the cell", got)
	}
	if err := os.Chmod(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Snapshot("two"); err != nil {
		t.Errorf("closed again: %v", err)
	}
	if st, err := s.Status(); err != nil || st.Trouble != "" {
		t.Errorf("closed again: status says %q, %v", st.Trouble, err)
	}
}
