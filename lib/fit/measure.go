package fit

import (
	"context"
	"fmt"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// What package profile needs to measure a net from outside.

// Config is what the net was made with, its defaults filled in.
func (n *Net) Config() Config { return n.config }

// Inputs are the arrays that the phase would run on now, in the order of its
// program's parameters. They are the net's: they must not be donated or freed.
func (f *Phase) Inputs() ([]*session.Array, error) {
	if err := f.phases.closed(); err != nil {
		return nil, err
	}
	in := make([]*session.Array, len(f.HLO.InputNames))
	for i, name := range f.HLO.InputNames {
		if in[i] = f.phases.space[name]; in[i] == nil {
			return nil, fmt.Errorf("fit: %s: phase %s needs %s: run the phases before it first", f.phases.net.name, f.Name, name)
		}
	}
	return in, nil
}

// Suits says whether the net can be trained on a set, and if not, why.
func (n *Net) Suits(s *Set) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	return n.suits(s)
}

// Steps is the program that Train runs for the steps of an epoch, for some of them
// at a time. What its kernels are made of, hlo.Program.Calls says.
func (n *Net) Steps(s *Set, t Train) (*hlo.Program, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	r, err := n.run(context.Background(), s, t, plan.Call)
	if err != nil {
		return nil, err
	}
	defer r.close()
	return n.epochProgram(s, r.main.Part)
}

// replace puts results into the space and frees what they replace, unless it
// has another name: waiting for the garbage collector would let memory grow at
// every step, and fresh memory is slow.
func (p *Phases) replace(names []string, results []*session.Array) {
	old := make([]*session.Array, 0, len(names))
	for i, name := range names {
		if a := p.space[name]; a != nil {
			old = append(old, a)
		}
		p.space[name] = results[i]
	}
	p.release(old)
}

// release frees arrays that nothing here needs any more.
func (p *Phases) release(old []*session.Array) {
	if len(old) == 0 {
		return
	}
	kept := make(map[*session.Array]bool, len(p.space)+len(p.held))
	for _, a := range p.space {
		kept[a] = true
	}
	for _, a := range append(p.data.arrays(), p.held...) {
		kept[a] = true
	}
	for _, a := range old {
		if !kept[a] {
			kept[a] = true
			a.Finalize()
		}
	}
}
