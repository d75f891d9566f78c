package main

import (
	"errors"
	"regexp"
	"slices"
	"testing"

	"gaiden/kernels/internal/magic"
	"gaiden/kernels/internal/notebook"
)

// TestElsewhere: who types a magic of IPython's is told of one that there is.
func TestElsewhere(t *testing.T) {
	n := &notebook.Notebook{}
	all := slices.Concat(sessionMagics(), timingMagics(n), runsMagics(n), notebook.Magics(n))
	named := regexp.MustCompile(`%+[a-z]+`)
	for _, name := range []string{"%autoreload", "%cat", "%conda", "%debug", "%hist", "%history", "%%html", "%%javascript", "%%js", "%%latex", "%load_ext", "%%markdown", "%matplotlib",
		"%memit", "%mkdir", "%pdb", "%pinfo", "%pip", "%prun", "%%prun", "%pwd", "%run", "%set_env", "%store", "%%svg", "%xdel"} {
		_, err := all.Parse(name + " x\ny")
		var unknown *magic.UnknownError
		if !errors.As(err, &unknown) {
			t.Errorf("%s: got %v, want an UnknownError", name, err)
			continue
		}
		if hint := unknown.Hint(); unknown.Nearest != "" || hint == "" || hint == "%help lists all magics" {
			t.Errorf("%s: got %q and the hint %q, want what does its work here", name, err, hint)
		}
		for _, other := range named.FindAllString(unknown.Hint(), -1) {
			if all.Find(other) == nil {
				t.Errorf("%s: the hint names %s, which there is not", name, other)
			}
		}
	}
}
