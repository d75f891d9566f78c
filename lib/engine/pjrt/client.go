package pjrt

import (
	"fmt"
	"sync"
	"sync/atomic"
	"unsafe"
)

// Client owns the devices of a plugin. Several clients of one plugin may exist;
// on CUDA each has its own memory pool.
type Client struct {
	Plugin *Plugin

	platform, version string
	devices           []*Device
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
	var mem arena
	defer mem.free()
	a := struct {
		head
		options, n, keyGet, keyGetArg, keyPut, keyPutArg, client, keyTry, keyTryArg uintptr
		spare
	}{}
	a.size = unsafe.Sizeof(a)
	var err error
	if a.options, a.n, err = mem.named(options); err != nil {
		return nil, fmt.Errorf("pjrt: new client: %w", err)
	}
	if err := p.call(clientCreate, unsafe.Pointer(&a)); err != nil {
		return nil, err
	}
	c := &Client{Plugin: p, handle: a.client}
	if err := c.describe(); err != nil {
		_ = p.call1(clientDestroy, c.handle) // the first error is the one that matters
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
	}
	return d, nil
}

// byID finds a device by its ID.
func (c *Client) byID(id int) *Device {
	for _, d := range c.devices {
		if d.id == id {
			return d
		}
	}
	return nil
}
