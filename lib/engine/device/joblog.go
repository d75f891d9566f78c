package device

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"gaiden/lib/engine/wire"
)

// jobLog is what a job has reported: lines of JSON in a file, and where each of
// them begins.
type jobLog struct {
	mu      sync.Mutex // protects following
	f       *os.File
	ends    []int64 // of the lines
	written int     // lines that the file had when it was opened, also beyond those that were read
	newest  map[string]wire.JobEntry
	changed chan struct{} // closed at the next change
}

// newLog is a log without entries and without a file yet.
func newLog() *jobLog {
	return &jobLog{newest: map[string]wire.JobEntry{}, changed: make(chan struct{})}
}

// openLog opens the log at path and reads its first entries, at most n of them;
// "" is a log that ends with the worker. The file is as it was until cut.
func openLog(path string, n int) (*jobLog, error) {
	l := newLog()
	return l, l.open(path, n)
}

func (l *jobLog) open(path string, n int) (err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if path == "" {
		if l.f, err = os.CreateTemp("", "gaiden-job-*"); err == nil {
			err = os.Remove(l.f.Name())
		}
	} else {
		l.f, err = os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	}
	if err != nil {
		return err
	}
	for r := bufio.NewReader(l.f); len(l.ends) < n; {
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF { // not torn: nothing is cut
			l.f.Close()
			return err
		}
		var e wire.JobEntry
		if err != nil || json.Unmarshal(line, &e) != nil || e.Number != len(l.ends) {
			break // torn: what comes after it is done again
		}
		l.ends = append(l.ends, l.end()+int64(len(line)))
		l.newest[e.Name] = e
	}
	l.written = len(l.ends)
	for rest := bufio.NewReader(io.NewSectionReader(l.f, l.end(), math.MaxInt64-l.end())); ; l.written++ {
		if _, err := rest.ReadSlice('\n'); err == bufio.ErrBufferFull {
			l.written-- // of a long line
		} else if err != nil {
			return nil // what follows is cut
		}
	}
}

// cut removes from the file what comes after the entries that were read.
func (l *jobLog) cut() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.f.Truncate(l.end())
}

func (l *jobLog) end() int64 {
	if n := len(l.ends); n > 0 {
		return l.ends[n-1]
	}
	return 0
}

// append numbers and writes entries. They count also when they could not be
// written.
func (l *jobLog) append(entries []wire.JobEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var failed error
	for _, e := range entries {
		e.Number = len(l.ends)
		b := append(wire.JSON(e), '\n')
		if _, err := l.f.WriteAt(b, l.end()); err != nil {
			failed = err
			break
		}
		l.ends = append(l.ends, l.end()+int64(len(b)))
		l.newest[e.Name] = e
	}
	l.wake()
	return failed
}

// wake tells those who wait for a change. The caller holds l.mu.
func (l *jobLog) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *jobLog) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake()
}

func (l *jobLog) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.ends)
}

func (l *jobLog) last(name string) (wire.JobEntry, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e, ok := l.newest[name]
	return e, ok
}

// answerBytes is about how much of a log goes into one answer: who follows a long one sees its
// beginning at once.
const answerBytes = 1 << 20

// from reads entries from number n on, and the channel that tells of more.
func (l *jobLog) from(n int) ([]wire.JobEntry, <-chan struct{}, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n < 0 || n >= len(l.ends) {
		return nil, l.changed, nil
	}
	begin := int64(0)
	if n > 0 {
		begin = l.ends[n-1]
	}
	var list []wire.JobEntry
	r := bufio.NewReader(io.NewSectionReader(l.f, begin, l.end()-begin))
	for ; n < len(l.ends) && (len(list) == 0 || l.ends[n]-begin < answerBytes); n++ {
		line, err := r.ReadBytes('\n')
		var e wire.JobEntry
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return list, l.changed, fmt.Errorf("entry %d of the log: %w", n, err)
		}
		list = append(list, e)
	}
	return list, l.changed, nil
}

func (l *jobLog) close() { l.f.Close() }

// jobFile is what is on disk of a job besides its log.
type jobFile struct {
	Body  *wire.JobBody
	Info  wire.JobInfo
	Began jobMoment // where it was when its state was written
	attempts
}

// attempts are how often a job has continued from one place after the worker's end, and how many
// entries its log ever had then. One that comes further each time does not kill the worker: it
// loses hosts, or the machine.
type attempts struct {
	Tries, Furthest int
}

// next are the attempts when a job continues at a moment, with so many entries in its log.
func (f jobFile) next(at jobMoment, written int) attempts {
	if at.Place != f.Began.Place || written > f.Furthest {
		return attempts{1, written}
	}
	return attempts{f.Tries + 1, f.Furthest}
}

// jobPath is the beginning of a job's files.
func (a *archive) jobPath(name string) string {
	h := sha256.Sum256([]byte(name))
	return filepath.Join(a.dir, "job-"+hex.EncodeToString(h[:16]))
}

// damagedJob is put behind the name of a job's file that cannot be read.
const damagedJob = ".damaged"

// jobOf is the name of the job that a file is of, as far as a snapshot tells it.
func (a *archive) jobOf(path string, r *record) string {
	if r != nil {
		for n := range r.about.Jobs {
			if a.jobPath(n)+".json" == path {
				return wire.Shown(n)
			}
		}
	}
	return "of a name that is not known"
}

// store saves what the job is and does, so that it continues after a crash.
func (j *runner) store(state wire.JobState) {
	a := j.space.archive
	if a == nil {
		return
	}
	j.w.mu.Lock()
	f := jobFile{j.body, j.info(), jobMoment{j.place, j.log.count(), j.best, j.worse}, j.attempts}
	j.w.mu.Unlock()
	f.Info.State = state
	err := wire.PrivateDir(a.dir)
	if err == nil {
		err = wire.ReplaceFile(a.jobPath(j.body.Name)+".json", wire.JSON(f))
	}
	if err != nil {
		j.w.trouble(j.space, fmt.Errorf("job %s: %w", j.body.Name, err))
	}
}
