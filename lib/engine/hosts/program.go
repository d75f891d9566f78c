package hosts

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// Program is a program on the nodes that have its devices. One of a single replica is made for
// this node, and for a follower at the first execution there.
type Program struct {
	*pjrt.Program

	client *Client
	body   wire.ProgramBody // as followers are sent it
	spans  bool             // it runs on several nodes
	places []*Device        // of the replicas, in order; nil where all are here

	mu    sync.Mutex // protects following
	there map[*peer]uint64
}

// Spans says whether a program of so many replicas, on devices given by their positions in
// Devices (none: the first ones), has parts on several nodes.
func (c *Client) Spans(replicas int, devices []int) bool {
	if len(c.Everywhere()) == c.Here() || replicas < 2 {
		return false
	}
	for r := range replicas {
		if d := position(devices, r); d >= len(c.Everywhere()) || c.Everywhere()[d].Node() != c.node() {
			return true
		}
	}
	return false
}

func (c *Client) node() int { return c.Client.Devices()[0].Node() }

// position is the device that a replica runs on.
func position(devices []int, replica int) int {
	if len(devices) == 0 {
		return replica
	}
	return devices[replica]
}

// ids are the plugin's numbers of devices that are given by their positions.
func (c *Client) ids(o pjrt.CompileOptions) (pjrt.CompileOptions, error) {
	if o.Replicas < 2 && len(o.Devices) == 0 {
		return o, nil
	}
	var ids []int
	for r := range o.Replicas {
		d := position(o.Devices, r)
		if d >= len(c.Everywhere()) {
			return o, fmt.Errorf("hosts: program for device %d, there are %d", d, len(c.Everywhere()))
		}
		ids = append(ids, c.Everywhere()[d].ID())
	}
	o.Devices = ids
	return o, nil
}

// Compile compiles the program of a request, whose devices in o are positions in Devices.
func (c *Client) Compile(b *wire.ProgramBody, o pjrt.CompileOptions) (*Program, error) {
	return c.make(b, o, func(o pjrt.CompileOptions) (*pjrt.Program, error) { return c.Client.Compile(b.Text, o) })
}

// Deserialize loads a program from code. It must not span nodes.
func (c *Client) Deserialize(b *wire.ProgramBody, code []byte, o pjrt.CompileOptions) (*Program, error) {
	return c.make(b, o, func(o pjrt.CompileOptions) (*pjrt.Program, error) { return c.Client.Deserialize(code, o) })
}

func (c *Client) make(b *wire.ProgramBody, o pjrt.CompileOptions, local func(pjrt.CompileOptions) (*pjrt.Program, error)) (*Program, error) {
	o.Replicas = max(o.Replicas, 1)
	p := &Program{client: c, body: *b, spans: c.Spans(o.Replicas, o.Devices), there: map[*peer]uint64{}}
	switch {
	case o.Replicas == 1 && len(c.peers) > 0:
		if len(o.Devices) == 1 && o.Devices[0] >= c.Here() {
			p.places = []*Device{c.devices[o.Devices[0]]}
			o.Devices = nil // here it is only looked at
		}
		p.body.Devices = nil
		p.body.Hash = wire.Key(b.Text, b.Flags, 1, nil)
	case p.spans && len(c.peers) > 0:
		for r := range o.Replicas {
			p.places = append(p.places, c.devices[position(o.Devices, r)])
		}
	}
	if len(c.Everywhere()) > c.Here() {
		if err := c.alike(p, &o); err != nil {
			return nil, err
		}
	}
	o, err := c.ids(o)
	if err != nil {
		return nil, err
	}
	answers := make(chan error, len(c.peers))
	if p.spans {
		for _, d := range p.places {
			if d.peer != nil && p.there[d.peer] == 0 {
				p.send(d.peer, func(_ []byte, err error) { answers <- err })
			}
		}
	}
	p.Program, err = local(o)
	for range p.there {
		err = errors.Join(err, <-answers)
	}
	if err != nil {
		p.drop()
		if p.Program != nil {
			p.Program.Close()
		}
		return nil, err
	}
	if p.spans || len(c.peers) == 0 { // no follower will be sent it
		p.body.Text = nil
	}
	return p, nil
}

// alike sees that XLA chooses the same kernels on all nodes that a program runs on: the nodes
// of a client divide the trials among them and tell each other, each waiting for all. If they
// chose by themselves, their collectives might come in different orders, which never ends
// (github.com/openxla/xla/issues/7716). So a program is for all nodes or for one, which is
// told not to wait.
func (c *Client) alike(p *Program, o *pjrt.CompileOptions) error {
	if !p.spans {
		flags := maps.Clone(o.Flags)
		if flags == nil {
			flags = map[string]any{}
		}
		flags["xla_gpu_shard_autotuning"] = false
		o.Flags = flags
		return nil
	}
	used, all := map[int]bool{}, map[int]bool{}
	for i, d := range c.Everywhere() {
		all[d.Node()] = true
		if used[d.Node()] = used[d.Node()] || len(o.Devices) == 0 && i < o.Replicas || slices.Contains(o.Devices, i); !used[d.Node()] {
			delete(used, d.Node())
		}
	}
	if len(used) < len(all) {
		return wire.Errorf(wire.Unsupported, "program for devices of %d hosts of %d: want all hosts, or one", len(used), len(all)).
			WithHint("use as many devices as there are, or remove hosts")
	}
	return nil
}

// drop frees the program on the followers.
func (p *Program) drop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for at, handle := range p.there {
		at.free(handle)
	}
	clear(p.there)
}

// send has a follower make the program. The caller is the only one who knows p, or holds p.mu.
func (p *Program) send(at *peer, done func([]byte, error)) {
	b := p.body
	b.Handle = at.handles.Add(1)
	p.there[at] = b.Handle
	at.request(wire.Program, b.Append, done)
}

// handle is the program's number at a follower, which may not know it yet.
func (p *Program) handle(at *peer) uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.there[at] == 0 {
		p.send(at, func([]byte, error) {}) // what is wrong with it comes back with its results
	}
	return p.there[at]
}

// Here are the positions in Devices of the replicas that run on this node.
func (p *Program) Here() (l []int) {
	for r := range p.Replicas() {
		d := position(p.positions(), r)
		if at := p.client.Everywhere()[d]; at.Node() == p.client.node() {
			l = append(l, slices.IndexFunc(p.client.devices, func(d *Device) bool { return d.Device == at }))
		}
	}
	return l
}

func (p *Program) positions() (l []int) {
	for _, d := range p.body.Devices {
		l = append(l, int(d))
	}
	return l
}

// Close frees the program on all nodes.
func (p *Program) Close() error {
	p.drop()
	return p.Program.Close()
}

// Execute is pjrt.Program's. Where the program spans nodes, an error that comes after a
// follower was sent its part leaves the nodes out of step: then Client.Watch tells.
func (p *Program) Execute(in, out []pjrt.Buffer, donate []bool, d *Device, mode pjrt.Mode, done func(error)) error {
	if p.places == nil && d.peer == nil {
		return p.Program.Execute(in, out, donate, d.Device, mode, done)
	}
	if mode != pjrt.Async {
		return errors.New("hosts: a program of several nodes is executed in mode Async")
	}
	places := p.places
	if places == nil {
		places = []*Device{d}
	}
	if len(in)%len(places) != 0 || len(out) != len(places)*p.NumOutputs() || donate != nil && len(donate) != len(in) {
		return fmt.Errorf("hosts: got %d arguments and room for %d outputs, want those of %d replicas", len(in), len(out), len(places))
	}
	for i, b := range in {
		if at, _ := p.client.owner(b); b == 0 || at != places[i/(len(in)/len(places))].peer {
			return fmt.Errorf("hosts: argument %d is not on the device of its replica", i)
		}
	}
	p.client.order.Lock()
	defer p.client.order.Unlock()
	return p.start(places, in, out, donate)
}

// start starts the parts of an execution, those of followers first. The caller holds
// Client.order.
func (p *Program) start(places []*Device, in, out []pjrt.Buffer, donate []bool) (err error) {
	sent := false
	defer func() {
		if err != nil && sent {
			p.client.lose(fmt.Errorf("the hosts are out of step: program %s did not start on all of them: %w", p.body.Name, err))
		}
	}()
	for _, at := range p.client.peers {
		s := partOf(at, places, in, out, donate)
		if len(s.places) == 0 {
			continue
		}
		e := wire.ExecuteBody{Program: p.handle(at), Donate: s.donate}
		if !p.spans {
			e.Device = s.places[0].there
		}
		for _, b := range s.in {
			_, handle := p.client.owner(b)
			e.Inputs = append(e.Inputs, handle)
		}
		for _, o := range s.out {
			handle := at.handles.Add(1)
			e.Outputs, out[o] = append(e.Outputs, handle), at.buffer(handle)
		}
		if err := at.send(wire.Execute, e.Append); err != nil {
			return err
		}
		sent = true
	}
	s := partOf(nil, places, in, out, donate)
	if len(s.places) == 0 {
		return nil
	}
	here := make([]pjrt.Buffer, len(s.out))
	if err := p.Program.Execute(s.in, here, s.donate, nil, pjrt.Async, nil); err != nil {
		return err
	}
	for i, o := range s.out {
		out[o] = here[i]
	}
	return nil
}

// part is what one node does of an execution.
type part struct {
	places []*Device
	in     []pjrt.Buffer
	donate []bool
	out    []int // positions in the list of all outputs
}

// partOf is the part of a follower, or with nil of this node.
func partOf(at *peer, places []*Device, in, out []pjrt.Buffer, donate []bool) (s part) {
	inputs, outputs := len(in)/len(places), len(out)/len(places)
	for r, d := range places {
		if d.peer != at {
			continue
		}
		s.places = append(s.places, d)
		s.in = append(s.in, in[r*inputs:(r+1)*inputs]...)
		if donate != nil {
			s.donate = append(s.donate, donate[r*inputs:(r+1)*inputs]...)
		}
		for o := range outputs {
			s.out = append(s.out, r*outputs+o)
		}
	}
	return s
}

func (c *Client) lose(err error) {
	if c.onLost != nil {
		c.onLost(err)
	}
}
