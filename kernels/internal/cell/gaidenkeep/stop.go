package gaidenkeep

import (
	"bytes"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"
)

// Before a program is stopped, it saves its values: the kernel makes
// a file, for which the program looks now and then. A signal handler would be
// simpler, but with one the runtime no longer notices that all goroutines are
// asleep.

const (
	poll  = 50 * time.Millisecond // how often the program looks
	tries = 3                     // how often variables are looked at until they stay where they are
)

// Watch lets the kernel request the program's values while main runs, and also calls
// leave then. A program that has
// timers may be woken by one: waits are the beginnings of the states of goroutines
// that it may wake, as a traceback has them ("select"), and "" is the beginning of all.
func Watch(leave func(), waits ...string) {
	if shared != "" {
		w := &watch{leave: leave, stop: filepath.Join(shared, StopFile), awake: append(waits, "running", "runnable", "sleep", "IO wait", "syscall", "GC ")}
		w.timer = time.AfterFunc(poll, w.look)
	}
}

type watch struct {
	leave func()
	stop  string
	timer *time.Timer
	awake []string // beginnings of the states of goroutines that may continue
	used  int64    // processor time when it last looked
}

func (w *watch) look() {
	var stat syscall.Stat_t
	if syscall.Stat(w.stop, &stat) == nil {
		w.leave()
		saveNow()
		return
	}
	var usage syscall.Rusage
	syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	used := usage.Utime.Nano() + usage.Stime.Nano()
	busy := used-w.used > int64(time.Millisecond)
	w.used = used
	// A timer keeps the runtime from noticing a deadlock, so there is none where
	// nothing can wake the program.
	if busy || awake(w.awake) {
		w.timer.Reset(poll)
	}
}

// awake reports whether a goroutine is in one of some states.
func awake(states []string) bool {
	text := make([]byte, 64<<10)
	n := runtime.Stack(text, true)
	if n == len(text) {
		return true
	}
	// The first is that of the caller.
	_, rest, _ := bytes.Cut(text[:n], []byte("\n\n"))
	for {
		_, after, found := bytes.Cut(rest, []byte("goroutine "))
		if !found {
			return false
		}
		line, more, _ := bytes.Cut(after, []byte("\n"))
		for _, state := range states {
			if bytes.Contains(line, []byte("["+state)) && (state == "" || !never(line)) {
				return true
			}
		}
		rest = more
	}
}

// never reports whether a goroutine waits for a channel that there is not.
func never(line []byte) bool {
	return bytes.Contains(line, []byte("(no cases)")) || bytes.Contains(line, []byte("(nil chan)"))
}

// saveNow saves while main continues. First come variables without maps: reading a
// map while it is written ends the program.
func saveNow() {
	mu.Lock()
	defer mu.Unlock()
	if saved || len(tracked) == 0 {
		return
	}
	var calm []Var
	for _, v := range tracked {
		if !holdsMap(v.typ) {
			calm = append(calm, v)
		}
	}
	live = true
	defer func() { live = false }()
	saving(shared, func() error {
		if len(calm) < len(tracked) {
			saveVars(shared, "calm", calm, true)
		}
		return saveVars(shared, "all", tracked, true)
	})
}

// live is set while variables are saved and main continues.
var live bool

// handle reports whether a type is one of the library's with hidden fields that
// cannot be kept: what is behind it is at work, and must not be read meanwhile.
func handle(t reflect.Type) bool {
	path := libraryPath()
	if path == "" || !strings.HasPrefix(t.PkgPath(), path+"/") || t.Kind() != reflect.Struct {
		return false
	}
	for f := range t.Fields() {
		if !f.IsExported() && mayRefuse(f.Type) {
			return true
		}
	}
	return false
}

// holdsMap reports whether a value of a type may reach a map.
func holdsMap(t reflect.Type) bool {
	return reaches(t, map[reflect.Type]bool{}, func(t reflect.Type) (is, known bool) {
		return t.Kind() == reflect.Map || t.Kind() == reflect.Interface, false
	})
}

// same reports whether two surveys of the same variables found the same memory.
func same(a, b []*group) bool {
	if len(a) != len(b) {
		return false
	}
	for i, g := range a {
		h := b[i]
		if len(g.regions) != len(h.regions) || len(g.maps) != len(h.maps) || len(g.vars) != len(h.vars) {
			return false
		}
		for j, r := range g.regions {
			if o := h.regions[j]; o.ptr != r.ptr || o.typ != r.typ || o.count != r.count {
				return false
			}
		}
		for j, m := range g.maps {
			if h.maps[j].ptr != m.ptr {
				return false
			}
		}
	}
	return true
}

// steady reports whether another encoding of the same values has the same bytes,
// except those of plain data, any of which may be older than others. The order of
// a map's entries is another each time; that nobody writes to one is the runtime's
// to see.
func (e *encoder) steady(other *encoder) bool {
	if len(e.maps) > 0 {
		return true
	}
	for _, r := range e.regions {
		if classOf(r.typ) != plain {
			return len(e.chunks) == len(other.chunks) && !slices.ContainsFunc(e.small(), func(i int) bool { return !bytes.Equal(e.chunks[i], other.chunks[i]) })
		}
	}
	return true
}

// small returns the indexes of the chunks that are not the program's own memory.
func (e *encoder) small() (at []int) {
	for i, c := range e.chunks {
		if len(c) < large {
			at = append(at, i)
		}
	}
	return at
}
