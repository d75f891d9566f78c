package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// container is a layer that holds others, in branches.
type container interface {
	Layer
	branches() []branch
}

// branch is some layers of a container; each with weights has a name of its own.
type branch struct {
	name   string
	layers []Layer
}

// Sequential is layers one after another, as one layer.
type Sequential struct {
	Name   string
	Layers []Layer // at least one; each with weights has a name of its own
}

func (l Sequential) Title() (name, kind string) { return l.Name, "Sequential" }

// Apply takes any x that the first layer takes.
func (l Sequential) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	return sequence(l.Layers, scope, x)
}

func (l Sequential) branches() []branch { return []branch{{"Layers", l.Layers}} }
func (l Sequential) check() error {
	return cmp.Or(least("number of Layers", len(l.Layers), 1), checkBranches(l))
}

// Repeat is a layer several times, each with weights of its own: "block/0", "block/1".
type Repeat struct {
	Name  string
	Times int
	Layer Layer // needs no name
	// Recompute keeps only the inputs of the layers for the backward pass, which computes each
	// layer once more: memory for one layer, not for all, and about a third more time.
	Recompute bool
}

func (l Repeat) Title() (name, kind string) { return l.Name, "Repeat" }

// Apply takes an x that the layer takes, and whose shape it returns.
func (l Repeat) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	for i := range l.Times {
		before := x.Shape()
		if inner := scope.In("%d", i); l.Recompute && x.DType().IsFloat() && scope.IsTraining(x.Graph()) {
			x = HandMask(x, recomputed(l.Layer, inner, x))
		} else {
			x, _ = apply(l.Layer, inner, x, nil)
			watch(inner.Scope(), x)
		}
		if i+1 < l.Times && !x.Shape().Equal(before) {
			panic(fmt.Errorf("the layer makes %s of %s: want the same shape, because it is repeated", x.Shape(), before))
		}
	}
	return x
}

func (l Repeat) branches() []branch { return []branch{{"Layer", []Layer{l.Layer}}} }
func (l Repeat) check() error {
	if err := least("Times", l.Times, 1); err != nil {
		return err
	}
	return checkOne(l.Layer)
}

// checkOne checks a layer that another one holds, and that needs no name.
func checkOne(l Layer) error {
	if err := exists(l); err != nil {
		return fmt.Errorf("Layer is %w", err)
	}
	return check(l)
}

// checkBranches checks the layers that a container holds; no two have the same name. A Residual
// or a Sequential needs none: then its layers have names among those of the container.
func checkBranches(c container) error { return checkNames(c, map[string]bool{}) }

func checkNames(c container, seen map[string]bool) error {
	for _, b := range c.branches() {
		for i, inner := range b.layers {
			if err := exists(inner); err != nil {
				return fmt.Errorf("%s: layer %d is %w", b.name, i+1, err)
			}
			_, of := c.Title()
			name, kind := inner.Title()
			switch {
			case name == "" && nameless(inner):
				if err := checkNames(inner.(container), seen); err != nil {
					return fmt.Errorf("%s: layer %d: %w", b.name, i+1, err)
				}
			case name == "" && !weightless(inner):
				return fmt.Errorf("%s: layer %d, a %s, has no name: inside of a %s want one", b.name, i+1, kind, of)
			case strings.ContainsAny(name, "/*"):
				return fmt.Errorf("%s: layer %d is called %q: want a name without / or *", b.name, i+1, name)
			case name != "" && seen[name]:
				return fmt.Errorf("%s: layer %d is called %s, as one before it: want names that differ", b.name, i+1, name)
			}
			seen[name] = true
			if err := check(inner); err != nil {
				return fmt.Errorf("%s: layer %s: %w", b.name, cmp.Or(name, fmt.Sprint(i+1)), err)
			}
		}
	}
	return nil
}

// nameless says whether a layer is a container that needs no name in another one.
func nameless(l Layer) bool {
	switch l.(type) {
	case Residual, Sequential:
		return true
	}
	return false
}

// weightless says whether a layer has no variables, and so needs no name in a container.
func weightless(l Layer) bool {
	switch l.(type) {
	case Activation, AvgPool1D, AvgPool2D, AvgPool3D, Dropout, FirstStep, Flatten, GlobalAvgPool, GlobalMaxPool, LastStep, Masking, MaxPool1D, MaxPool2D, MaxPool3D, SinusoidalPositions, SoftCap, TimestepEncoding, Upsample2D:
		return true
	}
	return false
}

// inside is the scope of a layer that is part of another.
func inside(l Layer, scope *model.Scope) *model.Scope {
	name, _ := l.Title()
	if name == "" {
		return scope
	}
	return scope.In("%s", name)
}

// holds says whether one of the layers is an L, in containers too.
func holds[L Layer](layers []Layer) bool {
	return slices.ContainsFunc(layers, func(layer Layer) bool {
		if _, is := layer.(L); is {
			return true
		}
		c, is := layer.(container)
		return is && slices.ContainsFunc(c.branches(), func(b branch) bool { return holds[L](b.layers) })
	})
}

// sequence applies layers, one after the other.
func sequence(layers []Layer, scope *model.Scope, x *Node) *Node {
	var again Again
	for _, layer := range layers {
		own := inside(layer, scope)
		if x, again = apply(layer, own, x, again); own != scope {
			watch(own.Scope(), x)
		}
	}
	return x
}

// apply applies a layer to x, which again computes a second time, if it is not nil. What it gives
// has the mask of x.
func apply(layer Layer, scope *model.Scope, x *Node, again Again) (y *Node, next Again) {
	y = note(layer, scope.Scope(), x, func() *Node {
		y, next = applied(layer, scope, x, again)
		return y
	})
	return y, next
}

func applied(layer Layer, scope *model.Scope, x *Node, again Again) (y *Node, next Again) {
	switch l := layer.(type) {
	case BatchNorm:
		y, next = l.apply(scope, x)
	case Conv2D:
		y = l.apply(scope, x, again)
	case MaxPool2D:
		y = l.apply(x, again)
	case GRU, LSTM, RNN, Scan:
		mask := MaskOf(x)
		y = unpadded(x, func(x *Node) *Node {
			if m, is := l.(LSTM); is && m.Stateful > 0 && mask != nil { // its state is that before the padding
				x = WithLengths(x, ReduceSum(ConvertDType(mask, dtypes.Int32), 1))
			}
			return layer.Apply(scope, x)
		})
	default:
		y = layer.Apply(scope, x)
	}
	if x != nil {
		y = HandMask(x, y)
		keepsMask(x, y)
	}
	return y, next
}
