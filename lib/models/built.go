package models

import (
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Built is a layer as a net has built it.
type Built struct {
	Layer   Layer
	Scope   string   // of its variables, such as block/0/attention
	In, Out []int    // without the batch
	Inner   []*Built // layers that it has applied, in that order
}

const builtParam = "/gaiden/built"

// note adds a layer, which build builds of x, to those that the one around it has applied.
func note(layer Layer, scope string, x *Node, build func() *Node) *Node {
	if x == nil {
		return build()
	}
	found, _ := model.GetGraphParam(x.Graph(), builtParam)
	around, _ := found.(*Built)
	if around == nil {
		return build()
	}
	b := &Built{Layer: layer, Scope: strings.TrimLeft(scope, "/"), In: example(x)}
	around.Inner = append(around.Inner, b)
	model.SetGraphParam(x.Graph(), builtParam, b)
	defer model.SetGraphParam(x.Graph(), builtParam, around)
	y := build()
	b.Out = example(y)
	return y
}

// example is the dimensions of one example of a batch.
func example(x *Node) []int {
	if x.IsScalar() {
		return nil
	}
	return slices.Clone(x.Shape().Dimensions[1:])
}
