package sealed

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"syscall"
)

// A Verifier verifies files, and remembers which it has found whole: a file is
// read again when its inode, size or one of its times has changed. The zero
// Verifier is ready to use; methods may be called at the same time.
type Verifier struct {
	mu    sync.Mutex
	whole map[string]verified
}

// verified is a file that was found whole.
type verified struct {
	id   identity
	note []byte
	sum  uint32
}

// An identity changes when a file is written to or replaced.
type identity struct {
	dev, ino         uint64
	size             int64
	modified, change syscall.Timespec
}

func identify(path string) (id identity, err error) {
	var st syscall.Stat_t
	if err := syscall.Stat(path, &st); err != nil {
		return id, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return identity{uint64(st.Dev), st.Ino, st.Size, st.Mtim, st.Ctim}, nil
}

func (v *Verifier) recall(path string, id identity) (verified, bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	have, ok := v.whole[path]
	return have, ok && have.id == id
}

func (v *Verifier) learn(path string, have verified) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.whole == nil {
		v.whole = map[string]verified{}
	}
	v.whole[path] = have
}

// Verify compares a sealed file with its seal, and returns the note in it. The
// error is a *DamagedError where they differ.
func (v *Verifier) Verify(path string) (note []byte, err error) {
	id, err := identify(path)
	if err != nil {
		return nil, err
	}
	if have, ok := v.recall(path, id); ok {
		return have.note, nil
	}
	f, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if _, note, err = verify(f, info.Size(), path); err != nil {
		return nil, err
	}
	v.learn(path, verified{id: id, note: note})
	return note, nil
}

// Sum returns the checksum of a file that has no seal: another program's cache
// holds it, and its user keeps the checksum apart.
func (v *Verifier) Sum(path string) (uint32, error) {
	id, err := identify(path)
	if err != nil {
		return 0, err
	}
	if have, ok := v.recall(path, id); ok {
		return have.sum, nil
	}
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	sum, _, err := checksum(f)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	v.learn(path, verified{id: id, sum: sum})
	return sum, nil
}
