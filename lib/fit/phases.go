package fit

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// Phases is a training step as programs of their own, so that each can be
// looked at and timed. Done one after the other they are what [Net.Train] does:
//
//	p, err := net.Phases(ctx, train, 8)
//	for range 100 {
//		err = errors.Join(p.Next(), p.Forward(), p.Loss(), p.Backward(), p.Update())
//	}
//	loss, err := p.Value()
//
// Each call returns before the device has done it; Session.Wait waits.
type Phases struct {
	Batch int
	// Steps is how many full batches the set has. Next begins a new epoch, in
	// a new order, after so many.
	Steps int

	net   *Net
	data  *Set
	space map[string]*session.Array // what programs take and give, by name
	held  []*session.Array          // what the names of the net stood for after the last Update

	order, gather, forward, loss, backward, update *Phase
	layers                                         []*LayerPhases
	at                                             int
	inOrder                                        bool // do not shuffle
}

// Phase is a program of a step.
type Phase struct {
	// Name is next, forward, loss, backward, update, or a layer's, such as
	// conv/backward.
	Name string
	// HLO is the program: its text, FLOPs and bytes.
	HLO *hlo.Program

	p       *session.Program
	key     string
	future  *future // of p
	outputs []string
	phases  *Phases
}

// Run runs the phase on what the phases before it have left. It does not wait
// for the device, and can be repeated.
func (f *Phase) Run() error {
	in, err := f.Inputs()
	if err != nil {
		return err
	}
	out, err := f.p.Run(session.Call{Inputs: in})
	if err != nil {
		return err
	}
	f.phases.replace(f.outputs, out)
	return nil
}

// Phases makes the programs of a step on batches of a set.
func (n *Net) Phases(ctx context.Context, data *Set, batch int) (*Phases, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	if err := n.teaches(data); err != nil {
		return nil, err
	}
	if err := n.carries(data, Train{Batch: batch, InOrder: true}); err != nil {
		return nil, err
	}
	if batch < 1 || batch > data.N {
		return nil, fmt.Errorf("fit: %s: batch of %d from the %d examples of %s: want 1 or more, and no more than there are", n.name, batch, data.N, data.Name)
	}
	p := &Phases{Batch: batch, Steps: data.N / batch, net: n, data: data, space: map[string]*session.Array{},
		inOrder: len(n.carried()) > 0}
	for _, part := range []struct {
		to    **Phase
		name  string
		build func(*trace) ([]string, []*Node)
	}{
		{&p.order, "order", p.buildOrder},
		{&p.gather, "next", p.buildGather},
		{&p.forward, "forward", p.buildForward},
		{&p.loss, "loss", p.buildLoss},
		{&p.backward, "backward", p.buildBackward},
		{&p.update, "update", p.buildUpdate},
	} {
		var err error
		if *part.to, err = p.phase(part.name, part.build); err != nil {
			return nil, err
		}
	}
	if err := p.wait(ctx, p.order, p.gather, p.forward, p.loss, p.backward, p.update); err != nil {
		return nil, err
	}
	return p, p.enter()
}

// phase begins to make one program; wait ends it.
func (p *Phases) phase(name string, build func(*trace) ([]string, []*Node)) (*Phase, error) {
	f := &Phase{Name: name, phases: p}
	var err error
	f.HLO, err = p.net.trace(name, func(t *trace) []*Node {
		names, nodes := build(t)
		f.outputs = names
		return nodes
	})
	if err != nil {
		return nil, err
	}
	f.key = fmt.Sprintf("phase/%s/%s/%d", name, p.data.key(), p.Batch)
	f.future = p.net.prepare(f.key, func() (*hlo.Program, error) { return f.HLO, nil }, nil)
	return f, nil
}

// wait waits for programs, which are compiled at the same time. Meanwhile others
// may use the net.
func (p *Phases) wait(ctx context.Context, phases ...*Phase) error {
	n := p.net
	n.mu.Unlock()
	for _, f := range phases {
		select {
		case <-f.future.done:
		case <-ctx.Done():
		}
	}
	n.mu.Lock()
	for _, f := range phases {
		var err error
		if f.p, err = n.wait(ctx, f.key, f.future, nil); err != nil {
			return err
		}
	}
	return nil
}

// enter puts everything that the first phase needs into the space.
func (p *Phases) enter() error {
	n := p.net
	slots := n.layout.all()
	state, err := n.state(slots)
	if err != nil {
		return err
	}
	for i, s := range slots {
		p.space[input(s)] = state[i]
	}
	p.held = state
	for i, a := range p.data.arrays() {
		p.space["all/"+[]string{"x", "y", "v"}[i]] = a
	}
	rate, err := n.session.Put([]float32{float32(n.config.Optimizer.Rate())}, shapes.Make(dtypes.Float32), 0)
	p.space["rate"] = rate
	return err
}

// input is the name of a slot as a parameter of a program.
func input(s slot) string {
	if s.path != "" {
		return s.path
	}
	return s.name
}

// Close gives back the memory of what the phases have made. They cannot be run after it.
// The end of the process does it, too.
func (p *Phases) Close() {
	made := append(slices.Collect(maps.Values(p.space)), p.held...)
	p.space, p.held = nil, nil
	p.release(made)
}

// closed is an error where Close was called.
func (p *Phases) closed() error {
	if p.space == nil {
		return fmt.Errorf("fit: %s: the phases are closed: Net.Phases makes others", p.net.name)
	}
	return nil
}

// Next takes the next batch of the set.
func (p *Phases) Next() error {
	if err := p.closed(); err != nil {
		return err
	}
	if p.at%p.Steps == 0 {
		if err := errors.Join(p.resetState(), p.order.Run()); err != nil {
			return err
		}
	}
	if p.inOrder {
		order := make([]int32, p.data.N)
		for i := range order {
			order[i] = int32(i)
		}
		a, err := p.net.session.Put(order, shapes.Make(dtypes.Int32, p.data.N), 0)
		if err != nil {
			return err
		}
		p.replace([]string{"order"}, []*session.Array{a})
	}
	place, err := p.net.integers(0, p.at%p.Steps*p.Batch)
	if err != nil {
		return err
	}
	p.replace([]string{"place"}, place)
	p.at++
	return p.gather.Run()
}

// Forward runs the net on the batch, as it is trained.
func (p *Phases) Forward() error { return p.forward.Run() }

// Loss compares what the net returned with what it should.
func (p *Phases) Loss() error { return p.loss.Run() }

// Backward derives the gradients of all weights.
func (p *Phases) Backward() error { return p.backward.Run() }

// Update changes the weights, and gives the new ones their names in the
// session, which it waits for. It refuses where others, such as Train, have changed the
// net since Phases or the last Update: Net.Phases then makes phases of the weights that
// there are now. The last Phase of List is the program alone.
func (p *Phases) Update() error {
	if err := p.update.Run(); err != nil {
		return err
	}
	slots := p.net.layout.all()
	names, arrays := make([]string, len(slots)), make([]*session.Array, len(slots))
	for i, s := range slots {
		names[i] = input(s)
		if arrays[i] = p.space["next/"+names[i]]; arrays[i] == nil {
			arrays[i] = p.space[names[i]]
		}
	}
	if err := p.net.session.CompareAndBind(p.net.names(slots), p.held, arrays); err != nil {
		return fmt.Errorf("fit: %s: update: %w", p.net.name, err)
	}
	was := p.held
	p.held = arrays
	p.replace(names, arrays)
	for _, name := range names {
		delete(p.space, "next/"+name)
	}
	p.release(was)
	return nil
}

// Value is the loss of the batch. It waits for the device.
func (p *Phases) Value() (float64, error) {
	a := p.space["loss"]
	if a == nil {
		return 0, fmt.Errorf("fit: %s: no loss: run Loss first", p.net.name)
	}
	var v [1]float32
	err := a.Values(v[:])
	return float64(v[0]), err
}

// Output is what the net returned for the batch, row by row. It waits for the
// device.
func (p *Phases) Output() ([]float32, error) { return p.read("out") }

// Gradients are those of all weights, by their names. It waits for the device.
func (p *Phases) Gradients() (map[string][]float32, error) {
	all := map[string][]float32{}
	for _, i := range p.net.layout.trained {
		v := p.net.layout.variables[i]
		g, err := p.read("gradient/" + v.name)
		if err != nil {
			return nil, err
		}
		all[v.name] = g
	}
	return all, nil
}

func (p *Phases) read(name string) ([]float32, error) {
	a := p.space[name]
	if a == nil {
		return nil, fmt.Errorf("fit: %s: no %s: run the phase that makes it first", p.net.name, name)
	}
	s, _ := a.Shape()
	v := make([]float32, s.Size())
	return v, a.Values(v)
}

// List are the phases of a step, in their order.
func (p *Phases) List() []*Phase { return []*Phase{p.gather, p.forward, p.loss, p.backward, p.update} }

func (p *Phases) buildOrder(t *trace) ([]string, []*Node) {
	step := Parameter(t.g, "step", p.net.layout.step.shape)
	return []string{"order"}, []*Node{t.order(step, p.data.N, true)}
}

func (p *Phases) buildGather(t *trace) ([]string, []*Node) {
	sources := t.sourcesAs("all/", p.data)
	order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, p.data.N))
	place := Parameter(t.g, "place", shapes.Make(dtypes.Int32))
	b := t.take(p.Batch, sources, rows(DynamicSlice(order, []*Node{place}, []int{p.Batch})))
	if b.v == nil {
		return []string{"x", "y"}, []*Node{b.x, b.y}
	}
	return []string{"x", "y", "v"}, []*Node{b.x, b.y, b.v}
}

// whole is a step up to the gradients in one graph, of which the phases are
// cut.
type whole struct {
	variables      []*Node
	out, loss      *Node
	after          []*Node // variables that the net has changed by itself
	gradients      []*Node
	score, reverse NodeId // where the loss and the gradients begin
}

func (p *Phases) whole(t *trace) whole {
	w := whole{variables: t.variables()}
	b := batch{x: Parameter(t.g, "x", shapes.Make(dtypes.Float32, append([]int{p.Batch}, p.net.model.Input...)...))}
	if p.data.targets == 0 {
		b.y = Parameter(t.g, "y", shapes.Make(dtypes.Int32, p.Batch))
	} else {
		full := shapes.Make(dtypes.Float32, append([]int{p.Batch}, p.net.output...)...)
		b.y = Parameter(t.g, "y", full)
		if p.data.v != nil {
			b.v = Parameter(t.g, "v", full)
		}
	}
	t.set(w.variables)
	w.out = t.apply(b.x, true)
	w.after = t.buffers(w.variables)
	w.score = NodeId(len(t.g.Nodes()))
	sum, weight, _ := t.score(p.net.lossOf(p.data), w.out, b, nil)
	w.loss = t.mean(sum, weight)
	w.reverse = NodeId(len(t.g.Nodes()))
	t.mark("loss/backward")
	var trained []*Node
	for _, i := range p.net.layout.trained {
		trained = append(trained, w.variables[i])
	}
	w.gradients = Gradient(w.loss, trained...)
	return w
}

func (p *Phases) buildForward(t *trace) (names []string, nodes []*Node) {
	w := p.whole(t)
	names, nodes = []string{"out"}, []*Node{w.out}
	for i, v := range p.net.layout.variables {
		if !v.trainable && w.after[i] != w.variables[i] {
			names, nodes = append(names, "next/"+input(v)), append(nodes, w.after[i])
		}
	}
	kept := append(t.residuals(w.reverse, w.gradients), t.residuals(w.score, []*Node{w.loss})...)
	for _, n := range kept {
		if home(n) < w.score && !slices.Contains(names, residual(n)) {
			names, nodes = append(names, residual(n)), append(nodes, n)
		}
	}
	return names, nodes
}

func (p *Phases) buildLoss(t *trace) (names []string, nodes []*Node) {
	w := p.whole(t)
	names, nodes = []string{"loss"}, []*Node{w.loss}
	for _, n := range t.residuals(w.reverse, w.gradients) {
		if home(n) >= w.score {
			names, nodes = append(names, residual(n)), append(nodes, n)
		}
	}
	return names, t.cut(w.score, nodes)
}

func (p *Phases) buildBackward(t *trace) (names []string, nodes []*Node) {
	w := p.whole(t)
	for _, i := range p.net.layout.trained {
		names = append(names, "gradient/"+p.net.layout.variables[i].name)
	}
	return names, t.cut(w.reverse, w.gradients)
}

func (p *Phases) buildUpdate(t *trace) (names []string, nodes []*Node) {
	l := &p.net.layout
	var trained, gradients []*Node
	variables := make([]*Node, len(l.variables))
	for _, i := range l.trained {
		variables[i] = t.variable(l.variables[i]).NodeValue(t.g)
		trained = append(trained, variables[i])
	}
	moments := t.slots(l.moments)
	step := Parameter(t.g, "step", l.step.shape)
	rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
	for k, i := range l.trained {
		gradients = append(gradients, Parameter(t.g, "gradient/"+l.variables[i].name, trained[k].Shape()))
	}
	next := Add(step, t.scalar(int32(1)))
	v, m := t.update(found{variables: variables, gradients: gradients}, moments, rate, ConvertDType(next, dtypes.Float32))
	for _, i := range l.trained {
		names, nodes = append(names, "next/"+input(l.variables[i])), append(nodes, v[i])
	}
	for i, s := range l.moments {
		names, nodes = append(names, "next/"+input(s)), append(nodes, m[i])
	}
	return append(names, "next/step"), append(nodes, next)
}
