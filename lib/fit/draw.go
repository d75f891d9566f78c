package fit

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// draw gives the random variables of a store their first values, in the order of
// the net. Each is a program of its own that takes the state of the random
// numbers and returns the next one, and layers of one shape share theirs: in one
// program for all, XLA would compile code for each variable, which takes more than a minute
// for a deep net.
func (n *Net) draw(store *model.Store) error {
	state := store.GetVariable(rng)
	for _, s := range n.layout.variables {
		init := models.Initializer(store, s.path)
		if init == nil {
			continue
		}
		p, err := n.drawing(store, s, init)
		if err != nil {
			return err
		}
		if len(p.Inputs) == 0 {
			continue // not random
		}
		x, err := n.session.Compile(p, session.Options{Origin: n.config.Origin})
		if err != nil {
			return err
		}
		old, err := state.Value()
		if err != nil {
			return err
		}
		b, err := old.Buffer(n.session.Backend(), 0)
		if err != nil {
			return err
		}
		out, err := x.Run(session.Call{Inputs: []*session.Array{b.(*session.Array)}})
		if err != nil {
			return err
		}
		for i, v := range []*model.Variable{store.GetVariable(s.path), state} {
			t, err := tensors.FromBuffer(out[i])
			if err != nil {
				return err
			}
			if err := v.SetValue(t); err != nil {
				return err
			}
		}
	}
	return nil
}

// drawing is the program of one variable's first value: it has an input and a
// second output, the state of the random numbers, where the value is random.
func (n *Net) drawing(store *model.Store, s slot, init model.VariableInitializer) (p *hlo.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%s: %v", s.name, r)
		}
	}()
	w := &writer{target: n.target, devices: 1}
	g := NewGraph(w, n.name+"/first values")
	model.SetStore(g, store)
	out := []*Node{init(g, s.shape)}
	if state := store.GetVariable(rng); state.InUseByGraph(g) {
		out = append(out, state.NodeValue(g))
	}
	if err := g.Compile(out...); err != nil {
		return nil, err
	}
	return w.program, nil
}
