package fit

import (
	"context"
	"errors"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// LayerPhases are the programs of one layer.
type LayerPhases struct {
	Name    string
	Forward *Phase
	// Backward derives the gradients of the layer's weights and, unless no
	// layer before it has any, of its input; nil where there is nothing to
	// derive.
	Backward *Phase

	input, output shapes.Shape
}

// Layers makes programs of each layer by itself, and runs them once on the
// batch, so that each can be repeated and timed. The sum of them is more than
// the whole: XLA joins across layers, and these read and write everything
// between them.
func (p *Phases) Layers(ctx context.Context) ([]*LayerPhases, error) {
	p.net.mu.Lock()
	defer p.net.mu.Unlock()
	if p.layers != nil {
		return p.layers, nil
	}
	if p.at == 0 {
		if err := p.Next(); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(p.Forward(), p.Loss()); err != nil {
		return nil, err
	}
	n := p.net
	var all []*LayerPhases
	kind := shapes.Make(dtypes.Float32, append([]int{p.Batch}, n.model.Input...)...)
	if n.config.BF16 {
		kind.DType = dtypes.BFloat16
	}
	trained := false
	for i, name := range n.model.Names() {
		l := &LayerPhases{Name: name, input: kind}
		var err error
		into := "layer/" + itoa(i)
		l.Forward, err = p.phase(name+"/forward", func(t *trace) ([]string, []*Node) {
			y, _, gradients, from := p.layer(t, i, name, l, trained, false)
			names, nodes := []string{"layer/" + itoa(i+1)}, []*Node{y}
			for _, r := range t.residuals(from, gradients) {
				names, nodes = append(names, into+residual(r)), append(nodes, r)
			}
			return names, nodes
		})
		if err != nil {
			return nil, err
		}
		own := false
		l.Backward, err = p.phase(name+"/backward", func(t *trace) ([]string, []*Node) {
			_, names, gradients, from := p.layer(t, i, name, l, trained, true)
			own = len(names) > 0
			if !own {
				return []string{"nothing"}, []*Node{t.scalar(float32(0))}
			}
			return names, t.cutAs(into, from, gradients)
		})
		if err != nil {
			return nil, err
		}
		if !own {
			l.Backward = nil
		}
		trained = trained || own
		kind = l.output
		all = append(all, l)
	}
	if n.config.BF16 {
		return nil, fmt.Errorf("fit: %s: layers by themselves: not with BF16", n.name)
	}
	seed, err := p.phase("loss/backward", func(t *trace) ([]string, []*Node) {
		w := p.whole(t)
		from := NodeId(len(t.g.Nodes()))
		g := Gradient(w.loss, w.out)
		return []string{"up/" + itoa(len(all))}, t.cut(min(from, w.score), g)
	})
	if err != nil {
		return nil, err
	}
	programs := []*Phase{seed}
	for _, l := range all {
		programs = append(programs, l.Forward)
		if l.Backward != nil {
			programs = append(programs, l.Backward)
		}
	}
	if err := p.wait(ctx, programs...); err != nil {
		return nil, err
	}
	if err := p.once(seed, all); err != nil {
		return nil, err
	}
	p.layers = all
	return all, nil
}

// once runs all layers, forwards and backwards, so that each has what it needs.
// seed makes the gradient that the last of them gets.
func (p *Phases) once(seed *Phase, all []*LayerPhases) error {
	p.space["layer/0"] = p.space["x"]
	for _, l := range all {
		if err := l.Forward.Run(); err != nil {
			return err
		}
	}
	if err := seed.Run(); err != nil {
		return err
	}
	for i := len(all) - 1; i >= 0; i-- {
		if all[i].Backward == nil {
			break
		}
		if err := all[i].Backward.Run(); err != nil {
			return err
		}
	}
	return nil
}

// layer builds layer i and its gradients: of its weights, and of its input if
// wanted. from is where the gradients begin. derive is false where only what
// they need is asked for.
func (p *Phases) layer(t *trace, i int, name string, l *LayerPhases, input, derive bool) (y *Node, names []string, gradients []*Node, from NodeId) {
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

// cutAs is cut with names of its own for what is kept.
func (t *trace) cutAs(prefix string, from NodeId, outputs []*Node) []*Node {
	t.prefix = prefix
	return t.cut(from, outputs)
}
