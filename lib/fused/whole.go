package fused

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// Whole is a plan of two kernels: one goes both ways through all of a small net,
// and takes its batch from the examples itself; the other is the update.
type Whole interface {
	// Train writes a step as Plan.Train does. X, Labels and T of the step are not
	// looked at: the batch is number at of the source.
	Train(s Step, source Source, at *Node) (state map[string][]*Node, row *Node)
	String() string
}

// NewWhole finds the plan of a net with the mean squared error, for batches of so
// many examples, a SequencePlan or a StackPlan. Its error says why there is none.
func NewWhole(net models.Net, batch int) (Whole, error) {
	var p Whole
	var err error
	if len(net.Input) == 1 {
		p, err = NewStackPlan(net, batch)
	} else {
		p, err = NewSequencePlan(net, batch)
	}
	if err != nil {
		return nil, err
	}
	return p, nil
}

// WholeOf is the plan whose first kernel is op, a kernels.Sequence or a kernels.Stack, and
// the names of its weights in the kernel's order. It is for who tries op's tilings.
func WholeOf(op kernels.Op) (w Whole, weights []string) {
	switch op := op.(type) {
	case kernels.Sequence:
		p := &SequencePlan{layers: [3]string{"1", "2", "3"}, sizes: op}
		return p, slices.Concat(p.groups()...)
	case kernels.Stack:
		p := &StackPlan{sizes: op, Rounding: op.Rounding}
		for i := range op.Units {
			p.layers = append(p.layers, fmt.Sprint(i+1))
		}
		return p, slices.Concat(p.groups()...)
	}
	panic(fmt.Errorf("fused: WholeOf: got a %T, want a kernels.Sequence or a kernels.Stack", op))
}

// whole is a step of a Whole.
type whole struct {
	label  string
	batch  int
	groups [][]string // names of each matrix, and of the biases after it if it has some, in the kernel's order
	// op's kernel gets order, place, step, at, x and y of a source, and the groups; it
	// gives parts of the loss, of the hits, the number of the step, and parts of
	// the gradients of each group. Where no tiling of it is as fast as the plain form, the
	// step is that. The net's own step without any kernel is not tried here: package fit
	// compares it with the whole step.
	op wholeOp
	// plain is the way forward in GoMLX's ops: the loss of each example, and the
	// number of the step.
	plain func(source Source, weights [][]*Node, at *Node) (loss, number *Node)
}

type wholeOp interface {
	kernels.Op
	Kernel() triton.Kernel
}

func (w whole) train(s Step, source Source, at *Node) (state map[string][]*Node, row *Node) {
	var states [][][]*Node // of each group and name, weights and moments
	var weights [][]*Node
	for i, names := range w.groups {
		states, weights = append(states, nil), append(weights, nil)
		for _, name := range names {
			state := s.State(name)
			states[i], weights[i] = append(states[i], state), append(weights[i], state[0])
		}
	}
	if s.Mark != nil {
		s.Mark(w.label)
	}
	u := &updates{step: s, state: map[string][]*Node{}}
	all := slices.Concat(weights...)
	op, is := choose(s.Ops, w.op)
	if !is {
		loss, number := w.plain(source, weights, at)
		gradients := Gradient(ReduceAllMean(loss), all...)
		for i, name := range slices.Concat(w.groups...) {
			u.state[name] = gomlx.Update(s.Rule, s.Rate, number, s.State(name), gradients[i])
		}
		return u.state, u.all(loss, ZerosLike(loss), w.batch)
	}
	out := s.Ops.call(op.Kernel(), append([]*Node{source.Order, source.Place, source.Step, at, source.X, source.Labels}, all...)...)
	u.step.T = out[2]
	if s.Mark != nil {
		s.Mark(s.Rule.Name() + "/update")
	}
	for i, names := range w.groups {
		var bias []*Node
		if len(names) > 1 {
			bias = states[i][1]
		}
		u.parts(names, out[3+i], states[i][0], bias)
	}
	return u.state, u.all(out[0], out[1], w.batch)
}
