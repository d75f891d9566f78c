package device

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"gaiden/lib/engine/wire"
)

// TestSupervisor: the worker that follows a change of the hosts has a socket, though it was
// removed meanwhile, and what is another session's by the end stays.
func TestSupervisor(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	socket, reached := filepath.Join(dir, "s"), filepath.Join(dir, "reached")
	for name, value := range map[string]string{"GAIDEN_SOCKET": socket, "GAIDEN_PLUGIN": "/proc/self/exe", "GAIDEN_DEVICE": "cpu", "XDG_STATE_HOME": dir, "REACHED": reached} {
		t.Setenv(name, value)
	}
	worker := fmt.Sprintf(`echo {} >&4
case "$%s" in
*'"Generation":1,'*)
	rm "$GAIDEN_SOCKET"
	exit %d;;
esac
test -S "$GAIDEN_SOCKET" && touch "$REACHED"
rm "$GAIDEN_SOCKET.lock"
echo 1 >"$GAIDEN_SOCKET.lock"
echo '{}' >"$GAIDEN_SOCKET.hosts"`, jobEnv, regroupStatus)
	s := Supervisor{Command: []string{"/bin/sh", "-c", worker}}
	if err := s.Run(); err != nil {
		t.Fatal(err)
	}
	if s.generation != 2 || s.note != errRegroup.Error() {
		t.Errorf("got %d workers, note %q, want 2 as the hosts have changed", s.generation, s.note)
	}
	for what, path := range map[string]string{"the second worker's socket": reached, "the other session's socket": socket, "its list of hosts": wire.SocketPath() + ".hosts"} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s: got %v, want it to be there", what, err)
		}
	}
}
