package notebook

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckpoint restores a notebook after cells that changed each part of its state.
func TestCheckpoint(t *testing.T) {
	n := newNotebook(t)
	r := &runner{t: t, n: n}
	r.must("list := []int{1, 2}\nfunc double(x int) int { return 2 * x }")
	r.must("%env GAIDEN_TEST_COLOUR=red")
	c, err := n.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	look := `fmt.Println(list, double(4), os.Getenv("GAIDEN_TEST_COLOUR"), strings.HasSuffix(must(os.Getwd()), "below"))`
	if err := os.Mkdir(filepath.Join(n.Dir, "below"), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ name, code string }{
		{"a value", "list = append(list, 3); fmt.Println()"},
		{"a declaration", "func double(x int) int { return 20 * x }\nfmt.Println()"},
		{"a name of another kind", "func list() {}\nfmt.Println()"},
		{"remove", "%remove list double"},
		{"reset", "%reset"},
		{"environment", "%env GAIDEN_TEST_COLOUR=blue"},
		{"directory", "%cd below"},
	} {
		t.Run(change.name, func(t *testing.T) {
			r.must(change.code)
			c.Restore()
			if got := strings.TrimSpace(r.must(look).stream("stdout")); got != "[1 2] 8 red false" {
				t.Errorf("got %s, want [1 2] 8 red false", got)
			}
		})
	}
	c.Release()
	r.must("list = nil; fmt.Println(len(list))")
	if left, _ := filepath.Glob(filepath.Join(n.values(), "value-*")); len(left) != 1 {
		t.Errorf("got files of values %v, want that of list alone", left)
	}
}
