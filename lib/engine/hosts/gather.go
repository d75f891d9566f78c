package hosts

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// Call is the first line, JSON, on a connection to a follower.
type Call struct {
	Protocol int    // of package wire
	Version  string // of the controller's build, for messages
	Owner    string // whose controller it is: its next generation may call before this one is gone
	GPUs     GPUs   // of the controller
	Probe    bool   // it only wants to know whether it would be taken
	Set      string // a random name of the set of nodes: its two connections belong together
	Store    bool   // it is the second connection
	Node     int    // on the second one: the follower's number
	Count    int    // and how many nodes there are
}

// Answer is the follower's line on the first connection.
type Answer struct {
	Host  string      // its name
	Error *wire.Error `json:",omitempty"` // why not
}

// GPUs are those that a process uses, as far as another one can tell whether they are its own,
// too: NCCL takes no two nodes on one.
type GPUs struct {
	Boot        string  // of the machine, "" where the devices are no GPUs
	Environment string  // CUDA_VISIBLE_DEVICES, which numbers them
	Visible     []int64 // none: all
}

// Shares says whether the two have a GPU in common.
func (g GPUs) Shares(h GPUs) bool {
	if g.Boot == "" || g.Boot != h.Boot || g.Environment != h.Environment {
		return false
	}
	return len(g.Visible) == 0 || len(h.Visible) == 0 || slices.ContainsFunc(g.Visible, func(n int64) bool { return slices.Contains(h.Visible, n) })
}

// maxLine bounds a line of the two, in bytes.
const maxLine = 4096

// SendLine writes v as a line.
func SendLine(conn net.Conn, v any) error {
	_, err := conn.Write(append(wire.JSON(v), '\n'))
	return err
}

// ReadLine reads a line into v, and nothing behind it.
func ReadLine(conn net.Conn, v any) error {
	conn.SetReadDeadline(time.Now().Add(DialTimeout))
	defer conn.SetReadDeadline(time.Time{})
	var line []byte
	for b := make([]byte, 1); ; {
		if _, err := conn.Read(b); err != nil {
			return err
		}
		if b[0] == '\n' {
			break
		}
		if line = append(line, b[0]); len(line) > maxLine {
			return wire.Errorf(wire.BadFrame, "hosts: got a line of more than %d bytes", maxLine)
		}
	}
	if err := json.Unmarshal(line, v); err != nil {
		return wire.Errorf(wire.BadFrame, "hosts: got %.80q, want a call as JSON", line)
	}
	return nil
}

// Nodes are followers that have answered, and will be nodes of one client.
type Nodes struct {
	Missing []error // of addresses that have not, by address

	call   Call
	secret string
	peers  []*peer
	store  Store

	mu    sync.Mutex // protects following
	first *peer      // that was lost: the others end as a consequence
}

// Gather calls all addresses at the same time. Those that do not answer are in Missing.
func Gather(addresses []string, secret string, call Call) *Nodes {
	call.Protocol, call.Set, call.Store = wire.Protocol, rand.Text(), false
	n := &Nodes{call: call, secret: secret}
	type result struct {
		p   *peer
		err error
	}
	results := make([]result, len(addresses))
	var all sync.WaitGroup
	for i, address := range addresses {
		all.Go(func() {
			p, err := callHost(address, secret, call)
			results[i] = result{p, err}
		})
	}
	all.Wait()
	for i, r := range results {
		if r.err != nil {
			n.Missing = append(n.Missing, fmt.Errorf("host %s: %w", addresses[i], r.err))
			continue
		}
		r.p.index = len(n.peers)
		n.peers = append(n.peers, r.p)
	}
	return n
}

func callHost(address, secret string, call Call) (*peer, error) {
	conn, err := Dial(address, secret)
	if err != nil {
		return nil, err
	}
	var a Answer
	if err = SendLine(conn, call); err == nil {
		err = ReadLine(conn, &a)
	}
	if err == nil && a.Error != nil {
		err = a.Error
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return newPeer(address, a.Host, conn), nil
}

// Close hangs up.
func (n *Nodes) Close() {
	for _, p := range n.peers {
		p.conn.Close()
	}
}

// Failed are the addresses of the followers on which Open has failed: all of them, where it is
// not known.
func (n *Nodes) Failed() (l []string) {
	if first := n.failed(); first != nil {
		return []string{first.address}
	}
	for _, p := range n.peers {
		l = append(l, p.address)
	}
	return l
}

func (n *Nodes) failed() *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.first
}

// watch notes which follower is lost first. Nobody may wait for its keys.
func (n *Nodes) watch() {
	for _, p := range n.peers {
		p.watch(func(err error) {
			n.mu.Lock()
			if n.first == nil {
				n.first = p
			}
			n.mu.Unlock()
			n.store.Fail(err)
		})
	}
}

// Open makes the client of node 0, when all followers have made theirs. Without followers it
// is one of a single process.
func (n *Nodes) Open(p *pjrt.Plugin, options map[string]any) (*Client, error) {
	if len(n.peers) == 0 {
		c, err := p.NewClient(options)
		if err != nil {
			return nil, err
		}
		return newClient(c, nil), nil
	}
	n.watch()
	for _, p := range n.peers {
		if err := n.lend(p); err != nil {
			p.lose(err)
			return nil, fmt.Errorf("host %s: %w", p.host, err)
		}
		go p.greet(n.call.Version)
	}
	c, err := p.NewNode(options, pjrt.Node{Count: len(n.peers) + 1, Store: &n.store})
	if first := n.failed(); err != nil && first != nil {
		return nil, first.state()
	}
	if err != nil {
		return nil, err
	}
	for _, p := range n.peers {
		<-p.greeted
		if err := p.state(); err != nil {
			return nil, err
		}
		if got, want := strings.TrimSpace(p.welcome.PlatformVersion), strings.TrimSpace(c.PlatformVersion()); got != want {
			err := wire.Errorf(wire.BadVersion, "host %s has platform %q, this one %q", p.host, got, want)
			p.lose(err)
			return nil, err
		}
	}
	return newClient(c, n.peers), nil
}

// lend makes the second connection to a follower, and serves the store there.
func (n *Nodes) lend(p *peer) error {
	conn, err := Dial(p.address, n.secret)
	if err != nil {
		return err
	}
	call := n.call
	call.Store, call.Node, call.Count = true, p.index+1, len(n.peers)+1
	if err := SendLine(conn, call); err != nil {
		conn.Close()
		return err
	}
	p.heard.Store(time.Now().UnixNano())
	go func() {
		n.store.serve(conn, func(s Sign) {
			p.heard.Store(time.Now().UnixNano())
			p.sign.Store(&s)
		})
		<-p.greeted // a worker that could not start says why on the other connection
		p.lose(io.EOF)
	}()
	return nil
}
