package pjrt

import "unsafe"

// Device is one device of a client.
type Device struct {
	client            *Client
	handle, about     uintptr // the device and its description
	id, node          int
	elsewhere         bool // it belongs to another node
	kind, description string
}

func (c *Client) newDevice(h uintptr) (*Device, error) {
	p := c.Plugin
	w, err := p.get(deviceDescription, h, 0)
	if err != nil {
		return nil, err
	}
	d := &Device{client: c, handle: h, about: w[0]}
	if w, err = p.get(descriptionID, d.about, 0); err != nil {
		return nil, err
	}
	d.id = int(int32(w[0]))
	if c.store != 0 {
		if w, err = p.get(descriptionProcess, d.about, 0); err != nil {
			return nil, err
		}
		d.node = int(int32(w[0]))
	}
	if d.kind, err = p.text(descriptionKind, d.about); err != nil {
		return nil, err
	}
	d.description, err = p.text(descriptionDebug, d.about)
	return d, err
}

// ID is the device's number: the one that CompileOptions.Devices names.
func (d *Device) ID() int { return d.id }

// Node is the number of the node that the device belongs to, 0 where there is one.
func (d *Device) Node() int { return d.node }

// Kind is the vendor's name of the model, such as "NVIDIA H200".
func (d *Device) Kind() string { return d.kind }

// Description is the plugin's name of this one device, such as "cuda:0".
func (d *Device) Description() string { return d.description }

// String is the same as Description.
func (d *Device) String() string { return d.description }

// Attributes are what the plugin says of the device: on CUDA core_count,
// compute_capability and others; few or none on a CPU.
func (d *Device) Attributes() (map[string]any, error) {
	if err := d.client.use("device attributes"); err != nil {
		return nil, err
	}
	defer d.client.mu.RUnlock()
	w, err := d.client.Plugin.get(descriptionAttribute, d.about, 0)
	if err != nil {
		return nil, err
	}
	return readNamed(w[1], w[0]), nil
}

// MemoryStats are a device's memory figures, in bytes. -1 stands for a figure that the
// plugin does not give.
type MemoryStats struct {
	InUse       int64 // by arrays and programs
	Peak        int64 // the most InUse has been
	Limit       int64 // the most InUse can be
	Pool        int64 // held by the allocator, used or not
	LargestFree int64 // the largest array that fits without a gap
}

// Memory reads the memory figures. The CPU plugin has none: the error is
// ErrUnimplemented.
func (d *Device) Memory() (MemoryStats, error) {
	if err := d.client.use("device memory"); err != nil {
		return MemoryStats{}, err
	}
	defer d.client.mu.RUnlock()
	// After the handle: bytes in use, then pairs of a figure and a flag whether
	// it is set, in one byte of a word.
	a := struct {
		handleArgs
		inUse int64
		pairs [16]struct{ figure, set int64 }
	}{handleArgs: newHandleArgs(d.handle)}
	a.size = unsafe.Sizeof(a)
	if err := d.client.Plugin.call(deviceMemoryStats, unsafe.Pointer(&a)); err != nil {
		return MemoryStats{}, err
	}
	figure := func(i int) int64 {
		if a.pairs[i].set&255 == 0 {
			return -1
		}
		return a.pairs[i].figure
	}
	return MemoryStats{InUse: a.inUse, Peak: figure(0), Limit: figure(3), LargestFree: figure(7), Pool: figure(8)}, nil
}
