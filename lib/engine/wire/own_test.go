package wire

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestOpenOwn: nothing that somebody else can have put there is opened, and
// nothing is waited for.
func TestOpenOwn(t *testing.T) {
	tests := []struct {
		name  string
		make  func(path string) error
		flag  int
		opens bool
	}{
		{"file", func(path string) error { return os.WriteFile(path, []byte("text"), 0o600) }, os.O_RDONLY, true},
		{"new file", func(string) error { return nil }, os.O_CREATE | os.O_RDWR, true},
		{"pipe to read", func(path string) error { return syscall.Mkfifo(path, 0o666) }, os.O_RDONLY, false},
		{"pipe to write", func(path string) error { return syscall.Mkfifo(path, 0o666) }, os.O_WRONLY, false},
		{"pipe to lock", func(path string) error { return syscall.Mkfifo(path, 0o666) }, os.O_CREATE | os.O_RDWR, false},
		{"link", func(path string) error { return os.Symlink("/etc/passwd", path) }, os.O_RDONLY, false},
		{"link to nothing", func(path string) error { return os.Symlink(path+".none", path) }, os.O_CREATE | os.O_RDWR, false},
		{"folder", func(path string) error { return os.Mkdir(path, 0o700) }, os.O_RDONLY, false},
		{"folder to write", func(path string) error { return os.Mkdir(path, 0o700) }, os.O_CREATE | os.O_RDWR, false},
		{"device", func(path string) error { return os.Link("/dev/null", path) }, os.O_RDONLY, false},
		{"stranger's", func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o666), os.Chown(path, 4711, 4711))
		}, os.O_RDONLY, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "lock")
			if err := tt.make(path); err != nil {
				t.Skipf("%v: run it as root, who can give files away", err)
			}
			f, err := OpenOwn(path, tt.flag)
			var e *Error
			if opens := err == nil; opens != tt.opens || !opens && (!errors.As(err, &e) || e.Code != Denied) {
				t.Errorf("got error %v, want that it opens: %v, or Denied", err, tt.opens)
			}
			if f != nil {
				f.Close()
			}
			if _, err := ReadOwn(path); (err == nil) != tt.opens {
				t.Errorf("read: got error %v, want that it opens: %v", err, tt.opens)
			}
		})
	}
}
