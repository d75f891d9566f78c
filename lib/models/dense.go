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

func (l Dense) Title() (name, kind string) { return l.Name, "Dense" }

// Apply takes x shaped [… inputs] and returns [… units].
func (l Dense) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if x.Rank() < 2 {
		panic(fmt.Errorf("got an input of rank %d: want 2 or more", x.Rank()))
	}
	g, d := x.Graph(), x.Shape().Dimensions
	in := d[len(d)-1]
	rows := x
	if len(d) > 2 {
		rows = Reshape(x, x.Shape().Size()/in, in)
	}
	lora, int8 := adaptation(scope)
	var w, bias *Node
	if !int8 {
		w = variable(scope, g, "weights", l.Init, Glorot, in, l.Units)
	}
	if !l.NoBias {
		bias = variable(scope, g, "biases", l.BiasInit, Fill(0), l.Units)
	}
	var y *Node
	if lora == nil && !int8 {
		y = loweringOf(g).Dense(rows, w, bias, l.Act)
	} else {
		if int8 {
			if y = quantized(scope, rows, l.Units); bias != nil {
				y = loweringOf(g).AddBiases(y, bias)
			}
		} else {
			y = loweringOf(g).Dense(rows, w, bias, nil)
		}
		if lora != nil {
			y = Add(y, lora.narrow(scope, rows, l.Units))
		}
		y = l.Act.of(y)
	}
	if len(d) == 2 {
		return y
	}
	return Reshape(y, append(append([]int{}, d[:len(d)-1]...), l.Units)...)
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
