package device

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// Bounds of what is kept on disk for a space. archiveLimit bounds how many snapshots
// there are, not whether there is one: however large the arrays are, the newest
// automatic snapshot is written where the disk has room for it, and the one before
// it is given up only then.
const (
	keptSnapshots = 3        // automatic ones, where they fit
	archiveLimit  = 64 << 30 // bytes of one space's files
	spareDisk     = 64 << 20 // bytes that a snapshot leaves free
)

// excess are the automatic snapshots beyond the newest keep ones that can be
// restored, number spare apart. One that could not be read, or restored, is no
// excess: nobody knows yet what is lost with it.
func (a *archive) excess(keep, spare int) (l []*record) {
	n := 0
	for i := len(a.records) - 1; i >= 0; i-- {
		r := a.records[i]
		switch {
		case r.kind != auto || r.number == spare || r.unread != nil || r.foreign != nil:
		case r.damaged != nil:
			l = append(l, r)
		case a.flaw(r) != nil:
			if n >= keep {
				l = append(l, r)
			}
		default:
			if n++; n > keep {
				l = append(l, r)
			}
		}
	}
	return l
}

// useless are the parts that nobody needs once the given snapshots have become parts
// too; more are files that a snapshot needs which is not written yet.
func (a *archive) useless(given []*record, more []tensorRef) (l []*record) {
	isPart, needed := map[*record]bool{}, map[int]bool{}
	unread := 0 // the newest that could not be read: it may need any older file
	for _, r := range given {
		isPart[r] = true
	}
	for _, e := range more {
		needed[e.File] = true
	}
	for _, r := range a.records {
		isPart[r] = isPart[r] || r.kind == part
		if isPart[r] {
			continue
		}
		if r.unread != nil {
			unread = r.number
		}
		for _, e := range r.about.Elsewhere {
			needed[e.File] = true
		}
	}
	for _, r := range a.records {
		if isPart[r] && !needed[r.number] && r.number > unread {
			l = append(l, r)
		}
	}
	return l
}

// prune gives up automatic snapshots beyond the newest keep ones, number spare apart,
// and removes files that no snapshot needs: none of those that more names. What could
// not be removed is tried again next time.
func (a *archive) prune(keep, spare int, more ...tensorRef) error {
	var failed error
	for _, r := range a.excess(keep, spare) {
		failed = errors.Join(failed, a.become(r, part))
	}
	gone := map[*record]bool{}
	for _, r := range a.useless(nil, more) {
		if err := os.Remove(a.path(r)); err == nil || os.IsNotExist(err) {
			gone[r] = true
		} else {
			failed = errors.Join(failed, err)
		}
	}
	var left []*record
	for _, r := range a.records {
		if !gone[r] {
			left = append(left, r)
		}
	}
	a.records = left
	return failed
}

// size is how many bytes the files take, and freed how many of them would go if only
// keep automatic snapshots were kept.
func (a *archive) size(keep, spare int, more []tensorRef) (size, freed int64) {
	for _, r := range a.records {
		size += r.size
	}
	for _, r := range a.useless(a.excess(keep, spare), more) {
		freed += r.size
	}
	return size, freed
}

// makeRoom sees that a snapshot fits that writes so many bytes and needs the files of
// more. Where the disk or the archive's limit has no room next to the automatic
// snapshots that there are, it gives up the oldest of them, never the newest one. It
// refuses, and gives up none, what the disk would have no room for even then, and a
// snapshot with a name for which the others with names leave none.
func (a *archive) makeRoom(bytes int64, named bool, spare int, more []tensorRef) error {
	disk := func() (int64, bool) {
		var fs unix.Statfs_t
		err := unix.Statfs(a.dir, &fs)
		return int64(fs.Bavail) * fs.Bsize, err == nil
	}
	free, known := disk()
	for keep := keptSnapshots; keep > 0; keep-- {
		size, freed := a.size(keep, spare, more)
		onDisk := !known || bytes+spareDisk <= free+freed
		inLimit := size-freed+bytes <= a.bound()
		if keep == 1 && !onDisk {
			return wire.Errorf(wire.Unavailable, "snapshot of %s: disk has %s left, and %s are kept free", megabytes(bytes), megabytes(free), megabytes(spareDisk)).
				WithHint("make room, or delete snapshots; those that exist are kept")
		}
		if keep == 1 && !inLimit && named && a.hasNamed() {
			return wire.Errorf(wire.Invalid, "snapshots of notebook %q would take %s: limit is %s", a.space, megabytes(size-freed+bytes), megabytes(a.bound())).WithHint("delete some that have names")
		}
		if onDisk && inLimit || keep == 1 {
			if keep == keptSnapshots || freed == 0 {
				return nil
			}
			return a.prune(keep, spare, more...)
		}
	}
	return nil
}

// tidy gives up automatic snapshots beyond the newest keptSnapshots, and so many more
// that the rest is within the limit, but for the newest.
func (a *archive) tidy(spare int) error {
	keep := keptSnapshots
	for ; keep > 1; keep-- {
		if size, freed := a.size(keep, spare, nil); size-freed <= a.bound() {
			break
		}
	}
	return a.prune(keep, spare)
}

// bound is the limit of this archive.
func (a *archive) bound() int64 {
	if a.limit > 0 {
		return a.limit
	}
	return archiveLimit
}

func (a *archive) hasNamed() bool {
	return slices.ContainsFunc(a.records, func(r *record) bool { return r.kind == saved })
}

// become changes the kind of a file.
func (a *archive) become(r *record, kind string) error {
	to := *r
	to.kind = kind
	if err := os.Rename(a.path(r), a.path(&to)); err != nil {
		return err
	}
	r.kind = kind
	return nil
}

// hold keeps snapshots that are to be restored but cannot be now: r, or the newest one
// where it is not known which.
func (a *archive) hold(r *record) error {
	if r == nil {
		l, err := a.list()
		if err != nil {
			return err
		}
		for i := len(l) - 1; i >= 0 && r == nil; i-- {
			if l[i].kind != part && l[i].damaged == nil && l[i].foreign == nil {
				r = l[i]
			}
		}
	}
	if r == nil {
		return nil
	}
	if a.awaited = r.number; r.kind != auto {
		return nil
	}
	return a.become(r, held)
}
