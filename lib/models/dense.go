package models

import (
	"fmt"
	"slices"

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

func (l Dense) Title() (name, kind string) { return l.Name, "Dense" }

// Apply takes x shaped [… inputs] and returns [… units].
func (l Dense) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	return denses(x, scoped{l, scope})[0]
}

// scoped is a layer with the scope of its weights.
type scoped struct {
	Dense
	scope *model.Scope
}

// denses is what some layers make of one x.
func denses(x *Node, layers ...scoped) []*Node {
	if x.Rank() < 2 {
		panic(fmt.Errorf("got an input of rank %d: want 2 or more", x.Rank()))
	}
	g, d := x.Graph(), x.Shape().Dimensions
	in := d[len(d)-1]
	rows := x
	if len(d) > 2 {
		rows = Reshape(x, x.Shape().Size()/in, in)
	}
	var linear []Linear // of those whose weights are no int8
	for _, l := range layers {
		lora, int8 := adaptation(l.scope)
		var of Linear
		if !int8 {
			of.W = variable(l.scope, g, "weights", l.Init, Glorot, in, l.Units)
		}
		if !l.NoBias {
			of.Biases = variable(l.scope, g, "biases", l.BiasInit, Fill(0), l.Units)
		}
		if lora == nil {
			of.Act = l.Act
		}
		linear = append(linear, of)
	}
	all := loweringOf(g).Dense(rows, slices.DeleteFunc(slices.Clone(linear), func(of Linear) bool { return of.W == nil })...)
	for i, l := range layers {
		if linear[i].W == nil {
			y := quantized(l.scope, rows, l.Units)
			if b := linear[i].Biases; b != nil {
				y = loweringOf(g).AddBiases(y, b)
			}
			all = slices.Insert(all, i, linear[i].Act.of(y))
		}
		if lora, _ := adaptation(l.scope); lora != nil {
			all[i] = l.Act.of(Add(all[i], lora.narrow(l.scope, rows, l.Units)))
		}
		if len(d) > 2 {
			all[i] = Reshape(all[i], append(slices.Clone(d[:len(d)-1]), l.Units)...)
		}
	}
	return all
}

// Flatten makes each example a vector.
type Flatten struct{ Name string }

func (l Flatten) Title() (name, kind string) { return l.Name, "Flatten" }

// Apply takes x shaped [n …] and returns [n size].
func (Flatten) Apply(_ *model.Scope, x *Node) *Node {
	n := x.Shape().Dimensions[0]
	if x.Rank() == 2 {
		return x
	}
	return Reshape(x, n, x.Shape().Size()/n)
}

// Unflatten gives each example other dimensions, such as those of an image after a Dense.
type Unflatten struct {
	Name string
	Dims []int // of one example
}

func (l Unflatten) Title() (name, kind string) { return l.Name, "Reshape" }

func (l Unflatten) check() error {
	for i, d := range l.Dims {
		if err := least(fmt.Sprintf("Dims[%d]", i), d, 1); err != nil {
			return err
		}
	}
	return least("number of Dims", len(l.Dims), 1)
}

// Apply takes x shaped [n …] with as many numbers an example as Dims have.
func (l Unflatten) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	n, size := x.Shape().Dimensions[0], 1
	for _, d := range l.Dims {
		size *= d
	}
	if got := x.Shape().Size() / n; got != size {
		panic(fmt.Errorf("got %d numbers an example, %v: want %d, for Dims %v", got, x.Shape().Dimensions[1:], size, l.Dims))
	}
	return Reshape(x, append([]int{n}, l.Dims...)...)
}
