package fused

import (
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
)

// updates gathers the updates of a step, so that one kernel does them all.
type updates struct {
	step    Step
	state   map[string][]*Node // what is done
	members []kernels.Member
	inputs  [][]*Node  // of each member, with its states
	names   [][]string // of each member's states
	after   []*Node    // who reads the old weights
}

// linear updates a dense layer.
func (u *updates) linear(q part, x, g *Node) {
	s, o := u.step, u.step.Ops
	n, in, out := x.Shape().Dimensions[0], x.Shape().Dimensions[1], g.Shape().Dimensions[1]
	w, b := s.weights(q), q.biasState(s)
	op, is := choose(o, kernels.LinearUpdate{Batch: n, In: in, Out: out, X: x.DType(), G: g.DType(), Compute: o.Compute, NoBias: b == nil, Rule: s.Rule})
	names := []string{q.name + "/weights"}
	if b != nil {
		names = append(names, q.name+"/biases")
	}
	if !is {
		plain := Ops{Compute: o.Compute}
		w, b = plain.LinearUpdate(x, g, w, b, s.Rule, s.Rate, s.T)
		u.done(names, append(w, b...))
		return
	}
	u.add(op, names, append(append([]*Node{x, g}, w...), b...))
}

func (u *updates) conv(q part, x, d, winner *Node) {
	s, o := u.step, u.step.Ops
	names := []string{q.name + "/weights", q.name + "/biases"}
	w, b := s.State(names[0]), s.State(names[1])
	parts := o.convParts(q.convolution(), x, d, winner, w[0])
	if parts == nil {
		plain := Ops{Compute: o.Compute}
		w, b = plain.ConvUpdate(q.convolution(), x, d, winner, w, b, s.Rule, s.Rate, s.T)
		u.done(names, append(w, b...))
		return
	}
	op, is := choose(o, partsUpdate(parts, w[0], s.Rule))
	if !is {
		plain := Ops{Compute: o.Compute}
		w, b = plain.PartsUpdate(parts, w, b, s.Rule, s.Rate, s.T)
		u.done(names, slices.Concat(w, b))
		return
	}
	u.add(op, names, slices.Concat([]*Node{parts}, w, b))
}

func (u *updates) add(m kernels.Member, names []string, inputs []*Node) {
	u.members, u.names, u.inputs = append(u.members, m), append(u.names, names), append(u.inputs, inputs)
}

// done takes the states of names, one after the other.
func (u *updates) done(names []string, states []*Node) {
	each := 1 + u.step.Rule.Moments()
	for i, name := range names {
		l := slices.Clone(states[i*each : (i+1)*each])
		for k, old := range u.step.State(name) {
			l[k] = Reshape(l[k], old.Shape().Dimensions...)
		}
		u.state[name] = l
	}
}

// all writes the kernel, and the row of the journal: loss and hit are of each example; hit may
// be nil.
func (u *updates) all(loss, hit *Node) {
	s, n := u.step, loss.Shape().Dimensions[0]
	if len(u.members) == 0 {
		weight := Const(loss.Graph(), float32(n))
		right := ZerosLike(weight)
		if hit != nil {
			right = ReduceAllSum(hit)
		}
		s.Journal.write(Reshape(Stack([]*Node{Div(ReduceAllSum(loss), weight), weight, right}, 0), 1, 3))
		return
	}
	row := []*Node{loss}
	if hit != nil {
		row = append(row, hit)
	}
	u.add(kernels.Tally{Batch: n, Rows: s.Journal.Rows.Shape().Dimensions[0], NoHits: hit == nil}, nil, append(row, s.Journal.Rows, s.Journal.At))
	g := kernels.Group{Members: u.members, Rule: s.Rule}
	var in []*Node
	for _, l := range u.inputs {
		in = append(in, l...)
	}
	in = append(in, s.Rate, s.T)
	for _, a := range u.after {
		g.After = append(g.After, shapes.Make(a.DType(), a.Shape().Dimensions...))
	}
	out := s.Ops.call(g.Kernel(), append(in, u.after...)...)
	for _, names := range u.names {
		u.done(names, out)
		out = out[len(names)*(1+s.Rule.Moments()):]
	}
	s.Journal.Rows, s.Journal.At = out[0], out[1]
}
