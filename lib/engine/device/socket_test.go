package device

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestSocketPlace: a file of the user's is not removed to make room for a socket.
func TestSocketPlace(t *testing.T) {
	dir := t.TempDir()
	file, folder, socket := filepath.Join(dir, "file"), filepath.Join(dir, "folder"), filepath.Join(dir, "socket")
	if err := errors.Join(os.WriteFile(file, []byte("thesis"), 0o600), os.Mkdir(folder, 0o700), os.Symlink(file, filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: socket, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, tt := range []struct{ name, path, want string }{
		{"nothing", filepath.Join(dir, "none"), ""},
		{"socket that nobody listens at", socket, ""},
		{"file", file, "not a socket"},
		{"folder", folder, "not a socket"},
		{"link", filepath.Join(dir, "link"), "not a socket"},
		{"long path", filepath.Join(dir, strings.Repeat("x", 120)), "want at most 107"},
	} {
		err := socketPlace(tt.path)
		if errors.Is(err, wire.Invalid) != (tt.want != "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
	if b, err := os.ReadFile(file); string(b) != "thesis" {
		t.Errorf("the file: got %q, %v, want it untouched", b, err)
	}
}
