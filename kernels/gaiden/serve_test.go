package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gaiden/kernels/internal/serve"
	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// TestServe serves an exported net with the weights of its file, and with those of the session,
// also after they have changed.
func TestServe(t *testing.T) {
	s := inSession(t)
	n, err := fit.Attach(s, "line", models.Net{Name: "line", Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "d", Units: 1}}}, fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	set := func(w ...float32) {
		t.Helper()
		if err := n.SetWeights([]fit.Tensor{{Name: "d/weights", Dims: []int{2, 1}, Data: w}}); err != nil {
			t.Fatal(err)
		}
	}
	set(1, 2)
	dir := filepath.Join(t.TempDir(), "line")
	if err := n.Export(dir); err != nil {
		t.Fatal(err)
	}
	start := func(c served) (url string, stop func() error) {
		ctx, cancel := context.WithCancel(t.Context())
		r, w := io.Pipe()
		done := make(chan error, 1)
		go func() {
			err := c.serve(ctx, "127.0.0.1:0", w)
			w.CloseWithError(fmt.Errorf("it ended: %v", err))
			done <- err
		}()
		b := make([]byte, 1000)
		k, err := r.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		url = regexp.MustCompile(`http://[0-9.:]+[0-9]`).FindString(string(b[:k]))
		return url, func() error { cancel(); return <-done }
	}
	ask := func(url, want string) {
		t.Helper()
		a, err := http.Post(url+"/predict", "application/json", strings.NewReader(`{"x": [[3, 5]]}`))
		if err != nil {
			t.Fatal(err)
		}
		defer a.Body.Close()
		if got, err := io.ReadAll(a.Body); err != nil || !strings.Contains(string(got), want) {
			t.Errorf("got %s, %v, want %s", got, err, want)
		}
	}
	limits := serve.Options{MaxBatch: 64, Timeout: time.Minute}
	file, stopFile := start(served{dir: dir, options: limits})
	live, stopLive := start(served{dir: dir, live: true, options: limits})
	ask(file, "[[13]]")
	ask(live, "[[13]]")
	set(10, 20)
	ask(file, "[[13]]")
	ask(live, "[[130]]")
	saved := filepath.Join(t.TempDir(), "saved.safetensors")
	if _, err := s.Export(saved, "", "", nil); err != nil {
		t.Fatal(err)
	}
	snapshot, stopSnapshot := start(served{dir: dir, weights: saved, options: limits})
	ask(snapshot, "[[130]]")
	if err := n.Reset(); err != nil {
		t.Fatal(err)
	}
	ask(live, `"error"`)
	for _, stop := range []func() error{stopFile, stopLive, stopSnapshot} {
		if err := stop(); err != nil {
			t.Errorf("stopped: %v", err)
		}
	}

	for want, c := range map[string]struct {
		served
		addr string
	}{
		`holds no exported net (no program.json): want net.Export("none")`: {served{dir: filepath.Join(dir, "none")}, "127.0.0.1:0"},
		"so it wants a token: set GAIDEN_SERVE_TOKEN":                      {served{dir: dir}, "0.0.0.0:0"},
		"-addr wants an address such as":                                   {served{dir: dir}, "nonsense"},
		"none.safetensors":                                                 {served{dir: dir, weights: "none.safetensors"}, "127.0.0.1:0"},
		"there is no array d/weights":                                      {served{dir: dir, weights: filepath.Join(dir, "testdata", "answers.safetensors")}, "127.0.0.1:0"},
		"line/d/weights":                                                   {served{dir: dir, live: true}, "127.0.0.1:0"},
	} {
		c.options = limits
		if err := c.serve(t.Context(), c.addr, io.Discard); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
}

func TestServeArguments(t *testing.T) {
	for args, want := range map[string]string{"": "the directory of an exported net", "a -live -weights f": "want one of them", "a b": "got 2 arguments", "-live -weights f a": "want one of them", "-max-batch 0 a": "below 1"} {
		var out, errs strings.Builder
		if code := gaiden(append([]string{"serve"}, strings.Fields(args)...), &out, &errs); code != 2 || !strings.Contains(errs.String(), want) {
			t.Errorf("%q: got %d %s, want %q", args, code, errs.String(), want)
		}
	}
}
