package models

import (
	"reflect"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Act is an activation: a function of each element, such as ReLU, or GoMLX's
// graph.Sigmoid and graph.Tanh. nil is the identity.
type Act func(x *Node) *Node

// ReLU is max(x, 0). Its gradient at 0 is 0, as in PyTorch; NaN stays NaN.
func ReLU(x *Node) *Node {
	zero := ScalarZero(x.Graph(), x.DType())
	return Where(LessOrEqual(x, zero), ZerosLike(x), x)
}

func (a Act) of(x *Node) *Node {
	if a == nil {
		return x
	}
	return a(x)
}

// Is says whether both are one function, or both nil.
func (a Act) Is(b Act) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }

// known says whether it is surely a function of each element.
func (a Act) known() bool { return slices.ContainsFunc([]Act{nil, ReLU, Sigmoid, Tanh}, a.Is) }

// Activation is an activation as a layer of its own.
type Activation struct {
	Name string
	Act  Act
}

// Title names the layer.
func (l Activation) Title() (name, kind string) { return l.Name, "Activation" }

// Apply takes any x.
func (l Activation) Apply(_ *model.Scope, x *Node) *Node { return l.Act.of(x) }
