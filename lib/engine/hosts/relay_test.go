package hosts_test

import (
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"
)

// relay stands between a controller and a follower, in place of the network: it can delay what
// they send, cut their connections, or carry nothing while they stay open.
type relay struct {
	address string
	to      string
	delay   time.Duration         // each way; a connection, too, comes later by a round trip
	watch   func() func(b []byte) // sees what the controller sends on a connection; may be nil

	l     net.Listener
	mu    sync.Mutex // protects following
	conns map[net.Conn]bool
	held  chan struct{} // closed when it carries again, nil while it does
}

// startRelay listens at an address for a follower at another one: both are sockets, or both
// HOST:PORT.
func startRelay(t *testing.T, address, to string, delay time.Duration) *relay {
	t.Helper()
	l, err := net.Listen(network(address), address)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{address: l.Addr().String(), to: to, delay: delay, l: l, conns: map[net.Conn]bool{}}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go r.carry(conn)
		}
	}()
	t.Cleanup(func() {
		l.Close()
		r.cut()
	})
	return r
}

func network(address string) string {
	if strings.ContainsRune(address, os.PathSeparator) {
		return "unix"
	}
	return "tcp"
}

func (r *relay) carry(near net.Conn) {
	far, err := net.Dial(network(r.to), r.to)
	if err != nil {
		near.Close()
		return
	}
	r.mu.Lock()
	r.conns[near], r.conns[far] = true, true
	r.mu.Unlock()
	var carried func([]byte)
	if r.watch != nil {
		carried = r.watch()
	}
	go r.pump(near, far, 2*r.delay, carried)
	r.pump(far, near, 0, nil)
}

// parcel is what was read at a time.
type parcel struct {
	data []byte
	due  time.Time
}

func (r *relay) pump(from, to net.Conn, late time.Duration, carried func([]byte)) {
	way := make(chan parcel, 1<<16)
	go func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			r.mu.Lock()
			held := r.held
			r.mu.Unlock()
			if held != nil {
				<-held
			}
			if _, err := to.Write(p.data); err != nil {
				from.Close()
			}
		}
	}()
	defer close(way)
	first := time.Now().Add(late)
	for b := make([]byte, 64<<10); ; {
		n, err := from.Read(b)
		if err != nil {
			return
		}
		if carried != nil {
			carried(b[:n])
		}
		due := time.Now()
		if due.Before(first) {
			due = first
		}
		way <- parcel{append([]byte{}, b[:n]...), due.Add(r.delay)}
	}
}

// cut closes all connections.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for c := range r.conns {
		c.Close()
	}
	clear(r.conns)
}

// hold carries nothing until release: whoever waits for an answer waits.
func (r *relay) hold() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = make(chan struct{})
}

func (r *relay) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.held != nil {
		close(r.held)
		r.held = nil
	}
}
