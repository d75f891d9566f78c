package files_test

import (
	"errors"
	"os"
	"runtime"
	"syscall"
	"testing"

	"gaiden/lib/engine/files"
)

// TestInPlace: a file that cannot be replaced is overwritten, with its mode, and nothing is
// left next to it or in the temporary directory.
func TestInPlace(t *testing.T) {
	for _, tt := range []struct {
		name string
		lock func(t *testing.T, dir string) error // makes dir/f irreplaceable
	}{
		{"mount point", func(t *testing.T, dir string) error {
			err := syscall.Mount(dir+"/f", dir+"/f", "", syscall.MS_BIND, "")
			if err == nil {
				t.Cleanup(func() { syscall.Unmount(dir+"/f", syscall.MNT_DETACH) })
			}
			return err
		}},
		{"read-only directory", func(t *testing.T, dir string) error {
			if os.Getuid() == 0 { // who is root may write everywhere: this thread is somebody else
				runtime.LockOSThread()
				t.Cleanup(runtime.UnlockOSThread)
				const nobody = 65534
				if err := errors.Join(os.Chown(dir, nobody, -1), os.Chown(dir+"/f", nobody, -1)); err != nil {
					return err
				}
				syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0)
				t.Cleanup(func() { syscall.RawSyscall(syscall.SYS_SETFSUID, 0, 0, 0) })
			}
			t.Cleanup(func() { os.Chmod(dir, 0o700) })
			return os.Chmod(dir, 0o555)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			temporary, err := os.MkdirTemp("/tmp", "files-*")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { os.RemoveAll(temporary) })
			dir := temporary + "/there"
			must(t, os.Chmod(temporary, 0o777), os.Mkdir(dir, 0o700), os.WriteFile(dir+"/f", []byte("old and longer"), 0o600), os.Chmod(dir+"/f", 0o664))
			t.Setenv("TMPDIR", temporary)
			if err := tt.lock(t, dir); err != nil {
				t.Skipf("needs to mount or to change owners: %v; run it as root", err)
			}
			before, err := os.Stat(dir + "/f")
			must(t, err, files.Check(dir+"/f"), files.Write(dir+"/f", []byte("new")))
			if got := text(dir + "/f"); got != "new" {
				t.Errorf("got %q, want new", got)
			}
			after, err := os.Stat(dir + "/f")
			if must(t, err); !os.SameFile(before, after) || after.Mode() != 0o664 {
				t.Errorf("it is another file, or has mode %v, want 0664", after.Mode())
			}
			for _, d := range []string{temporary, dir} {
				entries, err := os.ReadDir(d)
				if err != nil || len(entries) != 1 {
					t.Errorf("%s has %v, %v: want nothing left", d, entries, err)
				}
			}
			if err := files.Write(dir+"/new", nil); tt.name == "read-only directory" && !errors.Is(err, syscall.EACCES) {
				t.Errorf("a new file: got %v, want permission denied", err)
			}
		})
	}
}

// TestInPlaceFull: a disk without room for the new contents keeps the old ones, under
// both names.
func TestInPlaceFull(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=128k"); err != nil {
		t.Skipf("needs to mount: %v; run it as root", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	must(t, os.WriteFile(dir+"/f", []byte("old"), 0o600), os.Link(dir+"/f", dir+"/other"))
	if err := files.Write(dir+"/f", make([]byte, 80<<10)); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v, want no space left on device", err)
	}
	if f, other := text(dir+"/f"), text(dir+"/other"); f != "old" || other != "old" || len(list(t, dir)) != 2 {
		t.Errorf("got %q and %q in %v, want the old file under two names alone", f, other, list(t, dir))
	}
	must(t, files.Write(dir+"/f", make([]byte, 40<<10)))
	if f, other := text(dir+"/f"), text(dir+"/other"); len(f) != 40<<10 || other != f {
		t.Errorf("got %d and %d bytes, want %d under both names", len(f), len(other), 40<<10)
	}
}
