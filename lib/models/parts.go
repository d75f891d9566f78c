package models

import (
	"fmt"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Parts makes a Net of several, such as a generator and a critic, each with an Input of its
// own. They do not follow each other: a training step of one's own, fit.Config.Step, says what
// goes into each. input is the dimensions of the examples.
//
//	gan := models.Parts("gan", []int{28, 28, 1}, generator, critic)
//
// The variables of a part have its name before theirs: generator/dense/weights.
func Parts(name string, input []int, parts ...Net) Net {
	n := Net{Name: name, Input: input, parts: true}
	for _, p := range parts {
		n.Layers = append(n.Layers, part{p})
	}
	return n
}

// part is a net in a net of parts.
type part struct{ net Net }

func (p part) Title() (name, kind string) { return p.net.Name, "Net" }

func (p part) Apply(scope *model.Scope, x *Node) *Node {
	if d := x.Shape().Dimensions; x.Rank() != len(p.net.Input)+1 || !x.Shape().EqualDimensions(p.net.Batch(d[0])) {
		panic(fmt.Errorf("want an input of %v behind the batch", p.net.Input))
	}
	return p.net.Apply(scope, x)
}

func (p part) check() error {
	if p.net.parts {
		return fmt.Errorf("it is a net of parts: want a list of layers")
	}
	return p.net.Check()
}

// Parts are those that the net was made of by [Parts]; nil: it is a list of layers.
func (n Net) Parts() (parts []Net) {
	if n.parts {
		for _, l := range n.Layers {
			parts = append(parts, l.(part).net)
		}
	}
	return parts
}

// Part is a net of one of the layers, with the same names of variables, if its input is known:
// that of a part, or of the first layer.
func (n Net) Part(name string) Net {
	for i, layer := range n.Names() {
		if layer != name {
			continue
		}
		one := Net{Name: n.Name + "." + name, Input: n.Input, Integers: n.Integers, Layers: n.Layers[i : i+1]}
		switch p, is := n.Layers[i].(part); {
		case is:
			one.Input, one.Integers = p.net.Input, p.net.TakesIntegers()
		case i > 0:
			one.wrong = fmt.Errorf("models: %s: layer %s has no input of its own: want a net of models.Parts, or its first layer", n.Name, name)
		}
		return one
	}
	return Net{Name: n.Name, wrong: fmt.Errorf("models: %s has no part %q: want one of %s", n.Name, name, strings.Join(n.Names(), ", "))}
}

// Outputs builds the net, for its variables: x is a batch of examples, of which parts get
// zeros. It returns what the net returns, or each part.
func (n Net) Outputs(scope *model.Scope, x *Node) (outputs []*Node) {
	if !n.parts {
		return []*Node{n.Apply(scope, x)}
	}
	batch := x.Shape().Dimensions[0]
	for i, p := range n.Parts() {
		outputs = append(outputs, n.Layer(i, p.Name, scope, Zeros(x.Graph(), p.Batch(batch)), nil))
	}
	return outputs
}
