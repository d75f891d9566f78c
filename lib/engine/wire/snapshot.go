package wire

import "time"

// SnapshotInfo describes a snapshot: the named arrays of a space at one moment,
// in files that Python's safetensors reads.
type SnapshotInfo struct {
	Number     int    // ascends in a space
	Name       string // "" for an automatic one
	Space      string
	Time       time.Time // the moment
	Arrays     int       // of a rollback: that came back
	Bytes      int64     // of the arrays
	Written    int64     // of them in this snapshot's own file; older files have the rest
	File       string
	Generation int
	Took       time.Duration `json:",omitempty"` // to write it
	Damaged    string        `json:",omitempty"` // why it cannot be used
	Held       string        `json:",omitempty"` // why an automatic one is kept beyond its time
	Missing    []string      `json:",omitempty"` // arrays that are not in it: their program had failed
	Unsaved    string        `json:",omitempty"` // of a rollback: why what was there could not be saved first
}

// Difference is how an array differs between two moments.
type Difference struct {
	Name     string
	Change   string // added, removed, retyped, changed; arrays that are equal are left out
	Type     Type   // at the later moment, where it exists there
	Elements int64
	Changed  int64   // elements that differ
	Largest  float64 // absolute difference of an element
	Relative float64 // norm of the difference by the norm of the earlier values, NaN-free; -1 when those are all 0
}
