package fused

import (
	"fmt"
	"slices"

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

// weights are the names of the arrays, in the kernel's order, and whether each
// is a matrix and the biases after it.
var sequenceWeights = []struct {
	layer   int
	weights string
	bias    bool
}{{0, "weights", true}, {1, "weights", true}, {1, "recurrent", false}, {2, "weights", true}}

// Train writes a step as Plan.Train does. X, Labels and T of the step are not
// looked at: the batch is number at of the source.
func (p *SequencePlan) Train(s Step, source Source, at *Node) (state map[string][]*Node, row *Node) {
	l := p.sizes
	l.Examples = source.X.Shape().Dimensions[0]
	if l.Batch != source.Batch {
		panic(fmt.Errorf("fused: SequencePlan: got a batch of %d, want %d", source.Batch, l.Batch))
	}
	x, y := Reshape(source.X, l.Examples, l.Length*l.In), Reshape(source.Labels, l.Examples, l.Length*l.Out)
	var names [][]string
	var states [][][]*Node
	for _, w := range sequenceWeights {
		group := []string{p.layers[w.layer] + "/" + w.weights}
		if w.bias {
			group = append(group, p.layers[w.layer]+"/biases")
		}
		names = append(names, group)
		var each [][]*Node
		for _, name := range group {
			each = append(each, s.State(name))
		}
		states = append(states, each)
	}
	if s.Mark != nil {
		s.Mark("sequence/both ways")
	}
	u := &updates{step: s, state: map[string][]*Node{}}
	if s.Ops.Plain || s.Ops.Builder == nil {
		loss, gradients, number := p.plain(l, source, x, y, states, at)
		for i, group := range names {
			for k, name := range group {
				u.state[name] = Update(s.Rule, s.Rate, number, states[i][k], gradients[i][k])
			}
		}
		return u.state, u.all(loss, ZerosLike(loss))
	}
	in := []*Node{source.Order, source.Place, source.Step, at, x, y}
	for _, i := range []int{0, 1, 2, 3} {
		for _, w := range states[i] {
			in = append(in, w[0])
		}
	}
	out := s.Ops.call(l.Kernel(), in...)
	u.step.T = out[2]
	if s.Mark != nil {
		s.Mark(s.Rule.Name() + "/update")
	}
	for i, group := range names {
		u.add(kernels.PartsUpdate{Parts: l.Parts(), Weights: states[i][0][0].Shape(), NoBias: len(group) == 1}, group,
			append([]*Node{out[3+i]}, slices.Concat(states[i]...)...))
	}
	return u.state, u.all(out[0], out[1])
}

// plain is the kernel in GoMLX's ops: losses, the gradients of each group, and
// the number of the step.
func (p *SequencePlan) plain(l kernels.Sequence, source Source, x, y *Node, states [][][]*Node, at *Node) (loss *Node, gradients [][]*Node, number *Node) {
	index, number := source.index(at)
	dense := func(x *Node, in, out int, layer [][]*Node) *Node {
		x = MatMul(Reshape(x, l.Length*l.Batch, in), layer[0][0])
		if len(layer) > 1 {
			x = Add(x, ExpandLeftToRank(layer[1][0], 2))
		}
		return Reshape(x, l.Length, l.Batch, out)
	}
	a := TransposeAllAxes(Reshape(Gather(x, index), l.Batch, l.Length, l.In), 1, 0, 2)
	a = dense(a, l.In, l.Wide, states[0])
	a = dense(a, l.Wide, 4*l.Units, states[1])
	a = Ops{}.LSTM(a, states[2][0][0])
	a = TransposeAllAxes(dense(a, l.Units, l.Out, states[3]), 1, 0, 2)
	d := Square(Sub(Reshape(a, l.Batch, l.Length*l.Out), Gather(y, index)))
	loss = ReduceMean(d, 1)
	var wrt []*Node
	for _, group := range states {
		for _, w := range group {
			wrt = append(wrt, w[0])
		}
	}
	all := Gradient(ReduceAllMean(loss), wrt...)
	for _, group := range states {
		gradients, all = append(gradients, all[:len(group)]), all[len(group):]
	}
	return loss, gradients, number
}
