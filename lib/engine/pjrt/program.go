package pjrt

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"unsafe"

	"github.com/ebitengine/purego"
)

// Program is a compiled computation on a client's devices.
type Program struct {
	client   *Client
	options  CompileOptions // normal
	outputs  int            // of one replica
	replicas int            // that run on this node: all of them, where there is one node
	onDevice *Device        // where a program with devices runs, nil if portable or on several

	mu                 sync.RWMutex // held for reading during a call, for writing by Close
	loaded, executable uintptr      // 0 when closed

	inputs atomic.Int64 // arguments of one replica, -1 until an execution was accepted
	frames struct {
		mu   sync.Mutex
		idle []*frame
	}
}

// Compile compiles StableHLO, as text or MLIR bytecode. A bad text gives an
// *Error with the compiler's message.
func (c *Client) Compile(text []byte, o CompileOptions) (*Program, error) {
	if len(text) == 0 {
		return nil, fmt.Errorf("pjrt: compile: got no text, want a StableHLO module")
	}
	var mem arena
	defer mem.free()
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&text[0])
	code := make1[programText](&mem)
	*code = programText{head{48, 0}, address(&text[0]), uintptr(len(text)), mem.bytes([]byte("mlir")), 4}
	return c.load(clientCompile, o, func(o CompileOptions, b []byte) (uintptr, error) {
		a := struct {
			head
			client, program, options, n, loaded uintptr
			spare
		}{client: c.handle, program: address(code), options: mem.bytes(b), n: uintptr(len(b))}
		a.size = unsafe.Sizeof(a)
		err := c.Plugin.call(clientCompile, unsafe.Pointer(&a))
		return a.loaded, err
	})
}

// programText is PJRT_Program. Plugins look at its size exactly.
type programText struct {
	head
	code, n, format, formatLen uintptr
}

// A serialized program starts with a mark and the SHA-256 of what follows. XLA
// would run damaged machine code and take the process with it.
const sealMark = "GAIDENX1"

const sealSize = len(sealMark) + sha256.Size

// ErrDamaged says that a serialized program is torn, changed or none at all.
var ErrDamaged = errors.New("damaged or not a serialized program; compile it again")

// Deserialize loads what Serialize gave, in a process with the same plugin file
// and the same kind of device: the caller's key has to see to that. The options
// must be those it was compiled with. It is much faster than compiling, but on a CPU
// its time grows with the square of the program: XLA searches for the instruction of
// each buffer from the first one on (plugin 0.11.2).
func (c *Client) Deserialize(b []byte, o CompileOptions) (*Program, error) {
	if len(b) <= sealSize || string(b[:len(sealMark)]) != sealMark {
		return nil, fmt.Errorf("pjrt: deserialize: %d bytes: %w", len(b), ErrDamaged)
	}
	b, sum := b[sealSize:], b[len(sealMark):sealSize]
	if got := sha256.Sum256(b); !bytes.Equal(got[:], sum) {
		return nil, fmt.Errorf("pjrt: deserialize: checksum is %x…, want %x…: %w", got[:4], sum[:4], ErrDamaged)
	}
	var mem arena
	defer mem.free()
	var pin runtime.Pinner
	defer pin.Unpin()
	pin.Pin(&b[0])
	return c.load(deserializeAndLoad, o, func(o CompileOptions, options []byte) (uintptr, error) {
		a := struct {
			head
			client, data, n, loaded, options, optionsLen uintptr
			spare
		}{client: c.handle, data: address(&b[0]), n: uintptr(len(b)), options: mem.bytes(options), optionsLen: uintptr(len(options))}
		a.size = unsafe.Sizeof(a)
		err := c.Plugin.call(deserializeAndLoad, unsafe.Pointer(&a))
		return a.loaded, err
	})
}

// load does what Compile and Deserialize share.
func (c *Client) load(s slot, o CompileOptions, get func(CompileOptions, []byte) (uintptr, error)) (*Program, error) {
	if err := c.use(s.String()); err != nil {
		return nil, err
	}
	defer c.mu.RUnlock()
	o, err := o.normal(c)
	if err != nil {
		return nil, fmt.Errorf("pjrt: %s: %w", s, err)
	}
	b, err := o.encode()
	if err != nil {
		return nil, fmt.Errorf("pjrt: %s: %w", s, err)
	}
	p := &Program{client: c, options: o, replicas: o.Replicas}
	for _, id := range o.Devices {
		if c.byID(id).elsewhere {
			p.replicas--
		}
	}
	if p.replicas == 0 {
		return nil, fmt.Errorf("pjrt: %s: devices %v belong to other nodes, want one of this node among them", s, o.Devices)
	}
	p.inputs.Store(-1)
	if p.loaded, err = get(o, b); err != nil {
		return nil, err
	}
	w, err := c.Plugin.get(loadedExecutable, p.loaded, 0)
	if err == nil {
		p.executable = w[0]
		w, err = c.Plugin.get(executableNumOutputs, p.executable, 0)
	}
	if err != nil {
		_ = c.Plugin.call1(loadedDestroy, p.loaded) // the first error is the one that matters
		return nil, err
	}
	p.outputs = int(w[0])
	if len(o.Devices) == 1 {
		p.onDevice = c.byID(o.Devices[0])
	}
	c.programs.Add(1)
	return p, nil
}

// Close frees the program. It waits for calls of Execute that have not returned;
// what they started continues. Closing twice does nothing.
func (p *Program) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.loaded == 0 {
		return nil
	}
	for _, f := range p.frames.idle {
		f.mem.free()
	}
	p.frames.idle = nil
	plugin := p.client.Plugin
	err := errors.Join(plugin.call1(executableDestroy, p.executable), plugin.call1(loadedDestroy, p.loaded))
	p.loaded, p.executable = 0, 0
	p.client.programs.Add(-1)
	return err
}

// use keeps the program open until the caller unlocks p.mu for reading.
func (p *Program) use(op string) error {
	p.mu.RLock()
	if p.loaded == 0 {
		p.mu.RUnlock()
		return fmt.Errorf("pjrt: %s: program %w", op, ErrClosed)
	}
	return nil
}

func (p *Program) query(s slot, unset int64) (words [24]uintptr, err error) {
	if err := p.use(s.String()); err != nil {
		return words, err
	}
	defer p.mu.RUnlock()
	return p.client.Plugin.get(s, p.executable, unset)
}

// Serialize gives the compiled program as bytes that Deserialize takes.
func (p *Program) Serialize() ([]byte, error) {
	w, err := p.query(executableSerialize, 0)
	if err != nil {
		return nil, err
	}
	code := array[byte](w[0], w[1])
	sum := sha256.Sum256(code)
	b := make([]byte, 0, sealSize+len(code))
	b = append(append(append(b, sealMark...), sum[:]...), code...)
	if free := w[3]; free != 0 {
		purego.SyscallN(free, w[2])
	}
	return b, nil
}
