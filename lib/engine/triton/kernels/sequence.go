package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Sequence is a training step of a small net for sequences, all but the update:
// a dense layer, an LSTM and a dense layer, at each place of a sequence, and the
// mean squared error. The batch is taken from examples on the device as Gather
// does it.
//
//	inputs:  order [examples] int32, place, step and at, int32 scalars,
//	         x [examples length·in], y [examples length·out],
//	         the first layer's weights [in wide] and biases [wide],
//	         the LSTM's weights [wide 4·units], biases [4·units] and recurrent [units 4·units],
//	         the last layer's weights [units out] and biases [out]
//	outputs: loss [batch], hit [batch], which is 0, step+at+1 as a float32 scalar,
//	         parts of the gradients, for PartsUpdate: [parts in+1 wide], [parts wide+1 4·units],
//	         [parts units 4·units] and [parts units+1 out],
//	         and what the way back needs: [programs length 6 32]
//
// All is float32 and none of it TF32: with so few units a matrix of tensor cores
// would be mostly padding. A block is one warp. Its lanes are the units of some
// examples; what a unit needs of the others comes by shuffles, so that nobody
// waits at a barrier, and weights, states and the sums of gradients stay in
// registers. A place costs the time of its longest chain of operations, not of
// their number. So there is no form of it for bfloat16: it has no product whose factors
// are worth less, and to round them would make the chain longer.
type Sequence struct {
	Examples, Batch, Length int
	In, Wide, Units, Out    int
	// Tile has the lanes N of an example, and for how many places numbers are on their
	// way from memory, K. M are the examples of a block.
	Tile Tile
}

// tile is the one that Kernel uses.
func (l Sequence) tile() Tile {
	usual := Tile{N: triton.Cover(max(l.Units, l.Out), 4), K: 2}
	t := l.Tile.or(usual)
	t.N = min(max(triton.Cover(t.N, 1), usual.N), warp)
	t.M, t.Warps, t.Stages = warp/t.N, 1, 1
	return t
}

// Key tells nets apart.
func (l Sequence) Key() string {
	return key("sequence", l.Examples, l.Batch, l.Length, l.In, l.Wide, l.Units, l.Out)
}

// Tiles are those worth trying: the device may have processors left for a warp of fewer
// examples.
func (l Sequence) Tiles() []Tile {
	few := 2 * l.tile().N
	return distinct([]Tile{{}, {K: 1}, {K: 3}, {K: 4}, {N: few}, {N: few, K: 3}, {N: 2 * few}}, func(t Tile) Tile { l.Tile = t; return l.tile() })
}

// With is the net with another tile.
func (l Sequence) With(t Tile) Op { l.Tile = t; return l }

// Fits says whether a net is small enough: beyond these sizes registers do not
// suffice, and beyond this batch adding up the parts costs more than is won.
func (l Sequence) Fits() bool {
	return l.Units <= 8 && l.In <= 4 && l.Wide <= 16 && l.Out <= 4 && l.Batch <= 512
}

const (
	warp   = 32
	planes = 6 // of a place that the way back needs: four gates, the cell and its tanh
)

func (l Sequence) lanes() int    { return l.tile().N }
func (l Sequence) rows() int     { return l.tile().M }
func (l Sequence) ahead() int    { return l.tile().K }
func (l Sequence) programs() int { return triton.Blocks(l.Batch, l.rows()) }

// Parts is how many parts each gradient has.
func (l Sequence) Parts() int { return l.programs() * l.rows() }

// Inputs and Outputs are the kernel's.
func (l Sequence) Inputs() []shapes.Shape {
	i, f := shapes.Make(dtypes.Int32), func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	return []shapes.Shape{shapes.Make(dtypes.Int32, l.Examples), i, i, i, f(l.Examples, l.Length*l.In), f(l.Examples, l.Length*l.Out),
		f(l.In, l.Wide), f(l.Wide), f(l.Wide, 4*l.Units), f(4 * l.Units), f(l.Units, 4*l.Units), f(l.Units, l.Out), f(l.Out)}
}

// Outputs are the kernel's.
func (l Sequence) Outputs() []shapes.Shape {
	f := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	p := l.Parts()
	return []shapes.Shape{f(l.Batch), f(l.Batch), f(), f(p, l.In+1, l.Wide), f(p, l.Wide+1, 4*l.Units), f(p, l.Units, 4*l.Units), f(p, l.Units+1, l.Out),
		f(l.programs(), l.Length, planes, warp)}
}

// Kernel is the kernel of these sizes.
func (l Sequence) Kernel() triton.Kernel {
	return triton.Kernel{
		Name: fmt.Sprintf("sequence_%d", l.Units), Grid: [3]int{l.programs()}, Warps: 1, Stages: 1,
		Inputs: l.Inputs(), Outputs: l.Outputs(), Takes: map[int]int{0: l.Batch, 4: l.Batch * l.Length * l.In, 5: l.Batch * l.Length * l.Out},
		FLOPs: 6 * float64(l.Length*l.Batch) * float64(l.Wide*l.In+4*l.Units*(l.Wide+l.Units)+l.Units*l.Out),
		Body:  func(b *triton.Block) { newSequencer(b, l).write() },
	}
}

// sequencer writes the kernel of a Sequence. Tiles are [rows lanes]: examples
// and units.
type sequencer struct {
	Sequence
	b         *triton.Block
	unit      triton.Value
	row       triton.Value
	mine      triton.Value      // lanes that are an example of the batch
	some      triton.Value      // lanes that are a unit; the zero Value where all are
	x, y      triton.Value      // where the numbers of the lane's example are
	kept      triton.Value      // where the lane keeps what the way back needs
	feed      [][4]triton.Value // what a number of the input gives the gates: the first layer is in it
	bias      [4]triton.Value
	recurrent [][4]triton.Value // from unit j to the lane's
	zero      triton.Value
}

func newSequencer(b *triton.Block, l Sequence) *sequencer {
	rows, lanes := l.rows(), l.lanes()
	row := b.Range(rows).Expand(1).Spread(rows, lanes)
	s := &sequencer{Sequence: l, b: b, unit: b.Range(lanes).Expand(0).Spread(rows, lanes), zero: b.Zeros(dtypes.Float32, rows, lanes)}
	s.row = b.ProgramID(0).Mul(rows).Add(row)
	s.mine = s.row.Less(l.Batch)
	if l.Units < lanes {
		s.some = s.unit.Less(l.Units)
	}
	first := beginning(b.Input(1).Load(), b.Input(3).Load(), l.Examples, l.Batch)
	example := b.Input(0).At(first.Add(s.row.Min(l.Batch - 1))).Load()
	s.x, s.y = b.Input(4).At(example.Mul(l.Length*l.In)), b.Input(5).At(example.Mul(l.Length*l.Out))
	s.kept = b.Output(7).At(b.ProgramID(0).Mul(l.Length * planes * warp).Add(row.Mul(lanes).Add(s.unit)))
	recurrent, weights := b.Input(10).At(s.unit), b.Input(8).At(s.unit)
	for j := range l.Units {
		s.recurrent = append(s.recurrent, s.gates(recurrent, 4*j*l.Units))
	}
	// The first layer has no activation: it and the LSTM's weights are one
	// product.
	s.bias = s.gates(b.Input(9).At(s.unit), 0)
	for range l.In {
		s.feed = append(s.feed, [4]triton.Value{s.zero, s.zero, s.zero, s.zero})
	}
	for a := range l.Wide {
		w := s.gates(weights, 4*a*l.Units)
		for g := range w {
			s.bias[g] = w[g].MulAdd(s.scalar(7, a), s.bias[g])
			for i := range s.feed {
				s.feed[i][g] = w[g].MulAdd(s.scalar(6, i*l.Wide+a), s.feed[i][g])
			}
		}
	}
	s.scale()
	return s
}

// scale makes the sums of the gates the exponents of 2 that their sigmoids, and
// the tanh of the cell's, begin with.
func (s *sequencer) scale() {
	gates := func(w *[4]triton.Value) {
		for g, by := range [4]float64{-math.Log2E, -math.Log2E, tanhScale, -math.Log2E} {
			w[g] = w[g].Mul(by)
		}
	}
	gates(&s.bias)
	for _, w := range [][][4]triton.Value{s.feed, s.recurrent} {
		for i := range w {
			gates(&w[i])
		}
	}
}

// tanhScale makes x what tanh(x) is twice the sigmoid of, as an exponent of 2.
const tanhScale = -2 * math.Log2E

// sigmoid is that of what has been scaled.
func sigmoid(x triton.Value) triton.Value { return x.Exp2().Add(1).Reciprocal() }

// scalar is a number of an input.
func (s *sequencer) scalar(input int, at any) triton.Value {
	return s.b.Input(input).At(at).Load()
}

// gates are a row of a matrix [… 4·units], by gate; 0 where a lane is no unit.
// units is where the matrix's first units are.
func (s *sequencer) gates(units triton.Value, at any) (w [4]triton.Value) {
	row := units.At(at)
	for g := range w {
		w[g] = load(row.At(g*s.Units), s.some)
	}
	return w
}

// of is what unit j of each example has.
func (s *sequencer) of(v triton.Value, j int) triton.Value {
	return v.Gather(1, s.b.Full(dtypes.Int32, float64(j), s.rows(), s.lanes()))
}

// numbers are those of an example at place t.
func (s *sequencer) numbers(of, t triton.Value, each int) (l []triton.Value) {
	p := of.At(t.Mul(each))
	for i := range each {
		l = append(l, p.At(i).Load())
	}
	return l
}

// planes are where the way back finds place t.
func (s *sequencer) planes(t triton.Value) (l [planes]triton.Value) {
	p := s.kept.At(t.Mul(planes * warp))
	for k := range l {
		l[k] = p.At(k * warp)
	}
	return l
}

func (s *sequencer) write() {
	s.forwards()
	s.back()
}

// forwards goes along the sequence. Its state is what came out, the cell, scaled,
// and the inputs of the next places.
func (s *sequencer) forwards() {
	b := s.b
	last := b.Full(dtypes.Int32, float64(s.Length-1))
	state := []triton.Value{s.zero, s.zero}
	for k := range s.ahead() {
		state = append(state, s.numbers(s.x, b.Full(dtypes.Int32, float64(min(k, s.Length-1))), s.In)...)
	}
	b.For(0, s.Length, 1, state, func(t triton.Value, state []triton.Value) []triton.Value {
		h, c, x := state[0], state[1], state[2:]
		next := s.numbers(s.x, t.Add(s.ahead()).Min(last), s.In)
		z := s.bias
		for g := range z {
			for i := range s.In {
				z[g] = x[i].MulAdd(s.feed[i][g], z[g])
			}
		}
		for j := range s.Units {
			from := s.of(h, j)
			for g := range z {
				z[g] = from.MulAdd(s.recurrent[j][g], z[g])
			}
		}
		in, forget, half, out := sigmoid(z[0]), sigmoid(z[1]), sigmoid(z[2]), sigmoid(z[3])
		c = in.MulAdd(half.MulAdd(2*tanhScale, -tanhScale), forget.Mul(c))
		end := sigmoid(c).MulAdd(2, -1)
		kept := s.planes(t)
		for k, v := range [planes]triton.Value{in, forget, half.MulAdd(2, -1), out, c.Mul(1 / tanhScale), end} {
			kept[k].Store(v)
		}
		return slices.Concat([]triton.Value{out.Mul(end), c}, x[s.In:], next)
	})
}
