package device

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// space is the name space of a notebook, and what is counted for it. Its arrays
// come back from disk when the first client asks for the space: a session does
// not fill the device with what nobody wants today.
type space struct {
	name    string
	arrival sync.Once
	again   sync.Mutex // held while what is on disk is tried again
	archive *archive   // nil: nothing is kept on disk

	// Protected by Worker.mu.
	bytes      int64 // of arrays that its clients made
	quotaKnown bool  // what is on disk of it has been read, or another one set
	quota      int64 // for them, 0 is none
	saving
	restoring
	spaceJobs
	undoable
}

// saving is what of a space is in snapshots.
type saving struct {
	names   int64 // counts names that are new or taken away
	version int64 // counts changes of what its names stand for
	saved   int64 // version that the newest snapshot has
	changed time.Time
	since   time.Time     // of the first change that no snapshot has
	kept    time.Time     // moment of the newest snapshot
	effort  time.Duration // that it took
	retry   time.Time     // not before: the last one has failed
}

// restoring is what came back from disk.
type restoring struct {
	note       string // what did, and what did not
	news       bool   // the note is of something that is not back, and nobody has listened yet
	unrestored error  // why what is on disk is not here, nil if it is; tried again
}

// spaceJobs are the jobs that change a space's arrays, and who keeps others from it.
type spaceJobs struct {
	jobs    map[string]*runner
	waiting map[string]waitingJob // jobs on disk whose snapshot is not restored
	locks   []*nameLock
	working int // jobs in the middle of a step
	freezes int // snapshots that wait for them to come to its end
}

// undoable is the last cell that has changed names.
type undoable struct {
	undo   *undo  // nil if none has
	cell   string // what the cell is called that changes names now
	marked bool   // it has not changed one yet
}

// unsaved is no version: what the names stand for is in no snapshot.
const unsaved = -1

// touch notes that names of the space have changed. The caller holds w.mu.
func (s *space) touch(now time.Time) {
	if s.version == s.saved {
		s.since = now
	}
	s.version++
	s.changed = now
}

// spaceOf is the space of that name. The caller holds w.mu.
func (w *Worker) spaceOf(name string) *space {
	s := w.spaces[name]
	if s == nil {
		s = &space{name: name, spaceJobs: spaceJobs{jobs: map[string]*runner{}}}
		if w.State != "" && w.stateOff == "" {
			s.archive = &archive{dir: archiveDir(w.State, name), space: name}
		}
		w.spaces[name] = s
	}
	return s
}

// enter is the space of that name with its arrays back from disk.
func (w *Worker) enter(name string) *space {
	w.mu.Lock()
	s := w.spaceOf(name)
	w.mu.Unlock()
	s.arrival.Do(func() { w.recover(s) })
	return s
}

// copied says whether a name is of a job's copies, which its steps make again: no snapshot
// has them. The caller holds Worker.mu.
func (s *space) copied(n string) bool {
	for _, j := range s.jobs {
		if c := j.body.Copies; c != "" && strings.HasPrefix(n, c) {
			return true
		}
	}
	return false
}

// spaceFile is what is kept of a space besides snapshots.
type spaceFile struct {
	Space string
	Quota int64
	Names []string  // that were bound; after a crash it tells what is lost
	Time  time.Time // of Names
}

// openState takes the directory of snapshots, which belongs to one session at a
// time.
func (w *Worker) openState() {
	if w.State == "" {
		w.stateOff = "no directory was given"
		return
	}
	if err := wire.PrivateDir(w.State); err != nil {
		w.stateOff = err.Error()
		if e, is := errors.AsType[*wire.Error](err); is {
			w.stateNext = e.Next
		}
	} else if w.stateLock, err = os.OpenFile(filepath.Join(w.State, "lock"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		w.stateOff = err.Error()
	} else {
		for end := time.Now().Add(2 * time.Second); ; time.Sleep(5 * time.Millisecond) { // the last worker is being buried
			if err = unix.Flock(int(w.stateLock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err == nil {
				break
			}
			if time.Now().After(end) {
				w.stateOff = "another session keeps its snapshots in " + w.State
				break
			}
		}
	}
	if w.stateOff != "" {
		w.Logf("snapshots are off: %s", w.stateOff)
	}
}

// tell sets what clients of a space hear when they come.
func (w *Worker) tell(s *space, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	w.Logf("space %q: %s", s.name, text)
	w.mu.Lock()
	s.note, s.news = text, s.news || text != s.note
	w.mu.Unlock()
}

// news says whether a space's note is to be shown to whoever asks, and that it has been.
func (w *Worker) news(s *space) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	news := s.news
	s.news = false
	return news
}

// adopt gives restored arrays their names; other names of the space that have
// the prefix are taken away. The caller holds w.mu; the names inherit its
// references.
func (w *Worker) adopt(s *space, names []string, arrays []*array, prefix string) {
	keep := map[string]bool{}
	for i, n := range names {
		keep[n] = true
		full := name{s.name, n}
		w.preserve(full)
		old := w.bind(full, arrays[i])
		if old != nil {
			w.release(old)
		}
		w.release(arrays[i]) // the name holds it now
	}
	for n := range w.names {
		if n.space == s.name && strings.HasPrefix(n.name, prefix) && !keep[n.name] {
			w.preserve(n)
			w.unbind(n)
		}
	}
	s.touch(time.Now())
}

// missing are the words of all that are not in have.
func missing(all, have []string) []string {
	m := map[string]bool{}
	for _, n := range have {
		m[n] = true
	}
	var l []string
	for _, n := range all {
		if !m[n] {
			l = append(l, n)
		}
	}
	return l
}

// some lists the first few of many names.
func some(l []string) string {
	if len(l) > 6 {
		return fmt.Sprintf("%s and %d more", strings.Join(l[:5], ", "), len(l)-5)
	}
	return strings.Join(l, ", ")
}
