// Package tiling finds, on a session's device, the best tilings for the kernels of package fused,
// and stores them.
//
//	table, err := tiling.Open(s)                        // what is known of this device
//	ops := fused.Ops{Builder: b, Choose: table.Choose}  // unknown ops get a usual tiling, and are noted
//	…                                                   // compile and run: the first answer comes at once
//	err = table.Try(ctx, s, tiling.Options{})              // tries what was noted, and saves it
//	table.UseProposed(true)                                   // the next program is written with the best
//	…                                                   // is the whole faster with it?
//	table.Accept(ops…)                                  // so is everybody's; else table.Reset(ops…)
//
// What Try has found is a proposal, which only a table that uses proposals takes, until it
// is accepted: an op that is faster alone need not make a step faster, and meanwhile other
// processes read the table. XLA's own form is one of the
// candidates, so that no kernel is used that is slower; and a tiling is kept only after
// its numbers have been compared with those of that form ([Form.Compare]), so that none is
// used that is fast and wrong. An [Entry] may also be that of a whole step of a net,
// under a key that its owner makes.
//
// A table belongs to a kind of device, and to a version of the plugin and of
// Gaiden. It is a small JSON file in the cache directory; one that cannot be read
// is left out and written again. What is tried is an operation in a loop of its own
// ([Program]), so the caches hold what they would in a small net.
//
// The package measures and chooses; it writes no kernels and trains nothing.
package tiling

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"gaiden/lib/engine/sealed"
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
	Tried  int          `json:"tried"` // tilings
	// Wrong says that the usual tiling's numbers are not those of the plain form.
	Wrong bool `json:"wrong,omitempty"`
	// Proposed says that nobody has accepted yet what was found.
	Proposed bool `json:"proposed,omitempty"`
	// Refused is why the device does not take the kernel; "" if it does.
	Refused string `json:"refused,omitempty"`
}

// noise is how much faster XLA's own form must be to be used: a net of the one
// kind of kernels is better than a mixture that gains nothing.
const noise = 1.05

// UsePlain says whether XLA's own form is the fastest, or the only one.
func (e Entry) UsePlain() bool {
	return e.Refused != "" || e.Plain > 0 && (e.Micros == 0 || e.Plain*noise < e.Micros)
}

// Table is what is known of a device. Its methods may be called from any
// goroutine. The zero value knows nothing and is kept nowhere.
type Table struct {
	// Path is the file that the table is kept in; "" is none.
	Path string

	mu          sync.Mutex // protects following
	known       map[string]Entry
	mine        map[string]bool // of them, those that Save writes: the others may have changed on disk
	wanted      map[string]kernels.Op
	changes     int
	useProposed bool        // what Try has found and nobody has accepted
	read        os.FileInfo // the file that was read; nil if there was none
}

// Open reads the table of a session's device.
func Open(s *session.Session) (*Table, error) {
	kind, versions := Device(s)
	word := func(s string) string {
		return strings.Trim(strings.Map(func(r rune) rune {
			if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '.' {
				return r
			}
			return '-'
		}, strings.ToLower(s)), "-")
	}
	// "compared": tables from before tilings' numbers were are left alone.
	sum := sha256.Sum256([]byte("compared " + versions))
	t := &Table{Path: filepath.Join(wire.CacheDir(), "tilings", fmt.Sprintf("%s-%x.json", word(kind), sum[:4]))}
	return t, t.Refresh()
}

// Device is what a table is about: the kind of a session's devices, and the versions of
// the plugin and of Gaiden.
func Device(s *session.Session) (kind, versions string) {
	w := s.Welcome()
	kind = w.Platform
	if len(w.Devices) > 0 {
		kind = w.Devices[0].Kind
	}
	return kind, w.PlatformVersion + " " + w.Version
}

// Refresh takes what other processes have found since the file was last read. A file that
// is missing or damaged has nothing.
func (t *Table) Refresh() error {
	st, err := os.Stat(t.Path)
	if t.Path == "" || errors.Is(err, os.ErrNotExist) {
		return nil
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil && t.read != nil && os.SameFile(st, t.read) && st.ModTime().Equal(t.read.ModTime()) {
		return nil
	}
	all, err := t.readFile()
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	t.read = st
	for key, e := range all {
		if was, is := t.known[key]; !t.mine[key] && (!is || was != e) {
			t.set(key, e)
		}
	}
	return nil
}

// readFile is what the file has: nothing where it is damaged, for a tiling in which a digit
// has changed was never compared with XLA's form.
func (t *Table) readFile() (all map[string]Entry, err error) {
	b, err := sealed.Read(t.Path)
	if _, is := errors.AsType[*sealed.DamagedError](err); is || err == nil && json.Unmarshal(b, &all) != nil {
		return nil, nil
	}
	return all, err
}

// Save writes the file: a temporary one next to the old, which it then replaces. What
// another process has found meanwhile is kept.
func (t *Table) Save() error {
	if t.Path == "" {
		return nil
	}
	t.mu.Lock()
	all, err := t.readFile()
	if err != nil || all == nil {
		all = map[string]Entry{}
	}
	for key := range t.mine {
		all[key] = t.known[key]
	}
	b, err := json.MarshalIndent(all, "", " ")
	t.mu.Unlock()
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	err = os.MkdirAll(filepath.Dir(t.Path), 0o700)
	if err == nil {
		err = sealed.Write(t.Path, b)
	}
	if err != nil {
		return fmt.Errorf("tiling: %w", err)
	}
	return nil
}

// Choose is for fused.Ops: the op with its best tiling, or nil where XLA's own
// form is faster. What is not known has its usual tiling; it is noted, and so is
// what has tilings that nobody has tried.
func (t *Table) Choose(op kernels.Op) kernels.Op {
	t.mu.Lock()
	defer t.mu.Unlock()
	e, is := t.known[op.Key()]
	if e.Tried < len(op.Tiles()) || e.Proposed {
		if t.wanted == nil {
			t.wanted = map[string]kernels.Op{}
		}
		t.wanted[op.Key()] = op
	}
	switch {
	case !is, e.Proposed && !t.useProposed && !e.Wrong:
		return fused.Usual(op)
	case e.UsePlain():
		return nil
	}
	return op.With(e.Tile)
}

// Known is what is known under a key; the zero Entry is nothing.
func (t *Table) Known(key string) Entry {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.known[key]
}

// Changes is how often something has become known.
func (t *Table) Changes() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changes
}

// Tried is how often something has been tried, of all that is known.
func (t *Table) Tried() (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range t.known {
		n += e.Tried
	}
	return n
}

// Set makes something known under a key: that of an op, or another.
func (t *Table) Set(key string, e Entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mine == nil {
		t.mine = map[string]bool{}
	}
	t.mine[key] = true
	t.set(key, e)
}

// set is Set of what the file has. The caller holds mu.
func (t *Table) set(key string, e Entry) {
	if t.known == nil {
		t.known = map[string]Entry{}
	}
	t.known[key] = e
	t.changes++
	if op := t.wanted[key]; op != nil && e.Tried >= len(op.Tiles()) && !e.Proposed {
		delete(t.wanted, key)
	}
}

// UseProposed says whether Choose takes proposals.
func (t *Table) UseProposed(proposals bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.useProposed = proposals
	t.changes++
}

// Accept makes of proposals what Choose takes.
func (t *Table) Accept(ops ...kernels.Op) {
	for _, op := range ops {
		e := t.Known(op.Key())
		e.Proposed = false
		t.Set(op.Key(), e)
	}
}

// Reset makes ops known as what fused.Usual has for them, with no tilings left
// to try: the step that they were tried for is not faster with what was found. Where the
// usual tiling is wrong, that is XLA's own form.
func (t *Table) Reset(ops ...kernels.Op) {
	for _, op := range ops {
		e := t.Known(op.Key())
		e.Tile, e.Tried, e.Proposed = kernels.Tile{}, len(op.Tiles()), false
		if fused.Usual(op) == nil || e.Wrong {
			e.Micros, e.Plain = 0, max(e.Plain, 1) // any time says that it is XLA's
		} else {
			e.Plain = 0
		}
		t.Set(op.Key(), e)
	}
}

// Wanted are the ops that Choose has met and that are not tried to the end, or are
// proposals, by their keys.
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
