package kernels

import (
	"cmp"

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
// All is float32, but for factors of products, and nothing comes before the first place.
// Factors are float16, which has the 10 bits of mantissa that TF32 has in half the room:
// for the range that it lacks, weights are divided by the largest that belongs to the
// same result, and gradients by the largest of their example. Of bfloat16 they are as
// they come: it has the range, and a place is spared what finds the largest.
//
// Tiles are [units rows], as the second side of a product may be 8 and its first may
// not: a place costs a block what it has of rows, in exponentials, z and gates.
type LSTM struct {
	Length, Batch, Units int
	Compute              dtypes.DType // what factors are rounded to; default: float32, which is float16 as said
	// Tile has the rows N of the batch in a block, the warps, and Apart. M and K are the
	// units. With Exact factors are float32.
	Tile Tile
}

// lstmRows is the usual number of a block's rows, and the least.
const lstmRows = 8

// tile is the one that Kernel uses. Warps are twice as many where each would have more
// numbers than registers, and the results of matmuls are set apart.
func (l LSTM) tile() Tile {
	units := triton.Cover(l.Units, 16)
	usual := Tile{N: lstmRows, Warps: 4, Apart: 1}
	if units > 32 {
		usual.Warps = 8
	}
	t := l.Tile.or(usual)
	t.M, t.N, t.K, t.Stages = units, min(triton.Cover(t.N, lstmRows), triton.Cover(l.Batch, lstmRows)), units, 1
	return t
}

func (l LSTM) Key() string { return key("lstm", l.Length, l.Batch, l.Units, short(l.Compute)) }

// Tiles are those worth trying: few warps wait for each other less, many have more
// registers; set apart, the results of matmuls may save most of a time step's barriers; and a
// batch of more blocks than processors may have larger ones. Larger blocks of fewer warps than these spill registers.
func (l LSTM) Tiles() []Tile {
	tiles := []Tile{{}}
	fewest := max(1, triton.Cover(l.Units, 16)/32)
	for warps := fewest; warps <= 4*fewest; warps *= 2 {
		tiles = append(tiles, Tile{N: 8, Warps: warps, Apart: -1}, Tile{N: 8, Warps: warps, Apart: 1})
	}
	tiles = append(tiles, Tile{N: 16, Warps: 2 * fewest}, Tile{N: 16, Warps: 4 * fewest}, Tile{N: 32, Warps: min(8, 4*fewest)})
	return distinct(tiles, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l LSTM) With(t Tile) Op { l.Tile = t; return l }

// factors is the type of the products' factors.
func (l LSTM) factors() dtypes.DType {
	switch {
	case cmp.Or(l.Compute, dtypes.Float32) == dtypes.BFloat16:
		return dtypes.BFloat16
	case l.Tile.Rounding == triton.Exact:
		return dtypes.Float32
	}
	return dtypes.Float16
}

func (l LSTM) shape(n int) shapes.Shape {
	return shapes.Make(dtypes.Float32, l.Length, l.Batch, n*l.Units)
}

// tiles are where a block's rows and the units stand in arrays of n·units columns,
// and the four gates' recurrent weights: [from to], or [to from] if transposed.
func (l LSTM) tiles(b *triton.Block, recurrent triton.Value, transposed bool) (rows, units span, weights [4]triton.Value) {
	t := l.tile()
	rows = stretch(b, b.ProgramID(0), t.N, l.Batch)
	units = stretch(b, b.Zeros(dtypes.Int32), t.M, l.Units)
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

// brain are four tiles in bfloat16.
func brain(l [4]triton.Value) [4]triton.Value {
	for g, x := range l {
		l[g] = x.To(dtypes.BFloat16)
	}
	return l
}

// outputScale is that of outputs, which are below 1, the farthest from float16's
// least numbers.
const outputScale = 1.0 / (1 << 15)

// apart is x. Triton continues with a product's result in the order of its registers,
// and has each load and store of that place change its order through shared memory,
// with two barriers; it does not continue through a gather. What gains by it in one
// direction may lose in the other.
func (t Tile) apart(b *triton.Block, x triton.Value) triton.Value {
	if t.Apart < 0 {
		return x
	}
	return x.Gather(0, b.Range(t.M).Expand(1).Spread(t.M, t.N))
}

func (l LSTM) Kernel() triton.Kernel {
	tile := l.tile()
	return triton.Kernel{
		Name: "lstm", Grid: [3]int{triton.Blocks(l.Batch, tile.N)}, Stages: tile.Stages, Warps: tile.Warps,
		Inputs:  []shapes.Shape{l.shape(4), shapes.Make(dtypes.Float32, l.Units, 4*l.Units)},
		Outputs: []shapes.Shape{l.shape(1), l.shape(1), l.shape(4)},
		FLOPs:   8 * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
		Body: func(b *triton.Block) {
			rows, units, weights := l.tiles(b, b.Input(1), true)
			m, mIn := rows.row()
			n, nIn := units.column()
			start := b.Zeros(dtypes.Float32, tile.M, tile.N)
			// factor is an output as a factor of products, sum what a gate gets from
			// its product and z.
			factor := func(h triton.Value) triton.Value { return h }
			sum := func(g int, product, z triton.Value) triton.Value { return product.Add(z) }
			switch l.factors() {
			case dtypes.Float16:
				small := b.Full(dtypes.Float32, outputScale, 1, 1)
				var scales [4]triton.Value
				for g, w := range weights {
					scales[g] = scale(1, w)
					weights[g], scales[g] = scaled(w, scales[g]), scales[g].Mul(small)
				}
				factor = func(h triton.Value) triton.Value { return scaled(h, small) }
				sum = func(g int, product, z triton.Value) triton.Value { return product.MulAdd(scales[g], z) }
			case dtypes.BFloat16:
				weights = brain(weights)
				factor = func(h triton.Value) triton.Value { return h.To(dtypes.BFloat16) }
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
					gates[g] = b.Dot(weights[g], state[0], start, tile.Rounding)
				}
				for g := range gates {
					gates[g] = sum(g, tile.apart(b, gates[g]), state[2+g])
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
//
// Its tilings are those of LSTM, and its best one may be another.
type LSTMBack struct{ LSTM }

func (l LSTMBack) Key() string {
	return key("lstm back", l.Length, l.Batch, l.Units, short(l.Compute))
}

func (l LSTMBack) With(t Tile) Op { l.Tile = t; return l }

func (l LSTMBack) Kernel() triton.Kernel {
	tile := l.tile()
	return triton.Kernel{
		Name: "lstm_back", Grid: [3]int{triton.Blocks(l.Batch, tile.N)}, Stages: tile.Stages, Warps: tile.Warps,
		Inputs:  []shapes.Shape{l.shape(1), l.shape(4), l.shape(1), shapes.Make(dtypes.Float32, l.Units, 4*l.Units)},
		Outputs: []shapes.Shape{l.shape(4)},
		FLOPs:   8 * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
		Body: func(b *triton.Block) {
			rows, units, weights := l.tiles(b, b.Input(3), false)
			m, mIn := rows.row()
			n, nIn := units.column()
			start := b.Zeros(dtypes.Float32, tile.M, tile.N)
			// back is the gradient of the output before, from those of the gates.
			back := func(d [4]triton.Value) triton.Value {
				sum := start
				for g := range d {
					sum = b.Dot(weights[g], d[g], sum, tile.Rounding)
				}
				return tile.apart(b, sum)
			}
			products := back
			switch l.factors() {
			case dtypes.Float16:
				up := scale(1, weights[:]...)
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
			case dtypes.BFloat16:
				weights = brain(weights)
				back = func(d [4]triton.Value) triton.Value { return products(brain(d)) }
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
