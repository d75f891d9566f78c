package sealed

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// damages are what happens to a file of a cache.
var damages = []struct {
	name string
	do   func(path string) error
}{
	{"empty", func(path string) error { return os.Truncate(path, 0) }},
	{"cut", func(path string) error { return os.Truncate(path, 700) }},
	{"last byte cut", func(path string) error { return resize(path, -1) }},
	{"longer", func(path string) error { return resize(path, 1) }},
	{"first bit", func(path string) error { return flip(path, 0) }},
	{"a bit in the middle", func(path string) error { return flip(path, 500) }},
	{"a bit of the note", func(path string) error { return flip(path, 1001) }},
	{"a bit of the checksum", func(path string) error { return flip(path, 1050) }},
	{"zeros", func(path string) error { return os.WriteFile(path, make([]byte, 1100), 0o600) }},
	{"another's file", func(path string) error { return os.Rename(path+".other", path) }},
	{"a folder", func(path string) error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) }},
	{"a pipe", func(path string) error { return errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)) }},
	{"a link", func(path string) error {
		return errors.Join(os.Rename(path, path+".moved"), os.Symlink(path+".moved", path))
	}},
}

func resize(path string, by int64) error {
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	return os.Truncate(path, info.Size()+by)
}

func flip(path string, at int64) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	b := make([]byte, 1)
	if _, err := f.ReadAt(b, at); err != nil {
		return err
	}
	b[0] ^= 4
	_, err = f.WriteAt(b, at)
	return err
}

// TestDamage: whatever happens to a file is found before it is used, also by who
// has found it whole before.
func TestDamage(t *testing.T) {
	for _, d := range damages {
		t.Run(d.name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "program")
			for _, name := range []string{"program", "program.other"} {
				file := filepath.Join(dir, "fresh-"+name) // of its own: Publish links it
				err := os.WriteFile(file, make([]byte, 1000), 0o700)
				if err = errors.Join(err, Append(file, name, []byte("note")), Publish(file, filepath.Join(dir, name))); err != nil {
					t.Fatal(err)
				}
			}
			var v Verifier
			if note, err := v.Verify(path); string(note) != "note" || err != nil {
				t.Fatalf("whole: got note %q, %v; want note", note, err)
			}
			if data, err := Read(path); len(data) != 1000 || err != nil {
				t.Fatalf("whole: got %d bytes, %v; want 1000", len(data), err)
			}
			time.Sleep(10 * time.Millisecond) // a file's times are those of the system's last tick
			if err := d.do(path); err != nil {
				t.Fatal(err)
			}
			var damaged *DamagedError
			if _, err := v.Verify(path); !errors.As(err, &damaged) && d.name != "a link" {
				t.Errorf("known before: got error %v, want a DamagedError", err)
			}
			if _, err := new(Verifier).Verify(path); !errors.As(err, &damaged) {
				t.Errorf("first seen: got error %v, want a DamagedError", err)
			}
			if _, err := Read(path); !errors.As(err, &damaged) {
				t.Errorf("read: got error %v, want a DamagedError", err)
			}
		})
	}
}

// TestWrite: what is written is what is read, and nothing else is left behind.
func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.json")
	for _, text := range []string{"{}", "", "longer than before\n"} {
		if err := Write(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if got, err := Read(path); string(got) != text || err != nil {
			t.Errorf("got %q, %v; want %q", got, err, text)
		}
	}
	if files, err := os.ReadDir(filepath.Dir(path)); len(files) != 1 || err != nil {
		t.Errorf("got %d files, %v; want 1", len(files), err)
	}
	if _, err := Read(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: got error %v, want os.ErrNotExist", err)
	}
}

// TestPublish: the program can be started under either name.
func TestPublish(t *testing.T) {
	dir := t.TempDir()
	file, path := filepath.Join(dir, "fresh"), filepath.Join(dir, "kept")
	for range 2 {
		if err := os.WriteFile(file, []byte("program"), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(Append(file, "kept", nil), Publish(file, path), Publish(file, path)); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{file, path} {
			if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("%s: got %v, %v; want mode 0700", name, info, err)
			}
		}
		os.Remove(file)
	}
	if _, err := new(Verifier).Verify(path); err != nil {
		t.Error(err)
	}
}
