package zmtp

import (
	"bufio"
	"bytes"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// writeGroup is how much one writev carries, so that progress is seen while a
// long queue goes out.
const writeGroup = 256 << 10 // bytes

// peerLimit is the length of a queue at which a peer is given up: 1 GiB unread.
// Floods wait long before, in Room; what is left are replies and status.
const peerLimit = 1 << 30 // bytes

// A Peer is one connection to a socket. Its methods may be called from any
// goroutine.
type Peer struct {
	// Identity is the peer's routing identity: its own, or five bytes made up
	// by the socket. Do not change it.
	Identity []byte

	socket *Socket
	conn   net.Conn
	r      *bufio.Reader

	mu       sync.Mutex
	wake     sync.Cond      // the queue is not empty, or the peer is closed
	queue    [][]byte       // headers and bodies not yet handed to the writer
	queued   int            // bytes in queue and in the writer's hands
	progress time.Time      // the last time that bytes went out, or the queue was empty
	topics   map[string]int // subscriptions and how often each was made
	closed   bool
}

// Send queues a message. It never waits, and reports false if the peer is gone.
// The frames must not be changed afterwards.
func (p *Peer) Send(frames [][]byte) bool {
	return p.enqueue(func(q [][]byte) [][]byte { return appendMessage(q, frames) })
}

func (p *Peer) enqueue(add func([][]byte) [][]byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	if p.queued == 0 {
		p.progress = time.Now()
	}
	n := len(p.queue)
	p.queue = add(p.queue)
	for _, b := range p.queue[n:] {
		p.queued += len(b)
	}
	if p.queued > peerLimit {
		p.closeLocked(fmt.Sprintf("took too little: %d bytes unread", p.queued))
		return false
	}
	p.wake.Signal()
	return true
}

// write sends the queue until the peer is closed.
func (p *Peer) write() {
	for {
		p.mu.Lock()
		for len(p.queue) == 0 && !p.closed {
			p.wake.Wait()
		}
		if p.closed {
			p.mu.Unlock()
			return
		}
		queue := p.queue
		p.queue = nil
		p.mu.Unlock()

		for len(queue) > 0 {
			n, size := 0, 0
			for n < len(queue) && size < writeGroup {
				size += len(queue[n])
				n++
			}
			group := net.Buffers(queue[:n])
			queue = queue[n:]
			if _, err := group.WriteTo(p.conn); err != nil {
				p.close("")
				return
			}
			p.mu.Lock()
			p.queued -= size
			p.progress = time.Now()
			p.mu.Unlock()
		}
	}
}

// read hands every message to the socket until the connection ends.
func (p *Peer) read() {
	for {
		frames, isCommand, err := readMessage(p.r, p.socket.limit())
		if err != nil {
			p.close(reason(err))
			return
		}
		switch {
		case isCommand:
			p.obey(frames[0])
		case p.socket.Type == XPub:
			if len(frames) == 1 && len(frames[0]) > 0 && frames[0][0] <= 1 {
				p.subscribe(string(frames[0][1:]), frames[0][0] == 1)
			}
		case p.socket.Receive != nil:
			p.socket.Receive(p, frames)
		}
	}
}

// obey handles a command that may come after the handshake. Commands of later
// versions that we do not know are left alone, as the specification says.
func (p *Peer) obey(body []byte) {
	name, data, err := parseCommand(body)
	if err != nil {
		return
	}
	switch name {
	case "PING": // a time to live of 2 bytes, then a context to return
		if len(data) >= 2 {
			p.enqueue(func(q [][]byte) [][]byte { return appendCommand(q, "PONG", data[2:]) })
		}
	case "SUBSCRIBE":
		p.subscribe(string(data), true)
	case "CANCEL":
		p.subscribe(string(data), false)
	}
}

// subscribe changes the peer's subscriptions. With the socket locked nothing is
// published meanwhile, so a new subscriber gets what Subscribed sends first.
func (p *Peer) subscribe(topic string, on bool) {
	p.socket.mu.Lock()
	defer p.socket.mu.Unlock()
	p.mu.Lock()
	first := on && p.topics[topic] == 0
	switch {
	case on:
		p.topics[topic]++
	case p.topics[topic] > 1:
		p.topics[topic]--
	default:
		delete(p.topics, topic)
	}
	p.mu.Unlock()
	if first && p.socket.Subscribed != nil {
		p.socket.Subscribed(p, topic)
	}
}

func (p *Peer) wants(topic []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for t := range p.topics {
		if bytes.HasPrefix(topic, []byte(t)) {
			return true
		}
	}
	return false
}

// backlog says how many bytes wait and for how long none has gone out.
func (p *Peer) backlog() (bytes int, stalled time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.queued == 0 {
		return 0, 0
	}
	return p.queued, time.Since(p.progress)
}

func (p *Peer) close(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closeLocked(why)
}

func (p *Peer) closeLocked(why string) {
	if p.closed {
		return
	}
	p.closed = true
	p.queue, p.queued = nil, 0
	p.wake.Signal()
	p.conn.Close()
	if why != "" {
		p.socket.log("zmtp: peer disconnected", "endpoint", p.socket.endpoint, "reason", why)
	}
	go p.socket.forget(p) // the socket's lock may be held by who called us
}

func (s *Socket) forget(p *Peer) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = slices.DeleteFunc(s.peers, func(q *Peer) bool { return q == p })
}
