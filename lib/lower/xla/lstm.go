package xla

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Calls writes calls of what is not an operation of XLA. The results have no gradient.
type Calls interface {
	// Recurrence is one as GPU kernels, with its gradient, and NoRecurrence why there are none
	// for it; "": there are.
	Recurrence(r models.Recurrence) *Node
	NoRecurrence(r models.Recurrence) string
	// Attention and AttentionGradient are those of hlo.Flash.
	Attention(f Flash, q, k, v *Node, lengths ...*Node) (y, statistics *Node)
	AttentionGradient(f Flash, q, k, v, statistics, dy, y *Node, lengths ...*Node) []*Node
	// Norm is that of models.Lowering as a GPU kernel, with its gradient.
	Norm(x, scale, offset *Node, epsilon float64) *Node
	// NormOfSum is the norm y of sum, which is x + z + biases; z and biases may be nil. Other
	// layers read the sum as kept. After the gradient was derived, columns returns the gradient of
	// sum and its sums over all axes but the last. columns is nil where there is no kernel.
	NormOfSum(sum, x, z, biases, scale, offset *Node, epsilon float64) (y, kept *Node, columns func() (of, sums *Node))
	// OneRow are the results of dense layers by one GPU kernel; nil where there is none.
	OneRow(f OneRow) []*Node
	// AttendCached is that of models.Lowering, by a GPU kernel.
	AttendCached(q, k, v, keys, values *Node, at models.CachePlace, a models.Attending) (y, newKeys, newValues *Node)
	// Activate is act(x + biases) as a GPU kernel, with its gradient; nil for a function that
	// has none.
	Activate(x, biases *Node, act models.Act) *Node
}

// Flash are the settings of hlo.Flash.
type Flash struct {
	Scale  float64
	Causal bool
	Window int
}

// LSTM is a loop in the program, whose gradient is another: text and compile time
// do not grow with the length of a sequence. Only what depends on the place
// before is in the loop; matmuls of all time steps with the inputs, and the
// weights' gradients, are one product each.
func (l Lowering) LSTM(z, biases, recurrent, h0, c0 *Node, training bool) (h, c *Node) {
	keep := l.Target.CPU() && training
	in := []*Node{z, recurrent, h0, c0}
	if biases != nil {
		in = append(in, biases)
	}
	h = gradient.Lowered(in, func(in []*Node) *Node {
		var b *Node
		if biases != nil {
			b = in[4]
		}
		var y *Node
		y, c = scan(in[0], b, in[1], in[2], in[3], keep)
		return y
	}, func(in []*Node) *Node {
		z := in[0]
		if biases != nil {
			z = Add(z, ExpandLeftToRank(in[4], 2))
		}
		n := h0.Shape().Dimensions[0]
		r := recurrence{length: z.Shape().Dimensions[0] / n, cell: cell(in[1]), weights: in[1:2]}
		_, ys := r.differentiable(in[2:4], []*Node{Reshape(z, r.length, n, z.Shape().Dimensions[1])})
		return ys[0]
	})
	return h, c
}

// scan runs the recurrence over z [length·n 4·units], what the inputs give the
// gates without biases, from outputs h0 and cells c0 [n units], and returns all
// outputs and cells [length n units].
//
// GoMLX has no gradient of a loop. So the loop is kept out of its sight, and
// the gradient enters next to it: all, a plain expression of z, the outputs and
// recurrent, is what the gates got. Its gradient is that of a second loop, and
// everything before it, GoMLX derives.
//
// With keep the first loop keeps what the gates give, where z was, the second puts
// the gradient there, and all is only derived, not computed. On a CPU its product, and
// the gates' functions once more, cost more than it costs to keep what they give.
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
	if keep {
		h, c, kept = forward(StopGradient(Reshape(z, length, n, 4*u)), StopGradient(biases), StopGradient(recurrent), h0, c0) // a layer has biases
	} else {
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
		return backward(kept, before(c0, c), c, v, recurrent, keep)
	}), c
}

// Recurrence is the kernels of one, where the program is to have them.
func (l Lowering) Recurrence(r models.Recurrence) *Node {
	if l.Calls == nil {
		return nil
	}
	refused := l.Calls.NoRecurrence(r)
	if l.Recurs != nil {
		l.Recurs(refused)
	}
	if refused != "" || !l.Options.RecurrentKernels {
		return nil
	}
	return l.Calls.Recurrence(r)
}

// cell is a time step by itself: x is what the inputs give the gates, with their biases.
func cell(recurrent *Node) func(state, xs []*Node) (next, ys []*Node) {
	return func(state, xs []*Node) (next, ys []*Node) {
		i, f, a, o := gates(Add(xs[0], MatMul(state[0], recurrent)))
		c := Add(Mul(f, state[1]), Mul(i, a))
		h := Mul(o, Tanh(c))
		return []*Node{h, c}, []*Node{h}
	}
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

// forward is the loop over time steps: outputs and cells. If the biases are not in z
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
	end := timeSteps(length, state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
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

// backward is the loop over time steps from the last to the first: the gradient of
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
	end := timeSteps(d[0], state, func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node {
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
