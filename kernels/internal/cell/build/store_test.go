package build

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestPrune: files of the future go first, then the oldest; what is about to run
// stays.
func TestPrune(t *testing.T) {
	s := &Store{Dir: t.TempDir(), Limit: 250}
	now := time.Now()
	for name, age := range map[string]time.Duration{"cell-future": -time.Hour, "cell-old": 2 * time.Hour, "cell-young": time.Hour, "cell-mine": 3 * time.Hour} {
		if err := os.WriteFile(filepath.Join(s.Dir, name), []byte(strings.Repeat("x", 100)), 0o600); err != nil {
			t.Fatal(err)
		}
		os.Chtimes(s.path(name[5:]), now.Add(-age), now.Add(-age))
	}
	s.prune(s.path("mine"))
	var got []string
	for _, f := range newest(s.Dir, "cell-*") {
		got = append(got, filepath.Base(f.name))
	}
	if want := "cell-young cell-old cell-mine"; strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
