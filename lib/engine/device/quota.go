package device

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sort"

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
	s.quota = bytes
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
			m[s.name] = &wire.SpaceInfo{Space: s.name, Bytes: s.bytes, Quota: s.quota, Saved: s.kept, Note: s.note}
		}
	}
	for n := range w.names {
		if i := m[n.space]; i != nil {
			i.Arrays++
		}
	}
	w.mu.Unlock()
	if w.stateOff == "" {
		dirs, _ := filepath.Glob(filepath.Join(w.State, "*", "space.json"))
		for _, path := range dirs {
			var f spaceFile
			if b, err := os.ReadFile(path); err == nil && json.Unmarshal(b, &f) == nil && m[f.Space] == nil && len(f.Names) > 0 {
				m[f.Space] = &wire.SpaceInfo{Space: f.Space, Arrays: len(f.Names), Quota: f.Quota, Note: "on disk"}
			}
		}
	}
	var l []wire.SpaceInfo
	for _, i := range m {
		l = append(l, *i)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Space < l[j].Space })
	return l
}
