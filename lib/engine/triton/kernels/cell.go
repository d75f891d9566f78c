package kernels

import "gaiden/lib/engine/triton"

// Cell is what a [Recurrence] does at each time step.
type Cell int

// The cells, in PyTorch's form. Their gates stand in PyTorch's order.
const (
	LSTM Cell = iota // long short-term memory: input, forget, cell, output
	GRU              // gated recurrent units: reset, update, new
	RNN              // simple recurrent units: an activation of the sum
)

// A time step continues from the output before, and some cells need more than that as a factor
// of products.
const (
	stateless   = iota
	outputState // the output in float32
	innerState  // a state that is no output
)

// cell is the element-wise part of a time step, forwards and backwards; tiles are [units rows].
type cell struct {
	name   string
	gates  int  // each of which has a product
	biases bool // are added to products
	state  int
	kept   int // tiles for the backward pass
	// forward is given the state before and z, and the sum of a gate's product and something.
	forward func(l Recurrence, before triton.Value, z, biases []triton.Value, sum func(g int, z triton.Value) triton.Value) (h, inner triton.Value, kept []triton.Value)
	// here and before: the backward pass needs the state, or an output that is none, after the
	// time step and before it.
	here, before bool
	apart        bool // the gradients of z and of products are not the same
	// backward is given the gradient of the output, without that of this time step, and of the
	// inner state; then what was kept, the gradient of this time step, and states. carry is what the
	// time step before is given, from the gradient of its output through the products.
	backward func(l Recurrence, after, at []triton.Value) (z, products []triton.Value, carry func(h triton.Value) []triton.Value)
}

var cells = [...]cell{
	LSTM: {name: "lstm", gates: 4, state: innerState, kept: 4, forward: lstm, here: true, before: true, backward: lstmBack},
	GRU:  {name: "gru", gates: 3, biases: true, state: outputState, kept: 4, forward: gru, before: true, apart: true, backward: gruBack},
	RNN:  {name: "rnn", gates: 1, biases: true, forward: rnn, here: true, backward: rnnBack},
}

// keptOutput is which output of the kernel has what is kept.
func (c cell) keptOutput() int {
	if c.state == innerState {
		return 2
	}
	return 1
}

// tanh by an exponential: to 1e-7, not to the last place of what is nearly 0.
// The library's has branches, which many warps go through one after the other.
func tanh(x triton.Value) triton.Value {
	return x.Mul(2).Sigmoid().MulAdd(2, -1)
}

// sigmoidSlope is that of a sigmoid, from its result.
func sigmoidSlope(s triton.Value) triton.Value { return s.Mul(rest(s)) }

// rest is 1 - x.
func rest(x triton.Value) triton.Value { return x.Neg().Add(1) }

func lstm(_ Recurrence, before triton.Value, z, _ []triton.Value, sum func(g int, z triton.Value) triton.Value) (h, c triton.Value, gates []triton.Value) {
	for g := range z {
		if s := sum(g, z[g]); g == 2 {
			gates = append(gates, tanh(s))
		} else {
			gates = append(gates, s.Sigmoid())
		}
	}
	c = gates[1].Mul(before).Add(gates[0].Mul(gates[2]))
	return gates[3].Mul(tanh(c)), c, gates
}

func lstmBack(_ Recurrence, after, at []triton.Value) (d, same []triton.Value, carry func(h triton.Value) []triton.Value) {
	in, forget, cell, out := at[0], at[1], at[2], at[3]
	v, c, before := at[4], tanh(at[5]), at[6]
	dh := after[0].Add(v)
	dc := after[1].Add(dh.Mul(out).Mul(rest(c.Mul(c))))
	d = []triton.Value{
		dc.Mul(cell).Mul(sigmoidSlope(in)),
		dc.Mul(before).Mul(sigmoidSlope(forget)),
		dc.Mul(in).Mul(rest(cell.Mul(cell))),
		dh.Mul(c).Mul(sigmoidSlope(out)),
	}
	return d, d, func(h triton.Value) []triton.Value { return []triton.Value{h, dc.Mul(forget)} }
}

// gru keeps what its reset gate multiplies, besides the gates.
func gru(_ Recurrence, before triton.Value, z, biases []triton.Value, sum func(g int, z triton.Value) triton.Value) (h, _ triton.Value, kept []triton.Value) {
	reset := sum(0, z[0].Add(biases[0])).Sigmoid()
	update := sum(1, z[1].Add(biases[1])).Sigmoid()
	fed := sum(2, biases[2])
	new := tanh(z[2].Add(reset.Mul(fed)))
	return update.Mul(before.Sub(new)).Add(new), triton.Value{}, []triton.Value{reset, update, new, fed}
}

func gruBack(_ Recurrence, after, at []triton.Value) (d, products []triton.Value, carry func(h triton.Value) []triton.Value) {
	reset, update, new, fed, v, before := at[0], at[1], at[2], at[3], at[4], at[5]
	dh := after[0].Add(v)
	dnew := dh.Mul(rest(update)).Mul(rest(new.Mul(new)))
	dreset := dnew.Mul(fed).Mul(sigmoidSlope(reset))
	dupdate := dh.Mul(before.Sub(new)).Mul(sigmoidSlope(update))
	return []triton.Value{dreset, dupdate, dnew}, []triton.Value{dreset, dupdate, dnew.Mul(reset)},
		func(h triton.Value) []triton.Value { return []triton.Value{h.Add(dh.Mul(update))} }
}

func rnn(l Recurrence, _ triton.Value, z, biases []triton.Value, sum func(g int, z triton.Value) triton.Value) (h, _ triton.Value, _ []triton.Value) {
	s := sum(0, z[0].Add(biases[0]))
	if l.Act == Tanh {
		return tanh(s), triton.Value{}, nil
	}
	return activate(l.Act, s), triton.Value{}, nil
}

func rnnBack(l Recurrence, after, at []triton.Value) (d, same []triton.Value, carry func(h triton.Value) []triton.Value) {
	v, h := at[0], at[1]
	d = []triton.Value{backward(l.Act, after[0].Add(v), h)}
	return d, d, func(h triton.Value) []triton.Value { return []triton.Value{h} }
}
