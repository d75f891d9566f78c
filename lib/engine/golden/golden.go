// Package golden holds texts that programs write to files in testdata, to the letter,
// in tests: kernels are text, and a change of one is to be seen in a review.
//
//	golden.Hold(t, map[string]triton.Kernel{"softmax_7": k})
//
// go test -update rewrites the files. Of a text that differs, what was got is left next to
// the file, with .got- at its name's end, which git does not look at, to be compared with
// another commit's.
package golden

import (
	"flag"
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

// Hold compares the texts of kernels with testdata/NAME.ttir.
func Hold[K Kernel](t *testing.T, kernels map[string]K) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(kernels)) {
		path := filepath.Join("testdata", name+".ttir")
		text, err := kernels[name].Text()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if *update {
			write(t, path, text)
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Errorf("%v; run go test -update", err)
		} else if text != string(want) {
			write(t, path+".got-", text)
			t.Errorf("%s: got a text that differs from %s at %q; run go test -update and review the diff", name, path, difference(text, string(want)))
		}
	}
}

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
