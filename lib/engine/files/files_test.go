package files_test

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"gaiden/lib/engine/files"
)

// must fails the test when setting it up fails.
func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// umask sets the process's umask for a test.
func umask(t *testing.T, mask int) {
	old := syscall.Umask(mask)
	t.Cleanup(func() { syscall.Umask(old) })
}

func text(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// TestPlaces: what is written where, by all that write.
func TestPlaces(t *testing.T) {
	tests := []struct {
		name  string
		mask  int
		setUp func(dir string) error // makes what is at dir/f before
		at    string                 // what is written to; "" = f
		want  string                 // the file that has the contents
		mode  fs.FileMode
		err   string // instead
	}{
		{name: "new", mask: 0o022, want: "f", mode: 0o644},
		{name: "new, strict umask", mask: 0o077, want: "f", mode: 0o600},
		{name: "new, open umask", mask: 0, want: "f", mode: 0o666},
		{name: "mode of the file", mask: 0o077, setUp: func(d string) error {
			return errors.Join(os.WriteFile(d+"/f", []byte("old and longer"), 0o600), os.Chmod(d+"/f", 0o664))
		}, want: "f", mode: 0o664},
		{name: "executable", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.WriteFile(d+"/f", nil, 0o600), os.Chmod(d+"/f", 0o750))
		}, want: "f", mode: 0o750},
		{name: "other name of the file", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.WriteFile(d+"/other", []byte("old and longer"), 0o640), os.Link(d+"/other", d+"/f"))
		}, want: "other", mode: 0o640},
		{name: "link to another name of a file", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.WriteFile(d+"/other", nil, 0o640), os.Link(d+"/other", d+"/real"), os.Symlink("real", d+"/f"))
		}, want: "other", mode: 0o640},
		{name: "link", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.WriteFile(d+"/real", []byte("old"), 0o640), os.Symlink("real", d+"/f"))
		}, want: "real", mode: 0o640},
		{name: "link to a link in another directory", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.MkdirAll(d+"/a/b", 0o700), os.WriteFile(d+"/a/real", nil, 0o640), os.Symlink("a/b/l", d+"/f"), os.Symlink("../real", d+"/a/b/l"))
		}, want: "a/real", mode: 0o640},
		{name: "link through a linked directory", mask: 0o022, setUp: func(d string) error {
			return errors.Join(os.MkdirAll(d+"/x/y", 0o700), os.WriteFile(d+"/x/real", nil, 0o640), os.Symlink("x/y", d+"/dir"), os.Symlink("dir/../real", d+"/f"))
		}, want: "x/real", mode: 0o640},
		{name: "link to nothing yet", mask: 0o022, setUp: func(d string) error { return os.Symlink("later", d+"/f") }, want: "later", mode: 0o644},
		{name: "absolute link", mask: 0o022, setUp: func(d string) error { return os.Symlink(d+"/later", d+"/f") }, want: "later", mode: 0o644},
		{name: "long name", mask: 0o022, at: strings.Repeat("n", 255), want: strings.Repeat("n", 255), mode: 0o644},

		{name: "directory", setUp: func(d string) error { return os.Mkdir(d+"/f", 0o700) }, err: "got a directory"},
		{name: "name of a directory", at: "f/", err: "got a directory"},
		{name: "pipe", setUp: func(d string) error { return syscall.Mkfifo(d+"/f", 0o666) }, err: "got a named pipe"},
		{name: "link to a pipe", setUp: func(d string) error {
			return errors.Join(syscall.Mkfifo(d+"/p", 0o666), os.Symlink("p", d+"/f"))
		}, err: "got a named pipe"},
		{name: "device", setUp: func(d string) error { return syscall.Mknod(d+"/f", syscall.S_IFCHR|0o666, 1<<8|3) }, err: "got a device"},
		{name: "socket", setUp: func(d string) error {
			l, err := net.ListenUnix("unix", &net.UnixAddr{Name: d + "/f"})
			if err == nil {
				l.SetUnlinkOnClose(false)
				err = l.Close()
			}
			return err
		}, err: "got a socket"},
		{name: "links in a circle", setUp: func(d string) error { return errors.Join(os.Symlink("g", d+"/f"), os.Symlink("f", d+"/g")) }, err: "too many levels of symbolic links"},
		{name: "no such directory", at: "no/f", err: "no such file or directory"},
		{name: "file in place of a directory", setUp: func(d string) error { return os.WriteFile(d+"/f", nil, 0o600) }, at: "f/x", err: "not a directory"},
	}
	writers := []struct {
		name  string
		write func(path string) error
		keeps bool // leaves what is there: only a check
	}{
		{"Write", func(path string) error { return files.Write(path, []byte("new")) }, false},
		{"Create", func(path string) error {
			f, err := files.Create(path)
			if err != nil {
				return err
			}
			defer f.Abort()
			fmt.Fprint(f, "new")
			return f.Commit()
		}, false},
		{"Open", func(path string) error {
			f, err := files.Open(path, false)
			if err != nil {
				return err
			}
			fmt.Fprint(f, "new")
			return f.Close()
		}, false},
		{"Check", files.Check, true},
	}
	for _, tt := range tests {
		for _, w := range writers {
			t.Run(tt.name+"/"+w.name, func(t *testing.T) {
				dir, err := os.MkdirTemp("", "f") // a socket's path must be short
				must(t, err)
				t.Cleanup(func() { os.RemoveAll(dir) })
				if tt.setUp != nil {
					if err := tt.setUp(dir); errors.Is(err, fs.ErrPermission) {
						t.Skipf("%v: run it as root, who makes such a file", err)
					} else {
						must(t, err)
					}
				}
				before := list(t, dir)
				umask(t, tt.mask)
				if tt.at == "" {
					tt.at = "f"
				}
				err = w.write(dir + "/" + tt.at)
				switch {
				case tt.err != "":
					if err == nil || !strings.Contains(err.Error(), tt.err) || !strings.Contains(err.Error(), dir+"/"+tt.at) {
						t.Errorf("got error %v, want one that says %q and names the file", err, tt.err)
					}
				case err != nil:
					t.Error(err)
				case !w.keeps:
					if got := text(filepath.Join(dir, tt.want)); got != "new" {
						t.Errorf("%s has %q, want \"new\"", tt.want, got)
					}
					if info, err := os.Lstat(filepath.Join(dir, tt.want)); err != nil || info.Mode() != tt.mode {
						t.Errorf("%s has mode %v (%v), want %v", tt.want, info.Mode(), err, tt.mode)
					}
				}
				after := list(t, dir)
				if tt.err == "" && !w.keeps && !before[tt.want] {
					delete(after, tt.want)
				}
				if fmt.Sprint(after) != fmt.Sprint(before) { // types are part of it: a link is still one
					t.Errorf("there is %v now, want %v", after, before)
				}
			})
		}
	}
}

// list returns the names below a directory, each with its type.
func list(t *testing.T, dir string) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && path != dir {
			names[strings.TrimPrefix(path, dir+"/")] = true
			names[strings.TrimPrefix(path, dir+"/")+" "+d.Type().String()] = !d.Type().IsRegular()
			if d.Type().IsRegular() {
				delete(names, strings.TrimPrefix(path, dir+"/")+" "+d.Type().String())
			}
		}
		return err
	}))
	return names
}

// TestPrivate: a file of this user's alone is so whatever the umask.
func TestPrivate(t *testing.T) {
	umask(t, 0)
	path := filepath.Join(t.TempDir(), "f")
	f, err := files.CreatePrivate(path)
	must(t, err)
	must(t, f.Commit())
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v (%v), want 0600", info.Mode(), err)
	}
}

// TestUncommitted: until it is committed, the old file is there, and what is
// written for it cannot be read by those who cannot read the old one.
func TestUncommitted(t *testing.T) {
	umask(t, 0)
	dir := t.TempDir()
	path := filepath.Join(dir, "f")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := files.Create(path)
	must(t, err)
	fmt.Fprint(f, "new")
	if info, err := f.Stat(); err != nil || info.Mode() != 0o600 {
		t.Errorf("a new file for one of mode 0600 has mode %v (%v)", info.Mode(), err)
	}
	if got := text(path); got != "old" {
		t.Errorf("before Commit: got %q, want \"old\"", got)
	}
	f.Abort()
	f.Abort()
	if err := f.Commit(); err == nil {
		t.Error("Commit after Abort: got no error")
	}
	if got := list(t, dir); text(path) != "old" || len(got) != 1 {
		t.Errorf("after Abort: got %q and %v, want the old file alone", text(path), got)
	}
}

// TestOwner: the owner stays, also when root writes.
func TestOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("needs root, who may give files away: run it as root")
	}
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, nil, 0o640), os.Chown(path, 1234, 5678))
	must(t, files.Write(path, []byte("new")))
	info, err := os.Stat(path)
	must(t, err)
	if s := info.Sys().(*syscall.Stat_t); s.Uid != 1234 || s.Gid != 5678 || info.Mode() != 0o640 {
		t.Errorf("got owner %d, group %d, mode %v; want 1234, 5678, 0640", s.Uid, s.Gid, info.Mode())
	}
}

// TestFull: where there is no room, the error says so and names the file.
func TestFull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	var was syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &was))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 1 << 24, Max: was.Max}))
	err := files.Write(path, make([]byte, 1<<25))
	must(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &was))
	if !errors.Is(err, syscall.EFBIG) || !strings.Contains(err.Error(), path) {
		t.Errorf("got error %v, want EFBIG of %s", err, path)
	}
	if got := list(t, filepath.Dir(path)); text(path) != "old" || len(got) != 1 {
		t.Errorf("got %q and %v, want the old file alone", text(path), got)
	}
}

// TestAppended: Open appends on request.
func TestAppended(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must(t, os.WriteFile(path, []byte("old"), 0o600))
	f, err := files.Open(path, true)
	must(t, err)
	fmt.Fprint(f, "new")
	must(t, f.Close())
	if got := text(path); got != "oldnew" {
		t.Errorf("got %q, want \"oldnew\"", got)
	}
}
