package models

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Dense is x·weights + biases, on the last axis of x.
type Dense struct {
	Name     string
	Units    int
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [inputs units]; default: Glorot
	BiasInit Init // of the biases, [units]; default: 0
}

// Title names the layer.
func (l Dense) Title() (name, kind string) { return l.Name, "Dense" }

// Apply takes x shaped [… inputs] and returns [… units].
func (l Dense) Apply(scope *model.Scope, x *Node) *Node {
	if l.Units < 1 || x.Rank() < 2 {
		panic(fmt.Errorf("dense with %d units: want an input of rank 2 or more, and a unit", l.Units))
	}
	g, d := x.Graph(), x.Shape().Dimensions
	in := d[len(d)-1]
	rows := x
	if len(d) > 2 {
		rows = Reshape(x, x.Shape().Size()/in, in)
	}
	y := MatMul(rows, variable(scope, g, "weights", l.Init, Glorot, in, l.Units))
	if !l.NoBias {
		y = Add(y, ExpandLeftToRank(variable(scope, g, "biases", l.BiasInit, Fill(0), l.Units), 2))
	}
	if y = l.Act.of(y); len(d) == 2 {
		return y
	}
	return Reshape(y, append(append([]int{}, d[:len(d)-1]...), l.Units)...)
}

// Flatten makes each example a vector.
type Flatten struct{ Name string }

// Title names the layer.
func (l Flatten) Title() (name, kind string) { return l.Name, "Flatten" }

// Apply takes x shaped [n …] and returns [n size].
func (Flatten) Apply(_ *model.Scope, x *Node) *Node {
	n := x.Shape().Dimensions[0]
	if x.Rank() == 2 {
		return x
	}
	return Reshape(x, n, x.Shape().Size()/n)
}
