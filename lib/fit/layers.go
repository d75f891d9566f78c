package fit

import (
	"context"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/phases"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// layerWriter writes the programs of one layer of a flat net.
type layerWriter struct {
	*phaseWriter
	model         models.Net
	index         int
	name          string
	last          bool
	used          []int        // the net's variables that the layer has
	input, output shapes.Shape // of what goes into it and comes out of it
}

// layers makes programs of each layer, and the one that makes the gradient of the last
// one's output.
func (p *phaseWriter) layers(ctx context.Context) (seed phases.Program, layers []phases.LayerPrograms, err error) {
	n := p.net
	n.mu.Lock()
	defer n.mu.Unlock()
	flat, times := n.model.Flat()
	kind := n.model.AllInputs()[0].Batch(p.batch)
	trained := false // some layer so far has weights
	var all []*written
	var derived []bool // by layer: it has a backward program
	for i, name := range flat.Names() {
		l := &layerWriter{phaseWriter: p, model: flat, index: i, name: name, last: i == len(times)-1, input: kind}
		if err := l.findUsed(); err != nil {
			return seed, nil, err
		}
		into := "layer/" + itoa(i)
		forward, err := p.write(name+"/forward", func(t *trace) ([]string, []*Node) {
			y, _, gradients, from := l.build(t, trained, false)
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
			_, names, gradients, from := l.build(t, trained, true)
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
		g := gradient.Final(w.loss, w.out)
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
	for i, name := range flat.Names() {
		l := phases.LayerPrograms{Name: name, Times: times[i], Forward: programs[0]}
		if programs = programs[1:]; derived[i] {
			l.Backward, programs = &programs[0], programs[1:]
		}
		layers = append(layers, l)
	}
	return seed, layers, nil
}

// findUsed finds the net's variables that the layer has, by building it once in float32.
func (l *layerWriter) findUsed() error {
	_, err := l.net.trace(l.name+"/variables", func(t *trace) []*Node {
		t.store.SetTraining(t.g, true)
		y := l.model.LayerOf(l.index, l.name, t.store.RootScope(), l.inputs(t, false), nil)
		for k, v := range l.net.layout.variables {
			if g := t.store.GetVariable(v.path); g != nil && g.InUseByGraph(t.g) {
				l.used = append(l.used, k)
			}
		}
		return []*Node{y}
	})
	return err
}

// inputs are what the layer takes: the net's inputs, or what the layer before it gives.
// narrow is for a net that computes in BF16 or F16.
func (l *layerWriter) inputs(t *trace, narrow bool) models.Inputs {
	if l.index > 0 {
		input := l.input
		if input.DType.IsFloat() && !narrow {
			input = shapes.Make(dtypes.Float32, input.Dimensions...)
		}
		return models.Inputs{"x": Parameter(t.g, "layer/"+itoa(l.index), input)}
	}
	in := l.net.model.Batch(l.batch, func(name string, shape shapes.Shape) *Node {
		if name == "x" {
			return Parameter(t.g, "layer/0", shape)
		}
		inputs := l.data.inputs()
		k := slices.IndexFunc(inputs, func(a setArray) bool { return a.input() == name })
		return Parameter(t.g, inputs[k].name, shape)
	})
	if narrow {
		in = t.rounded(in)
	}
	return in
}

// build builds the layer and its gradients: of its weights, and of its input if wanted. from
// is where the gradients begin. derive is false where only what they need is wanted.
func (l *layerWriter) build(t *trace, input, derive bool) (y *Node, names []string, gradients []*Node, from NodeId) {
	n := l.net
	in := l.inputs(t, true)
	t.store.SetTraining(t.g, true)
	var wrt []*Node
	for _, k := range l.used {
		v := n.layout.variables[k]
		w := t.variable(v).NodeValue(t.g)
		if v.trainable {
			names, wrt = append(names, "gradient/"+v.name), append(wrt, w)
		}
		if n.config.narrows() && (v.trainable || v.frozen && v.weight) {
			t.variable(v).SetNodeValue(ConvertDType(w, n.config.float()))
		}
	}
	y = l.model.LayerOf(l.index, l.name, t.store.RootScope(), in, t.mark)
	if l.last {
		y = t.float(y)
	}
	l.output = y.Shape()
	if input {
		names, wrt = append(names, "up/"+itoa(l.index)), append(wrt, in["x"])
	}
	from = NodeId(len(t.g.Nodes()))
	if len(wrt) > 0 {
		none := Zeros(t.g, l.output)
		var up *Node // one node either way: both graphs must number alike
		if !derive {
			up = Identity(none)
		} else {
			up = Parameter(t.g, "up/"+itoa(l.index+1), l.output)
		}
		gradients = gradient.Final(ReduceAllSum(Mul(y, up)), wrt...)
	}
	return y, names, gradients, from
}

// extractAs is extract whose parameters have a prefix before their names.
func (t *trace) extractAs(prefix string, from NodeId, outputs []*Node) []*Node {
	t.prefix = prefix
	return t.extract(from, outputs)
}
