package notebook

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestTrusted: no cell runs with programs, or source, that others may change.
func TestTrusted(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	for path, refused := range map[string]bool{dir: true, filepath.Join(t.TempDir(), "none"): false, t.TempDir(): false} {
		n := &Notebook{Trusted: []string{path}}
		var denied *wire.Error
		if err := n.open(); errors.As(err, &denied) != refused {
			t.Errorf("%s: got error %v, want that it is refused: %v", path, err, refused)
		}
		n.Shutdown(false)
	}
}
