package kernels

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LargestUnits is how many units an LSTM in one kernel may have: its recurrent
// weights stay on the chip for the whole sequence, and those of 128 units, 128 KiB
// in float16, are the most that a processor's shared memory takes.
const LargestUnits = 128

// tanh by an exponential: to 1e-7, not to the last place of what is nearly 0.
// The library's has branches, which many warps go through one after the other.
func tanh(x triton.Value) triton.Value {
	return x.Mul(2).Sigmoid().MulAdd(2, -1)
}

// LSTM runs long short-term memory over a whole sequence: the four gates input,
// forget, cell and output, in PyTorch's order, from what the inputs give them
// (z, with the biases) and the output of the place before.
//
//	inputs:  z [length batch 4·units], recurrent [units 4·units] float32
//	outputs: h [length batch units], what comes out,
//	         c [length batch units], the cells, and
//	         gates [length batch 4·units], after their sigmoids and tanh, which LSTMBack needs
//
// All is float32. Nothing comes before the first place. Factors of products are
// float16, which has the 10 bits of mantissa that TF32 has in half the room: for the
// range that it lacks, weights are divided by the largest that belongs to the same
// result, and gradients by the largest of their example.
//
// Tiles are [units rows], as the second side of a product may be 8 and its first may
// not: a place costs a block what it has of rows, in exponentials, z and gates. On an
// H200, 100 places of 64 examples and 128 units took 395 µs both ways, and 681 in tiles
// of [16 units] (lib/fused/results, of 2026-11-23, has these and other forms).
type LSTM struct {
	Length, Batch, Units int
	Rows                 int // of the batch in a block; default: 8
	Rounding             triton.Rounding
}

func (l LSTM) rows() int {
	if l.Rows == 0 {
		return 8
	}
	return l.Rows
}

// half says whether factors are float16.
func (l LSTM) half() bool { return l.Rounding != triton.Exact }

// warps are twice as many where each would have more numbers than registers.
func (l LSTM) warps() int {
	if l.Units > 64 {
		return 8
	}
	return 4
}

func (l LSTM) shape(n int) shapes.Shape {
	return shapes.Make(dtypes.Float32, l.Length, l.Batch, n*l.Units)
}

// tiles are where a block's rows and the units stand in arrays of n·units columns,
// and the four gates' recurrent weights: [from to], or [to from] if transposed.
func (l LSTM) tiles(b *triton.Block, recurrent triton.Value, transposed bool) (rows, units span, weights [4]triton.Value) {
	rows = stretch(b, b.ProgramID(0), l.rows(), l.Batch)
	units = stretch(b, b.Zeros(dtypes.Int32), triton.Cover(l.Units, 16), l.Units)
	from, fromIn := units.column()
	to, toIn := units.row()
	if transposed {
		from, fromIn, to, toIn = to, toIn, from, fromIn
	}
	for g := range weights {
		weights[g] = load(recurrent.At(from.Mul(4*l.Units).Add(to.Add(g*l.Units))), fromIn, toIn)
	}
	return rows, units, weights
}

// scale is the largest of some tiles' numbers along an axis, which stays, and
// has a reciprocal.
func scale(axis int, tiles ...triton.Value) triton.Value {
	largest := tiles[0].Abs()
	for _, x := range tiles[1:] {
		largest = largest.Max(x.Abs())
	}
	return largest.Largest(axis).Max(1e-30).Expand(axis)
}

// scaled is x over its scale in float16.
func scaled(x, scale triton.Value) triton.Value {
	return x.Mul(scale.Reciprocal()).To(dtypes.Float16)
}

// outputScale is that of outputs, which are below 1, the farthest from float16's
// least numbers.
const outputScale = 1.0 / (1 << 15)

// apart is x. Triton goes on with a product's result in the order of its registers,
// and has each load and store of that place change its order through shared memory,
// with two barriers; it does not go on through a gather. It is for tiles whose columns
// are a warp's, where 437 µs became 395; others gain in one direction what they lose in
// the other.
func apart(b *triton.Block, x triton.Value) triton.Value {
	units, rows := x.Dims()[0], x.Dims()[1]
	if units < 128 {
		return x
	}
	return x.Gather(0, b.Range(units).Expand(1).Spread(units, rows))
}

// Kernel is the kernel of these sizes.
func (l LSTM) Kernel() triton.Kernel {
	return triton.Kernel{
		Name: "lstm", Grid: [3]int{triton.Blocks(l.Batch, l.rows())}, Stages: 1, Warps: l.warps(),
		Inputs:  []shapes.Shape{l.shape(4), shapes.Make(dtypes.Float32, l.Units, 4*l.Units)},
		Outputs: []shapes.Shape{l.shape(1), l.shape(1), l.shape(4)},
		FLOPs:   8 * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
		Body: func(b *triton.Block) {
			rows, units, weights := l.tiles(b, b.Input(1), true)
			m, mIn := rows.row()
			n, nIn := units.column()
			start := b.Zeros(dtypes.Float32, n.Dims()[0], l.rows())
			// factor is an output as a factor of products, sum what a gate gets from
			// its product and z.
			factor := func(h triton.Value) triton.Value { return h }
			sum := func(g int, product, z triton.Value) triton.Value { return product.Add(z) }
			if l.half() {
				small := b.Full(dtypes.Float32, outputScale, 1, 1)
				var scales [4]triton.Value
				for g, w := range weights {
					scales[g] = scale(1, w)
					weights[g], scales[g] = scaled(w, scales[g]), scales[g].Mul(small)
				}
				factor = func(h triton.Value) triton.Value { return scaled(h, small) }
				sum = func(g int, product, z triton.Value) triton.Value { return product.MulAdd(scales[g], z) }
			}
			last := b.Full(dtypes.Int32, float64(l.Length-1))
			at := func(t triton.Value, g int) triton.Value {
				return t.Mul(l.Batch).Add(m).Mul(4 * l.Units).Add(n.Add(g * l.Units))
			}
			z := func(t triton.Value) (z []triton.Value) { // what the gates get
				for g := range 4 {
					z = append(z, load(b.Input(0).At(at(t, g)), mIn, nIn))
				}
				return z
			}
			// Loads of the next place are on their way while this one is computed.
			first := append([]triton.Value{factor(start), start}, z(b.Zeros(dtypes.Int32))...)
			b.For(0, l.Length, 1, first, func(t triton.Value, state []triton.Value) []triton.Value {
				next := z(t.Add(1).Min(last))
				var gates [4]triton.Value
				for g := range gates {
					gates[g] = b.Dot(weights[g], state[0], start, l.Rounding)
				}
				for g := range gates {
					gates[g] = sum(g, apart(b, gates[g]), state[2+g])
					if g == 2 {
						gates[g] = tanh(gates[g])
					} else {
						gates[g] = gates[g].Sigmoid()
					}
				}
				c := gates[1].Mul(state[1]).Add(gates[0].Mul(gates[2]))
				h := gates[3].Mul(tanh(c))
				if !nIn.IsZero() { // rows that are no units get sigmoid(0): keep them out of the next products
					h = nIn.Select(h, 0)
				}
				for g := range gates {
					store(b.Output(2).At(at(t, g)), gates[g], mIn, nIn)
				}
				here := t.Mul(l.Batch).Add(m).Mul(l.Units).Add(n)
				store(b.Output(0).At(here), h, mIn, nIn)
				store(b.Output(1).At(here), c, mIn, nIn)
				return append([]triton.Value{factor(h), c}, next...)
			})
		},
	}
}

// LSTMBack is LSTM backwards: the gradient of what the gates got.
//
//	inputs:  v [length batch units], the gradient of h, gates and c of LSTM, recurrent
//	outputs: d [length batch 4·units], the gradient of z
//
// The gradient of recurrent is that of a dense layer: h of the place before,
// transposed, times d.
type LSTMBack struct{ LSTM }

// Kernel is the kernel of these sizes.
func (l LSTMBack) Kernel() triton.Kernel {
	return triton.Kernel{
		Name: "lstm_back", Grid: [3]int{triton.Blocks(l.Batch, l.rows())}, Stages: 1, Warps: l.warps(),
		Inputs:  []shapes.Shape{l.shape(1), l.shape(4), l.shape(1), shapes.Make(dtypes.Float32, l.Units, 4*l.Units)},
		Outputs: []shapes.Shape{l.shape(4)},
		FLOPs:   8 * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
		Body: func(b *triton.Block) {
			rows, units, weights := l.tiles(b, b.Input(3), false)
			m, mIn := rows.row()
			n, nIn := units.column()
			start := b.Zeros(dtypes.Float32, n.Dims()[0], l.rows())
			// back is the gradient of the output before, from those of the gates.
			back := func(d [4]triton.Value) triton.Value {
				sum := start
				for g := range d {
					sum = b.Dot(weights[g], d[g], sum, l.Rounding)
				}
				return apart(b, sum)
			}
			if l.half() {
				up, products := scale(1, weights[:]...), back
				for g, w := range weights {
					weights[g] = scaled(w, up)
				}
				back = func(d [4]triton.Value) triton.Value {
					down := scale(0, d[:]...)
					for g := range d {
						d[g] = scaled(d[g], down)
					}
					return products(d).Mul(up).Mul(down)
				}
			}
			zero := b.Zeros(dtypes.Int32)
			at := func(t triton.Value) triton.Value { return t.Mul(l.Batch).Add(m).Mul(l.Units).Add(n) }
			gate := func(t triton.Value, g int) triton.Value {
				return t.Mul(l.Batch).Add(m).Mul(4 * l.Units).Add(n.Add(g * l.Units))
			}
			// The place's four gates, the gradient of its output, its cell, and the
			// one before. Those of the next place are loaded while this one is
			// computed.
			place := func(t triton.Value) (l []triton.Value) {
				for g := range 4 {
					l = append(l, load(b.Input(1).At(gate(t, g)), mIn, nIn))
				}
				l = append(l, load(b.Input(0).At(at(t)), mIn, nIn), load(b.Input(2).At(at(t)), mIn, nIn))
				before := load(b.Input(2).At(at(t.Sub(1))), mIn, nIn, t.Greater(0).Spread(1, 1))
				return append(l, before)
			}
			end := b.Full(dtypes.Int32, float64(l.Length-1))
			first := append([]triton.Value{start, start}, place(end)...)
			b.For(0, l.Length, 1, first, func(i triton.Value, state []triton.Value) []triton.Value {
				t := end.Sub(i)
				following := place(t.Sub(1).Max(zero))
				in, forget, cell, out := state[2], state[3], state[4], state[5]
				v, c, before := state[6], tanh(state[7]), state[8]
				dh := state[0].Add(v)
				dc := state[1].Add(dh.Mul(out).Mul(c.Mul(c).Neg().Add(1)))
				slope := func(s triton.Value) triton.Value { return s.Mul(s.Neg().Add(1)) }
				d := [4]triton.Value{
					dc.Mul(cell).Mul(slope(in)),
					dc.Mul(before).Mul(slope(forget)),
					dc.Mul(in).Mul(cell.Mul(cell).Neg().Add(1)),
					dh.Mul(c).Mul(slope(out)),
				}
				for g := range d {
					store(b.Output(0).At(gate(t, g)), d[g], mIn, nIn)
				}
				return append([]triton.Value{back(d), dc.Mul(forget)}, following...)
			})
		},
	}
}
