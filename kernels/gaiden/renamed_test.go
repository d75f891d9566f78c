package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A notebook that was renamed is told where its arrays are, once; a copy, a new notebook and
// one that was replaced are not.
func TestRenamed(t *testing.T) {
	t.Setenv("GAIDEN_SPACE", "")
	dir := t.TempDir()
	list, at := filepath.Join(dir, "state", "notebooks.json"), func(name string) string { return filepath.Join(dir, name) }
	write := func(name string) {
		if err := os.WriteFile(at(name), []byte("{}"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	says := func(name, want string) {
		t.Helper()
		got := renamed(list, at(name))
		if want == "" && got != "" || want != "" && !strings.HasSuffix(got, "%env GAIDEN_SPACE="+at(want)) {
			t.Errorf("%s: got %q, want the name space %q", name, got, want)
		}
	}
	write("a.ipynb")
	says("a.ipynb", "")
	write("copy.ipynb")
	says("copy.ipynb", "")
	if err := os.Rename(at("a.ipynb"), at("b.ipynb")); err != nil {
		t.Fatal(err)
	}
	write("new.ipynb")
	says("new.ipynb", "")
	says("b.ipynb", "a")
	says("b.ipynb", "")
	if err := os.Remove(at("b.ipynb")); err != nil {
		t.Fatal(err)
	}
	write("other.ipynb")
	write("b.ipynb")
	says("b.ipynb", "")
	says("default", "")
}
