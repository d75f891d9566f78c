package fit

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/phases"
	"gaiden/lib/gradient"
	"gaiden/lib/session"
)

// Phases is a training step as separate programs, to be looked at and timed.
func (n *Net) Phases(data *Set, batch int) (*phases.Step, error) {
	ctx := n.Context()
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return nil, err
	}
	if err := cmp.Or(n.refuseStream(data, "phases"), n.canTrain(data)); err != nil {
		return nil, err
	}
	if err := n.checkCarried(data, Train{Batch: batch, InOrder: true}); err != nil {
		return nil, err
	}
	if batch < 1 || batch > data.N {
		return nil, fmt.Errorf("fit: %s: batch of %d from the %d examples of %s: want 1 or more, and no more than there are", n.name, batch, data.N, data.Name)
	}
	if n.config.Step != nil {
		return nil, fmt.Errorf("fit: %s: phases of a net with Config.Step: want a net with Config.Loss; %%timeit measures Fit", n.name)
	}
	p := &phaseWriter{net: n, data: data, batch: batch}
	var all []*written
	for _, part := range []struct {
		name  string
		build func(*trace) ([]string, []*Node)
	}{{"order", p.buildOrder}, {"next", p.buildGather}, {"forward", p.buildForward}, {"loss", p.buildLoss}, {"backward", p.buildBackward}, {"update", p.buildUpdate}} {
		w, err := p.write(part.name, part.build)
		if err != nil {
			return nil, err
		}
		all = append(all, w)
	}
	programs, err := p.compiled(ctx, all)
	if err != nil {
		return nil, err
	}
	source := phases.Source{Net: n.name, Session: n.session, Batch: batch, Examples: data.N, InOrder: len(n.carriedSlots()) > 0,
		Order: programs[0], Phases: programs[1:], Layers: p.layers, Zeros: p.zeros, Data: map[string]*session.Array{}}
	slots := n.layout.all()
	for i, name := range n.names(slots) {
		source.State = append(source.State, phases.Slot{Name: name, Parameter: input(slots[i])})
	}
	if source.Arrays, err = n.state(slots); err != nil {
		return nil, err
	}
	for _, a := range data.arrays {
		source.Data["all/"+a.name] = a.Array
	}
	if source.Rate, err = n.session.Put([]float32{float32(n.config.Optimizer.Rate())}, shapes.Make(dtypes.Float32), 0); err != nil {
		return nil, err
	}
	return phases.New(source), nil
}

// phaseWriter writes the programs of a step in phases.
type phaseWriter struct {
	net   *Net
	data  *Set
	batch int
}

// written is a program that is being compiled.
type written struct {
	phases.Program
	future *future
}

// write begins to compile one program.
func (p *phaseWriter) write(name string, build func(*trace) ([]string, []*Node)) (*written, error) {
	w := &written{Program: phases.Program{Name: name}}
	var err error
	w.HLO, err = p.net.trace(name, func(t *trace) []*Node {
		names, nodes := build(t)
		w.Outputs = names
		return nodes
	})
	if err != nil {
		return nil, err
	}
	w.future = p.net.prepare(fmt.Sprintf("phase/%s/%s/%d", name, p.data.key(), p.batch), func() (*hlo.Program, error) { return w.HLO, nil }, nil)
	return w, nil
}

// compiled waits for programs, which are compiled at the same time. Meanwhile others may
// use the net.
func (p *phaseWriter) compiled(ctx context.Context, all []*written) ([]phases.Program, error) {
	n := p.net
	n.mu.Unlock()
	for _, w := range all {
		select {
		case <-w.future.done:
		case <-ctx.Done():
		}
	}
	n.mu.Lock()
	var programs []phases.Program
	for _, w := range all {
		var err error
		if w.Compiled, err = n.wait(ctx, w.future, nil); err != nil {
			return nil, err
		}
		programs = append(programs, w.Program)
	}
	return programs, nil
}

// zeros are the state of stateful layers when an epoch begins.
func (p *phaseWriter) zeros() (map[string]*session.Array, error) {
	slots := p.net.carriedSlots()
	if len(slots) == 0 {
		return nil, nil
	}
	arrays, err := p.net.zeros(slots)
	zeros := map[string]*session.Array{}
	for i, a := range arrays {
		zeros[input(slots[i])] = a
	}
	return zeros, err
}

// input is the name of a slot as a parameter of a program.
func input(s slot) string { return cmp.Or(s.path, s.name) }

func (p *phaseWriter) buildOrder(t *trace) ([]string, []*Node) {
	step := Parameter(t.g, "step", p.net.layout.step.shape)
	return []string{"order"}, []*Node{t.order(step, p.data.N, true)}
}

func (p *phaseWriter) buildGather(t *trace) ([]string, []*Node) {
	sources := t.sourcesAs("all/", p.data)
	order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, p.data.N))
	place := Parameter(t.g, "place", shapes.Make(dtypes.Int32))
	b := t.gather(p.batch, p.data, sources, rows(DynamicSlice(order, []*Node{place}, []int{p.batch})))
	var names []string
	var nodes []*Node
	for _, a := range p.data.arrays {
		x := map[string]*Node{"y": b.y, "v": b.v}[a.name]
		if a.isInput() {
			x = b.in[a.input()]
		}
		names, nodes = append(names, a.name), append(nodes, x)
	}
	return names, nodes
}

// fullStep is a step up to the gradients in one graph, of which the phases are
// cut.
type fullStep struct {
	variables      []*Node
	out, loss      *Node
	after          []*Node // variables that the net has changed by itself
	gradients      []*Node
	score, reverse NodeId // where the loss and the gradients begin
}

func (p *phaseWriter) fullStep(t *trace) fullStep {
	w := fullStep{variables: t.variables()}
	inputs := p.data.inputs()
	b := batch{in: p.net.model.Batch(p.batch, func(name string, shape shapes.Shape) *Node {
		k := slices.IndexFunc(inputs, func(a setArray) bool { return a.input() == name })
		return Parameter(t.g, inputs[k].name, shape)
	})}
	for _, a := range p.data.arrays[len(inputs):] {
		kind := a.shape.DType
		if kind == dtypes.Uint8 { // gathered as numbers
			kind = dtypes.Float32
		}
		x := Parameter(t.g, a.name, shapes.Make(kind, append([]int{p.batch}, p.net.dimsOf(a, p.data)...)...))
		if a.name == "y" {
			b.y = x
		} else {
			b.v = x
		}
	}
	t.set(w.variables)
	w.out = t.apply(b.in, true)
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
	w.gradients = gradient.Final(w.loss, trained...)
	return w
}

func (p *phaseWriter) buildForward(t *trace) (names []string, nodes []*Node) {
	w := p.fullStep(t)
	names, nodes = []string{"out"}, []*Node{w.out}
	for i, v := range p.net.layout.variables {
		if !v.trainable && w.after[i] != w.variables[i] {
			names, nodes = append(names, "next/"+input(v)), append(nodes, w.after[i])
		}
	}
	kept := append(t.residuals(w.reverse, w.gradients), t.residuals(w.score, []*Node{w.loss})...)
	for _, n := range kept {
		if defNode(n) < w.score && !slices.Contains(names, keptName(n)) {
			names, nodes = append(names, keptName(n)), append(nodes, n)
		}
	}
	return names, nodes
}

func (p *phaseWriter) buildLoss(t *trace) (names []string, nodes []*Node) {
	w := p.fullStep(t)
	names, nodes = []string{"loss"}, []*Node{w.loss}
	for _, n := range t.residuals(w.reverse, w.gradients) {
		if defNode(n) >= w.score {
			names, nodes = append(names, keptName(n)), append(nodes, n)
		}
	}
	return names, t.extract(w.score, nodes)
}

func (p *phaseWriter) buildBackward(t *trace) (names []string, nodes []*Node) {
	w := p.fullStep(t)
	for _, i := range p.net.layout.trained {
		names = append(names, "gradient/"+p.net.layout.variables[i].name)
	}
	return names, t.extract(w.reverse, w.gradients)
}

func (p *phaseWriter) buildUpdate(t *trace) (names []string, nodes []*Node) {
	l := &p.net.layout
	variables := make([]*Node, len(l.variables))
	for _, i := range l.trained {
		variables[i] = t.variable(l.variables[i]).NodeValue(t.g)
	}
	moments := t.slots(l.moments)
	step := Parameter(t.g, "step", l.step.shape)
	rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
	gradients := t.gradientParameters("gradient/")
	next := Add(step, t.scalar(int32(1)))
	v, m := t.update(stepResult{variables: variables, gradients: gradients}, l.each(), moments, rate, ConvertDType(next, dtypes.Float32))
	for _, i := range l.trained {
		names, nodes = append(names, "next/"+input(l.variables[i])), append(nodes, v[i])
	}
	for i, s := range l.moments {
		names, nodes = append(names, "next/"+input(s)), append(nodes, m[i])
	}
	return append(names, "next/step"), append(nodes, next)
}
