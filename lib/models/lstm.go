package models

import (
	"fmt"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SineLSTM is the net of notebook 05's article for a sine wave: Linear 1→units, LSTM,
// Linear units→1 at each of length time steps of a sequence. With 5 units: 236
// parameters.
func SineLSTM(units, length int) Net {
	return Net{Name: "SineLSTM", Input: []int{length, 1}, Layers: []Layer{
		Dense{Name: "l1", Units: units, Init: LeCun}, // [n length units]
		LSTM{Name: "l2", Units: units},               // [n length units]
		Dense{Name: "l3", Units: 1, Init: LeCun},     // [n length 1]
	}}
}

// LSTM is a layer of long short-term memory (Hochreiter and Schmidhuber, 1997,
// with the forget gates of Gers et al., 1999).
type LSTM struct {
	Name  string
	Units int
	Init  Init // of weights [inputs 4·units] and recurrent [units 4·units]; default: LeCun
}

func (l LSTM) Title() (name, kind string) { return l.Name, "LSTM" }

// Apply takes x shaped [n length inputs] and returns [n length units]. The
// gates stand in PyTorch's order: input, forget, cell, output. The biases of
// the forget gates begin with 1, as in Chainer.
func (l LSTM) Apply(scope *model.Scope, x *Node) *Node {
	d := x.Shape().Dimensions
	must(l)
	if x.Rank() != 3 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length inputs]", x.Rank()))
	}
	n, length, in, u := d[0], d[1], d[2], l.Units
	g := x.Graph()
	weights := variable(scope, g, "weights", l.Init, LeCun, in, 4*u)
	recurrent := variable(scope, g, "recurrent", l.Init, LeCun, u, 4*u)
	biases := variable(scope, g, "biases", forget, forget, 4*u)

	x = TransposeAllAxes(x, 1, 0, 2) // [length n inputs]
	z := MatMul(Reshape(x, length*n, in), weights)
	zero := Zeros(g, shapes.Make(z.DType(), n, u))
	lowering, training := loweringOf(g), scope.IsTraining(g)
	if cache := cacheOf(g); cache != nil {
		old, after := cache.state(scope, []*Node{zero, zero})
		h, c := lowering.LSTM(z, biases, recurrent, old[0], old[1], false)
		h, c = timeFirst(h), timeFirst(c)
		after([]*Node{h, c})
		return h
	}
	h, _ := lowering.LSTM(z, biases, recurrent, zero, zero, training)
	return TransposeAllAxes(h, 1, 0, 2) // [n length units]
}

// forget is 1 for the forget gates, 0 for the others.
func forget(*model.Store) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node {
		u := shape.Dimensions[0] / 4
		one, zero := Ones(g, shapes.Make(shape.DType, u)), Zeros(g, shapes.Make(shape.DType, u))
		return Concatenate([]*Node{zero, one, zero, zero}, 0)
	}
}
