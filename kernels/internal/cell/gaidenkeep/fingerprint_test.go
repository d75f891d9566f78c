package gaidenkeep

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
)

// TestFingerprint: what changes a variable's value changes its fingerprint, and
// nothing else does.
func TestFingerprint(t *testing.T) {
	type part struct {
		n int
		f func() int
	}
	one, two := func() int { return 1 }, func() int { return 2 }
	var (
		f        = one
		s        = part{1, one}
		p        = &part{1, one}
		list     = []any{1, one, &part{3, two}}
		m        = map[string]any{"a": one, "b": 2, "c": p}
		full     = make(chan int, 2)
		closed   = make(chan int)
		ring     = &struct{ next any }{}
		file     = os.Stdout
		replacer = strings.NewReplacer("a", "b")
	)
	ring.next = ring
	tests := []struct {
		name   string
		v      Var
		change func() // nil = nothing that counts
	}{
		{"function", variable("f", &f), func() { f = two }},
		{"field", variable("s", &s), func() { s.n = 2 }},
		{"field behind a pointer", variable("p", &p), func() { p.n = 2 }},
		{"part of an interface", variable("list", &list), func() { list[2].(*part).f = one }},
		{"length", variable("list", &list), func() { list = list[:2] }},
		{"entry", variable("m", &m), func() { m["b"] = 3 }},
		{"new entry", variable("m", &m), func() { m["d"] = nil }},
		{"value in a channel", variable("full", &full), func() { full <- 1 }},
		{"end of a channel", variable("closed", &closed), func() { close(closed) }},
		{"what refers to itself", variable("ring", &ring), func() { ring.next = nil }},
		{"file", variable("file", &file), nil},
		{"what only remembers its work", variable("replacer", &replacer), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := fingerprint(tt.v)
			for range 20 { // a map's order is another each time
				if got := fingerprint(tt.v); got != before || got == 0 {
					t.Fatalf("got %d, then %d, want the same, not 0", before, got)
				}
			}
			if tt.change == nil {
				file.WriteString("")
				replacer.Replace("a")
			} else {
				tt.change()
			}
			if got := fingerprint(tt.v); (got != before) != (tt.change != nil) {
				t.Errorf("got %d, then %d", before, got)
			}
		})
	}
}

// TestLocks: a mutex comes back unlocked; a wait group with somebody in it and the
// number of an open file are refused.
func TestLocks(t *testing.T) {
	type cache struct {
		mu sync.Mutex
		rw sync.RWMutex
		n  int
	}
	c := &cache{n: 3}
	c.mu.Lock()
	c.rw.Lock()
	dir := t.TempDir()
	groups, lost := survey([]Var{variable("c", &c)})
	if len(lost) > 0 {
		t.Fatal(lost)
	}
	var m manifest
	if err := groups[0].save(dir, "0", false, &m); err != nil {
		t.Fatal(err)
	}
	var back *cache
	if err := loadFile(filepath.Join(dir, "0"), []Var{variable("c", &back)}, []reflect.Type{}); err != nil {
		t.Fatal(err)
	}
	if !back.mu.TryLock() || !back.rw.TryLock() || back.n != 3 {
		t.Errorf("got locked %v, %d; want it unlocked, 3", back, back.n)
	}

	f, err := os.CreateTemp(dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var busy, done sync.WaitGroup
	busy.Add(1)
	fd := f.Fd()
	tests := []struct {
		name string
		v    Var
		want string // part of the refusal
	}{
		{"wait group", variable("busy", &busy), "a sync.WaitGroup"},
		{"wait group that is done", variable("done", &done), ""},
		{"descriptor", variable("l", &struct{ FD int }{int(f.Fd())}), "FD, the number of an open file"},
		{"descriptor of a part", variable("l", &[]struct{ in struct{ sysfd uintptr } }{{struct{ sysfd uintptr }{fd}}}), "sysfd, the number"},
		{"variable", variable("logFd", &fd), "the number of an open file"},
		{"number of that name", variable("l", &struct{ FD int }{1 << 19}), ""},
		{"the number of a standard stream", variable("l", &struct{ FD int }{1}), ""},
		{"number of another name", variable("l", &struct{ N int }{int(f.Fd())}), ""},
	}
	for _, tt := range tests {
		_, lost := survey([]Var{tt.v})
		switch err := lost[tt.v.name]; {
		case tt.want == "" && err != nil, tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
			t.Errorf("%s: got refusal %v, want %q", tt.name, err, tt.want)
		}
	}
}
