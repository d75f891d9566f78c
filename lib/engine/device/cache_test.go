package device

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// TestOddFiles holds that what is no file of the user's own, in place of one that a session
// reads, is not read, and that nothing waits for the other end of a pipe.
func TestOddFiles(t *testing.T) {
	odd := map[string]func(path string) error{
		"pipe":   func(path string) error { return unix.Mkfifo(path, 0o600) },
		"folder": func(path string) error { return os.Mkdir(path, 0o700) },
		"link": func(path string) error {
			return errors.Join(os.Rename(path, path+".away"), os.Symlink(path+".away", path))
		},
	}
	for name, put := range odd {
		t.Run(name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "own")
			c := openCache(dir, 0, "no plugin", nil, t.Logf)
			hash := [32]byte{1}
			if err := c.store(hash, []byte("code")); err != nil {
				t.Fatal(err)
			}
			var code string
			use := func(b []byte) error { code = string(b); return nil }
			if !c.load(hash, use) || code != "code" {
				t.Fatalf("got %q, want what was stored", code)
			}
			place := guard{path: filepath.Join(dir, "socket")}
			if err := os.WriteFile(place.path+".lock", []byte("7\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := place.holder(); got != 7 {
				t.Fatalf("got holder %d, want 7", got)
			}
			for _, path := range []string{c.path(c.key(hash)), place.path + ".lock", filepath.Join(dir, "plugin.json")} {
				if name != "link" {
					os.Remove(path)
				} else if _, err := os.Stat(path); err != nil {
					continue
				}
				if err := put(path); err != nil {
					t.Fatal(err)
				}
			}
			for what, read := range map[string]func() bool{
				"program":     func() bool { return c.load(hash, use) },
				"lock":        func() bool { return place.holder() != 0 },
				"fingerprint": func() bool { sum, err := c.fingerprint("/proc/self/exe"); return err != nil || len(sum) != 64 },
				"lock again":  func() bool { _, err := place.again(); return !errors.Is(err, wire.Denied) },
			} {
				wrong := make(chan bool, 1)
				go func() { wrong <- read() }()
				select {
				case is := <-wrong:
					if is {
						t.Errorf("%s: it was taken for a file of ours", what)
					}
				case <-time.After(20 * time.Second):
					t.Errorf("%s: it hangs", what)
				}
			}
		})
	}
}
