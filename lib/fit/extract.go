package fit

import (
	"sort"

	. "github.com/gomlx/gomlx/core/graph"
)

// extract makes the nodes from number from on a program of their own, whose outputs
// are those given: what they take from earlier nodes becomes parameters, named
// after the nodes. A graph is built the same way each time, so another program
// extracted from it knows the same nodes by the same names.
func (t *trace) extract(from NodeId, outputs []*Node) []*Node {
	nodes := t.g.Nodes()
	labels := append([]mark(nil), t.marks...)
	copies := map[NodeId]*Node{}
	var clone func(n *Node) *Node
	clone = func(n *Node) *Node {
		if c := copies[n.Id()]; c != nil {
			return c
		}
		var c *Node
		switch {
		case n.Type() == NodeTypeParameter || n.Type() == NodeTypeConstant:
			c = n
		case defNode(n) < from && !recomputable(n) && !n.IsConstantExpression():
			c = Parameter(t.g, t.prefix+keptName(n), n.Shape())
		default:
			inputs := make([]*Node, len(n.Inputs()))
			for i, in := range n.Inputs() {
				inputs[i] = clone(in)
			}
			t.w.HLO.SetLabel(labelOf(labels, n.Id()))
			if write := t.w.calls[n]; write != nil {
				t.w.HLO.ReplaceNext(write)
			}
			c = n.CloneWithInputs(inputs...)
		}
		copies[n.Id()] = c
		return c
	}
	// The order of the nodes is the order of the program; clone alone would
	// follow the outputs.
	needed := map[NodeId]bool{}
	for i := len(nodes) - 1; i >= int(from); i-- {
		n := nodes[i]
		for _, o := range outputs {
			if o == n {
				needed[n.Id()] = true
			}
		}
		if needed[n.Id()] {
			for _, in := range n.Inputs() {
				needed[in.Id()] = true
			}
		}
	}
	for i := int(from); i < len(nodes); i++ {
		if needed[NodeId(i)] {
			clone(nodes[i])
		}
	}
	out := make([]*Node, len(outputs))
	for i, o := range outputs {
		out[i] = clone(o)
	}
	return out
}

// residuals are the earlier nodes that extract at from, with these outputs, makes
// parameters.
func (t *trace) residuals(from NodeId, outputs []*Node) []*Node {
	seen := map[NodeId]bool{}
	var l []*Node
	var visit func(n *Node)
	visit = func(n *Node) {
		if seen[n.Id()] || n.Type() == NodeTypeParameter {
			return
		}
		seen[n.Id()] = true
		if defNode(n) < from && !recomputable(n) && !n.IsConstantExpression() {
			l = append(l, n)
			return
		}
		for _, in := range n.Inputs() {
			visit(in)
		}
	}
	for _, o := range outputs {
		visit(o)
	}
	sort.Slice(l, func(i, k int) bool { return l[i].Id() < l[k].Id() })
	return l
}

// defNode is where a node's op stands: results of an op with several may be taken
// out of it later.
func defNode(n *Node) NodeId { return opOf(n).Id() }

// opOf is the node of an op, which may have several results.
func opOf(n *Node) *Node {
	if n.Type() == NodeTypeSplitNode {
		return n.Inputs()[0]
	}
	return n
}

// recomputable says whether an op is better done twice than kept.
func recomputable(n *Node) bool {
	switch n.Type() {
	case NodeTypeReshape, NodeTypeBroadcastInDim, NodeTypeIdentity:
		return true
	}
	return false
}

func keptName(n *Node) string { return "kept/" + itoa(int(n.Id())) }

// labelOf is the label of a node.
func labelOf(marks []mark, id NodeId) string {
	label := ""
	for _, m := range marks {
		if m.from > id {
			break
		}
		label = m.label
	}
	return label
}
