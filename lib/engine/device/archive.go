package device

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"gaiden/lib/engine/safetensors"
	"gaiden/lib/engine/typo"
	"gaiden/lib/engine/wire"
)

// archive is the directory of a space's snapshots: files 00000012.auto.safetensors
// and so on, whose numbers ascend. A file has the arrays that were new at its
// moment, and says which older files have the others: a data set is written
// once, however often the weights next to it are.
type archive struct {
	dir, space string
	limit      int64 // of its files in bytes; 0: archiveLimit

	mu      sync.Mutex // held while files are read or written; taken before Worker.mu
	known   bool       // records are those on disk
	removed bool       // files have gone since the last snapshot was written: what it had may be nowhere
	records []*record  // by number
	unheld  bool       // the newest one could not be restored, and is not known to be held
	awaited int        // number of the one that could not be restored, 0 if it is not known
	last    int        // the highest number there was: none is used twice while arrays remember it
}

// Kinds of files. A held one is an automatic snapshot that could not be restored
// when it was to be: it stays until it has been, or its user deletes it. A part is a
// file whose snapshot was given up but whose arrays a later one needs.
const (
	auto  = "auto"
	saved = "named"
	held  = "held"
	part  = "part"
)

// record is one file of an archive.
type record struct {
	number  int
	kind    string
	size    int64
	about   metadata
	tensors map[string]safetensors.Tensor

	damaged error // its contents are proven to be wrong: nothing of it is needed
	broken  error // another file does not have what it needs of it
	unread  error // it could not be read: nothing is known of it, and list tries again
	foreign error // it is another notebook's, and never touched
}

// metadata is what a file says of its snapshot besides the arrays it has.
type metadata struct {
	Space      string
	Name       string `json:",omitempty"`
	Time       time.Time
	Generation int
	Elsewhere  []tensorRef          `json:",omitempty"`
	Devices    map[string]int       `json:",omitempty"` // of arrays that are not on device 0
	Complex    []string             `json:",omitempty"` // complex arrays, which the format does not have: pairs of floats
	Missing    []string             `json:",omitempty"`
	Jobs       map[string]jobMoment `json:",omitempty"`
}

// tensorRef is an array whose data is in an older file.
type tensorRef struct {
	Name   string
	File   int
	Tensor string
}

// place is where the data of an array is on disk.
type place struct {
	archive *archive
	file    int
	tensor  string
}

const aboutKey = "gaiden"

func archiveDir(state, space string) string {
	h := sha256.Sum256([]byte(space))
	return filepath.Join(state, hex.EncodeToString(h[:16]))
}

func (a *archive) path(r *record) string {
	return filepath.Join(a.dir, fmt.Sprintf("%08d.%s.safetensors", r.number, r.kind))
}

// list reads the directory, the first time. The caller holds a.mu, as for the
// methods below.
func (a *archive) list() ([]*record, error) {
	if a.known && a.lacks() { // somebody has removed files
		a.known, a.removed = false, true
	}
	if a.known {
		for _, r := range a.records {
			if r.unread != nil {
				r.read(a)
			}
		}
		return a.records, nil
	}
	l, err := os.ReadDir(a.dir)
	if err != nil && !os.IsNotExist(err) {
		return nil, err
	}
	a.records = nil
	for _, e := range l {
		if strings.Contains(e.Name(), ".new-") {
			os.Remove(filepath.Join(a.dir, e.Name())) // of a worker that died while it wrote
			continue
		}
		number, rest, _ := strings.Cut(e.Name(), ".")
		kind, end, _ := strings.Cut(rest, ".")
		n, err := strconv.Atoi(number)
		if err != nil || end != "safetensors" || !slices.Contains([]string{auto, saved, held, part}, kind) {
			continue
		}
		r := &record{number: n, kind: kind}
		r.read(a)
		a.records = append(a.records, r)
	}
	sort.Slice(a.records, func(i, j int) bool { return a.records[i].number < a.records[j].number })
	if n := len(a.records); n > 0 {
		a.last = max(a.last, a.records[n-1].number)
	}
	a.known = true
	return a.records, nil
}

// lacks says whether a file of a record is no longer there.
func (a *archive) lacks() bool {
	return slices.ContainsFunc(a.records, func(r *record) bool {
		_, err := os.Stat(a.path(r))
		return errors.Is(err, fs.ErrNotExist)
	})
}

// read fills r from its file's header.
func (r *record) read(a *archive) {
	r.unread = nil
	if st, err := os.Stat(a.path(r)); err == nil {
		r.size = st.Size()
	}
	f, err := safetensors.Open(a.path(r))
	if errors.Is(err, safetensors.ErrDamaged) {
		r.damaged = err
		return
	}
	if err != nil {
		r.unread = err
		return
	}
	defer f.Close()
	if err := json.Unmarshal([]byte(f.Metadata[aboutKey]), &r.about); err != nil {
		r.foreign = fmt.Errorf("its description: %w", err) // its sum is right: another program wrote it
		return
	}
	if r.about.Space != a.space {
		r.foreign = fmt.Errorf("it is a snapshot of notebook %q", r.about.Space)
		return
	}
	r.setTensors(f.Header)
}

func (r *record) setTensors(h *safetensors.Header) {
	r.tensors = make(map[string]safetensors.Tensor, len(h.Tensors))
	for _, t := range h.Tensors {
		r.tensors[t.Name] = t
	}
}

func (a *archive) record(number int) *record {
	i := sort.Search(len(a.records), func(i int) bool { return a.records[i].number >= number })
	if i < len(a.records) && a.records[i].number == number {
		return a.records[i]
	}
	return nil
}

// names lists the arrays of a snapshot with the positions of their data.
func (a *archive) names(r *record) map[string]place {
	m := make(map[string]place, len(r.tensors)+len(r.about.Elsewhere))
	for n := range r.tensors {
		m[n] = place{a, r.number, n}
	}
	for _, e := range r.about.Elsewhere {
		m[e.Name] = place{a, e.File, e.Tensor}
	}
	return m
}

// flaw is why a snapshot cannot be restored, as far as is known, nil if it can be.
func (a *archive) flaw(r *record) error {
	if err := cmp.Or(r.damaged, r.broken, r.unread, r.foreign); err != nil {
		return err
	}
	for _, e := range r.about.Elsewhere {
		if o := a.record(e.File); o == nil || o.damaged != nil {
			return fmt.Errorf("array %s is in file %d, which is gone or damaged", e.Name, e.File)
		}
	}
	return nil
}

// fileError is what went wrong with one file of an archive.
type fileError struct {
	number int
	err    error
}

func (e *fileError) Error() string { return e.err.Error() }
func (e *fileError) Unwrap() error { return e.err }

// errGone says that a file that another one needs is not there.
var errGone = errors.New("that file is gone")

// blame notes what an error says of the file it is about, and of snapshot r, which
// could not be read because of it. It reports whether that is for good: an error that
// may not come again, such as one of too many open files, proves nothing.
func (a *archive) blame(r *record, err error) bool {
	var f *fileError
	if !errors.As(err, &f) {
		return r.damaged != nil || r.broken != nil // known before
	}
	gone := errors.Is(err, errGone) || errors.Is(err, fs.ErrNotExist)
	if !gone && !errors.Is(err, safetensors.ErrDamaged) {
		return false
	}
	if o := a.record(f.number); o != nil && !gone {
		o.damaged = err
	}
	if f.number != r.number || gone {
		r.broken = err
	}
	return true
}

// newestWord is what a user types for the newest snapshot.
const newestWord = "last"

// find is the snapshot that a user means by a name or a number; "" and newestWord
// are the newest.
func (a *archive) find(word string) (*record, *wire.Error) {
	l, err := a.list()
	if err != nil {
		return nil, asError(err)
	}
	if word == newestWord {
		word = ""
	}
	var names []string
	for i := len(l) - 1; i >= 0; i-- {
		r := l[i]
		if r.kind == part {
			continue
		}
		if word == "" && (r.unread != nil || a.flaw(r) == nil) || word != "" && (r.about.Name == word || strconv.Itoa(r.number) == word) {
			switch flaw := a.flaw(r); {
			case r.unread != nil:
				return nil, wire.Errorf(wire.Unavailable, "snapshot %d cannot be read now: %v", r.number, r.unread).WithHint("it is kept: try again; %%snapshot list shows the others")
			case r.foreign != nil:
				return nil, wire.Errorf(wire.Invalid, "snapshot %d: %v", r.number, r.foreign).WithHint("%%snapshot list shows the others")
			case flaw != nil:
				return nil, wire.Errorf(wire.Invalid, "snapshot %s is damaged: %v", word, flaw).WithHint("%%snapshot list shows the others")
			}
			return r, nil
		}
		if r.about.Name != "" {
			names = append(names, r.about.Name)
		}
	}
	if word == "" {
		return nil, wire.Errorf(wire.NotFound, "notebook %q has no snapshot", a.space).WithHint("%%snapshot NAME makes one")
	}
	e := wire.Errorf(wire.NotFound, "notebook %q has no snapshot %.80q", a.space, word)
	if near := typo.Within(len(word)/3+1, word, names); near != "" {
		e.Text += fmt.Sprintf("; did you mean %q?", near) // in the text: what a cell prints or panics with has no hint
	}
	return nil, e.WithHint("%%snapshot list shows what there is")
}

// newest is the newest snapshot, nil if there is none that is whole.
func (a *archive) newest() *record {
	for i := len(a.records) - 1; i >= 0; i-- {
		if r := a.records[i]; r.kind != part && a.flaw(r) == nil {
			return r
		}
	}
	return nil
}

// info describes a snapshot.
func (a *archive) info(r *record) wire.SnapshotInfo {
	i := wire.SnapshotInfo{Number: r.number, Name: r.about.Name, Space: a.space, Time: r.about.Time, Generation: r.about.Generation, File: a.path(r), Missing: r.about.Missing}
	if r.kind == held {
		i.Held = "it could not be restored, and is kept until it is restored or deleted"
	}
	if flaw := a.flaw(r); flaw != nil {
		i.Damaged = flaw.Error()
		if r.unread != nil {
			i.Damaged = "cannot be read now: " + i.Damaged
		}
	}
	for _, t := range r.tensors {
		i.Written += t.Size()
	}
	i.Arrays, i.Bytes = len(r.tensors)+len(r.about.Elsewhere), i.Written
	for _, e := range r.about.Elsewhere {
		if o := a.record(e.File); o != nil {
			i.Bytes += o.tensors[e.Tensor].Size()
		}
	}
	return i
}

// readSpace and writeSpace keep what is known of the space besides snapshots.
func (a *archive) readSpace() (f spaceFile, err error) {
	b, err := os.ReadFile(filepath.Join(a.dir, "space.json"))
	switch {
	case os.IsNotExist(err):
		return f, nil
	case err != nil:
		return f, err
	case json.Unmarshal(b, &f) != nil || f.Space != a.space:
		return spaceFile{}, nil
	}
	return f, nil
}

func (a *archive) writeSpace(b []byte) error {
	if err := wire.PrivateDir(a.dir); err != nil {
		return err
	}
	return wire.ReplaceFile(filepath.Join(a.dir, "space.json"), b)
}
