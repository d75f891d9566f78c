package session

import (
	"path/filepath"

	"gaiden/lib/engine/wire"
)

// Snapshot saves the named arrays of the name space, as they are after all earlier
// requests of this connection, and returns when they are safely on disk. Training
// continues meanwhile, by other clients and by other goroutines of this one. A named
// snapshot is kept until Discard; "" makes an automatic snapshot, of which the newest
// few are kept. If nothing has changed since the last snapshot, that one is returned.
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

// Save makes an automatic snapshot now, for example between two epochs, and waits
// until it is on disk. It makes none, and made is false, if the last one took more
// than a twentieth of the time since then.
func (s *Session) Save() (made bool, err error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Save})
	return err == nil && len(ans.Snapshots) > 0, err
}

// Snapshots lists the snapshots of the name space, oldest first.
func (s *Session) Snapshots() ([]wire.SnapshotInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Snapshots})
	return ans.Snapshots, err
}

// Rollback restores the names of the name space from a snapshot, given by its name,
// its number ("12"), or "" or "last" for the newest. Names that were bound later lose
// their arrays. With a prefix, only names that begin with it change.
// SnapshotInfo.Arrays is the number of restored arrays. The current state is saved
// first, so Rollback("") reverts a Rollback; if it cannot be saved,
// SnapshotInfo.Unsaved says why, and Undo reverts the Rollback.
func (s *Session) Rollback(snapshot, prefix string) (wire.SnapshotInfo, error) {
	a := wire.AskBody{Verb: wire.Rollback, Prefix: prefix}
	if snapshot != "" {
		a.Names = []string{snapshot}
	}
	return s.oneSnapshot(a)
}

// MarkCell marks the start of a new cell: Undo reverts the changes in the name space
// since then. Gaiden's kernel calls it between cells.
func (s *Session) MarkCell(label string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Mark, Names: []string{label}})
	return err
}

// Undo reverts the names of the name space to what they were before the last cell
// that changed any, and returns the number of names it changed. A second Undo reverts
// the first. Undo needs no copies: the first program of a cell that replaces an array
// keeps the old one. A cell that replaces more than a quarter of the device's memory,
// or whose old arrays had to be freed for new ones, cannot be undone; use snapshots
// for these.
func (s *Session) Undo() (int, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Undo})
	return ans.Count, err
}

func (s *Session) oneSnapshot(a wire.AskBody) (wire.SnapshotInfo, error) {
	ans, err := s.Ask(a)
	return one(ans.Snapshots, "snapshots", err)
}

// Discard deletes snapshots by name or number.
func (s *Session) Discard(snapshots ...string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Discard, Names: snapshots})
	return err
}

// Diff returns which arrays with the prefix differ between two snapshots, and by how
// much. An empty to compares with the current state.
func (s *Session) Diff(from, to, prefix string) ([]wire.Difference, error) {
	a := wire.AskBody{Verb: wire.Diff, Names: []string{from}, Prefix: prefix}
	if to != "" {
		a.Names = append(a.Names, to)
	}
	ans, err := s.Ask(a)
	return ans.Differences, err
}

// Export writes the named arrays that begin with prefix to a safetensors file on the
// session's machine, and returns their number. snapshot is a name or number, or ""
// for the current state. The metadata is stored in the file.
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
	return ans.Count, err
}

// Import reads a safetensors file on the session's machine, and binds each array to
// its name with prefix in front. If the file is damaged, it binds none and returns an
// error.
func (s *Session) Import(path, prefix string) ([]wire.ArrayInfo, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	ans, err := s.Ask(wire.AskBody{Verb: wire.Import, Path: path, Prefix: prefix})
	return ans.Arrays, err
}

// Quota limits the device memory of the name space's arrays, in bytes; -1 removes the
// limit.
func (s *Session) Quota(bytes int64) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.Quota, Bytes: bytes})
	return err
}
