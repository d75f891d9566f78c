package hosts

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"gaiden/lib/engine/wire"
)

// peer is a follower's worker, as the controller has it.
type peer struct {
	address, host string
	index         int // of it among the followers: its node is one more
	conn          *net.UnixConn
	in            *wire.Reader
	out           *wire.Writer
	welcome       wire.WelcomeBody
	greeted       chan struct{} // closed when welcome or lost is there

	handles atomic.Uint64 // the last that was given
	heard   atomic.Int64  // when its last sign of life came, in Unix nanoseconds
	sign    atomic.Pointer[Sign]

	mu     sync.Mutex // protects following
	last   uint32
	wait   map[uint32]func(body []byte, err error)
	lost   error // why it is of no use any more
	onLost func(error)
}

func newPeer(address, host string, conn *net.UnixConn) *peer {
	return &peer{address: address, host: host, conn: conn, in: wire.NewReader(conn), out: wire.NewWriter(conn),
		greeted: make(chan struct{}), wait: map[uint32]func([]byte, error){}}
}

// greet says Hello, and waits for the follower's worker to answer.
func (p *peer) greet(version string) {
	defer close(p.greeted)
	go p.beat()
	err := p.out.Send(wire.Hello, 0, func(b []byte) []byte {
		return append(b, wire.JSON(wire.HelloBody{Protocol: wire.Protocol, Version: version, Client: "controller", Remote: true})...)
	})
	var f wire.Frame
	if err == nil {
		f, err = p.in.Next()
	}
	switch {
	case err != nil:
	case f.Kind == wire.Welcome:
		err = wire.DecodeJSON(wire.Welcome, f.Body, &p.welcome)
	default:
		err = failure(f)
	}
	if err != nil {
		p.lose(err)
		return
	}
	go p.read()
}

// failure is what a frame in place of an answer says.
func failure(f wire.Frame) error {
	e := &wire.Error{}
	if f.Kind == wire.Failed && json.Unmarshal(f.Body, e) == nil {
		return e
	}
	return wire.Errorf(wire.BadFrame, "got a frame %s, want an answer", f.Kind)
}

// read takes answers until the connection ends.
func (p *peer) read() {
	for {
		f, err := p.in.Next()
		if err == nil && f.Kind == wire.Failed && f.ID == 0 {
			err = failure(f)
		}
		if err != nil {
			p.lose(err)
			return
		}
		p.mu.Lock()
		done := p.wait[f.ID]
		delete(p.wait, f.ID)
		p.mu.Unlock()
		switch {
		case done == nil: // nobody waits
		case f.Kind == wire.Reply:
			done(f.Body, nil)
		default:
			done(nil, failure(f))
		}
	}
}

// beat gives a follower up that shows no sign of life.
func (p *peer) beat() {
	tick := time.NewTicker(silence / 20)
	defer tick.Stop()
	for range tick.C {
		if p.state() != nil {
			return
		}
		if quiet := time.Since(time.Unix(0, p.heard.Load())); quiet > silence {
			p.lose(fmt.Errorf("it has not answered for %v", quiet.Round(time.Second)))
		}
	}
}

func (p *peer) state() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

// lose gives the follower up: who waits for it hears why.
func (p *peer) lose(err error) {
	if isGone(err) {
		err = errors.New("it has ended the connection")
	}
	p.mu.Lock()
	if p.lost != nil {
		p.mu.Unlock()
		return
	}
	p.lost = wire.Errorf(wire.Lost, "host %s (%s) is lost: %v", p.host, p.address, err).
		WithHint("its log has the cause; arrays come back from the last snapshot, on the hosts that are left")
	lost, wait, onLost := p.lost, p.wait, p.onLost
	p.wait = nil
	p.mu.Unlock()
	p.conn.Close()
	if onLost != nil { // first: what the others are told is a consequence
		onLost(lost)
	}
	for _, done := range wait {
		done(nil, lost)
	}
}

// watch has f called when the follower is lost, now or later.
func (p *peer) watch(f func(error)) {
	p.mu.Lock()
	lost := p.lost
	p.onLost = f
	p.mu.Unlock()
	if lost != nil {
		f(lost)
	}
}

// send sends a frame that has no answer.
func (p *peer) send(k wire.Kind, body func([]byte) []byte) error { return p.sendAs(k, 0, body) }

func (p *peer) sendAs(k wire.Kind, id uint32, body func([]byte) []byte) error {
	err := p.out.Send(k, id, body)
	if err == nil {
		return nil
	}
	if e, is := errors.AsType[*wire.Error](err); is { // too large: nothing was sent
		return e
	}
	p.lose(err)
	return p.state()
}

// request sends a frame, and gives its answer to done, once, whatever happens. done must not
// take long.
func (p *peer) request(k wire.Kind, body func([]byte) []byte, done func([]byte, error)) {
	p.mu.Lock()
	if p.lost != nil {
		lost := p.lost
		p.mu.Unlock()
		done(nil, lost)
		return
	}
	p.last++
	if p.last == 0 {
		p.last++
	}
	id := p.last
	p.wait[id] = done
	p.mu.Unlock()
	if err := p.sendAs(k, id, body); err != nil {
		p.mu.Lock()
		_, waits := p.wait[id]
		delete(p.wait, id)
		p.mu.Unlock()
		if waits {
			done(nil, err)
		}
	}
}
