package device

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sort"
	"strings"
	"time"

	"gaiden/lib/engine/hosts"
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
	devices         []int  // of its assignment, empty when portable
	taker           string // what its donated inputs are said to be
	ready           chan struct{}
	made
	usage
}

// made is what has become of a program when it is ready.
type made struct {
	exe           *hosts.Program
	err           *wire.Error
	spans         bool // it runs on several nodes
	missing       bool // it was on disk but could not be loaded, and there is no text
	from          wire.Source
	took          time.Duration
	need, scratch int64 // bytes that a run takes besides its inputs, and of them besides its outputs; in all on CPUs, on each of other devices; 0: not known
}

// usage is who uses a program, and how. Worker.mu protects it.
type usage struct {
	runs, hits int64
	used       time.Time
	refs       int // handles of connections, and jobs
	pinned     bool
	onDisk     bool
	size       int64         // of its code, about
	pace       time.Duration // device time of a run, 0: not known yet
	idle       []*execution  // that have ended, to be used again
}

// isReady says whether p has been made, or has failed.
func (p *program) isReady() bool {
	select {
	case <-p.ready:
		return true
	default:
		return false
	}
}

// find returns the program of that hash, or starts to load it from disk or to
// compile its text. It returns nil when neither is known, and where there are followers
// without the text: they have not got this disk. Requests for one program that come while
// it is made wait for the same work.
func (w *Worker) find(b *wire.ProgramBody) (p *program, fresh bool) {
	if p := w.recall(b.Hash); p != nil {
		return p, false
	}
	if len(b.Text) == 0 && (w.client.Here() < len(w.devices) || !w.cache.has(b.Hash)) {
		return nil, false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if p := w.programs[b.Hash]; p != nil { // somebody was faster
		p.refs++
		return p, false
	}
	p = &program{hash: b.Hash, name: b.Name, origin: b.Origin, inputs: b.Inputs, outputs: b.Outputs, replicas: max(1, int(b.Replicas)),
		ready: make(chan struct{}), taker: "donated to program " + b.Name, usage: usage{used: time.Now(), refs: 1}}
	for _, t := range b.Outputs {
		n, _ := t.Bytes() // checked by the decoder
		p.outBytes = append(p.outBytes, n)
	}
	for _, d := range b.Devices {
		p.devices = append(p.devices, int(d))
	}
	w.programs[b.Hash] = p
	go w.make(p, b)
	return p, true
}

// recall returns a program that is in memory, nil if it is not.
func (w *Worker) recall(hash [32]byte) *program {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.programs[hash]
	if p != nil {
		p.refs++
		p.hits++
		p.used = time.Now()
	}
	return p
}

// make makes p ready. A program that failed leaves the ledger, so that the next
// request tries again.
func (w *Worker) make(p *program, b *wire.ProgramBody) {
	why := w.build(p, b)
	if p.exe != nil {
		if p.need, p.scratch = needs(p.exe); w.inline { // whose devices have the machine's memory
			p.need *= int64(p.replicas)
		}
	}
	if why != nil || p.missing {
		if why != nil {
			why.Program = b.Name
			p.err = why
		}
		w.mu.Lock()
		delete(w.programs, p.hash)
		w.mu.Unlock()
	}
	keep := why == nil && p.from == wire.Compiled && !p.spans && !unwritable(b.Flags)
	if keep {
		w.background.Add(1)
	}
	close(p.ready) // clients are answered before the program is written
	if keep {
		w.keep(p)
		w.background.Done()
	}
}

// unwritable says whether a program may have oneDNN's custom calls, by its flags
// and the process's: XLA throws bad_alloc, which ends the process, when such a
// program is serialized (plugin 0.11.2; JAX with the same library does, too).
func unwritable(flags string) bool {
	return strings.Contains(flags+os.Getenv("XLA_FLAGS"), "onednn_custom_call")
}

// build loads p from disk, or compiles its text.
func (w *Worker) build(p *program, b *wire.ProgramBody) *wire.Error {
	opts, why := w.options(p, b)
	if why != nil {
		return why
	}
	start := time.Now()
	var refused *wire.Error
	p.spans = w.client.Spans(p.replicas, p.devices)
	loaded := !p.spans && w.cache.load(b.Hash, func(code []byte) error {
		exe, err := w.client.Deserialize(b, code, opts)
		if err != nil {
			return err
		}
		if n := exe.NumOutputs(); n != len(p.outputs) {
			exe.Close()
			refused = wire.Errorf(wire.Invalid, "program has %d results, request says %d", n, len(p.outputs))
			return nil // the request is at fault, not the file
		}
		p.exe, p.from, p.size, p.onDisk = exe, wire.Disk, int64(len(code)), true
		return nil
	})
	p.took = time.Since(start)
	switch {
	case refused != nil:
		return refused
	case loaded:
		return nil
	case len(b.Text) == 0:
		p.missing = true
		return nil
	}
	if got := wire.Key(b.Text, b.Flags, b.Replicas, b.Devices); got != b.Hash {
		return wire.Errorf(wire.Invalid, "text and options hash to %x, request says %x", got[:6], b.Hash[:6])
	}
	start = time.Now()
	exe, err := w.client.Compile(b, opts)
	p.took = time.Since(start)
	if err != nil {
		return w.deviceError(wire.CompileError, p.name, err)
	}
	if n := exe.NumOutputs(); n != len(p.outputs) {
		exe.Close()
		return wire.Errorf(wire.Invalid, "text has %d results, request says %d", n, len(p.outputs))
	}
	p.exe, p.from, p.size = exe, wire.Compiled, int64(len(b.Text))
	if w.Node != nil && p.spans { // the other replicas are other nodes'
		p.devices = exe.Here()
		p.replicas = len(p.devices)
	}
	return nil
}

// options are those of a request, checked.
func (w *Worker) options(p *program, b *wire.ProgramBody) (pjrt.CompileOptions, *wire.Error) {
	opts := pjrt.CompileOptions{Replicas: p.replicas, Devices: p.devices}
	if b.Flags != "" {
		if err := json.Unmarshal([]byte(b.Flags), &opts.Flags); err != nil {
			return opts, wire.Errorf(wire.Invalid, "compile options: %v", err)
		}
	}
	w.optionalFlags(opts.Flags)
	there := len(w.client.Everywhere())
	if p.replicas > there {
		return opts, wire.Errorf(wire.Invalid, "program for %d devices, session has %d", p.replicas, there)
	}
	for _, d := range p.devices {
		if d >= there {
			return opts, wire.Errorf(wire.Invalid, "program for device %d, session has devices 0 to %d", d, there-1)
		}
	}
	return opts, nil
}

// keep writes a program to disk, for the next session.
func (w *Worker) keep(p *program) {
	if !w.cache.usable() {
		return
	}
	w.keeping.Lock() // one at a time: nobody waits for it
	defer w.keeping.Unlock()
	code, err := p.exe.Serialize()
	if err == nil {
		err = w.cache.store(p.hash, code)
	}
	if err != nil {
		if !errors.Is(err, pjrt.ErrClosed) {
			w.Logf("program %s (%x) is not kept on disk: %v", p.name, p.hash[:6], err)
		}
		return
	}
	w.mu.Lock()
	p.onDisk, p.size = true, int64(len(code))
	w.mu.Unlock()
}

// evict closes programs that no connection holds and that match (nil is all),
// and says how many.
func (w *Worker) evict(match func(*program) bool) int {
	w.mu.Lock()
	var out []*program
	for _, p := range w.programs {
		if p.refs == 0 && p.isReady() && (match == nil || match(p)) {
			delete(w.programs, p.hash)
			out = append(out, p)
		}
	}
	w.mu.Unlock()
	for _, p := range out {
		p.exe.Close()
	}
	return len(out)
}

// Bounds of what the worker keeps in memory of programs that no client holds.
const (
	idlePrograms = 512
	idleBytes    = 1 << 30
)

// trim closes the programs that were used least recently, where there are more
// than the bounds allow that nobody holds and nobody has pinned. The caller
// holds w.mu.
func (w *Worker) trim() {
	var idle []*program
	bytes := int64(0)
	for _, p := range w.programs {
		if p.refs == 0 && !p.pinned && p.isReady() {
			idle = append(idle, p)
			bytes += p.size
		}
	}
	if len(idle) <= idlePrograms && bytes <= idleBytes {
		return
	}
	sort.Slice(idle, func(i, j int) bool { return idle[i].used.Before(idle[j].used) })
	for i, p := range idle {
		if len(idle)-i <= idlePrograms && bytes <= idleBytes {
			break
		}
		delete(w.programs, p.hash)
		bytes -= p.size
		go p.exe.Close()
	}
}

// named returns a test for programs by the beginnings of their hashes.
func named(hashes []string) func(*program) bool {
	return func(p *program) bool {
		h := hex.EncodeToString(p.hash[:])
		return slices.ContainsFunc(hashes, func(begins string) bool { return begins != "" && strings.HasPrefix(h, begins) })
	}
}

// known refuses words that begin the hash of no program in memory: all are obeyed,
// or none. The caller holds w.mu.
func (w *Worker) known(hashes []string, next string) *wire.Error {
	for _, h := range hashes {
		match, found := named([]string{h}), false
		for _, p := range w.programs {
			found = found || match(p)
		}
		if !found {
			return wire.Errorf(wire.NotFound, "no program %.80q in memory", h).WithHint("%s", next)
		}
	}
	return nil
}

// pinPrograms keeps programs in memory, or no longer.
func (w *Worker) pinPrograms(hashes []string, yes bool) (*wire.AnswerBody, *wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(hashes) == 0 {
		return nil, wire.Errorf(wire.Invalid, "no program was named").WithHint("%%programs lists them: the beginning of a hash will do")
	}
	if why := w.known(hashes, "%programs lists them"); why != nil {
		return nil, why
	}
	count, match := 0, named(hashes)
	for _, p := range w.programs {
		if match(p) {
			p.pinned = yes
			count++
		}
	}
	return &wire.AnswerBody{Count: count}, nil
}

// evictPrograms drops programs by their hashes, none for all, from memory or
// also from disk.
func (w *Worker) evictPrograms(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w.mu.Lock()
	why := w.known(a.Names, "%programs lists them; evict -disk without a hash clears what is on disk")
	w.mu.Unlock()
	if why != nil {
		return nil, why
	}
	match := named(a.Names)
	if len(a.Names) == 0 {
		match = func(p *program) bool { return !p.pinned }
	}
	count := w.evict(func(p *program) bool {
		hit := match(p)
		if hit && a.Disk {
			w.cache.remove(p.hash)
		}
		return hit
	})
	if a.Disk && len(a.Names) == 0 {
		count += w.cache.clear()
	}
	if count == 0 && len(a.Names) > 0 {
		return nil, wire.Errorf(wire.Invalid, "program %.80q is in use: a cell or a job holds it", strings.Join(a.Names, " ")).WithHint("evict it when that has ended")
	}
	return &wire.AnswerBody{Count: count}, nil
}

// programList describes what the ledger holds, last used first.
func (w *Worker) programList() []wire.ProgramInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []wire.ProgramInfo
	for _, p := range w.programs {
		if !p.isReady() {
			continue
		}
		info := wire.ProgramInfo{Hash: hex.EncodeToString(p.hash[:6]), Name: p.name, Origin: p.origin, Shapes: shapesOf(p.inputs) + " → " + shapesOf(p.outputs), From: p.from.String(), Compile: p.took, Runs: p.runs, Bytes: -1,
			Used: p.used, Hits: p.hits, Clients: p.refs, Pinned: p.pinned, OnDisk: p.onDisk, Pace: p.pace}
		switch m, err := p.exe.MemoryStats(); {
		case err == nil && m.Code > 0:
			info.Bytes = m.Code
		case p.onDisk: // the CPU plugin says 0: the code as it is on disk
			info.Bytes = p.size
		}
		l = append(l, info)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Used.After(l[j].Used) })
	return l
}

// shapesOf names the first two types, and how many more there are.
func shapesOf(all []wire.Type) string {
	var names []string
	for i, t := range all {
		if i == 2 {
			names = append(names, fmt.Sprintf("%d more", len(all)-i))
			break
		}
		names = append(names, t.String())
	}
	return strings.Join(names, ", ")
}
