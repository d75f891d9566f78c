package models

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Flat is the net with layers that are sequences of others taken apart, so that each can be
// measured: block/attention, block/feedforward. Of a Repeat there are the parts of the first
// layer alone; times says how many like it the net has, of each layer.
func (n Net) Flat() (flat Net, times []int) {
	n.Integers = n.TakesIntegers()
	flat = n.Listed()
	names, taken := flat.Names(), map[string]bool{}
	var layers []Layer
	var add func(l Layer, name string, in []string, copies int)
	add = func(l Layer, name string, in []string, copies int) {
		switch c := l.(type) {
		case Sequential:
			for _, inner := range c.Layers {
				title, kind := inner.Title()
				below := slices.Clone(in)
				if title != "" {
					below = append(below, title)
				}
				part := name + "/" + strings.ToLower(kind)
				if title != "" {
					part = name + "/" + title
				}
				add(inner, part, below, copies)
			}
		case Repeat:
			add(c.Layer, name, append(slices.Clone(in), "0"), copies*c.Times)
		case TransformerBlock:
			for i, half := range c.halves() {
				add(half, name+"/"+[]string{"attention", "feedforward"}[i], in, copies)
			}
		default:
			own := name
			for k := 1; taken[name]; k++ {
				name = fmt.Sprintf("%s_%d", own, k)
			}
			taken[name] = true
			layers, times = append(layers, leaf{l, name, in}), append(times, copies)
		}
	}
	for i, l := range flat.Layers {
		switch l.(type) {
		case Sequential, Repeat, TransformerBlock:
			add(l, names[i], []string{names[i]}, 1)
		default:
			layers, times = append(layers, l), append(times, 1)
		}
	}
	flat.Layers = layers
	return flat, times
}

// leaf is a layer inside of another, with a name of its own and the scopes that it is in.
type leaf struct {
	Layer
	name string
	in   []string
}

func (l leaf) Title() (name, kind string) {
	_, kind = l.Layer.Title()
	return l.name, kind
}

func (l leaf) scope(root *model.Scope) *model.Scope {
	for _, name := range l.in {
		root = root.In("%s", name)
	}
	return root
}

// halves are the two parts of a block, each of which adds to its input.
func (l TransformerBlock) halves() []Layer {
	half := func(norm string, layer Layer) Layer {
		first := Layer(LayerNorm{Name: norm})
		if l.RMSNorm {
			first = RMSNorm{Name: norm}
		}
		return sum{first, layer, Dropout{Rate: l.Dropout}}
	}
	return []Layer{half("norm1", l.attention()), half("norm2", l.feedForward())}
}

// sum adds what layers make of x to x.
type sum []Layer

func (l sum) Title() (name, kind string) { return "", "Residual" }

func (l sum) Apply(scope *model.Scope, x *Node) *Node {
	lowering := loweringOf(x.Graph())
	lowering.Fork(x)
	return lowering.Join(x, sequence(l, scope, x))
}
