package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
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
//
// With Stateful a long sequence is learned piece by piece, as Keras's stateful
// and Chainer's reset_state have it: truncated backpropagation through time. A
// piece begins with the state in which the batch before it ended, and no
// gradient goes back across that border. Where a piece has a mask, the state is that of its
// last time step that is there. Outside training, and after a reset,
// it begins with zeros. Package fit says when.
type LSTM struct {
	Name     string
	Units    int
	Init     Init // of weights [inputs 4·units] and recurrent [units 4·units]; default: LeCun
	Stateful int  // how many sequences are learned side by side: the size of a batch; 0: none is carried on
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
	g, mask := x.Graph(), MaskOf(x)
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
	carried := l.Stateful > 0 && training
	if h := lowering.Recurrence(Recurrence{Kind: "LSTM", Carried: carried, Z: Reshape(z, length, n, 4*u), Recurrent: recurrent, Biases: biases}); h != nil {
		return timeFirst(h)
	}
	if !carried {
		h, _ := lowering.LSTM(z, biases, recurrent, zero, zero, training)
		return TransposeAllAxes(h, 1, 0, 2) // [n length units]
	}
	if n != l.Stateful {
		panic(fmt.Errorf("a batch of %d sequences: want %d, whose state is carried on", n, l.Stateful))
	}
	var state [2]*model.Variable
	var start [2]*Node
	for i, name := range stateNames {
		state[i] = scope.WithInitializer(Zeros).VariableWithShape(name, shapes.Make(dtypes.Float32, n, u)).SetTrainable(false)
		if start[i] = StopGradient(state[i].NodeValue(g)); start[i].DType() != z.DType() {
			start[i] = ConvertDType(start[i], z.DType())
		}
	}
	h, c := lowering.LSTM(z, biases, recurrent, start[0], start[1], training)
	for i, all := range []*Node{h, c} {
		end := Reshape(Slice(all, AxisElem(length-1)), n, u)
		if mask != nil { // where nothing is there the state stays
			states := Concatenate([]*Node{InsertAxes(start[i], 0), all}, 0)
			last := InsertAxes(ReduceSum(ConvertDType(mask, dtypes.Int32), 1), 0, -1)
			at := Equal(Iota(g, shapes.Make(dtypes.Int32, length+1, n, 1), 0), BroadcastToDims(last, length+1, n, 1))
			end = ReduceSum(zeroed(states, Squeeze(at, -1)), 0)
		}
		state[i].SetNodeValue(float(StopGradient(end)))
	}
	return TransposeAllAxes(h, 1, 0, 2)
}

// stateNames are the variables of a layer that is Stateful: outputs and cells.
var stateNames = [2]string{"h", "c"}

// Sequences is how many sequences the net's layers carry on from batch to batch,
// 0 for none, and the first layer that does.
func (n Net) Sequences() (count int, layer string) {
	names := n.Names()
	for i, l := range n.Layers {
		if m, is := l.(LSTM); is && m.Stateful > 0 {
			return m.Stateful, names[i]
		}
	}
	return 0, ""
}

// States are the variables that LSTM layers have, or would have, for the state
// they carry on: "l2/h". They are not weights.
func (n Net) States() []string {
	var all []string
	names := n.Names()
	for i, l := range n.Layers {
		if _, is := l.(LSTM); is {
			for _, s := range stateNames {
				all = append(all, names[i]+"/"+s)
			}
		}
	}
	return all
}

// forget is 1 for the forget gates, 0 for the others.
func forget(*model.Store) model.VariableInitializer {
	return func(g *Graph, shape shapes.Shape) *Node {
		u := shape.Dimensions[0] / 4
		one, zero := Ones(g, shapes.Make(shape.DType, u)), Zeros(g, shapes.Make(shape.DType, u))
		return Concatenate([]*Node{zero, one, zero, zero}, 0)
	}
}
