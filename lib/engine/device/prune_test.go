package device

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// chain is an archive of six automatic snapshots: the first has the data, and the
// others need its file.
func chain(t *testing.T) *archive {
	t.Helper()
	a := &archive{dir: t.TempDir(), space: "s"}
	snapshotFile(t, a, 1, map[string]string{"data": "dddd", "w": "1111"}, nil)
	for n := 2; n <= 6; n++ {
		snapshotFile(t, a, n, map[string]string{"w": fmt.Sprint(n, n, n, n)[:4]}, []tensorRef{{"data", 1, "data"}})
	}
	return a
}

func kinds(a *archive) string {
	var l []string
	for _, r := range a.records {
		l = append(l, fmt.Sprint(r.number, r.kind))
	}
	return strings.Join(l, " ")
}

// TestPrune holds which files are given up: never one that could not be read, or was
// not restored, or whose data a snapshot needs.
func TestPrune(t *testing.T) {
	file := func(a *archive, n int) string { return a.path(&record{number: n, kind: auto}) }
	unreadable := func(t *testing.T, a *archive, n int) { // as of a disk that fails: as root, too
		if err := errors.Join(os.Rename(file(a, n), file(a, n)+".away"), os.Symlink(file(a, n), file(a, n))); err != nil {
			t.Fatal(err)
		}
	}
	tests := []struct {
		name   string
		before func(t *testing.T, a *archive) // it is listed
		after  func(t *testing.T, a *archive)
		spare  int
		want   string
	}{
		{name: "all well", want: "1part 4auto 5auto 6auto"},
		{name: "one is spared", spare: 2, want: "1part 2auto 4auto 5auto 6auto"},
		{name: "one cannot be read", before: func(t *testing.T, a *archive) { unreadable(t, a, 2) }, want: "1part 2auto 4auto 5auto 6auto"},
		{name: "the newest cannot be read", before: func(t *testing.T, a *archive) { unreadable(t, a, 6) }, want: "1part 2part 3auto 4auto 5auto 6auto"},
		{name: "the data cannot be read", before: func(t *testing.T, a *archive) { unreadable(t, a, 1) }, want: "1auto 4auto 5auto 6auto"},
		{name: "one was not restored", after: func(t *testing.T, a *archive) {
			if err := a.hold(a.record(2)); err != nil {
				t.Fatal(err)
			}
		}, want: "1part 2held 4auto 5auto 6auto"},
		{name: "one is damaged", before: func(t *testing.T, a *archive) { os.Truncate(file(a, 5), 50) }, want: "1part 3auto 4auto 6auto"},
		{name: "an array of the first is damaged", after: func(t *testing.T, a *archive) { a.record(1).damaged = errors.New("checksum") }, want: "1part 2auto 3auto 4auto 5auto 6auto"},
		{name: "the data is gone", before: func(t *testing.T, a *archive) { os.Remove(file(a, 1)) }, want: "2auto 3auto 4auto 5auto 6auto"},
		{name: "another notebook's", before: func(t *testing.T, a *archive) {
			b := &archive{dir: a.dir, space: "other"}
			snapshotFile(t, b, 7, map[string]string{"w": "7777"}, nil)
		}, want: "1part 4auto 5auto 6auto 7auto"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chain(t)
			if tt.before != nil {
				tt.before(t, a)
			}
			if _, err := a.list(); err != nil {
				t.Fatal(err)
			}
			if tt.after != nil {
				tt.after(t, a)
			}
			if err := a.prune(3, tt.spare); err != nil {
				t.Fatal(err)
			}
			if got := kinds(a); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
			for _, r := range a.records {
				if _, err := os.Lstat(a.path(r)); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// TestReadAgain holds that a file that could not be read once is no worse for it.
func TestReadAgain(t *testing.T) {
	a := chain(t)
	path := a.path(&record{number: 6, kind: auto})
	os.Rename(path, path+".away")
	os.Symlink(path, path)
	if _, err := a.list(); err != nil {
		t.Fatal(err)
	}
	if _, why := a.find(""); why == nil || !strings.Contains(why.Error(), "snapshot 6 cannot be read now") {
		t.Errorf("got %v, want that snapshot 6 cannot be read: an older one is not taken for the newest", why)
	}
	os.Rename(path+".away", path)
	if r, why := a.find(""); why != nil || r.number != 6 {
		t.Errorf("got %v, %v; want snapshot 6", r, why)
	}
}

// TestRoom holds that an automatic snapshot is made however large it is, that older ones
// make room before it is written, and that one with a name respects the limit.
func TestRoom(t *testing.T) {
	tests := []struct {
		name  string
		limit int64 // in sizes of one of the chain's files
		bytes int64
		named bool // and there is another with a name
		want  string
		err   string
	}{
		{name: "plenty", limit: 100, bytes: 1, want: "1part 4auto 5auto 6auto"},
		{name: "room for three", limit: 4, bytes: 1, want: "1part 5auto 6auto"},
		{name: "room for one", limit: 3, bytes: 1, want: "1part 6auto"},
		{name: "no room", limit: 1, bytes: 9, want: "1part 6auto"},
		{name: "no room for one with a name", limit: 1, bytes: 9, named: true, want: "1auto 2auto 3named 4auto 5auto 6auto", err: "limit"},
		{name: "no disk", limit: 100, bytes: 1 << 50, want: "1auto 2auto 3auto 4auto 5auto 6auto", err: "disk"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := chain(t)
			if _, err := a.list(); err != nil {
				t.Fatal(err)
			}
			size := int64(0)
			for _, r := range a.records {
				size = max(size, r.size)
			}
			if a.limit = tt.limit * size; tt.named {
				if err := a.become(a.record(3), saved); err != nil {
					t.Fatal(err)
				}
			}
			bytes := tt.bytes
			if bytes < 1<<40 {
				bytes *= size
			}
			err := a.makeRoom(bytes, tt.named, 0, []tensorRef{{"data", 1, "data"}})
			if tt.err == "" && err != nil || tt.err != "" && (err == nil || !strings.Contains(err.Error(), tt.err)) {
				t.Errorf("got error %v, want %q", err, tt.err)
			}
			if err == nil && tt.limit == 100 { // nothing has to go before
				if err := a.tidy(0); err != nil {
					t.Error(err)
				}
			}
			if got := kinds(a); got != tt.want {
				t.Errorf("got %s, want %s", got, tt.want)
			}
		})
	}
}
