package main

import (
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
