package models

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Residual adds what some layers make of x to x itself, or to what other layers
// make of it (He et al., 2015).
type Residual struct {
	Name string
	Main []Layer // named layers
	Skip []Layer // none: x as it is
	Act  Act     // of the sum
}

// Title names the layer.
func (l Residual) Title() (name, kind string) { return l.Name, "Residual" }

// Apply takes any x that the layers take.
func (l Residual) Apply(scope *model.Scope, x *Node) *Node {
	main, skip := x, x
	for _, layer := range l.Main {
		main = inside(layer, scope, main)
	}
	for _, layer := range l.Skip {
		skip = inside(layer, scope, skip)
	}
	if !main.Shape().Equal(skip.Shape()) {
		panic(fmt.Errorf("branches return %s and %s: want one shape", main.Shape(), skip.Shape()))
	}
	return l.Act.of(Add(main, skip))
}

// inside builds a layer that is part of another.
func inside(l Layer, scope *model.Scope, x *Node) *Node {
	name, kind := l.Title()
	if name == "" {
		panic(fmt.Errorf("%s inside a Residual has no name", kind))
	}
	return l.Apply(scope.In("%s", name), x)
}
