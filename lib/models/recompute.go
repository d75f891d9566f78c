package models

import (
	"errors"
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// recomputed is what a layer returns for x, of which only x is kept for the backward pass,
// which applies the layer once more (Chen et al., 2016, "Training deep nets with sublinear
// memory cost"), with the same random numbers, as torch.utils.checkpoint does.
func recomputed(layer Layer, scope *model.Scope, x *Node) *Node {
	g := x.Graph()
	values := func() values {
		all := valuesOf(scope, g)
		if v := scope.Store().GetVariable("/" + model.RNGStateVariableName); v != nil {
			all[v] = v.NodeValue(g)
		}
		return all
	}
	added, before, from := AddedLoss(g), values(), g.LastNode().Id()+1
	y, _ := apply(layer, scope, x, nil)
	if AddedLoss(g) != added {
		panic(errors.New("Recompute of a layer that adds to the loss (models.AddLoss), which would count twice: want Recompute false"))
	}
	var weights []*model.Variable
	wrt := []*Node{x}
	for v := range scope.IterVariables() {
		if v.DType().IsFloat() && v.Trainable {
			weights, wrt = append(weights, v), append(wrt, v.NodeValue(g))
		}
	}
	alone := func(y *Node, own []*Node, from NodeId, may func(*Node) bool) {
		for _, outer := range readsOf(scope, []*Node{y}, own, from) {
			if !slices.Contains(wrt, outer) && !may(outer) {
				panic(fmt.Errorf("Recompute of a layer that reads %s from outside, which would get no gradient: want Recompute false, or StopGradient of what needs none", outer.Shape()))
			}
		}
	}
	// A kernel may read what x is made of in place of x. Where the layer itself does, the second time shows it.
	alone(y, wrt[:1], from, func(outer *Node) bool { return reaches(x, func(n *Node) bool { return n == outer }) })
	return gradient.Define(StopGradient(y), wrt, func(arrived *Node) []*Node {
		stop, barrier := StopGradient, func(x *Node) *Node { return SchedulingBarrier(x, arrived) }
		if gradient.Again(g) {
			stop, barrier = Identity, Identity
		}
		after := values()
		before.set()
		again := make([]*Node, len(wrt))
		for i, x := range wrt {
			again[i] = Identity(stop(x))
		}
		// Not before the gradient is there: else XLA would take what the forward pass has computed.
		again[0] = HandMask(x, Identity(stop(barrier(x))))
		for i, v := range weights {
			v.SetNodeValue(again[1+i])
		}
		if v := scope.Store().GetVariable("/" + model.RNGStateVariableName); v != nil {
			v.SetNodeValue(barrier(before[v]))
		}
		from := g.LastNode().Id() + 1
		y, _ := apply(layer, scope.ResetVisited(), again[0], nil)
		alone(y, again, from, func(*Node) bool { return false })
		after.set()
		return Gradient(ReduceAllSum(Mul(y, stop(arrived))), again...)
	})
}

// values are those of variables in a graph.
type values map[*model.Variable]*Node

func valuesOf(scope *model.Scope, g *Graph) values {
	all := values{}
	for v := range scope.IterVariables() {
		all[v] = v.NodeValue(g)
	}
	return all
}

func (all values) set() {
	for v, x := range all {
		v.SetNodeValue(x)
	}
}
