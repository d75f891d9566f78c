package zmtp

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/go-zeromq/zmq4"
)

// listening starts a socket on a free port.
func listening(t *testing.T, s *Socket) *Socket {
	t.Helper()
	if err := s.Listen("tcp://127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(0) })
	return s
}

// dialed connects another implementation's socket.
func dialed(t *testing.T, s *Socket, peer zmq4.Socket) zmq4.Socket {
	t.Helper()
	if err := peer.Dial(s.Endpoint()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { peer.Close() })
	return peer
}

// raw connects by hand and finishes the handshake.
func raw(t *testing.T, s *Socket, socketType string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.Endpoint(), "tcp://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(time.Minute))
	conn.Write(greeting())
	ready := appendCommand(nil, "READY", appendProperty(nil, "Socket-Type", []byte(socketType)))
	conn.Write(bytes.Join(ready, nil))
	r := bufio.NewReader(conn)
	if _, err := io.ReadFull(r, make([]byte, 64)); err != nil {
		t.Fatal(err)
	}
	if _, cmd, err := readMessage(r, 1<<10); err != nil || !cmd {
		t.Fatalf("handshake: %v", err)
	}
	return conn, r
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not so after a minute: %s", what)
		}
	}
}

func TestRouter(t *testing.T) {
	s := &Socket{Receive: func(p *Peer, frames [][]byte) { p.Send(append([][]byte{p.Identity}, frames...)) }}
	listening(t, s)
	for _, id := range []string{"a", "b", strings.Repeat("c", 255)} {
		peer := dialed(t, s, zmq4.NewDealer(t.Context(), zmq4.WithID(zmq4.SocketIdentity(id))))
		for _, size := range []int{0, 1, 255, 256, 100_000} {
			if err := peer.Send(zmq4.NewMsgFrom(nil, bytes.Repeat([]byte{7}, size))); err != nil {
				t.Fatal(err)
			}
			m, err := peer.Recv()
			if err != nil || len(m.Frames) != 3 || string(m.Frames[0]) != id || len(m.Frames[2]) != size {
				t.Fatalf("got %d frames, %v, want 3: the identity, nothing, %d bytes", len(m.Frames), err, size)
			}
		}
		if !s.Has([]byte(id)) || !s.Send([]byte(id), [][]byte{[]byte("routed")}) {
			t.Errorf("the socket does not know peer %.5q", id)
		}
		if m, err := peer.Recv(); err != nil || string(m.Bytes()) != "routed" {
			t.Errorf("got %q, %v, want routed", m.Bytes(), err)
		}
		peer.Close()
		eventually(t, "the peer is forgotten", func() bool { return !s.Has([]byte(id)) })
	}
	if s.Send([]byte("nobody"), nil) || s.Send(nil, nil) {
		t.Error("a message for nobody was taken")
	}
}

// TestNewestPeer has two peers with one identity: the newest is meant, as when
// a front end connects again.
func TestNewestPeer(t *testing.T) {
	s := listening(t, &Socket{})
	id := zmq4.WithID(zmq4.SocketIdentity("same"))
	dialed(t, s, zmq4.NewDealer(t.Context(), id))
	eventually(t, "the first is there", func() bool { return s.Has([]byte("same")) })
	first := s.find([]byte("same"))
	second := dialed(t, s, zmq4.NewDealer(t.Context(), id))
	eventually(t, "the second is there", func() bool { return s.find([]byte("same")) != first })
	s.Send([]byte("same"), [][]byte{[]byte("x")})
	if m, err := second.Recv(); err != nil || string(m.Bytes()) != "x" {
		t.Errorf("the second got %q, %v, want x", m.Bytes(), err)
	}
}

func TestPublish(t *testing.T) {
	topics := make(chan string, 10)
	s := listening(t, &Socket{Type: XPub, Subscribed: func(p *Peer, topic string) { topics <- topic }})
	all := zmq4.NewSub(t.Context())
	all.SetOption(zmq4.OptionSubscribe, "")
	dialed(t, s, all)
	some := zmq4.NewSub(t.Context())
	some.SetOption(zmq4.OptionSubscribe, "ab")
	dialed(t, s, some)
	if a, b := <-topics, <-topics; a+b != "ab" {
		t.Errorf("subscriptions are %q and %q, want an empty one and ab", a, b)
	}
	for _, topic := range []string{"abc", "a", "ab", "x"} {
		s.Publish([][]byte{[]byte(topic), []byte("body of " + topic)})
	}
	for _, tt := range []struct {
		sub  zmq4.Socket
		want []string
	}{{all, []string{"abc", "a", "ab", "x"}}, {some, []string{"abc", "ab"}}} {
		for _, want := range tt.want {
			m, err := tt.sub.Recv()
			if err != nil || string(m.Frames[0]) != want || string(m.Frames[1]) != "body of "+want {
				t.Fatalf("got %q, %v, want %s", m.Frames, err, want)
			}
		}
	}
	some.SetOption(zmq4.OptionUnsubscribe, "ab")
	eventually(t, "the subscription has ended", func() bool {
		n := 0
		for _, p := range s.list() {
			if p.wants([]byte("abc")) {
				n++
			}
		}
		return n == 1
	})
}

// TestCommands sends commands that libzmq may send after the handshake.
func TestCommands(t *testing.T) {
	s := listening(t, &Socket{Type: XPub})
	conn, r := raw(t, s, "SUB")
	for _, c := range [][][]byte{
		appendCommand(nil, "SUBSCRIBE", []byte("t")), // as ZMTP 3.1 has it
		appendCommand(nil, "FUTURE", []byte("?")),
		appendCommand(nil, "PING", []byte{0, 10, 'c'}),
	} {
		conn.Write(bytes.Join(c, nil))
	}
	frames, cmd, err := readMessage(r, 1<<10)
	if err != nil || !cmd || string(frames[0]) != "\x04PONGc" {
		t.Fatalf("got %q, %v, want PONG with the context of PING", frames, err)
	}
	s.Publish([][]byte{[]byte("topic")})
	if frames, _, err := readMessage(r, 1<<10); err != nil || string(frames[0]) != "topic" {
		t.Errorf("got %q, %v, want topic", frames, err)
	}
}

// TestCloseSends closes a socket with a long queue: all of it arrives.
func TestCloseSends(t *testing.T) {
	s := listening(t, &Socket{Type: XPub})
	conn, r := raw(t, s, "SUB")
	conn.Write([]byte("\x00\x01\x01"))
	eventually(t, "there is a subscription", func() bool { return len(s.list()) == 1 && s.list()[0].wants(nil) })
	const n, size = 2000, 10_000
	for i := range n {
		s.Publish([][]byte{fmt.Appendf(nil, "%d", i), make([]byte, size)})
	}
	go s.Close(10 * time.Second)
	for i := range n {
		frames, _, err := readMessage(r, 1<<20)
		if err != nil || string(frames[0]) != fmt.Sprint(i) || len(frames[1]) != size {
			t.Fatalf("message %d: got %d frames, %v", i, len(frames), err)
		}
	}
	if _, _, err := readMessage(r, 1<<10); err != io.EOF {
		t.Errorf("after the last message: %v, want the end", err)
	}
}

// TestRoom has a peer that does not read. A flood waits, then its context ends
// the wait, and other peers get everything.
func TestRoom(t *testing.T) {
	s := listening(t, &Socket{Type: XPub})
	deaf, _ := raw(t, s, "SUB")
	deaf.Write([]byte("\x00\x01\x01"))
	conn, r := raw(t, s, "SUB")
	conn.Write([]byte("\x00\x01\x01"))
	eventually(t, "there are two subscriptions", func() bool {
		peers := s.list()
		return len(peers) == 2 && peers[0].wants(nil) && peers[1].wants(nil)
	})
	read := make(chan int)
	go func() {
		n := 0
		for ; ; n++ {
			if frames, _, err := readMessage(r, 2<<20); err != nil || len(frames[0]) == 0 {
				break
			}
		}
		read <- n
	}()
	n := 0
	for waited := false; !waited; n++ {
		s.Publish([][]byte{make([]byte, 1<<20)})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		s.Room(ctx)
		waited = ctx.Err() != nil
		cancel()
	}
	if n < 64 || n > 100 {
		t.Errorf("the flood waits after %d MiB, want about 64 and what the connection takes", n)
	}
	s.Publish([][]byte{{}})
	if got := <-read; got != n {
		t.Errorf("the other peer got %d messages, want %d", got, n)
	}
}

// TestStall has a peer that stops reading for longer than it may.
func TestStall(t *testing.T) {
	var log strings.Builder
	s := listening(t, &Socket{Type: XPub, Stall: 200 * time.Millisecond, Log: slog.New(slog.NewTextHandler(&log, nil))})
	deaf, _ := raw(t, s, "SUB")
	deaf.Write([]byte("\x00\x01\x01"))
	eventually(t, "there is a subscription", func() bool { return len(s.list()) == 1 && s.list()[0].wants(nil) })
	begin := time.Now()
	for range 100 {
		s.Publish([][]byte{make([]byte, 1<<20)})
		s.Room(t.Context())
	}
	if took := time.Since(begin); took < 200*time.Millisecond || took > 20*time.Second {
		t.Errorf("the flood took %v, want the 200 ms that the peer may stall", took)
	}
	eventually(t, "the peer is gone", func() bool { return len(s.list()) == 0 })
	if !strings.Contains(log.String(), "took nothing for") {
		t.Errorf("the log says %q, want why the peer was disconnected", log.String())
	}
}

func TestListenErrors(t *testing.T) {
	used := listening(t, &Socket{})
	for _, tt := range []struct {
		name, socketType, endpoint, want string
	}{
		{"taken", Router, used.Endpoint(), "zmtp: listen: " + used.Endpoint() + " is taken by another process"},
		{"transport", Router, "udp://127.0.0.1:1", `zmtp: listen: udp://127.0.0.1:1: got transport "udp", want tcp or ipc`},
		{"type", "PUSH", "tcp://127.0.0.1:0", `zmtp: listen: tcp://127.0.0.1:0: got socket type "PUSH", want ROUTER or XPUB`},
		{"directory", Router, "ipc:///nowhere/x", "zmtp: listen: ipc:///nowhere/x: listen unix /nowhere/x: bind: no such file or directory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &Socket{Type: tt.socketType}
			if err := s.Listen(tt.endpoint); err == nil || err.Error() != tt.want {
				t.Errorf("error is %v, want %s", err, tt.want)
			}
			s.Close(0)
		})
	}
}
