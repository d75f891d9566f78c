package session

import (
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/wire"
)

// Options say how a program is compiled. With the zero value, the program keeps its
// inputs.
type Options struct {
	// Donate marks inputs that each run donates: the outputs reuse their memory. One
	// entry per input of one replica; nil donates none.
	Donate []bool
	// Flags are XLA options for this program, such as "xla_gpu_enable_triton_gemm":
	// false. An option whose name ends in "?" is optional: a plugin that does not
	// know it ignores it.
	Flags map[string]any
	// FirstLook compiles faster, into slower programs; see [FirstLook].
	FirstLook bool
	// Origin is shown in lists as the source of the program. The default is the cell
	// or the program that compiles it first.
	Origin string
}

// CellEnv is the environment variable in which Gaiden's kernel tells a cell's program
// the number of the cell, for messages and lists.
const CellEnv = "GAIDEN_CELL_NUMBER"

// CodeEnv is the one in which it tells a file that has the cell's text.
const CodeEnv = "GAIDEN_CELL_CODE"

func (o Options) origin(space string) string {
	if o.Origin != "" {
		return o.Origin
	}
	if cell := os.Getenv(CellEnv); cell != "" {
		return "cell " + cell + " of " + filepath.Base(space)
	}
	return filepath.Base(os.Args[0])
}

// Program is a compiled program in the session.
type Program struct {
	s      *Session
	handle uint64
	name   string
	inputs []shapes.Shape
	outs   []shapes.Shape
	sizes  []int64 // of outs, in bytes
	donate []bool  // by input, all replicas
	devs   []int
	n      int // replicas
	source *hlo.Program
	asked  wire.ProgramBody // without the text
	mask   []bool
	draft  bool

	mu    sync.Mutex // protects frame
	frame wire.ExecuteBody

	// From says whether the program was compiled, or found in memory or on disk.
	From wire.Source
	// Took is the time the session spent compiling the program or loading it from
	// disk.
	Took time.Duration
	// Trace is the time this process spent generating the text of the program.
	Trace time.Duration
}

// Compile compiles p, unless the session already has it. The text of the program is
// sent only if the session does not know its hash. The error is wire.CompileError if
// XLA refuses the program, and wire.Invalid for Options that do not fit it.
func (s *Session) Compile(p *hlo.Program, o Options) (*Program, error) {
	x, text, err := s.draft(p, o)
	if err != nil {
		return nil, err
	}
	b := x.asked
	k, body, err := s.ask(wire.Program, b.Append)
	if err == nil && k == wire.NeedText {
		b.Text = text
		_, body, err = s.ask(wire.Program, b.Append)
	}
	if err != nil {
		return nil, err
	}
	var r wire.ProgramReply
	if err := r.Decode(body); err != nil {
		return nil, err
	}
	x.From, x.Took, x.draft = r.From, time.Duration(r.Nanoseconds), false
	spent().program(x)
	runtime.AddCleanup(x, s.drop, x.handle)
	return x, nil
}

// Draft checks p but does not compile it: for steps of a job that may never run,
// those with wire.NotFinite. A draft cannot be run.
func (s *Session) Draft(p *hlo.Program, o Options) (*Program, error) {
	x, _, err := s.draft(p, o)
	return x, err
}

func (s *Session) draft(p *hlo.Program, o Options) (*Program, []byte, error) {
	if o.Donate != nil && len(o.Donate) != len(p.Inputs) {
		return nil, nil, wire.Errorf(wire.Invalid, "session: program %s: donate has %d entries, want %d", p.Name, len(o.Donate), len(p.Inputs))
	}
	flags, err := o.flags(s.Welcome().Platform)
	if err != nil {
		return nil, nil, wire.Errorf(wire.Invalid, "session: program %s: flags: %v", p.Name, err)
	}
	began := time.Now()
	text := p.Text(o.Donate)
	x := &Program{s: s, handle: s.handles.Add(1), name: p.Name, inputs: p.Inputs, outs: p.Outputs, n: max(1, p.Replicas)}
	b := wire.ProgramBody{Handle: x.handle, Name: p.Name, Origin: o.origin(s.space), Replicas: uint32(x.n), Flags: flags}
	for _, d := range p.Devices {
		b.Devices = append(b.Devices, uint32(d))
		x.devs = append(x.devs, int(d))
	}
	for i, t := range p.Inputs {
		if t.DType.IsPacked() {
			return nil, nil, wire.Errorf(wire.Unsupported, "session: program %s: input %d is %s, a packed type, which no program takes", p.Name, i, t).WithHint("convert it to int8 or uint8 on the host")
		}
		b.Inputs = append(b.Inputs, wireType(t))
	}
	for _, t := range p.Outputs {
		b.Outputs = append(b.Outputs, wireType(t))
		x.sizes = append(x.sizes, t.ByteSize())
	}
	b.Hash = wire.Key(text, flags, b.Replicas, b.Devices)
	for range x.n {
		x.donate = append(x.donate, o.Donate...)
	}
	x.Trace = time.Since(began)
	x.source, x.asked, x.mask, x.draft = p, b, o.Donate, true
	return x, text, nil
}

// Call has the arguments of one run of a program.
type Call struct {
	// Inputs are ordered by replica first: input i of replica r is
	// Inputs[r*params+i].
	Inputs []*Array
	// Names binds outputs to names in the connection's name space, in one atomic
	// operation, when the session accepts the program. One entry per output, "" for
	// no name; nil binds none.
	Names []string
	// Device is where a program without a device assignment runs.
	Device int
}

// Run starts the program and returns its outputs at once, ordered by replica first,
// while the device computes them. Inputs with wrong number or shape are a
// wire.Invalid error. An error on the device is reported when an output is read, and
// by Session.Wait.
func (p *Program) Run(c Call) ([]*Array, error) {
	if err := p.check(c); err != nil {
		return nil, err
	}
	n := len(p.outs) * p.n
	out := make([]*Array, n)
	last := p.s.handles.Add(uint64(n))
	p.mu.Lock()
	defer p.mu.Unlock()
	e := &p.frame
	e.Program, e.Device, e.Donate = p.handle, uint32(c.Device), p.donate
	e.Inputs, e.Outputs, e.Bind = e.Inputs[:0], e.Outputs[:0], e.Bind[:0]
	for _, a := range c.Inputs {
		e.Inputs = append(e.Inputs, a.handle)
	}
	for i := range out {
		h := last - uint64(n) + uint64(i) + 1
		e.Outputs = append(e.Outputs, h)
		k := i % len(p.outs)
		out[i] = &Array{s: p.s, shape: &p.outs[k], bytes: p.sizes[k], device: int32(p.device(c, i)), handle: h}
	}
	for i, name := range c.Names {
		if name != "" {
			e.Bind = append(e.Bind, wire.Binding{Output: uint32(i), Name: name})
		}
	}
	err := p.s.send(wire.Execute, p.frame.Append)
	for i, yes := range p.donate {
		if yes {
			c.Inputs[i].giveAway()
		}
	}
	p.s.pressure.add(out...)
	runtime.KeepAlive(c.Inputs)
	return out, err
}

func (p *Program) device(c Call, i int) int {
	switch r := i / len(p.outs); {
	case r < len(p.devs):
		return p.devs[r]
	case p.n > 1:
		return r
	}
	return c.Device
}

// check refuses a call that the session would refuse, while the caller's line
// is still known.
func (p *Program) check(c Call) error {
	if p.draft {
		return p.invalid("it is a draft: want Session.Compile to run it")
	}
	if n := len(p.inputs) * p.n; len(c.Inputs) != n {
		return p.invalid("got %d inputs, want %d", len(c.Inputs), n)
	}
	if c.Names != nil && len(c.Names) != len(p.outs)*p.n {
		return p.invalid("got %d names, want %d", len(c.Names), len(p.outs)*p.n)
	}
	for i, a := range c.Inputs {
		switch {
		case a == nil:
			return p.invalid("input %d is nil", i)
		case a.s != p.s:
			return p.invalid("input %d belongs to another connection", i).WithHint(foreignHint)
		case a.over.Load():
			return a.usedUp()
		}
		if want := &p.inputs[i%len(p.inputs)]; a.shape != want && !a.shape.Equal(*want) {
			return p.invalid("input %d has shape %s, want %s", i, a.shape, *want)
		}
	}
	return nil
}

func (p *Program) invalid(format string, args ...any) *wire.Error {
	e := wire.Errorf(wire.Invalid, format, args...)
	e.Program = p.name
	return e
}

// body is what the session needs to make the program again.
func (p *Program) body() wire.ProgramBody {
	b := p.asked
	b.Handle, b.Text = 0, p.source.Text(p.mask)
	return b
}

// Outputs returns the shapes of the results of one replica.
func (p *Program) Outputs() []shapes.Shape { return p.outs }

// Inputs returns the shapes of the parameters of one replica.
func (p *Program) Inputs() []shapes.Shape { return p.inputs }
