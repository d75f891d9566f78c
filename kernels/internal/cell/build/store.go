package build

import (
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"gaiden/lib/engine/sealed"
	"gaiden/lib/engine/wire"
)

// logger returns a log that may be written to.
func logger(log *slog.Logger) *slog.Logger {
	if log == nil {
		return slog.New(slog.DiscardHandler)
	}
	return log
}

// A Store keeps built cells, so that an unchanged cell is not built again, in
// this kernel or a later one. Kernels may share one, also kernels of different
// containers or machines. What it keeps is verified before it is used; what is
// damaged is removed, and built again. The zero value keeps nothing.
type Store struct {
	Dir   string       // made when it is first needed; "" = keep nothing
	Limit int64        // bytes to keep at most; 0 = 256 MiB
	Log   *slog.Logger // is told what was damaged; nil = nobody is

	verifier sealed.Verifier

	mu      sync.Mutex
	scratch *TempDir // in Dir: what is being built
	fresh   []string // files in it, the youngest last
	built   int
	pending map[string]chan struct{} // keys that are being put, closed when they are
	putting sync.WaitGroup
}

// A Binary is a cell's program, ready to run.
type Binary struct {
	Path string

	was []int // the cells' numbers when it was built
	now []int // the same cells' numbers today
}

// Cell translates the number that the program gives a cell in its tracebacks
// into the number that this cell has today: the program may have been built
// when the same text was run before.
func (b *Binary) Cell(id int) int {
	if b == nil {
		return id
	}
	if i := slices.Index(b.was, id); i >= 0 && i < len(b.now) {
		return b.now[i]
	}
	return id
}

func (s *Store) path(key string) string { return filepath.Join(s.Dir, "cell-"+key) }

// get returns the binary kept under key, nil if there is none that is whole.
func (s *Store) get(key string, now []int) *Binary {
	if s == nil || s.Dir == "" {
		return nil
	}
	s.mu.Lock()
	done := s.pending[key]
	s.mu.Unlock()
	if done != nil {
		<-done
	}
	b := &Binary{Path: s.path(key), now: now}
	note, err := s.verifier.Verify(b.Path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(note, &b.was)
	}
	info, statErr := os.Stat(b.Path)
	if err = errors.Join(err, statErr); err == nil && (len(b.was) != len(now) || info.Mode()&0o100 == 0) {
		err = errors.New("it is not a program of this cell")
	}
	if err != nil {
		logger(s.Log).Warn("a cell's program in the cache is damaged: it is built again", "file", b.Path, "error", err)
		os.RemoveAll(b.Path)
		return nil
	}
	t := time.Now()
	if age := t.Sub(info.ModTime()); age > touchAfter || age < 0 {
		os.Chtimes(b.Path, t, t) // what is used stays
	}
	return b
}

// touchAfter is how old the time of a file may be that says when it was used
// last. A file that is touched has to be verified again.
const touchAfter = time.Hour

// scratchPath returns a name for a program that is about to be built, in a directory of
// this store's own. It is removed when several others have been built.
func (s *Store) scratchPath() (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.scratch != nil {
		if _, err := os.Stat(s.scratch.Path); errors.Is(err, os.ErrNotExist) { // somebody has emptied the cache
			s.scratch.Close()
			s.scratch, s.fresh = nil, nil
		}
	}
	if s.scratch == nil {
		if err := os.MkdirAll(s.Dir, 0o700); err != nil {
			return "", err
		}
		if err := wire.TrustedPath(s.Dir); err != nil {
			return "", err
		}
		var err error
		if s.scratch, err = newTempDir(s.Dir, scratchPrefix); err != nil {
			return "", err
		}
	}
	s.built++
	file := filepath.Join(s.scratch.Path, "cell-"+strconv.Itoa(s.built))
	s.fresh = append(s.fresh, file)
	// Cells of subshells are built and started at the same time.
	for len(s.fresh) > 8 {
		os.Remove(s.fresh[0])
		s.fresh = s.fresh[1:]
	}
	return file, nil
}

const scratchPrefix = ".building-"

// put keeps a freshly built file, once it is on disk; the program can be run from
// where it is meanwhile. Where it cannot be kept it is used in place.
func (s *Store) put(key, file string, cells []int) *Binary {
	b := &Binary{Path: file, was: cells, now: cells}
	if s == nil || s.Dir == "" {
		return b
	}
	note, err := json.Marshal(cells)
	if err == nil {
		err = sealed.Append(file, filepath.Base(s.path(key)), note)
	}
	if err != nil {
		logger(s.Log).Warn("a cell's program is not kept", "error", err)
		return b
	}
	done := make(chan struct{})
	s.mu.Lock()
	if s.pending == nil {
		s.pending = map[string]chan struct{}{}
	}
	s.pending[key] = done
	s.mu.Unlock()
	s.putting.Go(func() {
		if err := sealed.Publish(file, s.path(key)); err != nil {
			logger(s.Log).Warn("a cell's program is not kept", "error", err)
		}
		s.prune(s.path(key))
		s.mu.Lock()
		if s.pending[key] == done {
			delete(s.pending, key)
		}
		s.mu.Unlock()
		close(done)
	})
	return b
}

// Close waits until all that is to be kept is on disk, and removes the rest.
func (s *Store) Close() {
	if s == nil {
		return
	}
	s.putting.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.scratch.Close()
	s.scratch, s.fresh = nil, nil
}

// prune removes the binaries longest unused until the rest is within the limit;
// the one that is about to run stays, whatever the clock says.
func (s *Store) prune(keep string) {
	limit := cmp.Or(s.Limit, 256<<20)
	for _, f := range newest(s.Dir, "cell-*") {
		limit -= f.size
		if limit < 0 && f.name != keep {
			os.RemoveAll(f.name)
		}
	}
}

type agedFile struct {
	name string
	size int64
	time time.Time
}

// newest lists the files of dir that match, the youngest first. Those that have
// their time from a clock that was set back since come last.
func newest(dir, pattern string) []agedFile {
	names, _ := filepath.Glob(filepath.Join(dir, pattern))
	var files []agedFile
	now := time.Now()
	for _, n := range names {
		if info, err := os.Stat(n); err == nil {
			t := info.ModTime()
			if t.After(now) {
				t = time.Time{}
			}
			files = append(files, agedFile{n, info.Size(), t})
		}
	}
	slices.SortFunc(files, func(a, b agedFile) int { return b.time.Compare(a.time) })
	return files
}

// prune keeps the youngest files of dir that match.
func prune(dir, pattern string, keep int) {
	for i, f := range newest(dir, pattern) {
		if i >= keep {
			os.Remove(f.name)
		}
	}
}
