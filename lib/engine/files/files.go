// Package files writes files that a user has named: a net's weights, an exported
// snapshot, a notebook with its outputs, a page, a trace.
//
//	err := files.Write("net.json", data)
//
// A file is replaced as a whole. Its contents are on disk before they have its
// name, and the name is on disk before Write returns: a full disk, a kill or a
// power cut leaves the old file or the new one. For contents that are written
// piece by piece there is [Create]:
//
//	f, err := files.Create(path)
//	if err != nil {
//		return err
//	}
//	defer f.Abort() // does nothing after Commit
//	…
//	return f.Commit()
//
// A new file has the mode that the umask leaves of 0666. A file that is there
// keeps its mode, and its owner and group where the system allows it. A symbolic
// link is followed: the file that it names is written, and the link stays. A
// directory, a named pipe, a device and a socket are refused, since a file would
// take their place; so is a file that may not be written to.
//
// Where a file cannot be replaced, since it has another name (a hard link), it is a
// mount point (a single file that a container was given) or its directory may not be
// written to, it is overwritten in place when its new contents are complete and there
// is room for them. If that fails nevertheless, the error names a file that has them
// all; a power cut in that moment can leave a mixture, and that file.
package files

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// A NotRegularError reports something that is not a regular file where one is to
// be written.
type NotRegularError struct {
	Path string // as the caller gave it
	Mode fs.FileMode
}

func (e *NotRegularError) Error() string {
	return fmt.Sprintf("files: write %s: got %s, want a regular file or a new name", e.Path, kind(e.Mode))
}

func (e *NotRegularError) Hint() string {
	if e.Mode.IsDir() {
		return "add a file's name"
	}
	return "write to a file, and copy it from there"
}

func kind(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "a directory"
	case m&fs.ModeNamedPipe != 0:
		return "a named pipe"
	case m&fs.ModeDevice != 0:
		return "a device"
	case m&fs.ModeSocket != 0:
		return "a socket"
	}
	return "a special file"
}

// A File is a new file that has no name yet. Commit gives it the name.
type File struct {
	*os.File
	given, path string // path is where links lead
	old         fs.FileInfo
	private     bool
	done        bool
}

// Create begins a file that is to stand at path.
func Create(path string) (*File, error) { return create(path, false) }

// CreatePrivate is Create for a file of this user's alone: a new one has mode
// 0600.
func CreatePrivate(path string) (*File, error) { return create(path, true) }

func create(path string, private bool) (*File, error) {
	to, old, err := resolve(path)
	if err != nil {
		return nil, err
	}
	mode := fs.FileMode(0o666)
	if private || old != nil {
		mode = 0o600 // until Commit: nobody reads what the old file kept from them
	}
	f, err := unnamed(filepath.Dir(to), mode)
	if old != nil && irreplaceable(err) {
		f, err = unnamed(os.TempDir(), mode)
	}
	if err != nil {
		return nil, failed(path, err)
	}
	return &File{File: f, given: path, path: to, old: old, private: private}, nil
}

// unnamed makes a file of a name that nobody has.
func unnamed(dir string, mode fs.FileMode) (f *os.File, err error) {
	for range 100 {
		f, err = os.OpenFile(filepath.Join(dir, ".new-"+rand.Text()[:12]), os.O_CREATE|os.O_EXCL|os.O_RDWR, mode)
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	return f, err
}

// irreplaceable says whether an error of making or renaming a file is one of its
// directory, and not of the disk.
func irreplaceable(err error) bool {
	of := []error{syscall.EBUSY, syscall.EXDEV, syscall.EACCES, syscall.EPERM, syscall.EROFS}
	return slices.ContainsFunc(of, func(e error) bool { return errors.Is(err, e) })
}

// Commit makes the contents safe on disk, closes the file and gives it its
// name, also safely. When it fails before that, what was there is still there.
func (f *File) Commit() error {
	if f.done {
		return failed(f.given, fs.ErrClosed)
	}
	err := f.like()
	if err == nil {
		err = f.Sync()
	}
	f.done = true
	if err == nil {
		if f.linked() {
			err = f.overwrite()
		} else if err = os.Rename(f.Name(), f.path); f.old != nil && irreplaceable(err) {
			err = f.overwrite()
		}
	}
	err = errors.Join(err, f.Close())
	var torn *tornError
	if errors.As(err, &torn) {
		return err
	}
	if err != nil {
		os.Remove(f.Name())
		return failed(f.given, err)
	}
	if err := syncDirectory(filepath.Dir(f.path)); err != nil {
		return failed(f.given, err)
	}
	return nil
}

// linked says whether the old file has other names, under which the new contents
// are to be found, too.
func (f *File) linked() bool {
	if f.old == nil {
		return false
	}
	was, ok := f.old.Sys().(*syscall.Stat_t)
	return ok && was.Nlink > 1
}

// A tornError reports a file that was overwritten in part.
type tornError struct {
	path, whole string
	err         error
}

func (e *tornError) Error() string {
	return fmt.Sprintf("files: write %s: %v: it has only a part of the new contents, %s has them all", e.path, e.err, e.whole)
}
func (e *tornError) Unwrap() error { return e.err }

// overwrite writes the contents into the old file, and removes the new one.
func (f *File) overwrite() error {
	out, err := os.OpenFile(f.path, os.O_WRONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer out.Close()
	if now, err := out.Stat(); err != nil || !os.SameFile(now, f.old) {
		return errors.Join(err, errors.New("another file has taken its name"))
	}
	n, err := f.Seek(0, io.SeekEnd)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err == nil && n > 0 { // where there is no room, nothing is touched
		const keepSize = 1
		if err = syscall.Fallocate(int(out.Fd()), keepSize, 0, n); !errors.Is(err, syscall.ENOSPC) && !errors.Is(err, syscall.EDQUOT) {
			err = nil // a file system that cannot reserve
		}
	}
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, f.File); err == nil {
		err = errors.Join(out.Truncate(n), out.Sync())
	}
	if err != nil {
		return &tornError{f.given, f.Name(), err}
	}
	return os.Remove(f.Name())
}

// like gives the new file what the old one had: owner and group where that may
// be, and the mode.
func (f *File) like() error {
	if f.old == nil {
		return nil
	}
	mode := f.old.Mode() & (fs.ModePerm | fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky)
	if was, ok := f.old.Sys().(*syscall.Stat_t); ok {
		if f.Chown(int(was.Uid), int(was.Gid)) != nil {
			mode &= fs.ModePerm // not in another owner's name
			f.Chown(-1, int(was.Gid))
		}
	}
	return f.Chmod(mode)
}

// Abort removes a file that was not committed. After Commit it does nothing.
func (f *File) Abort() {
	if !f.done {
		f.done = true
		f.Close()
		os.Remove(f.Name())
	}
}

// Write writes a whole file.
func Write(path string, data []byte) error {
	f, err := Create(path)
	if err != nil {
		return err
	}
	defer f.Abort()
	if _, err := f.File.Write(data); err != nil {
		return failed(path, err)
	}
	return f.Commit()
}

// Check returns the error with which Create would fail, and leaves nothing: for
// whoever works for a while before there is something to write.
func Check(path string) error {
	f, err := Create(path)
	if err == nil {
		f.Abort()
	}
	return err
}

// Open opens a file to write to it in place, where others may read along:
// appended to, or else emptied first. It refuses what Create refuses and waits
// for nobody.
func Open(path string, appended bool) (*os.File, error) {
	if _, _, err := resolve(path); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND|syscall.O_NONBLOCK, 0o666)
	if err != nil {
		return nil, failed(path, err)
	}
	now, err := f.Stat() // it may be another by now
	if err == nil && !now.Mode().IsRegular() {
		err = &NotRegularError{path, now.Mode()}
	}
	if err == nil && !appended {
		err = f.Truncate(0)
	}
	if err != nil {
		f.Close()
		return nil, failed(path, err)
	}
	return f, nil
}

// resolve follows links to the place of a file, and returns what is there; nil
// = nothing yet.
func resolve(given string) (path string, old fs.FileInfo, err error) {
	if given == "" {
		return "", nil, errors.New("files: write: got no name, want that of a file")
	}
	if last := given[len(given)-1]; last == filepath.Separator {
		return "", nil, &NotRegularError{given, fs.ModeDir}
	}
	path = given
	for range 40 { // as many as Linux follows
		dir, base := filepath.Split(path) // not cleaned: .. is what the system says it is
		dir = cmp.Or(dir, ".")
		dir, err := filepath.EvalSymlinks(dir)
		if err != nil {
			return "", nil, failed(given, err)
		}
		path = filepath.Join(dir, base)
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return path, nil, nil
		case err != nil:
			return "", nil, failed(given, err)
		case info.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(path)
			if err != nil {
				return "", nil, failed(given, err)
			}
			if path = to; !filepath.IsAbs(to) {
				path = dir + string(filepath.Separator) + to
			}
		case !info.Mode().IsRegular():
			return "", nil, &NotRegularError{given, info.Mode()}
		default:
			const writable = 2
			if err := syscall.Access(path, writable); err != nil {
				return "", nil, failed(given, err)
			}
			return path, info, nil
		}
	}
	return "", nil, failed(given, syscall.ELOOP)
}

// failed is err about the file that the caller has named, in place of the temporary
// one, of which nobody has heard.
func failed(path string, err error) error {
	var file *fs.PathError
	var link *os.LinkError
	var odd *NotRegularError
	switch {
	case errors.As(err, &odd):
		return err
	case errors.As(err, &file):
		err = file.Err
	case errors.As(err, &link):
		err = link.Err
	}
	return fmt.Errorf("files: write %s: %w", path, err)
}

// syncDirectory makes the names in a directory safe on disk, where its file
// system can.
func syncDirectory(dir string) error {
	d, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil // one may write to a directory that one may not read
	}
	if err != nil {
		return err
	}
	err = d.Sync()
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil
	}
	return errors.Join(err, d.Close())
}
