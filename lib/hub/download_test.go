package hub

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"strings"
	"testing"
)

// TestDownload holds that a folder comes from a server as huggingface.co is one, and what is said
// where there is none.
func TestDownload(t *testing.T) {
	fetched := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/api/models/me/tiny/") {
			fmt.Fprint(w, `{"sha":"abc","siblings":[{"rfilename":"config.json"},{"rfilename":"model.safetensors"},{"rfilename":"tokenizer.json"},{"rfilename":"onnx/model.onnx"},{"rfilename":"README.md"}]}`)
			return
		}
		name := path.Base(r.URL.Path)
		b, err := os.ReadFile("testdata/gpt2/" + name)
		if err != nil || !strings.HasPrefix(r.URL.Path, "/me/tiny/resolve/abc/") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("ETag", `"`+name+`-tag"`)
		w.Header().Set("Content-Length", fmt.Sprint(len(b)))
		if r.Method == http.MethodGet {
			fetched++
			w.Write(b)
		}
	}))
	defer server.Close()
	t.Setenv("HF_ENDPOINT", server.URL)
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	for range 2 {
		dir, err := Download("me/tiny")
		if err != nil {
			t.Fatal(err)
		}
		if m, err := Open(dir); err != nil || m.Kind != "gpt2" || m.Tokenizer == nil {
			t.Fatalf("got %v, %v", m, err)
		}
	}
	if fetched != 3 {
		t.Errorf("fetched %d files, want 3, each once", fetched)
	}
	if _, err := Download("me/none"); err == nil || !strings.Contains(err.Error(), "download me/none") {
		t.Errorf("got %v", err)
	}
}
