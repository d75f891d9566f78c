package device

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// pairOf are both ends of a connection.
func pairOf(t *testing.T) (l [2]*net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "end")
		c, err := net.FileConn(f)
		if f.Close(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		l[i] = c.(*net.UnixConn)
	}
	return l
}

// TestFollowerEnds: a follower's worker ends with its controller's connection, and says why.
func TestFollowerEnds(t *testing.T) {
	broken := wire.Errorf(wire.BadFrame, "execute of unknown program handle 7")
	for _, tt := range []struct {
		name string
		end  func(*conn)
		want error
	}{
		{"the controller has gone", func(c *conn) { c.end(io.EOF) }, errHungUp},
		{"it was killed", func(c *conn) { c.end(&net.OpError{Op: "read", Err: syscall.ECONNRESET}) }, errHungUp},
		{"the protocol was broken", func(c *conn) {
			c.end(broken)
			c.end(io.EOF)
		}, broken},
		{"SIGTERM", func(c *conn) { c.w.stop() }, errStopped},
	} {
		w := &Worker{Node: &pjrt.Node{}, lifetime: lifetime{stopped: make(chan struct{})}, Logf: t.Logf}
		tt.end(&conn{w: w, out: wire.NewWriter(pairOf(t)[0])})
		select {
		case <-w.stopped:
		default:
			t.Errorf("%s: the worker goes on", tt.name)
		}
		if !errors.Is(w.fate, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, w.fate, tt.want)
		}
	}
}
