package build

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"gaiden/lib/engine/wire"
)

// TestSweep: directories whose process is gone go, others stay.
func TestSweep(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	put := func(name, text string) {
		file := filepath.Join(temp, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	mine, err := NewTempDir()
	if err != nil {
		t.Fatal(err)
	}
	put(tempPrefix+"dead/lock", "")
	put(tempPrefix+"dead/cells/main.go", "package main")
	os.Mkdir(filepath.Join(temp, tempPrefix+"new"), 0o700)
	old := filepath.Join(temp, tempPrefix+"old")
	os.Mkdir(old, 0o700)
	hour := time.Now().Add(-time.Hour)
	os.Chtimes(old, hour, hour)
	put("other/lock", "")
	next, err := NewTempDir()
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	entries, _ := os.ReadDir(temp)
	for _, e := range entries {
		got = append(got, e.Name())
	}
	want := []string{filepath.Base(mine.Path), filepath.Base(next.Path), tempPrefix + "new", "other"}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	mine.Close()
	if _, err := os.Stat(mine.Path); !os.IsNotExist(err) {
		t.Errorf("after Close got %v, want the directory gone", err)
	}
}

// TestSweepStrange: what others, or an accident, have put where locks are is not
// waited for, and what belongs to others stays.
func TestSweepStrange(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	hour := time.Now().Add(-time.Hour)
	strange := map[string]bool{} // whether it stays
	put := func(name string, stays bool, make func(lock string) error) {
		dir := filepath.Join(temp, tempPrefix+name)
		strange[filepath.Base(dir)] = stays
		if err := os.Mkdir(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := make(filepath.Join(dir, tempLock)); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(dir, hour, hour)
	}
	put("pipe", false, func(lock string) error { return syscall.Mkfifo(lock, 0o666) })
	put("link", false, func(lock string) error { return os.Symlink("/dev/zero", lock) })
	put("folder", false, func(lock string) error { return os.Mkdir(lock, 0o700) })
	if os.Geteuid() == 0 { // chown
		put("stranger", true, func(lock string) error {
			return errors.Join(syscall.Mkfifo(lock, 0o666), os.Chown(lock, 4711, 4711), os.Chown(filepath.Dir(lock), 4711, 4711))
		})
		put("given", false, func(lock string) error {
			return errors.Join(syscall.Mkfifo(lock, 0o666), os.Chown(lock, 4711, 4711))
		})
	}
	if err := os.Symlink(t.TempDir(), filepath.Join(temp, tempPrefix+"elsewhere")); err != nil {
		t.Fatal(err)
	}
	strange[tempPrefix+"elsewhere"] = true
	done := make(chan error, 1)
	go func() {
		d, err := NewTempDir()
		if err == nil {
			d.Close()
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("NewTempDir waits for somebody else's pipe")
	}
	for name, stays := range strange {
		if _, err := os.Lstat(filepath.Join(temp, name)); (err == nil) != stays {
			t.Errorf("%s: got %v, want that it stays: %v", name, err, stays)
		}
	}
}

// TestTempForAll: where others could replace the directory that programs are built
// in, none is made.
func TestTempForAll(t *testing.T) {
	temp := t.TempDir()
	if err := os.Chmod(temp, 0o777); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", temp)
	var denied *wire.Error
	if d, err := NewTempDir(); !errors.As(err, &denied) {
		d.Close()
		t.Errorf("got error %v, want Denied", err)
	}
	if err := os.Chmod(temp, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	d, err := NewTempDir()
	if err != nil {
		t.Fatalf("sticky: got error %v, want none", err)
	}
	d.Close()
}
