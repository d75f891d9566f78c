package wire

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// OpenOwn opens a regular file of this user's, with mode 0600 where flag has
// os.O_CREATE. It is for directories in which others may make entries, as the
// temporary one: it does not follow a symbolic link, does not wait for the other
// end of a pipe, and refuses what belongs to somebody else.
func OpenOwn(path string, flag int) (*os.File, error) {
	f, err := os.OpenFile(path, flag|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0o600)
	switch {
	case errors.Is(err, syscall.ELOOP):
		return nil, notOwn(path, "is a symbolic link")
	case errors.Is(err, syscall.ENXIO), errors.Is(err, syscall.EISDIR):
		return nil, notOwn(path, "is not a regular file")
	case err != nil:
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, err
	}
	sys, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		err = notOwn(path, "is not a regular file")
	case ok && int(sys.Uid) != os.Getuid():
		err = notOwn(path, fmt.Sprintf("belongs to user %d", sys.Uid))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReadOwn reads a file that OpenOwn would open.
func ReadOwn(path string) ([]byte, error) {
	f, err := OpenOwn(path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

func notOwn(path, why string) error {
	return Errorf(Denied, "%s %s: want a file of your own", path, why).WithHint("remove it, or see who made it")
}
