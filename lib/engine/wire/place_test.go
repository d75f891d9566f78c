package wire

import (
	"os"
	"path/filepath"
	"testing"
)

// TestReplaceFile holds that a file is replaced, that what cannot be leaves the old one, and
// that neither leaves anything beside it.
func TestReplaceFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "deep", "file.json")
	if err := os.Mkdir(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "another"} {
		if err := ReplaceFile(path, []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != text {
			t.Errorf("got %q and %v, want %q", b, err, text)
		}
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("got mode %v and %v, want one for this user alone", st.Mode(), err)
	}
	full := filepath.Join(dir, "full")
	if err := os.MkdirAll(filepath.Join(full, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{full, filepath.Join(path, "below a file"), filepath.Join(dir, "no folder", "file")} {
		if err := ReplaceFile(path, nil); err == nil {
			t.Errorf("%s: got no error", path)
		}
	}
	for folder, want := range map[string]int{dir: 2, filepath.Dir(path): 1} {
		if l, err := os.ReadDir(folder); err != nil || len(l) != want {
			t.Errorf("got %v in %s and %v, want %d files", l, folder, err, want)
		}
	}
}
