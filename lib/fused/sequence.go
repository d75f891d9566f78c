package fused

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// SequencePlan is a training step of a small net for sequences, with the mean
// squared error: a Dense layer, an LSTM and a Dense layer, none with an
// activation of its own. It is two kernels: kernels.Sequence, and the update.
type SequencePlan struct {
	layers [3]string
	sizes  kernels.Sequence // without examples and batch
}

// NewSequencePlan finds the layers of a net, for batches of so many examples.
// Its error says why there is no plan.
func NewSequencePlan(net models.Net, batch int) (*SequencePlan, error) {
	refuse := func(why string) (*SequencePlan, error) {
		return nil, fmt.Errorf("fused: %s: no plan for its sequences: %s", net.Name, why)
	}
	if len(net.Layers) != 3 || len(net.Input) != 2 {
		return refuse("want an input of [length numbers], and a Dense layer, an LSTM and a Dense layer")
	}
	first, is1 := net.Layers[0].(models.Dense)
	lstm, is2 := net.Layers[1].(models.LSTM)
	last, is3 := net.Layers[2].(models.Dense)
	if !is1 || !is2 || !is3 || first.NoBias || last.NoBias || first.Act != nil || last.Act != nil || lstm.Stateful > 0 {
		return refuse("want a Dense layer, an LSTM that carries no state on and a Dense layer, with biases and without activations")
	}
	p := &SequencePlan{layers: [3]string(net.Names()),
		sizes: kernels.Sequence{Batch: batch, Length: net.Input[0], In: net.Input[1], Wide: first.Units, Units: lstm.Units, Out: last.Units}}
	if !p.sizes.Fits() {
		return refuse(fmt.Sprintf("%d units and batches of %d are too many for one kernel", lstm.Units, batch))
	}
	return p, nil
}

// String lists the layers.
func (p *SequencePlan) String() string {
	return fmt.Sprintf("%s, %s, %s and the loss: one kernel, both ways\n", p.layers[0], p.layers[1], p.layers[2])
}

// sequenceWeights are the arrays, in the kernel's order, and whether biases are
// after each.
var sequenceWeights = []struct {
	layer   int
	weights string
	bias    bool
}{{0, "weights", true}, {1, "weights", true}, {1, "recurrent", false}, {2, "weights", true}}

func (p *SequencePlan) groups() (groups [][]string) {
	for _, g := range sequenceWeights {
		group := []string{p.layers[g.layer] + "/" + g.weights}
		if g.bias {
			group = append(group, p.layers[g.layer]+"/biases")
		}
		groups = append(groups, group)
	}
	return groups
}

// Train writes a step as Plan.Train does. X, Labels and T of the step are not
// looked at: the batch is number at of the source.
func (p *SequencePlan) Train(s Step, source Source, at *Node) (state map[string][]*Node, row *Node) {
	l := p.sizes
	l.Examples = source.X.Shape().Dimensions[0]
	if l.Batch != source.Batch {
		panic(fmt.Errorf("fused: SequencePlan: got a batch of %d, want %d", source.Batch, l.Batch))
	}
	w := whole{label: "sequence/both ways", batch: l.Batch, groups: p.groups(), op: l}
	w.plain = func(source Source, weights [][]*Node, at *Node) (loss, number *Node) {
		return p.plain(l, source, weights, at)
	}
	source.X, source.Labels = Reshape(source.X, l.Examples, l.Length*l.In), Reshape(source.Labels, l.Examples, l.Length*l.Out)
	return w.train(s, source, at)
}

// plain is the way forward in GoMLX's ops: losses, and the number of the step.
func (p *SequencePlan) plain(l kernels.Sequence, source Source, weights [][]*Node, at *Node) (loss, number *Node) {
	index, number := source.index(at)
	dense := func(x *Node, in, out int, layer []*Node) *Node {
		x = MatMul(Reshape(x, l.Length*l.Batch, in), layer[0])
		if len(layer) > 1 {
			x = Add(x, ExpandLeftToRank(layer[1], 2))
		}
		return Reshape(x, l.Length, l.Batch, out)
	}
	a := TransposeAllAxes(Reshape(Gather(source.X, index), l.Batch, l.Length, l.In), 1, 0, 2)
	a = dense(a, l.In, l.Wide, weights[0])
	a = dense(a, l.Wide, 4*l.Units, weights[1])
	a = Ops{}.LSTM(a, weights[2][0])
	a = TransposeAllAxes(dense(a, l.Units, l.Out, weights[3]), 1, 0, 2)
	d := Square(Sub(Reshape(a, l.Batch, l.Length*l.Out), Gather(source.Labels, index)))
	return ReduceMean(d, 1), number
}
