package hlo

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"
)

// Precision is how exactly products of float32 matrices are computed.
type Precision int

const (
	// DefaultPrecision is XLA's default, as in JAX: TF32 on GPUs that have it
	// (10 bits of mantissa, several times faster), float32 elsewhere.
	DefaultPrecision Precision = iota
	// HighestPrecision is float32 everywhere.
	HighestPrecision
)

// Builder builds one computation. It implements compute.Builder.
type Builder struct {
	// Precision is that of DotGeneral and ConvGeneral from now on.
	// Default: DefaultPrecision.
	Precision Precision
	// WriteNorms writes batch norms for training, and their gradients, as sums and
	// operations on elements from now on, in place of StableHLO's op for them: faster
	// on GPUs.
	WriteNorms bool

	backend   compute.Backend
	name      string
	compile   Compile
	main      *Function
	functions map[string]bool
	label     string
	replace   func(*Function, []compute.Value) ([]compute.Value, error)
	absent    map[string]bool   // parameters that are no inputs
	converted map[*value]*value // values in another type, where that is known
	replicas  int
	sharded   bool // over meshes of one device
	devices   []compute.DeviceNum
	finished  bool
	began     time.Time
}

var _ compute.Builder = (*Builder)(nil)

// NewBuilder returns a builder for a computation called name. Its Compile
// method gives the finished program to compile. The backend is only asked how
// many devices there are; nil is one that nobody asks.
func NewBuilder(b compute.Backend, name string, compile Compile) *Builder {
	return &Builder{backend: b, name: name, compile: compile, functions: map[string]bool{compute.MainName: true}, began: time.Now()}
}

// Name returns the name given to NewBuilder.
func (b *Builder) Name() string { return b.name }

// SetLabel gives the ops made from now on a label, such as a layer's name;
// "" gives none. XLA's profiler shows it with each kernel (tf_op), and
// [Program.Costs] counts by it. A label is part of the text.
func (b *Builder) SetLabel(label string) { b.label = label }

// Label is the label of the ops made now.
func (f *Function) Label() string { return f.builder.label }

// Symbol is a label as part of a kernel's name: l1/forward as l1_forward.
func Symbol(label string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' {
			return r
		}
		return '_'
	}, label)
}

// ReplaceNext makes write stand in for the next OptimizationBarrier of this
// builder. It is how graph code reaches ops that GoMLX has no name for, such
// as [Function.CustomCall]: GoMLX passes a barrier's operands on as they are,
// takes as many results of whatever shape as come back, and holds the barrier
// for the identity when it derives a gradient.
func (b *Builder) ReplaceNext(write func(f *Function, operands []compute.Value) ([]compute.Value, error)) {
	b.replace = write
}

// Absent says which parameters are zeros in place of inputs. GoMLX makes one
// for each variable of a model, also where a program computes all of a
// variable's values itself and would never look at the input.
func (b *Builder) Absent(names ...string) {
	b.absent = map[string]bool{}
	for _, n := range names {
		b.absent[n] = true
	}
}

// Main returns the function that the program runs.
func (b *Builder) Main() compute.Function {
	if b.main == nil {
		b.main = b.newFunction(compute.MainName, nil)
	}
	return b.main
}

// NewFunction returns a new function for [Function.Call]. Its name must be new
// to the builder; it does not appear in the text.
func (b *Builder) NewFunction(name string) (compute.Function, error) {
	if b.finished {
		return nil, b.errFinished("NewFunction")
	}
	if name == "" {
		return nil, errors.New("hlo: NewFunction: got no name, want one that is new to the builder")
	}
	if b.functions[name] {
		return nil, fmt.Errorf("hlo: NewFunction: %q exists already in %q", name, b.name)
	}
	b.functions[name] = true
	return b.newFunction(name, nil), nil
}

func (b *Builder) newFunction(name string, parent *Function) *Function {
	return &Function{
		Function: notimplemented.Function{ErrFn: func(op compute.OpType) error {
			return fmt.Errorf("hlo: %s: %w", op, compute.ErrNotImplemented)
		}},
		builder: b,
		name:    name,
		parent:  parent,
	}
}

func (b *Builder) errFinished(op string) error {
	return fmt.Errorf("hlo: %s: program %q is compiled already; start with a new builder", op, b.name)
}

// OpShape returns the shape of a value.
func (b *Builder) OpShape(op compute.Value) (shapes.Shape, error) {
	v, err := b.value("OpShape", op)
	if err != nil {
		return shapes.Invalid(), err
	}
	return v.shape, nil
}

func (b *Builder) value(op string, v compute.Value) (*value, error) {
	ours, ok := v.(*value)
	switch {
	case !ok || ours == nil:
		return nil, fmt.Errorf("hlo: %s: got %T, want a value made by this builder (%q)", op, v, b.name)
	case ours.builder != b:
		return nil, fmt.Errorf("hlo: %s: got a value of builder %q, want one of %q; values cannot cross builders",
			op, ours.builder.name, b.name)
	}
	return ours, nil
}

// DistributedSPMD makes the program run on numDevices devices at once, one
// replica on each. [Function.AllReduce] joins them.
func (b *Builder) DistributedSPMD(numDevices int) error {
	if numDevices < 1 {
		return fmt.Errorf("hlo: DistributedSPMD: got %d devices, want at least 1", numDevices)
	}
	if b.backend != nil && numDevices > b.backend.NumDevices() {
		return fmt.Errorf("hlo: DistributedSPMD: got %d devices, the backend has %d", numDevices, b.backend.NumDevices())
	}
	b.replicas = numDevices
	return nil
}

// DistributedAutoSharding accepts meshes of one device, on which there is
// nothing to divide, and refuses others: see the package comment.
func (b *Builder) DistributedAutoSharding(meshes ...compute.Mesh) error {
	for _, m := range meshes {
		for i, size := range m.AxesSizes {
			if size != 1 {
				return fmt.Errorf("hlo: DistributedAutoSharding: got mesh %s with %d devices along axis %d: %w; use DistributedSPMD and AllReduce",
					m.Name, size, i, compute.ErrNotImplemented)
			}
		}
	}
	b.sharded = true
	return nil
}

// checkShardings refuses shardings where no mesh was given.
func (b *Builder) checkShardings(op string, specs ...*compute.ShardingSpec) error {
	for _, s := range specs {
		if s != nil && !b.sharded {
			return fmt.Errorf("hlo: %s: got a sharding over mesh %s, want DistributedAutoSharding to be called first", op, s.Mesh)
		}
	}
	return nil
}

// DeviceAssignment chooses the devices of the program, one for each replica.
func (b *Builder) DeviceAssignment(devices ...compute.DeviceNum) error {
	if want := max(1, b.replicas); len(devices) != want {
		return fmt.Errorf("hlo: DeviceAssignment: got %d devices, want %d", len(devices), want)
	}
	seen := map[compute.DeviceNum]bool{}
	for _, d := range devices {
		if d < 0 || b.backend != nil && int(d) >= b.backend.NumDevices() {
			return fmt.Errorf("hlo: DeviceAssignment: got device %d, the backend has %d", d, b.backend.NumDevices())
		}
		if seen[d] {
			return fmt.Errorf("hlo: DeviceAssignment: got device %d twice in %v", d, devices)
		}
		seen[d] = true
	}
	b.devices = append([]compute.DeviceNum(nil), devices...)
	return nil
}

// Compile writes the program and gives it to the backend's Compile function.
// The builder is spent afterwards.
func (b *Builder) Compile() (compute.Executable, error) {
	p, err := b.Program()
	if err != nil {
		return nil, err
	}
	if b.compile == nil {
		return nil, fmt.Errorf("hlo: Compile: builder %q was made without a Compile function; take its Program instead", b.name)
	}
	return b.compile(p)
}

// Program finishes the builder and returns what it built, uncompiled.
func (b *Builder) Program() (*Program, error) {
	if b.finished {
		return nil, b.errFinished("Compile")
	}
	if b.main == nil || !b.main.returned {
		return nil, fmt.Errorf("hlo: Compile: main of %q has not returned; call Return first", b.name)
	}
	b.finished = true
	p := write(b.main, max(1, b.replicas))
	p.Name, p.Building = b.name, time.Since(b.began)
	p.InputNames = b.main.names
	p.Inputs = shapesOf(b.main.params)
	p.Outputs = shapesOf(b.main.outputs)
	p.Replicas = max(1, b.replicas)
	p.Devices = b.devices
	p.costs = count(b.main, map[*Function][]counted{})
	p.main = b.main
	return p, nil
}
