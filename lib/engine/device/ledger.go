package device

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"sort"
	"time"

	"gaiden/lib/engine/pjrt"
	"gaiden/lib/engine/wire"
)

// program is a compiled computation. The fields above ready are set before
// ready is closed and not changed after.
type program struct {
	hash            [32]byte
	name, origin    string
	inputs, outputs []wire.Type
	outBytes        []int64
	replicas        int
	devices         []int // of its assignment, empty when portable
	exe             *pjrt.Program
	err             *wire.Error
	from            wire.Source
	took            time.Duration
	ready           chan struct{}

	runs int64 // protected by Worker.mu, as the rest
	used time.Time
	refs int // handles of connections
}

// find returns the program of that hash, or starts compiling text. It returns
// nil when the hash is unknown and there is no text. Requests for one program
// that come while it compiles wait for the same compilation.
func (w *Worker) find(b *wire.ProgramBody) (p *program, fresh bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if p = w.programs[b.Hash]; p != nil {
		p.refs++
		p.used = time.Now()
		return p, false
	}
	if len(b.Text) == 0 {
		return nil, false
	}
	p = &program{hash: b.Hash, name: b.Name, origin: b.Origin, inputs: b.Inputs, outputs: b.Outputs, replicas: max(1, int(b.Replicas)),
		ready: make(chan struct{}), used: time.Now(), refs: 1}
	for _, t := range b.Outputs {
		n, _ := t.Bytes() // checked by the decoder
		p.outBytes = append(p.outBytes, n)
	}
	for _, d := range b.Devices {
		p.devices = append(p.devices, int(d))
	}
	w.programs[b.Hash] = p
	go w.compile(p, b)
	return p, true
}

// compile makes p ready. A program that failed leaves the ledger, so that the
// next request tries again.
func (w *Worker) compile(p *program, b *wire.ProgramBody) {
	defer close(p.ready)
	fail := func(e *wire.Error) {
		e.Program = b.Name
		p.err = e
		w.mu.Lock()
		delete(w.programs, p.hash)
		w.mu.Unlock()
	}
	if got := wire.Key(b.Text, b.Flags, b.Replicas, b.Devices); got != b.Hash {
		fail(wire.Errorf(wire.Invalid, "text and options hash to %x, request says %x", got[:6], b.Hash[:6]))
		return
	}
	opts := pjrt.CompileOptions{Replicas: p.replicas, Devices: p.devices}
	if b.Flags != "" {
		if err := json.Unmarshal([]byte(b.Flags), &opts.Flags); err != nil {
			fail(wire.Errorf(wire.Invalid, "compile options: %v", err))
			return
		}
	}
	if p.replicas > len(w.devices) {
		fail(wire.Errorf(wire.Invalid, "program for %d devices, session has %d", p.replicas, len(w.devices)))
		return
	}
	for _, d := range p.devices {
		if d >= len(w.devices) {
			fail(wire.Errorf(wire.Invalid, "program for device %d, session has devices 0 to %d", d, len(w.devices)-1))
			return
		}
	}
	start := time.Now()
	exe, err := w.client.Compile(b.Text, opts)
	p.took = time.Since(start)
	if err != nil {
		fail(deviceError(wire.CompileError, err))
		return
	}
	if n := exe.NumOutputs(); n != len(p.outputs) {
		exe.Close()
		fail(wire.Errorf(wire.Invalid, "text has %d results, request says %d", n, len(p.outputs)))
		return
	}
	p.exe, p.from = exe, wire.Compiled
}

// drop ends one use of p by a connection.
func (w *Worker) drop(p *program) {
	w.mu.Lock()
	p.refs--
	w.mu.Unlock()
}

// evict closes programs that no connection holds and that match (nil is all),
// and says how many.
func (w *Worker) evict(match func(*program) bool) int {
	w.mu.Lock()
	var out []*program
	for h, p := range w.programs {
		select {
		case <-p.ready:
		default:
			continue // it compiles for somebody
		}
		if p.refs == 0 && (match == nil || match(p)) {
			delete(w.programs, h)
			out = append(out, p)
		}
	}
	w.mu.Unlock()
	for _, p := range out {
		p.exe.Close()
	}
	return len(out)
}

// programList describes what the ledger holds, last used first.
func (w *Worker) programList() []wire.ProgramInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []wire.ProgramInfo
	for _, p := range w.programs {
		select {
		case <-p.ready:
		default:
			continue
		}
		info := wire.ProgramInfo{Hash: hex.EncodeToString(p.hash[:6]), Name: p.name, Origin: p.origin, From: p.from.String(), Compile: p.took, Runs: p.runs, Bytes: -1, Used: p.used}
		if m, err := p.exe.MemoryStats(); err == nil {
			info.Bytes = m.Code
		}
		l = append(l, info)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Used.After(l[j].Used) })
	return l
}

// deviceError makes an error of PJRT cross the socket; code is its class unless
// the plugin says something more exact.
func deviceError(code wire.Code, err error) *wire.Error {
	switch {
	case errors.Is(err, pjrt.ErrOutOfMemory):
		code = wire.OutOfMemory
	case errors.Is(err, pjrt.ErrUnimplemented):
		code = wire.Unsupported
	}
	return wire.Errorf(code, "%v", err)
}
