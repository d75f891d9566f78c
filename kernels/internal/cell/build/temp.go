package build

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"gaiden/lib/engine/wire"
)

// A TempDir is a temporary directory that is known to be in use: as long as its
// process lives, the system holds a lock for it. Its name is random: a process
// number would not do, as that may be another container's.
type TempDir struct {
	Path string
	lock *os.File
}

// tempPrefix begins the names of kernels' temporary directories, tempLock is the
// file in each that is locked.
const tempPrefix, tempLock = "gaiden-kernel-", "lock"

// NewTempDir makes a temporary directory, and removes those of processes that
// are gone.
func NewTempDir() (*TempDir, error) { return newTempDir(wire.TempDir(), tempPrefix) }

// newTempDir makes a directory in parent. One that another process takes for
// abandoned, before it is locked (the clock may have jumped), is made again.
func newTempDir(parent, prefix string) (d *TempDir, err error) {
	sweep(parent, prefix)
	for range 5 {
		if d, err = tryTempDir(parent, prefix); err == nil {
			return d, nil
		}
	}
	return nil, &tempError{parent, err}
}

// A tempError says that nothing can be made in the temporary directory.
type tempError struct {
	parent string
	err    error
}

func (e *tempError) Error() string {
	return "cell: the temporary directory " + e.parent + ": " + e.err.Error()
}

func (e *tempError) Unwrap() error { return e.err }

func (e *tempError) Hint() string {
	return "set TMPDIR to a directory in which you can write where Jupyter is started, then restart the kernel"
}

func tryTempDir(parent, prefix string) (*TempDir, error) {
	dir, err := os.MkdirTemp(parent, prefix)
	if err != nil {
		return nil, err
	}
	name := filepath.Join(dir, tempLock)
	lock, err := wire.OpenOwn(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		os.RemoveAll(dir)
		return nil, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		_, err = os.Stat(name)
	}
	if err == nil {
		// Programs are built of what is here.
		err = wire.TrustedPath(dir)
	}
	if err != nil {
		os.RemoveAll(dir)
		lock.Close()
		return nil, err
	}
	return &TempDir{dir, lock}, nil
}

// Again makes the directory again if somebody has removed it, as some systems do with
// temporary files that are old. What was in it is gone.
func (d *TempDir) Again() (removed bool, err error) {
	name := filepath.Join(d.Path, tempLock)
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		return false, nil
	}
	if err := os.MkdirAll(d.Path, 0o700); err != nil {
		return true, fmt.Errorf("cell: %w", err)
	}
	if err := wire.TrustedPath(d.Path); err != nil {
		return true, err
	}
	lock, err := wire.OpenOwn(name, os.O_CREATE|os.O_RDWR)
	if err != nil {
		return true, fmt.Errorf("cell: %w", err)
	}
	d.lock.Close()
	d.lock = lock
	return true, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
}

// Close removes the directory. That of a nil TempDir is nothing.
func (d *TempDir) Close() {
	if d == nil {
		return
	}
	os.RemoveAll(d.Path)
	d.lock.Close()
}

// sweep removes the user's directories of that kind that nobody holds a lock for.
// Others' are not looked into.
func sweep(parent, prefix string) {
	dirs, _ := filepath.Glob(filepath.Join(parent, prefix+"*"))
	for _, dir := range dirs {
		info, err := os.Lstat(dir)
		if err != nil {
			continue
		}
		if sys, ok := info.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Getuid() {
			continue
		}
		lock, err := wire.OpenOwn(filepath.Join(dir, tempLock), os.O_RDONLY)
		var denied *wire.Error
		switch {
		case errors.Is(err, os.ErrNotExist), errors.Is(err, syscall.ENOTDIR), errors.As(err, &denied):
			// It is just being made, or its maker died before it was; or it is no
			// such directory at all.
			if info.Mode()&os.ModeSymlink == 0 && time.Since(info.ModTime()) > time.Minute {
				os.RemoveAll(dir)
			}
			continue
		case err != nil:
			continue // nothing is known: too many files are open, say
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			os.RemoveAll(dir)
		}
		lock.Close()
	}
}
