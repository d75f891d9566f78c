package profile

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gomlx/compute"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// runner runs a program again and again on the same arrays, each run after the
// one before it.
//
// A GPU does that by itself. XLA's CPU client does not: two runs that need
// nothing of each other run at the same time, on several cores, and a run
// seems to take half its time. So there each run is given an input that has
// been through a gate: a program that copies the input and also takes, without
// reading it, a result of the run before.
type runner struct {
	program *session.Program
	in      []*session.Array
	gate    *session.Program // nil: not needed, or nothing to hold on to
	from    int              // the result that the gate waits for
	into    int              // the input that it holds
	held    []*session.Array // what has been through the gate last
	last    []*session.Array // results of the run before
}

// runner makes a program ready to be run on arrays, which it leaves as they are.
func (m *measurer) runner(p *hlo.Program, in []*session.Array) (*runner, error) {
	program, err := m.compile([]*hlo.Program{p})
	if err != nil {
		return nil, err
	}
	r := &runner{program: program[0], in: append([]*session.Array(nil), in...)}
	m.runners = append(m.runners, r)
	if m.session.Welcome().Platform != "cpu" || len(in) == 0 || len(p.Outputs) == 0 {
		return r, nil
	}
	for i, s := range p.Inputs { // the smallest costs least to copy
		if s.ByteSize() < p.Inputs[r.into].ByteSize() {
			r.into = i
		}
	}
	gate, err := build1("gate", hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		must(f.Parameter("result", p.Outputs[r.from], nil))
		return must(f.Parameter("input", p.Inputs[r.into], nil))
	})
	if err != nil {
		return nil, err
	}
	r.gate, err = m.session.Compile(gate, m.programs())
	return r, err
}

// compile compiles programs, all at the same time.
func (m *measurer) compile(list []*hlo.Program) ([]*session.Program, error) {
	compiled, failed := make([]*session.Program, len(list)), make([]error, len(list))
	var all sync.WaitGroup
	for i, p := range list {
		all.Go(func() {
			if compiled[i], failed[i] = m.session.Compile(p, m.programs()); failed[i] != nil {
				failed[i] = fmt.Errorf("profile: %s: %s: %w", m.net.Name(), p.Name, failed[i])
			}
		})
	}
	all.Wait()
	return compiled, errors.Join(failed...)
}

// programs are the options of what is compiled for the net.
func (m *measurer) programs() session.Options {
	c := m.net.Config()
	return session.Options{Origin: m.net.Name() + "/profile", Flags: c.Flags, FirstLook: c.FirstLook}
}

// run asks for a run.
func (r *runner) run() error {
	out, err := r.program.Run(session.Call{Inputs: r.in})
	if err != nil {
		return err
	}
	if r.gate != nil {
		held, err := r.gate.Run(session.Call{Inputs: []*session.Array{out[r.from], r.in[r.into]}})
		if err != nil {
			return err
		}
		free(r.held...) // not what it began with, which may be the net's
		r.held, r.in[r.into] = held, held[0]
	}
	// In a step the results of the run before are still there when new ones are
	// made. Freed sooner, their memory would be written again while it is in
	// the cache.
	free(r.last...)
	r.last = out
	return nil
}

// end frees what the runs have made. There can be no more.
func (r *runner) end() {
	free(r.held...)
	free(r.last...)
}

func free(arrays ...*session.Array) {
	for _, a := range arrays {
		a.Finalize()
	}
}

// gateCost is a case that costs what a gate does: its seconds are taken off
// those of gated runs.
func (m *measurer) gateCost() (*runner, error) {
	x, err := m.session.Put([]float32{1}, scalar, 0)
	if err != nil {
		return nil, err
	}
	p, err := build1("gate", hlo.DefaultPrecision, func(f *hlo.Function) compute.Value {
		must(f.Parameter("result", scalar, nil))
		return must(f.Parameter("input", scalar, nil))
	})
	if err != nil {
		return nil, err
	}
	g, err := m.session.Compile(p, session.Options{Origin: "profile"})
	return &runner{program: g, in: []*session.Array{x, x}}, err
}
