package pjrt

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Client owns the devices of a plugin. Several clients of one plugin may exist;
// on CUDA each has its own memory pool.
type Client struct {
	Plugin *Plugin

	platform, version string
	devices           []*Device    // of this process
	everywhere        []*Device    // of all nodes: devices, where there is one
	store             uintptr      // number of the node's, 0 without one
	buffers, programs atomic.Int64 // not freed, not closed

	mu     sync.RWMutex // held for reading during a call, for writing by Close
	handle uintptr      // 0 when closed

	transfers struct {
		mu   sync.Mutex
		idle []*transfer
	}
}

// NewClient starts the plugin's devices. Options are the plugin's own, by name:
// the CPU plugin has cpu_device_count (int), the CUDA plugin visible_devices
// ([]int64), memory_fraction (float64), preallocate (bool), allocator (string).
// A plugin refuses options that it does not know.
func (p *Plugin) NewClient(options map[string]any) (*Client, error) {
	return p.newClient(options, nil)
}

func (p *Plugin) newClient(options map[string]any, n *Node) (*Client, error) {
	var mem arena
	defer mem.free()
	values, count, err := mem.named(options)
	if err != nil {
		return nil, fmt.Errorf("pjrt: new client: %w", err)
	}
	a := newClientArgs(n)
	a.options, a.n = values, count
	if err := p.call(clientCreate, unsafe.Pointer(a)); err != nil {
		unregister(a.getStore)
		return nil, err
	}
	c := &Client{Plugin: p, handle: a.client, store: a.getStore}
	if err := c.describe(); err != nil {
		_ = p.call1(clientDestroy, c.handle) // the first error is the one that matters
		unregister(c.store)
		return nil, err
	}
	return c, nil
}

// describe reads what does not change: the platform and the devices.
func (c *Client) describe() (err error) {
	if c.platform, err = c.Plugin.text(clientPlatform, c.handle); err != nil {
		return err
	}
	if c.version, err = c.Plugin.text(clientVersion, c.handle); err != nil {
		return err
	}
	w, err := c.Plugin.get(clientDevices, c.handle, 0)
	if err != nil {
		return err
	}
	for _, h := range array[uintptr](w[0], w[1]) {
		d, err := c.newDevice(h)
		if err != nil {
			return err
		}
		c.devices = append(c.devices, d)
	}
	if len(c.devices) == 0 {
		return fmt.Errorf("pjrt: new client: the %s plugin has no device that this process can use; see gaiden doctor", c.platform)
	}
	if c.everywhere = c.devices; c.store == 0 {
		return nil
	}
	if w, err = c.Plugin.get(clientAllDevices, c.handle, 0); err != nil {
		return err
	}
	c.everywhere = nil
	for _, h := range array[uintptr](w[0], w[1]) {
		i := slices.IndexFunc(c.devices, func(d *Device) bool { return d.handle == h })
		if i >= 0 {
			c.everywhere = append(c.everywhere, c.devices[i])
			continue
		}
		d, err := c.newDevice(h)
		if err != nil {
			return err
		}
		d.elsewhere = true
		c.everywhere = append(c.everywhere, d)
	}
	for _, l := range [][]*Device{c.devices, c.everywhere} {
		slices.SortFunc(l, func(a, b *Device) int { return a.id - b.id })
	}
	return nil
}

// text is get for the functions that return a string.
func (p *Plugin) text(s slot, handle uintptr) (string, error) {
	w, err := p.get(s, handle, 0)
	return text(w[0], w[1]), err
}

// Platform is the name of the platform: cpu, cuda.
func (c *Client) Platform() string { return c.platform }

// PlatformVersion is the plugin's own description of its version, such as
// "cuda 13000".
func (c *Client) PlatformVersion() string { return c.version }

// Devices are the devices that this process can use, in the plugin's order. Do
// not change the slice.
func (c *Client) Devices() []*Device { return c.devices }

// Everywhere are the devices of all nodes by their IDs, as Devices are then; those of Devices,
// where the client is no Node. Do not change the slice.
func (c *Client) Everywhere() []*Device { return c.everywhere }

// Open counts the buffers and programs that were made and not freed.
func (c *Client) Open() (buffers, programs int) {
	return int(c.buffers.Load()), int(c.programs.Load())
}

// Close gives the devices back. It refuses while buffers or programs are open,
// since XLA would crash when they are freed later. Closing twice does nothing.
func (c *Client) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.handle == 0 {
		return nil
	}
	if b, p := c.Open(); b != 0 || p != 0 {
		return fmt.Errorf("pjrt: close client: %d buffers and %d programs are open; free them first", b, p)
	}
	for _, t := range c.transfers.idle {
		t.mem.free()
	}
	c.transfers.idle = nil
	h := c.handle
	c.handle = 0
	defer unregister(c.store)
	return c.Plugin.call1(clientDestroy, h)
}

// use keeps the client open until the caller unlocks c.mu for reading.
func (c *Client) use(op string) error {
	c.mu.RLock()
	if c.handle == 0 {
		c.mu.RUnlock()
		return fmt.Errorf("pjrt: %s: client %w", op, ErrClosed)
	}
	return nil
}

// device is d, or the first device for nil.
func (c *Client) device(op string, d *Device) (*Device, error) {
	switch {
	case d == nil:
		return c.devices[0], nil
	case d.client != c:
		return nil, fmt.Errorf("pjrt: %s: device %d belongs to another client", op, d.id)
	case d.elsewhere:
		return nil, fmt.Errorf("pjrt: %s: device %d belongs to node %d", op, d.id, d.node)
	}
	return d, nil
}

// byID finds a device of any node by its ID.
func (c *Client) byID(id int) *Device {
	for _, d := range c.everywhere {
		if d.id == id {
			return d
		}
	}
	return nil
}
