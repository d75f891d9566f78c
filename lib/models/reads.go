package models

import (
	"errors"
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// readsOf are the nodes from before one that others are made of, and that may have a gradient:
// floats that are made of trained variables or of parameters that are no variables. It does not look behind own.
func readsOf(scope *model.Scope, made, own []*Node, from NodeId) (all []*Node) {
	g, seen, trained := made[0].Graph(), map[*Node]bool{}, map[*Node]bool{}
	for v := range scope.Store().IterVariables() {
		if v.InUseByGraph(g) {
			trained[v.NodeValue(g)] = v.Trainable
		}
	}
	root := func(x *Node) bool {
		if yes, is := trained[x]; is {
			return yes
		}
		return x.Type() == NodeTypeParameter
	}
	var visit func(x *Node)
	visit = func(x *Node) {
		switch {
		case seen[x] || slices.Contains(own, x) || stopped(x):
		case x.Id() < from || x.Type() == NodeTypeParameter:
			if reaches(x, root) {
				all = append(all, x)
			}
		default:
			for _, in := range x.Inputs() {
				visit(in)
			}
		}
		seen[x] = true
	}
	for _, x := range made {
		visit(x)
	}
	return all
}

// stopped says whether no gradient goes through a node.
func stopped(x *Node) bool { return x.StopGradient() || x.NumOutputs() == 1 && !x.DType().IsFloat() }

// reaches says whether a node is, or is made of, one that is looked for, along a way that a gradient
// goes.
func reaches(x *Node, is func(*Node) bool) bool {
	seen := map[*Node]bool{}
	var visit func(x *Node) bool
	visit = func(x *Node) bool {
		if seen[x] || stopped(x) {
			return false
		}
		seen[x] = true
		return is(x) || slices.ContainsFunc(x.Inputs(), visit)
	}
	return visit(x)
}

// apart panics where some nodes that a cell reads are made of others of them: the gradient of
// those would count twice.
func apart(reads []*Node) {
	for _, x := range reads {
		if slices.ContainsFunc(x.Inputs(), func(in *Node) bool {
			return reaches(in, func(x *Node) bool { return slices.Contains(reads, x) })
		}) {
			panic(fmt.Errorf("the cell reads %s from outside, and also what that is made of: want one of them, such as both joined by Concatenate and sliced in the cell, or StopGradient of what needs no gradient", x.Shape()))
		}
	}
}

// unchanging calls what a cell does, which is to have no effect but its results: it is written
// several times.
func unchanging(scope *model.Scope, g *Graph, cell func()) {
	values := func() map[string]*Node {
		all := map[string]*Node{}
		for v := range scope.Store().IterVariables() {
			if v.InUseByGraph(g) {
				all[v.Path()] = v.NodeValue(g)
			}
		}
		return all
	}
	before, added := values(), AddedLoss(g)
	cell()
	if AddedLoss(g) != added {
		panic(errors.New("the cell adds to the loss (models.AddLoss): want that of what the layer returns, after it"))
	}
	for path, x := range values() {
		switch old, is := before[path]; {
		case !is || old == x:
		case path == "/"+model.RNGStateVariableName:
			panic(errors.New("the cell draws random numbers, as Dropout does: want them drawn before, as a part of x, or Dropout before or after the layer"))
		default:
			panic(fmt.Errorf("the cell changes the variable %s, as BatchNorm does: want it as a State, or LayerNorm", path))
		}
	}
}
