package session

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"gaiden/lib/engine/wire"
)

// dial connects to a socket. Its error is wire.Denied where another user's folder
// or socket is in the way, or where the path is a link: somebody may have put it
// there.
func dial(path string) (*net.UnixConn, error) {
	if to, err := os.Readlink(path); err == nil {
		return nil, wire.Errorf(wire.Denied, "session: %s is a symbolic link to %s: want the session's own socket", path, to).
			WithHint("remove it, or set GAIDEN_SOCKET to what it should be")
	}
	conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
	if errors.Is(err, fs.ErrPermission) {
		for at := path; ; at = filepath.Dir(at) { // what is in another's folder cannot be looked at
			st, failed := os.Lstat(at)
			if failed != nil && at != filepath.Dir(at) {
				continue
			}
			if failed == nil {
				if sys, known := st.Sys().(*syscall.Stat_t); known && int(sys.Uid) != os.Getuid() {
					return nil, theirs(at, sys.Uid)
				}
			}
			break
		}
	}
	return conn, err
}

// ours refuses a socket behind which another user listens, who would be given
// programs and data.
func ours(conn *net.UnixConn, path string) error {
	cred, err := wire.Peer(conn)
	if err == nil && int(cred.Uid) != os.Getuid() {
		err = theirs(path, cred.Uid)
	}
	if err != nil {
		conn.Close()
	}
	return err
}

// theirs says whose a socket is, or a folder on the way to it.
func theirs(path string, uid uint32) error {
	next := "set XDG_RUNTIME_DIR to a folder of your own"
	if os.Getenv("GAIDEN_SOCKET") != "" {
		next = "unset GAIDEN_SOCKET, or name a socket in a folder of your own"
	}
	return wire.Errorf(wire.Denied, "session: %s belongs to user %d, you are user %d", path, uid, os.Getuid()).
		WithHint("a session serves one user: %s", next)
}
