package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// SineLSTM is the net of notebook 05's article for a sine wave: Linear 1→units, LSTM,
// Linear units→1 at each of length places of a sequence. With 5 units: 236
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
// It is a loop in the program, whose gradient is another: text and compile time
// do not grow with the length of a sequence. Only what depends on the place
// before is in the loop; products of all places with the inputs, and the
// weights' gradients, are one product each.
//
// With Stateful a long sequence is learned piece by piece, as Keras's stateful
// and Chainer's reset_state have it: truncated backpropagation through time. A
// piece begins with the state in which the batch before it ended, and no
// gradient goes back across that border. Outside training, and after a reset,
// it begins with zeros. Package fit says when.
type LSTM struct {
	Name     string
	Units    int
	Init     Init // of weights [inputs 4·units] and recurrent [units 4·units]; default: LeCun
	Stateful int  // how many sequences are learned side by side: the size of a batch; 0: none is carried on
}

// Title names the layer.
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
	keep := onCPU(g) && (scope.IsTraining(g) || placing(z) != nil) // whose calls keep it anyway
	if l.Stateful == 0 || !scope.IsTraining(g) {
		h, _ := scan(z, biases, recurrent, zero, zero, keep)
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
	h, c := scan(z, biases, recurrent, start[0], start[1], keep)
	for i, all := range []*Node{h, c} {
		end := StopGradient(Reshape(Slice(all, AxisElem(length-1)), n, u))
		state[i].SetNodeValue(float(end))
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

// scan runs the recurrence over z [length·n 4·units], what the inputs give the
// gates beside biases, from outputs h0 and cells c0 [n units], and returns all
// outputs and cells [length n units].
//
// GoMLX has no gradient of a loop. So the loop is kept out of its sight, and
// the gradient enters beside it: all, a plain expression of z, the outputs and
// recurrent, is what the gates got. Its gradient is that of a second loop, and
// everything before it, GoMLX derives.
//
// With keep the first loop keeps what the gates give, where z was, the second puts
// the gradient there, and all is only derived, not computed. On a CPU its product, and
// the gates' functions once more, cost more than it costs to keep what they give: the net
// of 128 units took 78 to 93 ms a step where only what the gates got was kept, and 70 to
// 81 so (2 cores, in turns). For a GPU it is not measured. A backend that is a [placer] has
// calls for these loops.
func scan(z, biases, recurrent, h0, c0 *Node, keep bool) (h, c *Node) {
	n, u := h0.Shape().Dimensions[0], h0.Shape().Dimensions[1]
	length := z.Shape().Dimensions[0] / n
	biased := z
	if biases != nil {
		biases = ExpandLeftToRank(biases, 2)
		biased = Add(z, biases)
	}
	biased = Reshape(biased, length, n, 4*u)
	var kept *Node // [length n 4·units]
	calls := placing(z)
	switch {
	case keep && calls != nil:
		all := calls.LSTM(Reshape(z, length, n, 4*u), Reshape(biases, 4*u), recurrent, h0, c0)
		h, c, kept = all[0], all[1], all[2]
	case keep:
		h, c, kept = forward(StopGradient(Reshape(z, length, n, 4*u)), StopGradient(biases), StopGradient(recurrent), h0, c0) // a layer has biases
	default:
		h, c, _ = forward(StopGradient(biased), nil, StopGradient(recurrent), h0, c0)
	}

	before := func(start, x *Node) *Node { // the value one place earlier
		start = Reshape(start, 1, n, u)
		if length == 1 {
			return start
		}
		return Concatenate([]*Node{start, Slice(x, AxisRange(0, length-1))}, 0)
	}
	fed := MatMul(Reshape(before(h0, h), length*n, u), recurrent)
	all := Add(biased, Reshape(fed, length, n, 4*u))
	if !keep {
		kept = all
	}
	return derived(h, all, func(v *Node) *Node {
		if keep && calls != nil {
			return calls.LSTMBack(kept, recurrent, c0, c, v)
		}
		return backward(kept, before(c0, c), c, v, recurrent, keep)
	}), c
}

// placer is a backend whose programs have calls of package lstm, whose operands' names these
// are. The results have no gradient.
type placer interface {
	LSTM(z, biases, recurrent, h0, c0 *Node) (all []*Node) // h, c, gates
	LSTMBack(gates, recurrent, c0, c, v *Node) (dz *Node)
}

// placing is the placer of z's graph, nil where there is none.
func placing(z *Node) placer {
	if p, is := z.Graph().Backend().(placer); is && withProducts(z.Graph()) && z.DType() == dtypes.Float32 {
		return p
	}
	return nil
}

// Recurrence is what a layer of LSTM does from z on, what the inputs give the gates with
// their biases: z [length n 4·units], recurrent [units 4·units] and h [length n units],
// which has a gradient. It begins with zeros.
func Recurrence(z, recurrent *Node) (h *Node) {
	d := z.Shape().Dimensions
	zero := Zeros(z.Graph(), shapes.Make(z.DType(), d[1], d[2]/4))
	h, _ = scan(Reshape(z, d[0]*d[1], d[2]), nil, recurrent, zero, zero, false)
	return h
}

// gates are what the four gates make of z [n 4·units].
func gates(z *Node) (i, f, a, o *Node) {
	i, f, a, o = parts(z)
	return Sigmoid(i), Sigmoid(f), Tanh(a), Sigmoid(o)
}

// parts are the four gates' columns of x [n 4·units].
func parts(x *Node) (i, f, a, o *Node) {
	axis := x.Rank() - 1
	u := x.Shape().Dimensions[axis] / 4
	part := func(k int) *Node { return SliceAxis(x, axis, AxisRange(k*u, (k+1)*u)) }
	return part(0), part(1), part(2), part(3)
}

// curves are scale and rest [1 4·units] with which scale·tanh(scale·z)+rest is what gates
// makes of z, all columns at once: the sigmoid of z is ½·tanh(½·z)+½.
func curves(g *Graph, dtype dtypes.DType, u int) (scale, rest *Node) {
	one := Ones(g, shapes.Make(dtype, 1, u))
	half := MulScalar(one, 0.5)
	return Concatenate([]*Node{half, half, one, half}, 1), Concatenate([]*Node{half, half, ZerosLike(one), half}, 1)
}

// forward is the loop over places: outputs and cells. If the biases are not in z
// already, it adds them, and z becomes what the gates give.
func forward(z, biases, recurrent, h0, c0 *Node) (h, c, kept *Node) {
	g, d := z.Graph(), z.Shape().Dimensions
	length, n, u := d[0], d[1], d[2]/4
	every := shapes.Make(z.DType(), length, n, u)
	state := []*Node{h0, c0, Zeros(g, every), Zeros(g, every), z, recurrent}
	if biases != nil {
		scale, rest := curves(g, z.DType(), u)
		state = append(state, biases, scale, rest)
	}
	end := places(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		got, z := Add(at(s[4]), MatMul(s[0], s[5])), s[4]
		var i, f, a, o *Node
		if biases == nil {
			i, f, a, o = gates(got)
		} else {
			scale, rest := s[7], s[8]
			given := alone(Add(Mul(Tanh(Mul(Add(got, s[6]), scale)), scale), rest))
			i, f, a, o = parts(given)
			z = put(z, given)
		}
		c := Add(Mul(f, s[1]), Mul(i, a))
		h := Mul(o, Tanh(c))
		return append([]*Node{h, c, put(s[2], h), put(s[3], c), z}, s[5:]...)
	}, false)
	return end[2], end[3], end[4]
}

// alone is x, computed by itself. What is put in the place of an operand of x must be
// made of it only: else XLA would copy the whole array at each place.
func alone(x *Node) *Node { return OptimizationBarriers(x)[0] }

// backward is the loop over places from the last to the first: the gradient of
// what the gates got, all, from the gradient v of the outputs. In place, all is what
// the gates give, and the gradient is put there.
func backward(all, before, cells, v, recurrent *Node, inPlace bool) *Node {
	g, d := all.Graph(), all.Shape().Dimensions
	n, u := d[1], d[2]/4
	some := shapes.Make(all.DType(), n, u)
	state := []*Node{Zeros(g, some), Zeros(g, some), all, before, cells, v, recurrent}
	if !inPlace {
		state = append(state, all)
		state[2] = ZerosLike(all)
	}
	// GoMLX keeps a number that a closure has made for all of the graph, and no other
	// closure may use it: a second layer's.
	one := Const(g, shapes.CastAsDType(1.0, all.DType()))
	rest := func(x *Node) *Node { return Sub(one, x) }
	end := places(d[0], state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
		var i, f, a, o *Node
		if inPlace {
			i, f, a, o = parts(alone(at(s[2]))) // else dc·f reads it after put, for which XLA copies the whole array
		} else {
			i, f, a, o = gates(at(s[7]))
		}
		old, cell := at(s[3]), Tanh(at(s[4]))
		dh := Add(s[0], at(s[5]))
		dc := Add(s[1], Mul(Mul(dh, o), rest(Square(cell))))
		dz := Concatenate([]*Node{
			Mul(Mul(dc, a), Mul(i, rest(i))),
			Mul(Mul(dc, old), Mul(f, rest(f))),
			Mul(Mul(dc, i), rest(Square(a))),
			Mul(Mul(dh, cell), Mul(o, rest(o))),
		}, -1)
		if inPlace {
			dz = alone(dz)
		}
		return append([]*Node{MatMul(dz, Transpose(s[6], 0, 1)), Mul(dc, f), put(s[2], dz)}, s[3:]...)
	}, true)
	return end[2]
}

// places is a loop over the first axis, forwards or backwards. at takes the
// place's part of an array [length …], put replaces it.
func places(length int, state []*Node, body func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node, back bool) []*Node {
	g := state[0].Graph()
	zero, one, limit := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(length))
	latest := Const(g, int32(length-1))
	shape := make([]shapes.Shape, len(state))
	for i, s := range state {
		shape[i] = s.Shape()
	}
	parameters := func(g *Graph) (i *Node, l []*Node) {
		i = Parameter(g, "i", shapes.Make(dtypes.Int32))
		for k, s := range shape {
			l = append(l, Parameter(g, fmt.Sprintf("s%d", k), s))
		}
		return i, l
	}
	cond := NewClosure(g, func(g *Graph) []*Node {
		i, _ := parameters(g)
		return []*Node{LessThan(i, limit)}
	})
	turn := NewClosure(g, func(g *Graph) []*Node {
		i, l := parameters(g)
		place := i
		if back {
			place = Sub(latest, i)
		}
		corner := func(rank int) []*Node {
			at := []*Node{place}
			for range rank - 1 {
				at = append(at, zero)
			}
			return at
		}
		at := func(all *Node) *Node {
			d := append([]int{1}, all.Shape().Dimensions[1:]...)
			return Reshape(DynamicSlice(all, corner(len(d)), d), d[1:]...)
		}
		put := func(all, one *Node) *Node {
			d := append([]int{1}, one.Shape().Dimensions...)
			return DynamicUpdateSlice(all, Reshape(one, d...), corner(len(d)))
		}
		return append([]*Node{Add(i, one)}, body(at, put, l)...)
	})
	return While(cond, turn, append([]*Node{zero}, state...)...)[1:]
}
