// Package golden holds texts that programs write to files in testdata, to the letter,
// in tests: kernels are text, and a change of one is to be seen in a review.
//
//	golden.Hold(t, ".ttir", map[string]triton.Kernel{"softmax_7": k}, 0)
//
// go test -update rewrites the files. What is longer than testdata should have is held
// by its SHA-256 and length, in the file sums: each change shows, but not where it is.
// Of a text that differs, what was got is left beside the file, with .got- at its name's
// end, which git does not look at, to be compared with another commit's.
package golden

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

// Kernel has a text.
type Kernel interface{ Text() (string, error) }

// Hold compares the texts of kernels with testdata/NAME and the ending, and those that
// are longer than longest bytes with testdata/sums; 0: all have files.
func Hold[K Kernel](t *testing.T, ending string, kernels map[string]K, longest int) {
	t.Helper()
	file := filepath.Join("testdata", "sums")
	old, _ := os.ReadFile(file)
	var sums strings.Builder
	for _, name := range slices.Sorted(maps.Keys(kernels)) {
		path := filepath.Join("testdata", name+ending)
		text, err := kernels[name].Text()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if longest > 0 && len(text) > longest {
			sum := fmt.Sprintf("%x %7d %s\n", sha256.Sum256([]byte(text)), len(text), name)
			sums.WriteString(sum)
			if !*update && !strings.Contains(string(old), sum) {
				leave(t, path, text)
				t.Errorf("%s: got a text whose sum and length, %s, are not in %s; it is %s.got-; run go test -update", name, strings.TrimSpace(sum), file, path)
			}
			continue
		}
		if *update {
			write(t, path, text)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run go test -update", err)
		} else if text != string(want) {
			leave(t, path, text)
			t.Errorf("%s: got a text that differs from %s at %q; run go test -update and review the diff", name, path, difference(text, string(want)))
		}
	}
	if *update && sums.Len() > 0 {
		write(t, file, sums.String())
	}
}

func leave(t *testing.T, path, text string) { write(t, path+".got-", text) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
}

// difference is the first line that differs.
func difference(got, want string) string {
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return strings.TrimSpace(g[i])
		}
	}
	return "its end"
}
