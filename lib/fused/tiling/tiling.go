// Package tiling finds, on a session's device, how the kernels of package fused
// are best divided, and keeps what it found.
//
//	table, err := tiling.Open(s)                        // what is known of this device
//	ops := fused.Ops{Builder: b, Choose: table.Choose}  // unknown ops get a usual tiling, and are noted
//	…                                                   // compile and run: the first answer comes at once
//	err = table.Try(ctx, s, nil)                        // tries what was noted, and saves it
//
// and the next program is written with the best. XLA's own form is one of the
// candidates, so that no kernel is used that is slower.
//
// A table belongs to a kind of device and to a version of the plugin. It is a
// small JSON file in the cache directory; one that cannot be read is left out
// and written again. What is tried is an operation in a loop of its own
// ([Program]), so the caches hold what they would in a small net.
//
// The package measures and chooses; it writes no kernels and trains nothing.
package tiling

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/session"
)

// Entry is what is known of one op.
type Entry struct {
	Tile   kernels.Tile `json:"tile"`
	Micros float64      `json:"micros"`
	Plain  float64      `json:"plain"` // µs of XLA's own form; 0 if it was not tried
}

// UsePlain says whether XLA's own form is the fastest.
func (e Entry) UsePlain() bool { return e.Plain > 0 && (e.Micros == 0 || e.Plain < e.Micros) }

// Table is what is known of a device. Its methods may be called from any
// goroutine. The zero value knows nothing and is kept nowhere.
type Table struct {
	// Path is the file that the table is kept in; "" is none.
	Path string

	mu     sync.Mutex // protects following
	known  map[string]Entry
	wanted map[string]kernels.Op
}

// Open reads the table of a session's device.
func Open(s *session.Session) (*Table, error) {
	w := s.Welcome()
	kind := w.Platform
	if len(w.Devices) > 0 {
		kind = w.Devices[0].Kind
	}
	word := func(s string) string {
		return strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
				return r
			}
			return '-'
		}, strings.ToLower(s)), "-")
	}
	t := &Table{Path: filepath.Join(wire.CacheDir(), "tilings", word(kind)+".json")}
	return t, t.read()
}

// read takes what the file has; one that is missing or torn has nothing.
func (t *Table) read() error {
	b, err := os.ReadFile(t.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if json.Unmarshal(b, &t.known) != nil {
		t.known = nil
	}
	return nil
}

// save writes the file: a new one beside the old, which it then replaces.
func (t *Table) save() error {
	if t.Path == "" {
		return nil
	}
	t.mu.Lock()
	b, err := json.MarshalIndent(t.known, "", " ")
	t.mu.Unlock()
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	if err := os.MkdirAll(filepath.Dir(t.Path), 0o700); err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	f, err := os.CreateTemp(filepath.Dir(t.Path), "tilings*")
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), t.Path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("tiling: %w", err)
	}
	return nil
}

// Choose is for fused.Ops: the op with its best tiling, or nil where XLA's own
// form is faster. What is not known is noted, and has its usual tiling.
func (t *Table) Choose(op kernels.Op) kernels.Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, is := t.known[op.Key()]
	switch {
	case !is:
		if t.wanted == nil {
			t.wanted = map[string]kernels.Op{}
		}
		t.wanted[op.Key()] = op
		return fused.Usual(op)
	case e.UsePlain():
		return nil
	}
	return op.With(e.Tile)
}

// Set makes an op known.
func (t *Table) Set(op kernels.Op, e Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.known == nil {
		t.known = map[string]Entry{}
	}
	t.known[op.Key()] = e
	delete(t.wanted, op.Key())
}

// Wanted are the ops that Choose has met and does not know, by their keys.
func (t *Table) Wanted() []kernels.Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	var l []kernels.Op
	for _, op := range t.wanted {
		l = append(l, op)
	}
	slices.SortFunc(l, func(a, b kernels.Op) int { return strings.Compare(a.Key(), b.Key()) })
	return l
}

// Try measures the wanted ops, each with all its tilings, and saves what it
// found after each. progress, if not nil, is told what was found. A tiling that
// does not compile is no candidate. When ctx ends, the rest stays wanted.
func (t *Table) Try(ctx context.Context, s *session.Session, progress func(op kernels.Op, e Entry)) error {
	for _, op := range t.Wanted() {
		var e Entry
		plain, err := Measure(s, op, true)
		if err != nil {
			return fmt.Errorf("tiling: %s: %w", op.Key(), err)
		}
		e.Plain = plain
		for _, tile := range op.Tiles() {
			if err := ctx.Err(); err != nil {
				return err
			}
			micros, err := Measure(s, op.With(tile), false)
			if errors.Is(err, wire.Lost) {
				return fmt.Errorf("tiling: %s %s: %w", op.Key(), tile, err)
			}
			if err == nil && (e.Micros == 0 || micros < e.Micros) {
				e.Tile, e.Micros = tile, micros
			}
		}
		t.Set(op, e)
		if err := t.save(); err != nil {
			return err
		}
		if progress != nil {
			progress(op, e)
		}
	}
	return nil
}
