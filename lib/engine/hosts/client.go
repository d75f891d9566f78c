package hosts

import (
	"fmt"
	"sync"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// Client is a pjrt.Client with the devices of followers. Its methods are those of
// pjrt.Client; where they are not repeated here they are about this process alone.
type Client struct {
	*pjrt.Client

	peers   []*peer
	devices []*Device
	order   sync.Mutex // held while a program of several nodes is started on all of them
	onLost  func(error)
}

// Device is a device of any node.
type Device struct {
	*pjrt.Device
	Host string // "" for this one

	peer  *peer  // nil for this one
	there uint32 // its number at the peer
}

// newClient joins the devices of c with those of followers, whose devices c knows already.
func newClient(c *pjrt.Client, peers []*peer) *Client {
	h := &Client{Client: c, peers: peers}
	for _, d := range c.Devices() {
		h.devices = append(h.devices, &Device{Device: d})
	}
	if len(peers) == 0 {
		return h
	}
	count := make([]uint32, len(peers)+1)
	for _, d := range c.Everywhere() {
		if n := d.Node(); n > 0 && n <= len(peers) {
			p := peers[n-1]
			h.devices = append(h.devices, &Device{Device: d, Host: p.host, peer: p, there: count[n]})
			count[n]++
		}
	}
	return h
}

// Follow is the Client of a follower's own process.
func Follow(c *pjrt.Client) *Client { return newClient(c, nil) }

// Devices are those of this node, and then those of the followers.
func (c *Client) Devices() []*Device { return c.devices }

// Here is the number of this node's devices, which come first.
func (c *Client) Here() int { return len(c.Client.Devices()) }

// Joined is the name of the follower at an address, "" if there is none, and how many devices
// it has.
func (c *Client) Joined(address string) (host string, devices int) {
	for _, p := range c.peers {
		if p.address == address {
			return p.host, len(p.welcome.Devices)
		}
	}
	return "", 0
}

// Watch has f called, once, when the nodes cannot continue: one is lost, or they are out of step.
func (c *Client) Watch(f func(error)) {
	var once sync.Once
	c.onLost = func(err error) { once.Do(func() { f(err) }) }
	for _, p := range c.peers {
		p.watch(c.onLost)
	}
}

// Reported is what a follower's last sign of life said of a device, nil if it said nothing, or
// the device is this node's.
func (d *Device) Reported() *wire.DeviceInfo {
	if d.peer == nil {
		return nil
	}
	s := d.peer.sign.Load()
	if s == nil || int(d.there) >= len(s.Devices) {
		return nil
	}
	i := s.Devices[d.there]
	i.Host = d.Host
	return &i
}

// Memory reads the memory figures of a device of this node. Of others there are none that are
// of this moment: the error is pjrt.ErrUnimplemented.
func (d *Device) Memory() (pjrt.MemoryStats, error) {
	if d.peer != nil {
		return pjrt.MemoryStats{}, pjrt.ErrUnimplemented
	}
	return d.Device.Memory()
}

// A buffer of a follower is odd, as no address is: its handle, the follower, 1.
const (
	peerBits  = 8
	handleAt  = peerBits + 1
	MostPeers = 1<<peerBits - 1
)

func (p *peer) buffer(handle uint64) pjrt.Buffer {
	return pjrt.Buffer(handle<<handleAt | uint64(p.index)<<1 | 1)
}

// owner is the follower that has a buffer, nil for this node, and its handle there.
func (c *Client) owner(b pjrt.Buffer) (*peer, uint64) {
	if b&1 == 0 {
		return nil, 0
	}
	return c.peers[b>>1&MostPeers], uint64(b) >> handleAt
}

func (c *Client) Upload(data []byte, t pjrt.DType, dims []int, d *Device) (pjrt.Buffer, error) {
	if d.peer == nil {
		return c.Client.Upload(data, t, dims, d.Device)
	}
	p := d.peer
	u := wire.UploadBody{Handle: p.handles.Add(1), Type: wire.Type{DType: wire.DType(t), Dims: dims}, Device: d.there, Data: data}
	return p.buffer(u.Handle), p.send(wire.Upload, u.Append)
}

func (c *Client) UploadAsync(data []byte, t pjrt.DType, dims []int, d *Device, done func(error)) (pjrt.Buffer, error) {
	if d.peer == nil {
		return c.Client.UploadAsync(data, t, dims, d.Device, done)
	}
	b, err := c.Upload(data, t, dims, d)
	if err == nil {
		go done(nil)
	}
	return b, err
}

func (c *Client) Adopt(data []byte, t pjrt.DType, dims []int, d *Device, done func(error)) (pjrt.Buffer, error) {
	if d.peer == nil {
		return c.Client.Adopt(data, t, dims, d.Device, done)
	}
	return c.UploadAsync(data, t, dims, d, done)
}

func (c *Client) Download(b pjrt.Buffer, dst []byte) error {
	if b&1 == 0 {
		return c.Client.Download(b, dst)
	}
	return wait(func(done func(error)) error { return c.DownloadAsync(b, dst, done) })
}

func (c *Client) DownloadAsync(b pjrt.Buffer, dst []byte, done func(error)) error {
	p, handle := c.owner(b)
	if p == nil {
		return c.Client.DownloadAsync(b, dst, done)
	}
	p.request(wire.Download, wire.DownloadBody{Handle: handle}.Append, func(body []byte, err error) {
		if err == nil && len(body) != len(dst) {
			err = fmt.Errorf("hosts: host %s sent %d bytes of an array, want %d", p.host, len(body), len(dst))
		}
		copy(dst, body)
		go done(err)
	})
	return nil
}

// Wait returns when a buffer has been computed. The error is about this buffer alone: a
// follower's connection is that of all notebooks.
func (c *Client) Wait(b pjrt.Buffer) error {
	if b&1 == 0 {
		return c.Client.Wait(b)
	}
	return wait(func(done func(error)) error { return c.Ready(b, done) })
}

func (c *Client) Ready(b pjrt.Buffer, done func(error)) error {
	p, handle := c.owner(b)
	if p == nil {
		return c.Client.Ready(b, done)
	}
	p.request(wire.Sync, handles(handle), func(_ []byte, err error) { go done(err) })
	return nil
}

func (c *Client) Free(b pjrt.Buffer) error {
	p, handle := c.owner(b)
	if p == nil {
		return c.Client.Free(b)
	}
	p.free(handle)
	return nil
}

// free drops a handle of a follower. One that is lost has nothing to free.
func (p *peer) free(handle uint64) {
	_ = p.send(wire.Free, handles(handle))
}

// handles is the body of a frame about a handle.
func handles(handle uint64) func([]byte) []byte {
	return func(b []byte) []byte { return wire.AppendHandles(b, []uint64{handle}) }
}

// CopyToDevice copies an array of a type to a device. From one node to another it goes through
// this one, and so waits for it.
func (c *Client) CopyToDevice(b pjrt.Buffer, t wire.Type, d *Device) (pjrt.Buffer, error) {
	from, handle := c.owner(b)
	if from == d.peer {
		if from == nil {
			return c.Client.CopyToDevice(b, d.Device)
		}
		x := wire.CopyBody{From: handle, To: from.handles.Add(1), Device: d.there}
		return from.buffer(x.To), from.send(wire.Copy, x.Append)
	}
	n, err := t.Bytes()
	if err != nil {
		return 0, err
	}
	data := make([]byte, n)
	if err := c.Download(b, data); err != nil {
		return 0, err
	}
	return c.Upload(data, pjrt.DType(t.DType), t.Dims, d)
}

// wait makes a call that calls done one that waits.
func wait(call func(done func(error)) error) error {
	c := make(chan error, 1)
	if err := call(func(err error) { c <- err }); err != nil {
		return err
	}
	return <-c
}
