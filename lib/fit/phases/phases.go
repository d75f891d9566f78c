// Package phases has a training step as separate programs, so that each can be looked at
// and timed. Run one after the other they compute what fit.Net.Fit does:
//
//	p, err := net.Phases(ctx, train, 8)
//	for range 100 {
//		err = errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update())
//	}
//	loss, err := p.Value()
//
// Each call returns before the device has finished; Session.Wait waits. The programs are
// written by package fit.
package phases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// Step is a training step in phases.
type Step struct {
	Batch   int
	Steps   int  // full batches of the set: after so many Next begins a new epoch, in a new order
	InOrder bool // the examples are not shuffled; stateful layers need that

	source Source
	order  *Phase
	list   []*Phase
	arrays map[string]*session.Array // what programs take and return, by name
	held   []*session.Array          // the net's arrays after the last Update
	layers []*Layer
	done   int // batches
}

// Phase is one program of a step.
type Phase struct {
	// Name is next, forward, loss, backward, update, or a layer's, such as conv/backward.
	Name string
	// HLO is the program: its text, FLOPs and bytes.
	HLO *hlo.Program

	outputs []string
	program *session.Program
	step    *Step
}

// Layer is the programs of one layer.
type Layer struct {
	Name    string
	Times   int // how many like it the net has: those of a models.Repeat
	Forward *Phase
	// Backward derives the gradients of the layer's weights and, unless no layer before it
	// has any, of its input; nil where there is nothing to derive.
	Backward *Phase
}

// Source is what a step is made of.
type Source struct {
	Net             string // its name
	Session         *session.Session
	Batch, Examples int
	InOrder         bool
	// Order computes an epoch's order; Phases are next, forward, loss, backward and update.
	Order  Program
	Phases []Program
	// Layers makes the programs of the layers, and the one that makes the gradient of the
	// last layer's output.
	Layers func(context.Context) (seed Program, layers []LayerPrograms, err error)
	// Data are arrays by the names of parameters; Step does not free them.
	Data map[string]*session.Array
	// State is the net's state, Arrays its values when the step is made.
	State  []Slot
	Arrays []*session.Array
	Rate   *session.Array
	Zeros  func() (map[string]*session.Array, error) // what is zero when an epoch begins
}

// Slot is an array of the net: its names in the session and as a parameter of programs.
type Slot struct{ Name, Parameter string }

// Program is a compiled program and the names of its results.
type Program struct {
	Name     string
	HLO      *hlo.Program
	Outputs  []string
	Compiled *session.Program
}

// LayerPrograms are those of a layer; Backward may be nil.
type LayerPrograms struct {
	Name     string
	Times    int
	Forward  Program
	Backward *Program
}

// String lists the programs.
func (p *Step) String() string {
	var names []string
	for _, f := range p.list {
		names = append(names, f.Name)
	}
	return fmt.Sprintf("a step of %s with %d examples: %s", p.source.Net, p.Batch, strings.Join(names, ", "))
}

// String is the name.
func (f *Phase) String() string { return f.Name }

// New returns a step whose programs are ready.
func New(s Source) *Step {
	p := &Step{Batch: s.Batch, Steps: s.Examples / s.Batch, InOrder: s.InOrder, source: s, arrays: maps.Clone(s.Data), held: s.Arrays}
	for i, slot := range s.State {
		p.arrays[slot.Parameter] = s.Arrays[i]
	}
	p.arrays["rate"] = s.Rate
	p.order = p.phase(s.Order)
	for _, program := range s.Phases {
		p.list = append(p.list, p.phase(program))
	}
	return p
}

func (p *Step) phase(s Program) *Phase {
	return &Phase{Name: s.Name, HLO: s.HLO, outputs: s.Outputs, program: s.Compiled, step: p}
}

// Run runs the phase on the results of the phases before it. It does not wait for the
// device, and can be repeated.
func (f *Phase) Run() error {
	in, err := f.Inputs()
	if err != nil {
		return err
	}
	out, err := f.program.Run(session.Call{Inputs: in})
	if err != nil {
		return err
	}
	f.step.replace(f.outputs, out)
	return nil
}

// Inputs are the arrays that the phase would run on now, in the order of its program's
// parameters. They are the net's: they must not be donated or freed.
func (f *Phase) Inputs() ([]*session.Array, error) {
	if err := f.step.closed(); err != nil {
		return nil, err
	}
	in := make([]*session.Array, len(f.HLO.InputNames))
	for i, name := range f.HLO.InputNames {
		if in[i] = f.step.arrays[name]; in[i] == nil {
			return nil, fmt.Errorf("fit: %s: phase %s needs %s: run the phases before it first", f.step.source.Net, f.Name, name)
		}
	}
	return in, nil
}

// Close frees what the phases have made. They cannot be run after it. The end of the
// process does it, too.
func (p *Step) Close() {
	made := append(slices.Collect(maps.Values(p.arrays)), p.held...)
	p.arrays, p.held = nil, nil
	p.release(made)
}

func (p *Step) closed() error {
	if p.arrays == nil {
		return fmt.Errorf("fit: %s: the phases are closed: Net.Phases makes others", p.source.Net)
	}
	return nil
}

// Next takes the next batch of the set.
func (p *Step) Next() error {
	if err := p.closed(); err != nil {
		return err
	}
	if p.done%p.Steps == 0 {
		zeros, err := p.source.Zeros()
		if err != nil {
			return err
		}
		for name, a := range zeros {
			p.replace([]string{name}, []*session.Array{a})
		}
		if err := p.begin(); err != nil {
			return err
		}
	}
	place, err := p.source.Session.Put([]int32{int32(p.done % p.Steps * p.Batch)}, shapes.Make(dtypes.Int32), 0)
	if err != nil {
		return err
	}
	p.replace([]string{"place"}, []*session.Array{place})
	p.done++
	return p.list[0].Run()
}

// begin orders the examples of an epoch.
func (p *Step) begin() error {
	if !p.InOrder {
		return p.order.Run()
	}
	order := make([]int32, p.source.Examples)
	for i := range order {
		order[i] = int32(i)
	}
	a, err := p.source.Session.Put(order, shapes.Make(dtypes.Int32, len(order)), 0)
	if err == nil {
		p.replace(p.order.outputs, []*session.Array{a})
	}
	return err
}

// Forward runs the net on the batch, as in training.
func (p *Step) Forward() error { return p.list[1].Run() }

// Loss compares the net's output with the targets.
func (p *Step) Loss() error { return p.list[2].Run() }

// Backward derives the gradients of all weights.
func (p *Step) Backward() error { return p.list[3].Run() }

// Update changes the weights and binds the new ones to their names in the session. It
// refuses where others, such as Train, have changed the net since the step was made or
// last updated: Net.Phases then makes phases of the current weights. The last Phase of
// List is the program alone.
func (p *Step) Update() error {
	if err := p.list[4].Run(); err != nil {
		return err
	}
	state := p.source.State
	names, parameters, arrays := make([]string, len(state)), make([]string, len(state)), make([]*session.Array, len(state))
	for i, s := range state {
		names[i], parameters[i] = s.Name, s.Parameter
		if arrays[i] = p.arrays["next/"+s.Parameter]; arrays[i] == nil {
			arrays[i] = p.arrays[s.Parameter]
		}
	}
	if err := p.source.Session.CompareAndBind(names, p.held, arrays); err != nil {
		return fmt.Errorf("fit: %s: update: %w", p.source.Net, err)
	}
	old := p.held
	p.held = arrays
	p.replace(parameters, arrays)
	for _, name := range parameters {
		delete(p.arrays, "next/"+name)
	}
	p.release(old)
	return nil
}

// Value is the loss of the batch. It waits for the device.
func (p *Step) Value() (float64, error) {
	v, err := p.read("loss")
	if err != nil {
		return 0, err
	}
	return float64(v[0]), nil
}

// Output is the net's output for the batch, row by row. It waits for the device.
func (p *Step) Output() ([]float32, error) { return p.read("out") }

// Gradients are those of all weights, by their names. It waits for the device.
func (p *Step) Gradients() (map[string][]float32, error) {
	all := map[string][]float32{}
	for _, output := range p.list[3].outputs {
		g, err := p.read(output)
		if err != nil {
			return nil, err
		}
		all[output[len("gradient/"):]] = g
	}
	return all, nil
}

func (p *Step) read(name string) ([]float32, error) {
	a := p.arrays[name]
	if a == nil {
		return nil, fmt.Errorf("fit: %s: no %s: run the phase that makes it first", p.source.Net, name)
	}
	s, _ := a.Shape()
	v := make([]float32, s.Size())
	return v, a.Values(v)
}

// List is the phases of a step, in order.
func (p *Step) List() []*Phase { return p.list }

// Layers makes programs of each layer and runs them once on the batch, so that each can be
// repeated and timed; of a models.Repeat, the parts of its first layer. Together they take
// longer than the whole: XLA fuses across layers, and these read and write everything
// between them.
func (p *Step) Layers(ctx context.Context) ([]*Layer, error) {
	if p.layers != nil {
		return p.layers, nil
	}
	if p.done == 0 {
		if err := p.Next(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.Forward(), p.Loss()); err != nil {
		return nil, err
	}
	seed, programs, err := p.source.Layers(ctx)
	if err != nil {
		return nil, err
	}
	if x := p.arrays["x"]; x != nil { // a net with several inputs has none of this name
		p.arrays["layer/0"] = x
	}
	var all []*Layer
	for _, l := range programs {
		layer := &Layer{Name: l.Name, Times: l.Times, Forward: p.phase(l.Forward)}
		if l.Backward != nil {
			layer.Backward = p.phase(*l.Backward)
		}
		if err := layer.Forward.Run(); err != nil {
			return nil, err
		}
		all = append(all, layer)
	}
	if err := p.phase(seed).Run(); err != nil {
		return nil, err
	}
	for _, l := range slices.Backward(all) {
		if l.Backward == nil {
			break
		}
		if err := l.Backward.Run(); err != nil {
			return nil, err
		}
	}
	p.layers = all
	return all, nil
}

// replace names results and frees the arrays that had the names, unless they have another
// name: until the garbage collector frees them, memory would grow with every step, and
// fresh memory is slow.
func (p *Step) replace(names []string, results []*session.Array) {
	var old []*session.Array
	for i, name := range names {
		if a := p.arrays[name]; a != nil {
			old = append(old, a)
		}
		p.arrays[name] = results[i]
	}
	p.release(old)
}

// release frees arrays that are neither named, nor the net's, nor data.
func (p *Step) release(old []*session.Array) {
	if len(old) == 0 {
		return
	}
	kept := make(map[*session.Array]bool, len(p.arrays)+len(p.held))
	for _, m := range []map[string]*session.Array{p.arrays, p.source.Data} {
		for _, a := range m {
			kept[a] = true
		}
	}
	for _, a := range p.held {
		kept[a] = true
	}
	for _, a := range old {
		if !kept[a] {
			kept[a] = true
			a.Finalize()
		}
	}
}
