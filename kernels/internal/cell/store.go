package cell

import (
	"cmp"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A Store keeps built cells, so that an unchanged cell is not built again, in
// this kernel or a later one. The zero value keeps nothing.
type Store struct {
	Dir   string // made when it is first needed; "" = keep nothing
	Limit int64  // bytes to keep at most; 0 = 256 MiB
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

// get returns the binary kept under key.
func (s *Store) get(key string, now []int) *Binary {
	if s == nil || s.Dir == "" {
		return nil
	}
	b := &Binary{Path: s.path(key), now: now}
	data, err := os.ReadFile(b.Path + ".json")
	if err != nil || json.Unmarshal(data, &b.was) != nil || len(b.was) != len(now) {
		return nil
	}
	if info, err := os.Stat(b.Path); err != nil || info.Mode()&0o100 == 0 {
		return nil
	}
	t := time.Now()
	os.Chtimes(b.Path, t, t) // what is used stays
	return b
}

// put moves a freshly built file into the store and returns where it is now;
// where it cannot be kept it is used in place.
func (s *Store) put(key, file string, cells []int) *Binary {
	b := &Binary{Path: file, was: cells, now: cells}
	if s == nil || s.Dir == "" || os.MkdirAll(s.Dir, 0o700) != nil {
		return b
	}
	data, err := json.Marshal(cells)
	if err != nil || writeAtomic(s.path(key)+".json", data, 0o600) != nil {
		return b
	}
	if os.Rename(file, s.path(key)) != nil {
		return b
	}
	b.Path = s.path(key)
	s.prune(b.Path)
	return b
}

// prune removes the binaries longest unused until the rest is within the limit;
// the one that is about to run stays, whatever the clock says.
func (s *Store) prune(keep string) {
	limit := cmp.Or(s.Limit, 256<<20)
	for _, f := range newest(s.Dir, "cell-*") {
		limit -= f.size
		if limit < 0 && f.name != keep && f.name != keep+".json" {
			os.Remove(f.name)
			os.Remove(f.name + ".json")
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
