package fused

import (
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// StackPlan is a training step of a small stack of dense layers, with the mean
// squared error. It is two kernels: kernels.Stack, and the update.
type StackPlan struct {
	Rounding triton.Rounding // of the kernel's factors

	layers []string
	sizes  kernels.Stack // without examples and rounding
}

// NewStackPlan finds the layers of a net, for batches of so many examples. Its
// error says why there is no plan.
func NewStackPlan(net models.Net, batch int) (*StackPlan, error) {
	refuse := func(format string, args ...any) (*StackPlan, error) {
		return nil, fmt.Errorf("fused: %s: no plan for its stack: %s", net.Name, fmt.Sprintf(format, args...))
	}
	if len(net.Input) != 1 {
		return refuse("got an input of %v, want one of [numbers]", net.Input)
	}
	p := &StackPlan{layers: net.Names(), sizes: kernels.Stack{Batch: batch, In: net.Input[0]}}
	for i, layer := range net.Layers {
		l, is := layer.(models.Dense)
		if !is || l.NoBias {
			return refuse("layer %s: want Dense layers with biases, and no others", p.layers[i])
		}
		act, known := l.Act.Activation()
		if !known {
			return refuse("layer %s: its activation has no kernel", p.layers[i])
		}
		p.sizes.Units, p.sizes.Acts = append(p.sizes.Units, l.Units), append(p.sizes.Acts, act)
	}
	if !p.sizes.Fits() {
		return refuse("%d numbers and layers of %v units are too many for one kernel", p.sizes.In, p.sizes.Units)
	}
	return p, nil
}

// String lists the layers.
func (p *StackPlan) String() string {
	return strings.Join(p.layers, ", ") + " and the loss: one kernel, both ways\n"
}

func (p *StackPlan) groups() (groups [][]string) {
	for _, name := range p.layers {
		groups = append(groups, []string{name + "/weights", name + "/biases"})
	}
	return groups
}

// Train writes a step as Plan.Train does. X, Labels and T of the step are not
// looked at: the batch is number at of the source.
func (p *StackPlan) Train(s Step, source Source, at *Node) (state map[string][]*Node, row *Node) {
	l := p.sizes
	l.Rounding, l.Examples = p.Rounding, source.X.Shape().Dimensions[0]
	if l.Batch != source.Batch {
		panic(fmt.Errorf("fused: StackPlan: got a batch of %d, want %d", source.Batch, l.Batch))
	}
	w := whole{label: "layers/both ways", batch: l.Batch, groups: p.groups(), op: l}
	w.plain = func(source Source, weights [][]*Node, at *Node) (loss, number *Node) {
		return p.plain(l, source, weights, at)
	}
	source.X, source.Labels = Reshape(source.X, l.Examples, l.In), Reshape(source.Labels, l.Examples, l.Units[len(l.Units)-1])
	return w.train(s, source, at)
}

// plain is the way forward in GoMLX's ops: losses, and the number of the step.
func (p *StackPlan) plain(l kernels.Stack, source Source, weights [][]*Node, at *Node) (loss, number *Node) {
	index, number := source.index(at)
	x, y := source.X, source.Labels
	if l.Batch < l.Examples { // else they are taken as they lie
		x, y = Gather(x, index), Gather(y, index)
	}
	for i, layer := range weights {
		x = activate(l.Acts[i], Add(MatMul(x, layer[0]), ExpandLeftToRank(layer[1], 2)))
	}
	return ReduceMean(Square(Sub(x, y)), 1), number
}
