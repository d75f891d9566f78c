package fit

import (
	"fmt"
	"sync"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/lower"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// firstValues is a program that makes first values of some variables.
type firstValues struct {
	variables []slot
	inits     []model.VariableInitializer
	text      *hlo.Program
	program   *session.Program
	err       error
}

// draw gives the variables of a store their first values, in the order of the net, and returns
// those of others, which are zeros. What is not random is one program. Each random variable is a
// program of its own that takes the state of the random numbers and returns the next one, and
// layers of one shape share theirs: in one program for all, XLA would compile code for each
// variable, which takes more than a minute for a deep net. All are compiled side by side.
func (n *Net) draw(store *model.Store, others []slot) (zeros []*session.Array, err error) {
	fixed, all := &firstValues{}, []*firstValues(nil)
	for _, s := range n.layout.variables {
		init := models.Initializer(store, s.path)
		if init == nil {
			continue
		}
		one := &firstValues{variables: []slot{s}, inits: []model.VariableInitializer{init}}
		switch one.err = n.write(store, one, nil); {
		case one.err != nil:
			return nil, fmt.Errorf("%s: %w", s.name, one.err)
		case len(one.text.Inputs) == 0:
			fixed.variables, fixed.inits = append(fixed.variables, s), append(fixed.inits, init)
		default:
			all = append(all, one)
		}
	}
	if err := n.write(store, fixed, others); err != nil {
		return nil, err
	}
	all = append(all, fixed)
	var compilers sync.WaitGroup
	for _, v := range all {
		o := session.Options{Origin: n.config.Origin, FirstLook: v == fixed || v.variables[0].shape.Size() <= lower.QuickDraw}
		if v == fixed { // XLA knows the user's options, or says so; random numbers do not depend on them
			o.Flags = n.config.Flags
		}
		compilers.Go(func() { v.program, v.err = n.session.Compile(v.text, o) })
	}
	compilers.Wait()
	for _, v := range all {
		if zeros, err = v.run(n, store); err != nil {
			return nil, err
		}
	}
	return zeros, nil // the last program's
}

// run gives the variables their values, and returns what else the program makes.
func (v *firstValues) run(n *Net, store *model.Store) (others []*session.Array, err error) {
	if v.err != nil {
		return nil, v.err
	}
	to, in := make([]*model.Variable, len(v.variables)), []*session.Array(nil)
	for i, s := range v.variables {
		to[i] = store.GetVariable(s.path)
	}
	if len(v.text.Inputs) > 0 {
		state := store.GetVariable(rng)
		a, err := n.valueOf(state)
		if err != nil {
			return nil, err
		}
		to, in = append(to, state), append(in, a)
	}
	out, err := v.program.Run(session.Call{Inputs: in})
	if err != nil {
		return nil, err
	}
	for i, x := range to {
		t, err := tensors.FromBuffer(out[i])
		if err == nil {
			err = x.SetValue(t)
		}
		if err != nil {
			return nil, err
		}
	}
	return out[len(to):], nil
}

// valueOf is a variable's value in the session.
func (n *Net) valueOf(v *model.Variable) (*session.Array, error) {
	t, err := v.Value()
	if err != nil {
		return nil, err
	}
	b, err := t.Buffer(n.session.Backend(), 0)
	if err != nil {
		return nil, err
	}
	return b.(*session.Array), nil
}

// write writes the program: it has an input and a second output, the state of the random
// numbers, where a value is random.
func (n *Net) write(store *model.Store, v *firstValues, zeros []slot) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = models.Recovered(r)
		}
	}()
	w := &writer{target: n.target, devices: 1}
	g := NewGraph(w, n.name+"/first values")
	model.SetStore(g, store)
	var out []*Node
	for i, init := range v.inits {
		out = append(out, init(g, v.variables[i].shape))
	}
	if state := store.GetVariable(rng); state.InUseByGraph(g) {
		out = append(out, state.NodeValue(g))
	}
	for _, s := range zeros {
		out = append(out, Zeros(g, s.shape))
	}
	if err := g.Compile(out...); err != nil {
		return err
	}
	v.text = w.Program
	return nil
}
