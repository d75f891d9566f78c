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
	Main []Layer // at least one; each has a name of its own
	Skip []Layer // none: x as it is
	Act  Act     // of the sum
}

// Title names the layer.
func (l Residual) Title() (name, kind string) { return l.Name, "Residual" }

// Apply takes any x that the layers take.
func (l Residual) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	main, skip := x, x
	layers := l.Main
	end, normal := l.norm()
	if normal {
		layers = layers[:len(layers)-1]
	}
	main, skip = sequence(layers, scope, main), sequence(l.Skip, scope, skip)
	if !main.Shape().Equal(skip.Shape()) {
		panic(fmt.Errorf("branches return %s and %s: want one shape", main.Shape(), skip.Shape()))
	}
	if normal {
		y, _ := end.apply(inside(end, scope), main, skip, l.Act)
		return y
	}
	return l.Act.of(Add(main, skip))
}

// norm is the batch norm at the end of Main that takes the sum with it.
func (l Residual) norm() (end BatchNorm, is bool) {
	if len(l.Main) == 0 {
		return end, false
	}
	end, is = l.Main[len(l.Main)-1].(BatchNorm)
	return end, is && end.by != nil && end.Act == nil
}

// inside is the scope of a layer that is part of another.
func inside(l Layer, scope *model.Scope) *model.Scope {
	name, _ := l.Title()
	return scope.In("%s", name)
}

// changed are layers, of which change makes those of its kind, in branches too.
func changed[L Layer](layers []Layer, change func(L) L) []Layer {
	all := make([]Layer, len(layers))
	for i, layer := range layers {
		if r, is := layer.(Residual); is {
			r.Main, r.Skip = changed(r.Main, change), changed(r.Skip, change)
			layer = r
		}
		if l, is := layer.(L); is {
			layer = change(l)
		}
		all[i] = layer
	}
	return all
}

// sequence applies the layers of a branch, one after the other.
func sequence(layers []Layer, scope *model.Scope, x *Node) *Node {
	var again Again
	for _, layer := range layers {
		x, again = apply(layer, inside(layer, scope), x, again)
	}
	return x
}

// apply applies a layer to x, which again computes a second time, if it is not nil.
func apply(layer Layer, scope *model.Scope, x *Node, again Again) (*Node, Again) {
	switch l := layer.(type) {
	case BatchNorm:
		return l.apply(scope, x, nil, l.Act)
	case Conv2D:
		return l.apply(scope, x, again), nil
	case MaxPool2D:
		return l.apply(x, again), nil
	}
	return layer.Apply(scope, x), nil
}
