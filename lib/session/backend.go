package session

import (
	"fmt"
	"strings"
	"sync"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
)

// Backend is the session as a GoMLX compute.Backend, named "gaiden".
type Backend struct {
	s *Session

	mu   sync.Mutex // protects over
	over bool
}

func init() {
	compute.Register("gaiden", func(config string) (compute.Backend, error) {
		s, err := Config{Space: config}.Open()
		if err != nil {
			return nil, err
		}
		return s.Backend(), nil
	})
}

// backends keeps one Backend a Session: GoMLX compares backends with ==.
var backends sync.Map

// Backend returns the session as a GoMLX backend. Every call returns the same value.
func (s *Session) Backend() *Backend {
	b, _ := backends.LoadOrStore(s, &Backend{s: s})
	return b.(*Backend)
}

// Session returns the connection that the backend uses.
func (b *Backend) Session() *Session { return b.s }

func (b *Backend) Name() string { return "gaiden" }

func (b *Backend) String() string { return b.Name() }

// Description returns the session's generation, its platform and the kinds of its
// devices.
func (b *Backend) Description() string {
	w := b.s.welcome
	var kinds []string
	for _, d := range w.Devices {
		kinds = append(kinds, d.Kind)
	}
	return fmt.Sprintf("gaiden session, generation %d: %s (%s)", w.Generation, w.Platform, strings.Join(kinds, ", "))
}

// NumDevices returns the number of devices in the session.
func (b *Backend) NumDevices() int { return len(b.s.welcome.Devices) }

// DeviceDescription returns the kind of device n, such as "NVIDIA H200".
func (b *Backend) DeviceDescription(n compute.DeviceNum) string {
	if int(n) < 0 || int(n) >= len(b.s.welcome.Devices) {
		return fmt.Sprintf("no device %d", n)
	}
	return b.s.welcome.Devices[n].Kind
}

// Capabilities returns the operations and element types that package hlo supports.
func (b *Backend) Capabilities() compute.Capabilities { return hlo.Capabilities() }

// Builder starts a computation with a name for lists and error messages.
func (b *Backend) Builder(name string) compute.Builder {
	h := hlo.NewBuilder(b, name, func(p *hlo.Program) (compute.Executable, error) {
		return &Executable{backend: b, hlo: p, variants: map[string]*Program{}}, nil
	})
	h.WriteNorms = b.s.welcome.Platform != "cpu"
	return h
}

// BufferFromFlatData is Session.Put; it implements compute.Backend. It refuses a
// device that the session does not have.
func (b *Backend) BufferFromFlatData(device compute.DeviceNum, flat any, shape shapes.Shape) (compute.Buffer, error) {
	if int(device) < 0 || int(device) >= b.NumDevices() {
		return nil, wire.Errorf(wire.Invalid, "session: no device %d: there are %d", device, b.NumDevices())
	}
	return b.s.Put(flat, shape, int(device))
}

// HasSharedBuffers returns false: device memory belongs to the worker process.
func (b *Backend) HasSharedBuffers() bool { return false }

// NewSharedBuffer always fails with compute.ErrNotImplemented; see HasSharedBuffers.
func (b *Backend) NewSharedBuffer(compute.DeviceNum, shapes.Shape) (compute.Buffer, any, error) {
	return nil, nil, fmt.Errorf("session: shared buffers: %w", compute.ErrNotImplemented)
}

// Finalize closes the connection. Named arrays stay in the session.
func (b *Backend) Finalize() {
	b.mu.Lock()
	was := b.over
	b.over = true
	b.mu.Unlock()
	if !was {
		backends.Delete(b.s)
		b.s.Close()
	}
}

// IsFinalized reports whether Finalize was called.
func (b *Backend) IsFinalized() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.over
}
