package datasets

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestOthersInTheFolder: what another user of a shared folder has put in the way of a
// download hangs nobody, and is not written through.
func TestOthersInTheFolder(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("payload")) }))
	defer server.Close()
	for _, tt := range []struct {
		name string
		make func(folder, target string) error
	}{
		{"pipe for the packed file", func(d, _ string) error { return syscall.Mkfifo(d+"/f.gz", 0o666) }},
		{"pipe for the file", func(d, _ string) error { return syscall.Mkfifo(d+"/f", 0o666) }},
		{"pipe for the part", func(d, _ string) error { return syscall.Mkfifo(d+"/f.gz.part", 0o666) }},
		{"pipe for the lock", func(d, _ string) error { return syscall.Mkfifo(d+"/.lock", 0o666) }},
		{"link for the part", func(d, to string) error { return os.Symlink(to, d+"/f.gz.part") }},
		{"link for the lock", func(d, to string) error { return os.Symlink(to, d+"/.lock") }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			target := filepath.Join(dir, "target")
			folder := filepath.Join(dir, "set")
			if err := os.Mkdir(folder, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(target, []byte("untouched"), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := tt.make(folder, target); err != nil {
				t.Fatal(err)
			}
			s, err := Options{Dir: dir, Mirrors: []string{server.URL}}.store("set")
			if err != nil {
				t.Fatal(err)
			}
			f := file{name: "f", size: 1 << 20, sha256: strings.Repeat("0", 64)}
			done := make(chan error, 1)
			go func() {
				unlock, err := s.lock(context.Background())
				if err == nil {
					s.read(f)
					s.unpackFile(f, folder+"/f.gz")
					_, err = s.download(context.Background(), server.Client(), server.URL+"/f.gz", "f", folder+"/f.gz.part", 1<<20)
					unlock()
				}
				done <- err
			}()
			select {
			case err := <-done:
				if packed := strings.Contains(tt.name, "file"); (err == nil) != packed {
					t.Errorf("got error %v; want one: %v", err, !packed)
				}
			case <-time.After(20 * time.Second):
				t.Fatal("it hangs")
			}
			if got, err := os.ReadFile(target); err != nil || string(got) != "untouched" {
				t.Errorf("the file that the link names is %q, %v", got, err)
			}
		})
	}
}
