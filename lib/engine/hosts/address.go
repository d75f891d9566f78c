package hosts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"gaiden/lib/engine/wire"
)

// An address is the path of a follower's Unix socket, or HOST:PORT, where it takes TLS.

// isSocket says whether an address is a path.
func isSocket(address string) bool { return strings.ContainsRune(address, os.PathSeparator) }

// CheckAddress refuses what is no address.
func CheckAddress(address string) *wire.Error {
	if strings.HasPrefix(address, ":") {
		return wire.Errorf(wire.Invalid, "host %q: got no name before the port, want HOST:PORT", address)
	}
	return check(address)
}

// check is CheckAddress for those to listen at, too: without HOST on all of a host's names.
func check(address string) *wire.Error {
	if isSocket(address) {
		if !filepath.IsAbs(address) {
			return wire.Errorf(wire.Invalid, "host %q: got a relative path, want an absolute one", address)
		}
		return nil
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return wire.Errorf(wire.Invalid, "host %q: want the path of its socket, or HOST:PORT", address).
			WithHint("gaiden session join prints the address of the host that it runs on")
	}
	return nil
}

// DialTimeout is how long a host may take to answer.
const DialTimeout = 2500 * time.Millisecond

// Dial connects to a follower. Only one of this user's, or one that has the secret, will do.
func Dial(address, secret string) (*net.UnixConn, error) {
	if err := CheckAddress(address); err != nil {
		return nil, err
	}
	if isSocket(address) {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: address, Net: "unix"})
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		if err := ours(conn); err != nil {
			conn.Close()
			return nil, err
		}
		return conn, nil
	}
	if secret == "" {
		return nil, noSecret(address)
	}
	config, err := tlsOf(secret)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), DialTimeout)
	defer cancel()
	conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, fmt.Errorf("hosts: %s: %w", address, err)
	}
	return bridge(conn)
}

func noSecret(address string) *wire.Error {
	return wire.Errorf(wire.Denied, "host %s: want a secret that both hosts have: no port is used without one", address).
		WithHint("gaiden session secret writes one; copy it to each host")
}

// ours refuses a socket whose other end is another user's.
func ours(conn *net.UnixConn) error {
	cred, err := wire.Peer(conn)
	if err != nil {
		return err
	}
	if int(cred.Uid) != os.Getuid() {
		return wire.Errorf(wire.Denied, "hosts: the other end of the socket is user %d, you are user %d", cred.Uid, os.Getuid())
	}
	return nil
}

// Listener takes connections of controllers.
type Listener struct {
	l      net.Listener
	config *tls.Config // nil for a Unix socket
}

// Listen begins to listen at an address. A port needs a secret.
func Listen(address, secret string) (*Listener, error) {
	if err := check(address); err != nil {
		return nil, err
	}
	if !isSocket(address) {
		if secret == "" {
			return nil, noSecret(address)
		}
		config, err := tlsOf(secret)
		if err != nil {
			return nil, err
		}
		l, err := net.Listen("tcp", address)
		if err != nil {
			return nil, fmt.Errorf("hosts: %w", err)
		}
		return &Listener{l, config}, nil
	}
	if err := wire.PrivateDir(filepath.Dir(address)); err != nil {
		return nil, err
	}
	if conn, err := net.Dial("unix", address); err == nil {
		conn.Close()
		return nil, wire.Errorf(wire.Busy, "host %s: another follower listens there", address).WithHint("stop it, or name another socket")
	}
	if info, err := os.Lstat(address); err == nil && info.Mode().Type() != os.ModeSocket {
		return nil, wire.Errorf(wire.Invalid, "host %s: a file or folder is there that is not a socket: it is left as it is", address).WithHint("name another path")
	}
	os.Remove(address)
	l, err := net.Listen("unix", address)
	if err != nil {
		return nil, fmt.Errorf("hosts: %w", err)
	}
	if err := os.Chmod(address, 0o600); err != nil {
		l.Close()
		return nil, fmt.Errorf("hosts: %w", err)
	}
	return &Listener{l, nil}, nil
}

// Address is where it listens.
func (l *Listener) Address() string { return l.l.Addr().String() }

// Close ends Accept.
func (l *Listener) Close() error { return l.l.Close() }

// Accept gives each connection to take, in a goroutine of its own, once the other end has
// shown who it is. It returns when l was closed.
func (l *Listener) Accept(take func(*net.UnixConn), refused func(error)) {
	for {
		conn, err := l.l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			refused(err)
			time.Sleep(10 * time.Millisecond) // out of descriptors: others will free some
			continue
		}
		go func() {
			c, err := l.welcome(conn)
			if err != nil {
				conn.Close()
				refused(fmt.Errorf("connection from %s: %w", conn.RemoteAddr(), err))
				return
			}
			take(c)
		}()
	}
}

func (l *Listener) welcome(conn net.Conn) (*net.UnixConn, error) {
	if c, is := conn.(*net.UnixConn); is {
		return c, ours(c)
	}
	secure := tls.Server(conn, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), DialTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, err
	}
	return bridge(secure)
}

// bridge carries a connection over a pair of Unix sockets and returns the other end: what
// speaks package wire, and a process that inherits it, want one of these.
func bridge(conn net.Conn) (*net.UnixConn, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("hosts: %w", err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "bridge")
		c, cerr := net.FileConn(f)
		f.Close()
		if cerr != nil {
			err = fmt.Errorf("hosts: %w", cerr)
			continue
		}
		ends[i] = c.(*net.UnixConn)
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				c.Close()
			}
		}
		return nil, errors.Join(err, conn.Close())
	}
	both := func() {
		conn.Close()
		ends[1].Close()
	}
	go func() {
		defer both()
		io.Copy(conn, ends[1])
	}()
	go func() {
		defer both()
		io.Copy(ends[1], conn)
	}()
	return ends[0], nil
}

// isGone says whether an error is that of a connection whose other end has ended.
func isGone(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}
