package zmtp

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	defaultLimit  = 1 << 30  // bytes of one message
	roomLimit     = 64 << 20 // bytes queued for one peer at which a flood waits
	defaultStall  = time.Minute
	helloLimit    = 30 * time.Second // for the handshake
	pollInterval  = 2 * time.Millisecond
	readBuffer    = 64 << 10
	acceptBackoff = 20 * time.Millisecond
)

// A Socket listens on one endpoint. Set its fields before Listen and leave them.
type Socket struct {
	// Type is Router or XPub; empty means Router.
	Type string

	// Receive is called with each message, in order for one peer and at the
	// same time for several. While it runs, its peer is not read from. An XPub
	// socket never calls it.
	Receive func(p *Peer, frames [][]byte)

	// Subscribed is called when a peer of an XPub socket subscribes to a topic
	// it had not. What it sends to the peer comes before anything published. It
	// must not call the socket's own methods.
	Subscribed func(p *Peer, topic string)

	// Limit is the size in bytes of the largest message accepted; 0 is 1 GiB.
	Limit uint64

	// Stall is how long a peer whose queue is full may take nothing before it
	// is disconnected; 0 is one minute.
	Stall time.Duration

	// Log gets a record of each peer that is disconnected for a fault of its
	// own; nil discards them.
	Log *slog.Logger

	endpoint string
	listener net.Listener
	wg       sync.WaitGroup // one for the listener and two for each peer

	mu     sync.Mutex
	peers  []*Peer
	serial uint32 // of the last made-up identity
	closed bool
}

// A ListenError reports an endpoint that cannot be bound.
type ListenError struct {
	Endpoint string
	Err      error // syscall.EADDRINUSE when another process has it
}

func (e *ListenError) Error() string {
	if e.Taken() {
		return fmt.Sprintf("zmtp: listen: %s is taken by another process", e.Endpoint)
	}
	return fmt.Sprintf("zmtp: listen: %s: %v", e.Endpoint, e.Err)
}

func (e *ListenError) Unwrap() error { return e.Err }

// Taken says whether another process has the endpoint.
func (e *ListenError) Taken() bool { return errors.Is(e.Err, syscall.EADDRINUSE) }

// Listen binds the endpoint, tcp://address:port or ipc://path, and begins to
// accept peers. Port 0 takes a free one: see Endpoint. Errors are *ListenError.
func (s *Socket) Listen(endpoint string) error {
	s.Type = cmp.Or(s.Type, Router)
	if compatible[s.Type] == nil {
		return &ListenError{endpoint, fmt.Errorf("got socket type %q, want %s or %s", s.Type, Router, XPub)}
	}
	network, address, _ := strings.Cut(endpoint, "://")
	switch network {
	case "tcp":
		address = strings.Replace(address, "*:", ":", 1)
	case "ipc":
		network = "unix"
	default:
		return &ListenError{endpoint, fmt.Errorf("got transport %q, want tcp or ipc", network)}
	}
	l, err := net.Listen(network, address)
	if err != nil && network == "unix" && errors.Is(err, syscall.EADDRINUSE) && stale(address) {
		l, err = net.Listen(network, address)
	}
	if err != nil {
		return &ListenError{endpoint, err}
	}
	s.listener = l
	s.endpoint = endpoint
	if network == "tcp" {
		s.endpoint = "tcp://" + l.Addr().String()
	}
	s.wg.Go(s.accept)
	return nil
}

// stale removes the file of a Unix socket that nobody listens on, left by a
// killed process, and says whether it did.
func stale(path string) bool {
	conn, err := net.Dial("unix", path)
	if err == nil {
		conn.Close()
		return false
	}
	return errors.Is(err, syscall.ECONNREFUSED) && os.Remove(path) == nil
}

// Endpoint is where the socket listens, with the port that was taken for 0.
func (s *Socket) Endpoint() string { return s.endpoint }

func (s *Socket) accept() {
	for {
		conn, err := s.listener.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // out of file descriptors, say: it may get better
			s.log("zmtp: accept", "endpoint", s.endpoint, "error", err)
			time.Sleep(acceptBackoff)
			continue
		}
		s.wg.Go(func() { s.greet(conn) })
	}
}

// greet makes a peer of a new connection and reads from it until its end.
func (s *Socket) greet(conn net.Conn) {
	p := &Peer{socket: s, conn: conn, r: bufio.NewReaderSize(conn, readBuffer), topics: map[string]int{}}
	p.wake.L = &p.mu
	if !s.admit(p) {
		conn.Close()
		return
	}
	conn.SetDeadline(time.Now().Add(helloLimit))
	identity, err := handshake(conn, p.r, s.Type)
	if err != nil {
		p.close(reason(err))
		return
	}
	conn.SetDeadline(time.Time{})
	s.name(p, identity)
	s.wg.Go(p.write)
	p.read()
}

// admit lists the peer, still without identity, so that Close finds it.
func (s *Socket) admit(p *Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.peers = append(s.peers, p)
	return true
}

// name gives the peer its identity, one starting with a zero byte if it has
// none, as libzmq does.
func (s *Socket) name(p *Peer, identity []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(identity) == 0 {
		s.serial++
		identity = binary.BigEndian.AppendUint32([]byte{0}, s.serial)
	}
	p.Identity = identity
}

// Send queues a message for the peer with that identity, the newest if a front
// end has connected again before its old connection was seen to end. It never
// waits, and reports false if there is no such peer.
func (s *Socket) Send(identity []byte, frames [][]byte) bool {
	p := s.find(identity)
	return p != nil && p.Send(frames)
}

// Has says whether a peer with that identity is connected.
func (s *Socket) Has(identity []byte) bool { return s.find(identity) != nil }

func (s *Socket) find(identity []byte) *Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := len(s.peers) - 1; i >= 0; i-- {
		if len(identity) > 0 && bytes.Equal(s.peers[i].Identity, identity) {
			return s.peers[i]
		}
	}
	return nil
}

// Publish queues a message, whose first frame is its topic, for every peer that
// subscribed to a prefix of the topic. It never waits. All peers get messages
// in the order of the calls.
func (s *Socket) Publish(frames [][]byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, p := range s.peers {
		if p.wants(frames[0]) {
			p.Send(frames)
		}
	}
}

// Room waits until no peer has more than 64 MiB queued, or ctx ends: who makes
// a flood calls it before each message. A peer that takes nothing at all for the
// time of Stall is disconnected.
func (s *Socket) Room(ctx context.Context) {
	for {
		full := false
		for _, p := range s.list() {
			queued, stalled := p.backlog()
			if queued <= roomLimit {
				continue
			}
			if stalled > s.stall() {
				p.close(fmt.Sprintf("took nothing for %v with %d bytes queued", stalled.Round(time.Millisecond), queued))
				continue
			}
			full = true
		}
		if !full {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(pollInterval):
		}
	}
}

// Close stops listening, gives the queues up to linger to go out, and ends
// every connection. It returns when no goroutine of the socket is left, so
// Receive must not be waiting for the caller.
func (s *Socket) Close(linger time.Duration) {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	if s.listener == nil {
		return
	}
	s.listener.Close() // removes the file of a Unix socket, too
	end := time.Now().Add(linger)
	for _, p := range s.list() {
		for {
			if queued, _ := p.backlog(); queued == 0 || time.Now().After(end) {
				break
			}
			time.Sleep(pollInterval)
		}
		p.close("")
	}
	s.wg.Wait()
}

func (s *Socket) list() []*Peer {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]*Peer(nil), s.peers...)
}

func (s *Socket) limit() uint64 { return cmp.Or(s.Limit, defaultLimit) }

func (s *Socket) stall() time.Duration { return cmp.Or(s.Stall, defaultStall) }

func (s *Socket) log(message string, args ...any) {
	if s.Log != nil {
		s.Log.Warn(message, args...)
	}
}

// reason is why a peer was disconnected, empty when it just left.
func reason(err error) string {
	if errors.Is(err, io.EOF) || errors.Is(err, net.ErrClosed) || errors.Is(err, syscall.ECONNRESET) {
		return ""
	}
	return err.Error()
}
