package models

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Parts makes a Net of several, such as a generator and a critic, each with an Input of its
// own. They do not follow each other: a training step of your own, fit.Config.Step, says what
// goes into each. input is the dimensions of the examples; where these are several arrays, it is
// nil, and the net gets Inputs:
//
//	gan := models.Parts("gan", []int{28, 28, 1}, generator, critic)
//
//	agent := models.Parts("agent", nil, actor, critic)
//	agent.Inputs = []models.Input{{Name: "state", Dims: []int{8}}, {Name: "action", Integers: true}, {Name: "reward"}}
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
	if d := x.Shape().Dimensions; x.Rank() == 0 || !slices.Equal(d[1:], p.net.Input) {
		panic(fmt.Errorf("want an input of %v after the batch axis", p.net.Input))
	}
	return p.net.Apply(scope, x)
}

func (p part) check() error {
	if p.net.Inputs != nil {
		return fmt.Errorf("it has several inputs: want one, of which it may take a slice")
	}
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

// Part is a net of one of the layers, with the same names of variables. shapes is what the net's
// Build gives for two examples, layer by layer; of [Parts], and of a first layer, it is not used.
func (n Net) Part(name string, shapes func() ([]shapes.Shape, error)) Net {
	n = n.Listed()
	i := slices.Index(n.Names(), name)
	if i < 0 {
		return Net{Name: n.Name, wrong: fmt.Errorf("models: %s has no part %q: want one of %s", n.Name, name, strings.Join(n.Names(), ", "))}
	}
	one := Net{Name: n.Name + "." + name, Input: n.Input, Inputs: n.Inputs, Integers: n.TakesIntegers(), Layers: n.Layers[i : i+1], LoRA: n.LoRA, Int8: n.Int8}
	if p, is := n.Layers[i].(part); is {
		one.Input, one.Inputs, one.Integers = p.net.Input, nil, p.net.TakesIntegers()
	} else if i > 0 {
		all, err := shapes()
		if err != nil {
			return Net{Name: n.Name, wrong: err}
		}
		one.Input, one.Inputs, one.Integers = all[i-1].Dimensions[1:], nil, all[i-1].DType.IsInt()
	}
	return one
}

// Outputs is what a net returns for some examples, or what each of its parts returns for zeros.
func (n Net) Outputs(scope *model.Scope, in Inputs) (outputs []*Node) {
	if !n.parts {
		return []*Node{n.Build(scope, in, nil, nil)}
	}
	n.buildParts(scope, in, func(_ int, y *Node) *Node {
		outputs = append(outputs, y)
		return y
	})
	return outputs
}

func (n Net) buildParts(scope *model.Scope, in Inputs, each func(i int, y *Node) *Node) {
	x := in[n.AllInputs()[0].Name]
	for i, p := range n.Parts() {
		zeros := Zeros(x.Graph(), p.AllInputs()[0].Batch(x.Shape().Dimensions[0]))
		each(i, n.Layer(i, p.Name, scope, zeros, nil))
	}
}
