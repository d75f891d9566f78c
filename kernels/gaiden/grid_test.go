package main

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

func TestBrief(t *testing.T) {
	t.Setenv("HOME", "/home/me")
	same := func(s string) string { return s }
	got := brief([]string{"/home/me/a/first.ipynb", "/home/me/b/second", "/home/me/c/second", ""}, same)
	for name, want := range map[string]string{"/home/me/a/first.ipynb": "first.ipynb", "/home/me/b/second": "~/b/second", "/home/me/c/second": "~/c/second", "": wire.Shown("")} {
		if got[name] != want {
			t.Errorf("%s: got %q, want %q", name, got[name], want)
		}
	}
	for path, want := range map[string]string{"/home/me/x": "~/x", "/home/me": "/home/me", "/home/meme/x": "/home/meme/x", "/run/x": "/run/x"} {
		if got := tilde(path); got != want {
			t.Errorf("tilde(%s): got %q, want %q", path, got, want)
		}
	}
}

// A table of many programs has those used last, and says how many others there are.
func TestManyPrograms(t *testing.T) {
	ans := &wire.AnswerBody{Programs: make([]wire.ProgramInfo, programsShown+1234)}
	for i := range ans.Programs {
		ans.Programs[i].Hash = fmt.Sprintf("hash%d.", i)
	}
	for most, want := range map[int][2]string{programsShown: {fmt.Sprintf("hash%d.", programsShown-1), "1,234 more in memory"}, math.MaxInt: {"hash1263.", ""}} {
		var p page
		showPrograms(&p, ans, most)
		if !strings.Contains(p.String(), want[0]) || !strings.Contains(p.String(), want[1]) || strings.Contains(p.String(), "more in memory") != (want[1] != "") || most < math.MaxInt && strings.Contains(p.String(), fmt.Sprintf("hash%d.", programsShown)) {
			t.Errorf("%d at most: got %s", most, p.String())
		}
	}
}
