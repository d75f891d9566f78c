package cell

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// A TempDir is a temporary directory that is known to be in use: as long as its
// process lives, the system holds a lock for it.
type TempDir struct {
	Path string
	lock *os.File
}

// tempPrefix begins the names of temporary directories, tempLock is the file
// in each that is locked.
const tempPrefix, tempLock = "gaiden-kernel-", "lock"

// NewTempDir makes a temporary directory, and removes those of processes that
// are gone. One that another process takes for such, before it is locked (the
// clock may have jumped), is made again.
func NewTempDir() (d *TempDir, err error) {
	sweep(os.TempDir())
	for range 5 {
		if d, err = newTempDir(); err == nil {
			return d, nil
		}
	}
	return nil, fmt.Errorf("cell: %w", err)
}

func newTempDir() (*TempDir, error) {
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, tempLock)
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Stat(name)
	}
	if err != nil {
		os.RemoveAll(dir)
		lock.Close()
		return nil, err
	}
	return &TempDir{dir, lock}, nil
}

// Close removes the directory.
func (d *TempDir) Close() {
	os.RemoveAll(d.Path)
	d.lock.Close()
}

// sweep removes the temporary directories that nobody holds a lock for. (A
// process number would not tell: it may be another container's.)
func sweep(temp string) {
	dirs, _ := filepath.Glob(filepath.Join(temp, tempPrefix+"*"))
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, tempLock))
		if os.IsNotExist(err) {
			// It is just being made, or its maker died before it was.
			if info, err := os.Stat(dir); err == nil && time.Since(info.ModTime()) > time.Minute {
				os.RemoveAll(dir)
			}
			continue
		}
		if err != nil {
			continue // another user's
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}
