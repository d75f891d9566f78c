package fit

import (
	"context"
	"fmt"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/phases"
)

// layerShapes are the shapes of what goes into a layer and comes out of it.
type layerShapes struct{ input, output shapes.Shape }

// layers makes programs of each layer, and the one that makes the gradient of the last
// one's output.
func (p *phaseWriter) layers(ctx context.Context) (seed phases.Program, layers []phases.LayerPrograms, err error) {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.config.narrows() {
		return seed, nil, fmt.Errorf("fit: %s: layers by themselves: not with BF16 or F16", n.name)
	}
	if n.model.Inputs != nil {
		return seed, nil, fmt.Errorf("fit: %s: layers by themselves: not with Inputs", n.name)
	}
	kind := n.model.AllInputs()[0].Batch(p.batch)
	trained := false // some layer so far has weights
	var all []*written
	var derived []bool // by layer: it has a backward program
	for i, name := range n.model.Names() {
		l := &layerShapes{input: kind}
		into := "layer/" + itoa(i)
		forward, err := p.write(name+"/forward", func(t *trace) ([]string, []*Node) {
			y, _, gradients, from := p.layer(t, i, name, l, trained, false)
			names, nodes := []string{"layer/" + itoa(i+1)}, []*Node{y}
			for _, r := range t.residuals(from, gradients) {
				names, nodes = append(names, into+keptName(r)), append(nodes, r)
			}
			return names, nodes
		})
		if err != nil {
			return seed, nil, err
		}
		has := false
		backward, err := p.write(name+"/backward", func(t *trace) ([]string, []*Node) {
			_, names, gradients, from := p.layer(t, i, name, l, trained, true)
			if has = len(names) > 0; !has {
				return []string{"nothing"}, []*Node{t.scalar(float32(0))}
			}
			return names, t.extractAs(into, from, gradients)
		})
		if err != nil {
			return seed, nil, err
		}
		all = append(all, forward)
		if derived = append(derived, has); has {
			all = append(all, backward)
		}
		trained = trained || has
		kind = l.output
	}
	first, err := p.write("loss/backward", func(t *trace) ([]string, []*Node) {
		w := p.fullStep(t)
		from := NodeId(len(t.g.Nodes()))
		g := Gradient(w.loss, w.out)
		return []string{"up/" + itoa(len(derived))}, t.extract(min(from, w.score), g)
	})
	if err != nil {
		return seed, nil, err
	}
	programs, err := p.compiled(ctx, append(all, first))
	if err != nil {
		return seed, nil, err
	}
	seed = programs[len(programs)-1]
	for i, name := range n.model.Names() {
		l := phases.LayerPrograms{Name: name, Forward: programs[0]}
		if programs = programs[1:]; derived[i] {
			l.Backward, programs = &programs[0], programs[1:]
		}
		layers = append(layers, l)
	}
	return seed, layers, nil
}

// layer builds layer i and its gradients: of its weights, and of its input if
// wanted. from is where the gradients begin. derive is false where only what
// they need is wanted.
func (p *phaseWriter) layer(t *trace, i int, name string, l *layerShapes, input, derive bool) (y *Node, names []string, gradients []*Node, from NodeId) {
	var wrt []*Node
	values := make([]*Node, len(p.net.layout.variables))
	x := Parameter(t.g, "layer/"+itoa(i), l.input)
	t.store.SetTraining(t.g, true)
	y = p.net.model.Layer(i, name, t.store.RootScope(), x, t.mark)
	l.output = y.Shape()
	for k, v := range p.net.layout.variables {
		g := t.store.GetVariable(v.path)
		if v.trainable && g != nil && g.InUseByGraph(t.g) {
			values[k] = t.g.GetParameterByName(v.path)
			names, wrt = append(names, "gradient/"+v.name), append(wrt, values[k])
		}
	}
	if input {
		names, wrt = append(names, "up/"+itoa(i)), append(wrt, x)
	}
	from = NodeId(len(t.g.Nodes()))
	if len(wrt) > 0 {
		none := Zeros(t.g, l.output)
		var up *Node // one node either way: both graphs must number alike
		if !derive {
			up = Identity(none)
		} else {
			up = Parameter(t.g, "up/"+itoa(i+1), l.output)
		}
		gradients = Gradient(ReduceAllSum(Mul(y, up)), wrt...)
	}
	return y, names, gradients, from
}

// extractAs is cut with names of its own for what is kept.
func (t *trace) extractAs(prefix string, from NodeId, outputs []*Node) []*Node {
	t.prefix = prefix
	return t.extract(from, outputs)
}
