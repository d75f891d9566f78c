package kernels

import (
	"cmp"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// LargestUnits is how many units a recurrence in one kernel may have: its recurrent
// weights stay on the chip for the whole sequence, and those of an LSTM of 128 units, 128 KiB
// in float16, are the most that a processor's shared memory takes.
const LargestUnits = 128

// Recurrence runs a small recurrent cell over a whole sequence, from what the inputs give its
// gates (z, with the biases) and the output of the time step before, which begins with zeros.
//
//	inputs:  z [length batch gates·units], recurrent [units gates·units] float32,
//	         and for GRU and RNN biases [gates·units] float32, which are added to h·recurrent
//	outputs: h [length batch units], what comes out,
//	         for LSTM c [length batch units], the cells, and
//	         for LSTM and GRU kept [length batch 4·units], which RecurrenceBack needs
//
// All is float32, but for factors of products, and nothing comes before the first time step.
// Factors are float16, which has the 10 bits of mantissa that TF32 has in half the room:
// for the range that it lacks, weights are divided by the largest that belongs to the
// same result, and gradients by the largest of their example. Of bfloat16 they are as
// they come: it has the range, and a time step is spared what finds the largest. Where outputs
// have no bound, factors are TF32.
//
// Tiles are [units rows], as the second side of a product may be 8 and its first may
// not: a time step costs a block what it has of rows, in exponentials, z and gates.
type Recurrence struct {
	Cell                 Cell
	Act                  Act // of RNN: one whose gradient can be computed from its result
	Length, Batch, Units int
	Compute              dtypes.DType // what factors are rounded to; default: float32, which is float16 as said
	// Tile has the rows N of the batch in a block, the warps, and Apart. M and K are the
	// units. With Exact factors are float32.
	Tile Tile
}

// recurrentRows is the usual number of a block's rows, and the least.
const recurrentRows = 8

// tile is the one that Kernel uses. Warps are twice as many where each would have more
// numbers than registers, and the results of matmuls are set apart.
func (l Recurrence) tile() Tile {
	units := triton.Cover(l.Units, 16)
	usual := Tile{N: recurrentRows, Warps: 4, Apart: 1}
	if units > 32 {
		usual.Warps = 8
	}
	t := l.Tile.or(usual)
	t.M, t.N, t.K, t.Stages = units, min(triton.Cover(t.N, recurrentRows), triton.Cover(l.Batch, recurrentRows)), units, 1
	return t
}

func (l Recurrence) Key() string {
	return key(l.name(), l.Length, l.Batch, l.Units, short(l.Compute))
}

// name is the cell's, in small letters.
func (l Recurrence) name() string {
	if l.Cell == RNN {
		return "rnn_" + l.Act.String()
	}
	return cells[l.Cell].name
}

// Tiles are those worth trying: few warps wait for each other less, many have more
// registers; set apart, the results of matmuls may save most of a time step's barriers; and a
// batch of more blocks than processors may have larger ones. Larger blocks of fewer warps than these spill registers.
func (l Recurrence) Tiles() []Tile {
	tiles := []Tile{{}}
	fewest := max(1, triton.Cover(l.Units, 16)/32)
	for warps := fewest; warps <= 4*fewest; warps *= 2 {
		tiles = append(tiles, Tile{N: 8, Warps: warps, Apart: -1}, Tile{N: 8, Warps: warps, Apart: 1})
	}
	tiles = append(tiles, Tile{N: 16, Warps: 2 * fewest}, Tile{N: 16, Warps: 4 * fewest}, Tile{N: 32, Warps: min(8, 4*fewest)})
	return distinct(tiles, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

func (l Recurrence) With(t Tile) Op { l.Tile = t; return l }

// factors is the type of the products' factors.
func (l Recurrence) factors() dtypes.DType {
	switch {
	case cmp.Or(l.Compute, dtypes.Float32) == dtypes.BFloat16:
		return dtypes.BFloat16
	case l.Tile.Rounding == triton.Exact, l.Cell == RNN && l.Act != Tanh && l.Act != Sigmoid:
		return dtypes.Float32
	}
	return dtypes.Float16
}

func (l Recurrence) shape(n int) shapes.Shape {
	return shapes.Make(dtypes.Float32, l.Length, l.Batch, n*l.Units)
}

// tiles are where a block's rows and the units stand in arrays of n·units columns,
// and the gates' recurrent weights: [from to], or [to from] if transposed.
func (l Recurrence) tiles(b *triton.Block, recurrent triton.Value, transposed bool) (rows, units span, weights []triton.Value) {
	t := l.tile()
	rows = stretch(b, b.ProgramID(0), t.N, l.Batch)
	units = stretch(b, b.Zeros(dtypes.Int32), t.M, l.Units)
	from, fromIn := units.column()
	to, toIn := units.row()
	if transposed {
		from, fromIn, to, toIn = to, toIn, from, fromIn
	}
	gates := cells[l.Cell].gates
	for g := range gates {
		weights = append(weights, load(recurrent.At(from.Mul(gates*l.Units).Add(to.Add(g*l.Units))), fromIn, toIn))
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

// brain are tiles in bfloat16.
func brain(l []triton.Value) (all []triton.Value) {
	for _, x := range l {
		all = append(all, x.To(dtypes.BFloat16))
	}
	return all
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

func (l Recurrence) Kernel() triton.Kernel {
	tile, c := l.tile(), cells[l.Cell]
	k := triton.Kernel{
		Name: l.name(), Grid: [3]int{triton.Blocks(l.Batch, tile.N)}, Stages: tile.Stages, Warps: tile.Warps,
		Inputs:  []shapes.Shape{l.shape(c.gates), shapes.Make(dtypes.Float32, l.Units, c.gates*l.Units)},
		Outputs: []shapes.Shape{l.shape(1)},
		FLOPs:   2 * float64(c.gates) * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
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
				scales := make([]triton.Value, len(weights))
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
			var biases []triton.Value
			if c.biases {
				for g := range c.gates {
					biases = append(biases, load(b.Input(2).At(n.Add(g*l.Units)), nIn))
				}
			}
			last := b.Full(dtypes.Int32, float64(l.Length-1))
			at := func(t triton.Value, columns, g int) triton.Value {
				return t.Mul(l.Batch).Add(m).Mul(columns * l.Units).Add(n.Add(g * l.Units))
			}
			z := func(t triton.Value) (z []triton.Value) { // what the gates get
				for g := range c.gates {
					z = append(z, load(b.Input(0).At(at(t, c.gates, g)), mIn, nIn))
				}
				return z
			}
			first := []triton.Value{factor(start)}
			if c.state != stateless {
				first = append(first, start)
			}
			// Loads of the next time step are on their way while this one is computed.
			first = append(first, z(b.Zeros(dtypes.Int32))...)
			b.For(0, l.Length, 1, first, func(t triton.Value, state []triton.Value) []triton.Value {
				next := z(t.Add(1).Min(last))
				products := make([]triton.Value, c.gates)
				for g := range products {
					products[g] = b.Dot(weights[g], state[0], start, tile.Rounding)
				}
				before := state[len(state)-c.gates-1] // of a cell without a state, it is not read
				h, inner, kept := c.forward(l, before, state[len(state)-c.gates:], biases, func(g int, z triton.Value) triton.Value {
					return sum(g, tile.apart(b, products[g]), z)
				})
				if !nIn.IsZero() { // rows that are no units get sigmoid(0): keep them out of the next products
					h = nIn.Select(h, 0)
				}
				for g := range kept {
					store(b.Output(c.keptOutput()).At(at(t, len(kept), g)), kept[g], mIn, nIn)
				}
				here := t.Mul(l.Batch).Add(m).Mul(l.Units).Add(n)
				store(b.Output(0).At(here), h, mIn, nIn)
				after := []triton.Value{triton.Value{}}
				switch c.state {
				case innerState:
					store(b.Output(1).At(here), inner, mIn, nIn)
					after = append(after, inner)
				case outputState:
					after = append(after, h)
				}
				after[0] = factor(h)
				return append(after, next...)
			})
		},
	}
	if c.biases {
		k.Inputs = append(k.Inputs, shapes.Make(dtypes.Float32, c.gates*l.Units))
	}
	if c.state == innerState {
		k.Outputs = append(k.Outputs, l.shape(1))
	}
	if c.kept > 0 {
		k.Outputs = append(k.Outputs, l.shape(c.kept))
	}
	return k
}

// RecurrenceBack is Recurrence backwards: the gradient of what the gates got.
//
//	inputs:  v [length batch units], the gradient of h, kept of LSTM and GRU, then c of LSTM,
//	         h of others, and recurrent
//	outputs: d [length batch gates·units], the gradient of z, and
//	         for GRU products [length batch gates·units], the gradient of h·recurrent + biases,
//	         which is d for others
//
// The gradient of recurrent is that of a dense layer: h of the time step before,
// transposed, times that of the products.
//
// Its tilings are those of Recurrence, and its best one may be another.
type RecurrenceBack struct{ Recurrence }

func (l RecurrenceBack) Key() string {
	return key(l.name()+" back", l.Length, l.Batch, l.Units, short(l.Compute))
}

func (l RecurrenceBack) With(t Tile) Op { l.Tile = t; return l }

func (l RecurrenceBack) Kernel() triton.Kernel {
	tile, cell := l.tile(), cells[l.Cell]
	k := triton.Kernel{
		Name: l.name() + "_back", Grid: [3]int{triton.Blocks(l.Batch, tile.N)}, Stages: tile.Stages, Warps: tile.Warps,
		Inputs:  []shapes.Shape{l.shape(1)},
		Outputs: []shapes.Shape{l.shape(cell.gates)},
		FLOPs:   2 * float64(cell.gates) * float64(l.Length*l.Batch) * float64(l.Units*l.Units),
	}
	if cell.kept > 0 {
		k.Inputs = append(k.Inputs, l.shape(cell.kept))
	}
	k.Inputs = append(k.Inputs, l.shape(1), shapes.Make(dtypes.Float32, l.Units, cell.gates*l.Units))
	if cell.apart {
		k.Outputs = append(k.Outputs, l.shape(cell.gates))
	}
	states := len(k.Inputs) - 2
	k.Body = func(b *triton.Block) {
		rows, units, weights := l.tiles(b, b.Input(states+1), false)
		m, mIn := rows.row()
		n, nIn := units.column()
		start := b.Zeros(dtypes.Float32, tile.M, tile.N)
		// back is the gradient of the output before, from those of the gates' products.
		back := func(d []triton.Value) triton.Value {
			sum := start
			for g := range d {
				sum = b.Dot(weights[g], d[g], sum, tile.Rounding)
			}
			return tile.apart(b, sum)
		}
		products := back
		switch l.factors() {
		case dtypes.Float16:
			up := scale(1, weights...)
			for g, w := range weights {
				weights[g] = scaled(w, up)
			}
			back = func(d []triton.Value) triton.Value {
				down, small := scale(0, d...), make([]triton.Value, len(d))
				for g := range d {
					small[g] = scaled(d[g], down)
				}
				return products(small).Mul(up).Mul(down)
			}
		case dtypes.BFloat16:
			weights = brain(weights)
			back = func(d []triton.Value) triton.Value { return products(brain(d)) }
		}
		zero := b.Zeros(dtypes.Int32)
		at := func(t triton.Value) triton.Value { return t.Mul(l.Batch).Add(m).Mul(l.Units).Add(n) }
		gate := func(t triton.Value, columns, g int) triton.Value {
			return t.Mul(l.Batch).Add(m).Mul(columns * l.Units).Add(n.Add(g * l.Units))
		}
		// What was kept of the time step, the gradient of its output, its state or output, and
		// the one before. Those of the next time step are loaded while this one is
		// computed.
		place := func(t triton.Value) (all []triton.Value) {
			for g := range cell.kept {
				all = append(all, load(b.Input(1).At(gate(t, cell.kept, g)), mIn, nIn))
			}
			all = append(all, load(b.Input(0).At(at(t)), mIn, nIn))
			if cell.here {
				all = append(all, load(b.Input(states).At(at(t)), mIn, nIn))
			}
			if cell.before {
				all = append(all, load(b.Input(states).At(at(t.Sub(1))), mIn, nIn, t.Greater(0).Spread(1, 1)))
			}
			return all
		}
		end := b.Full(dtypes.Int32, float64(l.Length-1))
		first := []triton.Value{start}
		if cell.state == innerState {
			first = append(first, start)
		}
		carried := len(first)
		first = append(first, place(end)...)
		b.For(0, l.Length, 1, first, func(i triton.Value, state []triton.Value) []triton.Value {
			t := end.Sub(i)
			following := place(t.Sub(1).Max(zero))
			d, fed, carry := cell.backward(l.Recurrence, state[:carried], state[carried:])
			for g := range d {
				store(b.Output(0).At(gate(t, cell.gates, g)), d[g], mIn, nIn)
			}
			if cell.apart {
				for g := range fed {
					store(b.Output(1).At(gate(t, cell.gates, g)), fed[g], mIn, nIn)
				}
			}
			return append(carry(back(fed)), following...)
		})
	}
	return k
}
