package profile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/fit/phases"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// Options say how much is measured. The zero value is a batch of 32, phases,
// layers, and the ops of the slowest layer.
type Options struct {
	Batch int // examples a step; default: 32, or all if there are fewer

	// Test is the set of the test error; nil leaves it out.
	Test *fit.Set
	// NoErrors leaves out the errors over whole sets, which take longest.
	NoErrors bool
	// NoEpoch leaves out a part of an epoch with the same batch.
	NoEpoch bool

	// Depth is how far to go: Phase, Layer, or Operation. The zero value goes
	// all the way; see Shallow.
	Shallow bool // phases only
	NoOps   bool // phases and layers
	AllOps  bool // the ops of every layer, not of the slowest alone

	// Budget is the time to spend on each line; default: 0.3 s. The ops of a layer
	// share what twenty lines get, where there are more.
	Budget time.Duration
	// Progress is told what is being measured.
	Progress func(string)
}

// Phases is where the time of a training step goes.
type Phases struct {
	Net, Model, Data, Device string
	Batch                    int
	Steps                    int // in an epoch, full batches only

	// TrainError and TestError are one evaluation of the whole set each, with
	// Calls 1; their times are empty where they were left out.
	TrainError, TestError Line

	Phases   []Line // in the order of a step
	Forward  []Line // layers, first to last
	Backward []Line // layers, last to first, as they run
	Ops      []Line // of the layers that were taken apart, in their order

	// InStep is what the phases take within a step made of the same
	// programs, in seconds: the sum of their kernels there, where there is a
	// profiler; 0 if it is not known.
	InStep float64

	// Chain is a step made of the five programs of Phases, Epoch a step of
	// the epoch's one program, which is what training costs.
	Chain, Epoch Line
	// Seen is how many steps of an epoch were run for Epoch, and Devices how many devices
	// shared each batch; all else is measured on one, with the whole batch. 0: not measured.
	Seen, Devices int

	// InChain and InEpoch are the kernels of a step by their labels, such as
	// pool/backward, where there is a profiler: of the step made of five
	// programs, and of the epoch's program, which joins phases. Kernels that
	// belong to no layer, such as the loop's own, have names of [NoLabel].
	InChain, InEpoch []Group

	Peaks    Peaks
	Partial  bool // stopped before it was done
	Warnings []error
}

// Sum is what the phases take together, in seconds.
func (p *Phases) Sum() float64 { return Total(p.Phases) }

// Rest is how much more the phases take in a step than alone, in seconds: there,
// others have filled the cache, and memory is not there yet. It is NaN if it is
// not known.
func (p *Phases) Rest() float64 {
	if p.InStep == 0 {
		return math.NaN()
	}
	return p.InStep - p.Sum()
}

// Left is what is left of a step without the phases and their rest, in seconds:
// it is measured apart from them, so that they need not add up to it.
func (p *Phases) Left() float64 { return p.Chain.Seconds() - p.Sum() - p.Rest() }

// Estimate is what an epoch would take if it were made of the phases, as
// notebook 02's article reckons it: their sum times the steps.
func (p *Phases) Estimate() float64 { return p.Sum() * float64(p.Steps) }

// Measured is what an epoch takes, by the steps of one that were run: NaN where
// they were left out.
func (p *Phases) Measured() float64 { return p.Epoch.Seconds() * float64(p.Steps) }

// MFU is the model FLOPs utilisation of training (Chowdhery et al., 2022): the FLOPs of a step
// over what its devices could do in a step of the epoch. NaN if it is not known.
func (p *Phases) MFU() float64 {
	if p.Epoch.Time.N() == 0 || !(p.Peaks.TF32 > 0) {
		return math.NaN()
	}
	return p.Chain.FLOPs / float64(max(1, p.Devices)) / p.Epoch.Seconds() / p.Peaks.matmuls(p.Chain.Narrow)
}

// Lines are all lines, in the order of the table.
func (p *Phases) Lines() []Line {
	return slices.Concat(p.Phases, p.Forward, p.Backward, p.Ops)
}

// Find is the line with a path such as backward/pool/select_and_scatter, or of
// the whole: step, epoch, train error, test error.
func (p *Phases) Find(path string) (Line, error) {
	var paths, ops []string // of what was measured
	for _, l := range append(p.Lines(), p.Chain, p.Epoch, p.TrainError, p.TestError) {
		switch {
		case l.Phase == "" || l.Time.N() == 0 && l.Device == 0:
		case l.Path() == path:
			return l, nil
		case l.Level == Operation:
			if strings.HasPrefix(path, l.Phase+"/"+l.Layer+"/") { // there are many: named to whoever asks for one of that layer
				ops = append(ops, l.Path())
			}
		default:
			paths = append(paths, l.Path())
		}
	}
	if len(ops) > 0 {
		paths = ops
	}
	if len(paths) == 0 {
		return Line{}, fmt.Errorf("profile: %s: %q: nothing was measured", p.Net, path)
	}
	return Line{}, fmt.Errorf("profile: %s: got %q, want one of %s", p.Net, path, strings.Join(paths, ", "))
}

// measurer is a call of Measure at work.
type measurer struct {
	Options
	ctx     context.Context
	net     *fit.Net
	session *session.Session
	data    *fit.Set
	result  *Phases
	runners []*runner // of what is measured next
}

// Measure measures a net on a data set. When ctx ends, it returns what is known
// until then, marked Partial.
func Measure(ctx context.Context, net *fit.Net, data *fit.Set, o Options) (*Phases, error) {
	if data == nil {
		return nil, fmt.Errorf("profile: %s: no data set: want one that Upload, Stream or Data has returned, or one by Synthetic", net.Name())
	}
	if o.Budget < 0 {
		return nil, fmt.Errorf("profile: %s: got a budget of %v, want more than 0, or 0 for 0.3 s", net.Name(), o.Budget)
	}
	o.Batch = cmp.Or(o.Batch, min(32, data.N))
	o.Budget = cmp.Or(o.Budget, 300*time.Millisecond)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	s, err := net.Session()
	if err != nil {
		return nil, err
	}
	m := &measurer{Options: o, ctx: ctx, net: net, session: s, data: data}
	m.result = &Phases{Net: net.Name(), Model: net.Model().Name, Data: data.Name, Device: deviceName(s), Batch: o.Batch}
	o.Progress("compiling the phases")
	parts, err := net.WithContext(ctx).Phases(data, o.Batch)
	if err != nil {
		return nil, err
	}
	defer parts.Close()
	m.result.Steps = parts.Steps
	if m.result.Peaks, err = ReadPeaks(ctx, s, o.Progress); err != nil {
		return nil, err
	}
	for _, step := range []func(*phases.Step) error{m.phases, m.layers, m.operations, m.epoch, m.errors} {
		if err := step(parts); err != nil {
			if ctx.Err() == nil {
				return nil, err
			}
			break
		}
	}
	m.result.Partial = ctx.Err() != nil
	m.noteDevices()
	if !m.result.Partial && slices.ContainsFunc(m.result.Lines(), m.result.Peaks.tooLow) {
		o.Progress("this device's peaks again: a line is faster")
		if p, err := MeasurePeaks(ctx, s); err == nil {
			m.result.Peaks = p
		}
	}
	m.result.judge()
	return m.result, nil
}

// noteDevices says what of a net that trains on several devices was measured on one.
func (m *measurer) noteDevices() {
	what := ""
	switch n, used := m.net.Config().Devices, m.result.Devices; {
	case used > 1:
		what = fmt.Sprintf("the epoch's step is that of %d, which share the batch and add up their gradients", used)
	case used == 0 && n > 1:
		what = fmt.Sprintf("a training may share it among %d, and then adds up their gradients, which is no line here", n)
	default:
		return
	}
	m.result.Warnings = append(m.result.Warnings, timing.Warning("phases, layers and operations are measured on one device, with the whole batch: "+what))
}

// deviceName is the session's first device.
func deviceName(s *session.Session) string {
	w := s.Welcome()
	if len(w.Devices) == 0 {
		return w.Platform
	}
	return w.Devices[0].Kind
}

// timer waits for the session between two readings of the clock.
func (m *measurer) timer() timing.Timer {
	return timing.Timer{Budget: m.Budget, Sync: waiting(m.session), Clock: 0.005}
}

func waiting(s *session.Session) func() { return func() { check(s.Wait()) } }

// phases measures the programs of a step, and the step made of them.
func (m *measurer) phases(parts *phases.Step) error {
	m.Progress("phases")
	if err := parts.Next(); err != nil {
		return err
	}
	list := parts.List()
	if err := each(list); err != nil {
		return err
	}
	// The step is made of programs and arrays of its own: it frees what it
	// replaces, which the phases by themselves still need.
	other, err := m.net.WithContext(m.ctx).Phases(m.data, m.Batch)
	if err != nil {
		return err
	}
	defer other.Close()
	if err := other.Next(); err != nil {
		return err
	}
	step := func() error { return each(other.List()) }
	lines := make([]Line, len(list))
	var tasks []task
	for i, f := range list {
		lines[i] = Line{Level: Phase, Phase: f.Name, Calls: parts.Steps, Kernels: -1}
		in, err := f.Inputs()
		if err != nil {
			return err
		}
		t, err := m.task(&lines[i], f.HLO, in)
		if err != nil {
			return err
		}
		tasks = append(tasks, t)
	}
	chain := Line{Level: Phase, Phase: "step", Calls: parts.Steps, Kernels: -1}
	if m.session.Welcome().Platform == "cpu" {
		if err = m.measure(tasks); err == nil {
			err = m.inPlace(other.List(), lines, &chain)
		}
	} else {
		err = m.measure(append(tasks, task{line: &chain, run: step, inside: m.inChain(lines)}))
	}
	for _, l := range lines {
		chain.Narrow = l.Narrow
		chain.FLOPs, chain.Bytes = chain.FLOPs+l.FLOPs, chain.Bytes+l.Bytes
	}
	share(lines)
	m.result.Phases, m.result.Chain = lines, chain
	return err
}

// inChain takes in a recording of some steps: the kernels by their labels, and by
// the program, which is the phase, that they belong to.
func (m *measurer) inChain(lines []Line) func(r *Recording, runs float64) {
	return func(r *Recording, runs float64) {
		m.result.InChain = perRun(r.By(label), runs)
		programs := perRun(r.programs(), runs)
		if len(programs) != len(lines) {
			m.result.Warnings = append(m.result.Warnings, timing.Warning(fmt.Sprintf("the profiler saw kernels of %d programs, want those of %d phases", len(programs), len(lines))))
			return
		}
		for i, g := range programs {
			lines[i].InStep = g.Seconds
			m.result.InStep += g.Seconds
		}
	}
}

// each runs phases one after the other.
func each(list []*phases.Phase) error {
	for _, f := range list {
		if err := f.Run(); err != nil {
			return err
		}
	}
	return nil
}

// layers measures each layer by itself.
func (m *measurer) layers(parts *phases.Step) error {
	if m.Shallow {
		return nil
	}
	m.Progress("compiling the layers")
	all, err := parts.Layers(m.ctx)
	if err != nil {
		if m.ctx.Err() == nil { // a net that cannot be taken apart still has phases
			m.result.Warnings = append(m.result.Warnings, timing.Warning(err.Error()))
			return nil
		}
		return err
	}
	m.Progress("layers")
	forward, backward := make([]Line, len(all)), make([]Line, 0, len(all))
	var tasks []task
	line := func(l *Line, phase string, layer *phases.Layer, f *phases.Phase) error {
		*l = Line{Level: Layer, Phase: phase, Layer: layer.Name, Times: layer.Times, Calls: parts.Steps * layer.Times, Kernels: -1}
		in, err := f.Inputs()
		if err != nil {
			return err
		}
		t, err := m.task(l, f.HLO, in)
		tasks = append(tasks, t)
		return err
	}
	for i, l := range all {
		if err := line(&forward[i], "forward", l, l.Forward); err != nil {
			return err
		}
	}
	for _, l := range slices.Backward(all) {
		if l.Backward == nil {
			continue
		}
		backward = backward[:len(backward)+1] // its capacity is enough: tasks point into it
		if err := line(&backward[len(backward)-1], "backward", l, l.Backward); err != nil {
			return err
		}
	}
	err = m.measure(tasks)
	share(forward)
	share(backward)
	m.result.Forward, m.result.Backward = forward, backward
	return err
}

// operations takes the slowest layer apart, or all.
func (m *measurer) operations(parts *phases.Step) error {
	if m.Shallow || m.NoOps || len(m.result.Forward) == 0 {
		return nil
	}
	all, err := parts.Layers(m.ctx) // made already
	if err != nil {
		return err
	}
	slowest, _ := m.result.slowest(slices.Concat(m.result.Forward, m.result.Backward))
	for _, l := range all {
		for _, f := range []struct {
			phase string
			of    *phases.Phase
		}{{"forward", l.Forward}, {"backward", l.Backward}} {
			if f.of == nil || !m.AllOps && (f.phase != slowest.Phase || l.Name != slowest.Layer) {
				continue
			}
			m.Progress("operations of " + f.phase + "/" + l.Name)
			lines, err := m.apart(f.phase, l.Name, f.of, parts.Steps*l.Times)
			m.result.Ops = append(m.result.Ops, lines...)
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// slowest is the line that takes longest in a step.
func (p *Phases) slowest(lines []Line) (Line, bool) {
	worst, found := Line{}, false
	for _, l := range lines {
		if s := l.InAll(); !math.IsNaN(s) && (!found || s > worst.InAll()) {
			worst, found = l, true
		}
	}
	return worst, found
}

// Busy says why the machine was too busy for any finding, "" if it was not.
func (p *Phases) Busy() string {
	lines := p.Lines()
	unclear := slices.DeleteFunc(slices.Clone(lines), func(l Line) bool { return l.Unclear() == "" })
	switch {
	case len(lines) > 0 && 3*len(unclear) > len(lines):
		return fmt.Sprintf("%d of %d lines spread more than %.0f %%", len(unclear), len(lines), 100*maxSpread)
	case p.Chain.Time.N() > 0 && p.Chain.Unclear() != "":
		return fmt.Sprintf("the step spread %.0f %%", 100*p.Chain.Time.Spread())
	}
	for _, l := range p.Phases { // their sum is what all is compared with
		if why := l.Unclear(); why != "" {
			return why
		}
	}
	return ""
}

// judge adds the warnings that concern the whole.
func (p *Phases) judge() {
	if why := p.Busy(); why != "" {
		p.Warnings = append(p.Warnings, timing.Warning(why+": the machine is busy; measure again when it is quiet"))
		return
	}
	if left := p.Left() / p.Chain.Seconds(); math.Abs(left) > 0.1 {
		p.Warnings = append(p.Warnings, timing.Warning(fmt.Sprintf("%.0f %% of a step is none of its phases: the machine was busy", 100*left)))
	}
	wobbly := 0
	for _, l := range p.Lines() {
		if l.Device == 0 && l.Time.Spread() > 0.125 {
			wobbly++
		}
	}
	if wobbly > 0 {
		p.Warnings = append(p.Warnings, timing.Warning(fmt.Sprintf("%d of %d lines spread more than 12 %%: the machine is busy; measure again when it is quiet", wobbly, len(p.Lines()))))
	}
}
