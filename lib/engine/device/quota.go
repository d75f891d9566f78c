package device

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"gaiden/lib/engine/typo"
	"gaiden/lib/engine/wire"
)

// setQuota bounds what the arrays of a space may take.
func (w *Worker) setQuota(s *space, bytes int64) *wire.Error {
	switch {
	case bytes == 0:
		return wire.Errorf(wire.Invalid, "quota of 0 bytes: nothing would fit").WithHint("give a size, or none (-1 in Go) for no bound")
	case bytes < 0:
		bytes = 0
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	s.quota, s.quotaKnown = bytes, true
	s.names++ // it is written with them
	return nil
}

// room refuses bytes more than the quota of a space allows. The caller holds
// w.mu.
func (w *Worker) room(s *space, bytes int64) *wire.Error {
	if s == nil || s.quota == 0 || bytes <= 0 || s.bytes+bytes <= s.quota {
		return nil
	}
	if w.forgetUndo(s, "the quota left no room"); s.bytes+bytes <= s.quota {
		return nil
	}
	return wire.Errorf(wire.OutOfMemory, "notebook %q would hold %s: its quota is %s", s.name, megabytes(s.bytes+bytes), megabytes(s.quota))
}

// spaceList describes the spaces, those on disk too.
func (w *Worker) spaceList() []wire.SpaceInfo {
	m := map[string]*wire.SpaceInfo{}
	w.mu.Lock()
	for _, s := range w.spaces {
		if s.bytes > 0 || s.quota > 0 || s.version > 0 || s.note != "" {
			i := &wire.SpaceInfo{Space: s.name, Bytes: s.bytes, Quota: s.quota, Saved: s.kept, Note: s.note}
			if s.undo != nil {
				i.Undo = s.undo.alone()
			}
			m[s.name] = i
		}
	}
	for n := range w.names {
		if i := m[n.space]; i != nil {
			i.Arrays++
		}
	}
	w.mu.Unlock()
	for dir, f := range w.onDisk() {
		if m[f.Space] == nil {
			m[f.Space] = &wire.SpaceInfo{Space: f.Space, Arrays: len(f.Names), Quota: f.Quota, Saved: newestFile(dir), Note: "on disk"}
		}
	}
	var l []wire.SpaceInfo
	for _, i := range m {
		l = append(l, *i)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Space < l[j].Space })
	return l
}

// onDisk are the spaces that have names on disk, by their directory.
func (w *Worker) onDisk() map[string]spaceFile {
	m := map[string]spaceFile{}
	if w.stateOff != "" {
		return m
	}
	files, _ := filepath.Glob(filepath.Join(w.State, "*", "space.json"))
	for _, path := range files {
		var f spaceFile
		if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &f) == nil && len(f.Names) > 0 {
			m[filepath.Dir(path)] = f
		}
	}
	return m
}

// newestFile is when the newest snapshot in a directory was written, zero if
// there is none.
func newestFile(dir string) (newest time.Time) {
	files, _ := filepath.Glob(filepath.Join(dir, "*.safetensors"))
	for _, path := range files {
		if st, err := os.Stat(path); err == nil && st.ModTime().After(newest) {
			newest = st.ModTime()
		}
	}
	return newest
}

// strange explains that a space has no arrays, with the name of one that may be
// meant: a notebook's name space is its path without the ending. It is nil when
// the space has some. The caller holds w.mu.
func (w *Worker) strange(space string) *wire.Error {
	known := map[string]bool{}
	for n := range w.names {
		known[n.space] = true
	}
	if known[space] {
		return nil
	}
	for _, f := range w.onDisk() {
		known[f.Space] = true
	}
	e := wire.Errorf(wire.NotFound, "notebook %q has no arrays", space)
	file := func(s string) string { return strings.TrimSuffix(filepath.Base(s), ".ipynb") }
	var all, same []string
	for s := range known {
		all = append(all, s)
		if file(s) == file(space) && s != space {
			same = append(same, s)
		}
	}
	sort.Strings(same)
	near := typo.Within(len(space)/3+1, space, all)
	if len(same) > 0 {
		near = same[0]
	}
	if near != "" && near != space {
		e.Text += fmt.Sprintf("; did you mean notebook %q?", near) // in the text: what a cell prints or panics with has no hint
	}
	return e.WithHint("%%device lists the notebooks that have some")
}
