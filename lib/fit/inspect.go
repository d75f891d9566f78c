package fit

import (
	"context"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower/plan"
)

// Config is what the net was made with, its defaults filled in.
func (n *Net) Config() Config { return n.config }

// Suits is an error where the net cannot be trained on a set.
func (n *Net) Suits(s *Set) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return err
	}
	return n.fits(s)
}

// Steps is the program that Train runs for some steps of an epoch.
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
