package session

import (
	"path/filepath"

	"gaiden/lib/engine/wire"
)

// Snapshot saves the named arrays of the connection's space, as they are when
// what was asked for before has been accepted, and returns when they are safe
// on disk. Training by others, and by this client from other goroutines, goes on
// meanwhile. A name stays until Discard; "" is an automatic snapshot, of which
// the newest few are kept. When nothing has changed since the last one, that is
// the answer.
//
//	info, err := s.Snapshot("before pruning")
//	…
//	_, err = s.Rollback("before pruning", "")
func (s *Session) Snapshot(name string) (wire.SnapshotInfo, error) {
	a := wire.AskBody{Verb: wire.Snapshot}
	if name != "" {
		a.Names = []string{name}
	}
	return s.oneSnapshot(a)
}

// Save says that now is a good moment for an automatic snapshot, between two epochs
// say. It waits until one is written, and made is false where there is none: the last
// one took more than a twentieth of the time since then.
func (s *Session) Save() (made bool, err error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Save})
	return err == nil && len(ans.Snapshots) > 0, err
}

// Snapshots lists the snapshots of the space, oldest first.
func (s *Session) Snapshots() ([]wire.SnapshotInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Snapshots})
	if err != nil {
		return nil, err
	}
	return ans.Snapshots, nil
}

// Rollback makes the names of the space what they were at a snapshot: that of a
// name, of a number ("12"), or the newest ("" or "last"). Names that were bound
// since lose their arrays. With a prefix only names that begin with it are touched;
// SnapshotInfo.Arrays counts those that came back. What there was is saved first,
// so Rollback("") after it takes it back. Where it cannot be, SnapshotInfo.Unsaved
// says why, and Undo takes it back.
func (s *Session) Rollback(snapshot, prefix string) (wire.SnapshotInfo, error) {
	a := wire.AskBody{Verb: wire.Rollback, Prefix: prefix}
	if snapshot != "" {
		a.Names = []string{snapshot}
	}
	return s.oneSnapshot(a)
}

// MarkCell says that a new cell begins: what clients of the space change from now
// on is what Undo takes back. Gaiden's kernel calls it between cells.
func (s *Session) MarkCell(label string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Mark, Names: []string{label}})
	return err
}

// Undo gives the names of the space back what they stood for before the last cell
// that has changed some, and says how many it has changed. A second Undo takes
// the first one back. Nothing is copied for it: the first program of a cell that
// replaces an array leaves the old one alone. A cell that replaces more than a
// quarter of the device's memory, or whose old arrays were in the way of new
// ones, cannot be undone; snapshots are for those.
func (s *Session) Undo() (int, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Undo})
	if err != nil {
		return 0, err
	}
	return ans.Count, nil
}

func (s *Session) oneSnapshot(a wire.AskBody) (wire.SnapshotInfo, error) {
	ans, err := s.Ask(a)
	if err != nil {
		return wire.SnapshotInfo{}, err
	}
	if len(ans.Snapshots) != 1 {
		return wire.SnapshotInfo{}, wire.Errorf(wire.Internal, "session: got %d snapshots, want 1", len(ans.Snapshots))
	}
	return ans.Snapshots[0], nil
}

// Discard deletes snapshots by name or number.
func (s *Session) Discard(snapshots ...string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Discard, Names: snapshots})
	return err
}

// Diff says which arrays differ between two snapshots, and by how much. An empty
// to is now.
func (s *Session) Diff(from, to, prefix string) ([]wire.Difference, error) {
	a := wire.AskBody{Verb: wire.Diff, Names: []string{from}, Prefix: prefix}
	if to != "" {
		a.Names = append(a.Names, to)
	}
	ans, err := s.Ask(a)
	if err != nil {
		return nil, err
	}
	return ans.Differences, nil
}

// Export writes named arrays that begin with prefix to a safetensors file on the
// session's machine, which Python's safetensors reads: those of a snapshot, or
// ("") those of now. Metadata is kept in the file. It says how many arrays it
// wrote.
func (s *Session) Export(path, snapshot, prefix string, metadata map[string]string) (int, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return 0, err
	}
	a := wire.AskBody{Verb: wire.Export, Path: path, Prefix: prefix, Metadata: metadata}
	if snapshot != "" {
		a.Names = []string{snapshot}
	}
	ans, err := s.Ask(a)
	if err != nil {
		return 0, err
	}
	return ans.Count, nil
}

// Import binds all arrays of a safetensors file to their names with prefix
// before them, or none when the file is damaged. Files of Python's safetensors
// will do.
func (s *Session) Import(path, prefix string) ([]wire.ArrayInfo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	ans, err := s.Ask(wire.AskBody{Verb: wire.Import, Path: path, Prefix: prefix})
	if err != nil {
		return nil, err
	}
	return ans.Arrays, nil
}

// Quota bounds the memory of the space's arrays, in bytes; -1 is no bound.
func (s *Session) Quota(bytes int64) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Quota, Bytes: bytes})
	return err
}

// Rename gives an array another name. There must be none of that name.
func (s *Session) Rename(from, to string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Rename, Names: []string{from, to}})
	return err
}
