package kernels

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Stack is a training step of a small stack of dense layers, all but the update:
// forwards, the mean squared error, and backwards. The batch is taken from
// examples on the device as Gather does it; a batch of all examples is taken as
// they lie.
//
//	inputs:  order [examples] int32, place, step and at, int32 scalars,
//	         x [examples in], y [examples out],
//	         and the weights [in units] and biases [units] of each layer
//	outputs: loss [parts], whose sum over the batch is the mean, hit [parts], which is 0,
//	         step+at+1 as a float32 scalar,
//	         and of each layer parts of the gradients, for PartsUpdate: [parts in+1 units]
//
// Parts are many: a block is a warp, for whom nobody waits, and has its own part.
// Tiles are [units rows]. What lanes hold of one after a product is then what they
// need of it as a factor of the gradient of weights: see turned. Tiles have a row
// left over for most widths; it is 1 on the way back, and the product that makes
// the gradient of the weights makes that of the biases too.
//
// Factors of products are TF32, whatever else the net computes in: a product here is
// one or two instructions of a warp, and bfloat16 would halve what is no part of the time.
type Stack struct {
	Examples, Batch, In int
	Units               []int // of each layer
	Acts                []Act // of each layer
	Rounding            triton.Rounding
	// Tile has the rows N that a block takes at a time, how often it does, K, and its
	// warps. M is the widest layer. Its rounding, if not Nearest, is the stack's.
	Tile Tile
}

// tile is the one that Kernel uses. Usual are as many rows as leave registers for the
// tiles of all layers, and so many turns that to add up parts does not cost more than is
// won by many.
func (l Stack) tile() Tile {
	all, widest := 0, 0
	for i := range len(l.Units) + 1 {
		all, widest = all+l.side(i), max(widest, l.side(i))
	}
	usual := Tile{N: 32, Warps: 1, Rounding: l.Rounding}
	if all > 80 {
		usual.N = 16
	}
	t := l.Tile.or(usual)
	t.M, t.N, t.Stages = widest, triton.Cover(t.N, 16), 1
	if t.K == 0 {
		t.K = triton.Blocks(l.Batch, t.N*max(128, min(stackParts, 1<<21/l.weights())))
	}
	return t
}

// Key tells stacks apart.
func (l Stack) Key() string { return key("stack", l.Examples, l.Batch, l.In, l.Units, l.Acts) }

// Tiles are those worth trying. A warp has no registers for 64 rows.
func (l Stack) Tiles() []Tile {
	turns := l.tile().K
	return distinct([]Tile{{}, {N: 16}, {N: 32}, {N: 64, Warps: 2}, {N: 128, Warps: 4}, {K: 2 * turns}, {K: 4 * turns}, {K: max(1, turns/2)}},
		func(t Tile) Tile { l.Tile = t; return l.tile() })
}

// With is the stack with another tile.
func (l Stack) With(t Tile) Op { l.Tile = t; return l }

const (
	stackLayers = 3  // the most a Stack is made for
	stackUnits  = 32 // of a hidden layer
	stackEnds   = 16 // numbers of an example, in and out
	stackParts  = 1280
	stackFew    = 4 // numbers of an example that are read one by one
)

// Fits says whether a stack is small enough for registers.
func (l Stack) Fits() bool {
	n := len(l.Units)
	return n > 0 && n <= stackLayers && len(l.Acts) == n && l.In <= stackEnds && l.Units[n-1] <= stackEnds && slices.Max(l.Units) <= stackUnits
}

// width is how many numbers layer i gets, and side the same as the side of a tile.
func (l Stack) width(i int) int {
	if i == 0 {
		return l.In
	}
	return l.Units[i-1]
}
func (l Stack) side(i int) int   { return triton.Cover(l.width(i), 16) }
func (l Stack) spare(i int) bool { return l.width(i) < l.side(i) }

// weights is how many there are, with the biases.
func (l Stack) weights() (n int) {
	for i, units := range l.Units {
		n += (l.width(i) + 1) * units
	}
	return n
}

func (l Stack) rows() int  { return l.tile().N }
func (l Stack) turns() int { return l.tile().K }

// Parts is how many parts each gradient has.
func (l Stack) Parts() int { return triton.Blocks(l.Batch, l.rows()*l.turns()) }

// Inputs are the kernel's.
func (l Stack) Inputs() []shapes.Shape {
	i, f := shapes.Make(dtypes.Int32), func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	in := []shapes.Shape{shapes.Make(dtypes.Int32, l.Examples), i, i, i, f(l.Examples, l.In), f(l.Examples, l.Units[len(l.Units)-1])}
	for k, units := range l.Units {
		in = append(in, f(l.width(k), units), f(units))
	}
	return in
}

// Outputs are the kernel's.
func (l Stack) Outputs() []shapes.Shape {
	f := func(dims ...int) shapes.Shape { return shapes.Make(dtypes.Float32, dims...) }
	p := l.Parts()
	out := []shapes.Shape{f(p), f(p), f()}
	for k, units := range l.Units {
		out = append(out, f(p, l.width(k)+1, units))
	}
	return out
}

// Kernel is the kernel of these sizes.
func (l Stack) Kernel() triton.Kernel {
	name := fmt.Sprintf("stack_%d", l.In)
	for _, units := range l.Units {
		name += fmt.Sprintf("_%d", units)
	}
	takes := map[int]int{0: l.Batch, 4: l.Batch * l.In, 5: l.Batch * l.Units[len(l.Units)-1]}
	if l.Batch == l.Examples { // as they lie
		takes[0] = 0
	}
	return triton.Kernel{
		Name: name, Grid: [3]int{l.Parts()}, Warps: l.tile().Warps, Stages: 1,
		Inputs: l.Inputs(), Outputs: l.Outputs(), Takes: takes,
		FLOPs: 6 * float64(l.Batch) * float64(l.weights()),
		Body:  func(b *triton.Block) { newStacker(b, l).write() },
	}
}

// stacker writes the kernel of a Stack.
type stacker struct {
	Stack
	b        *triton.Block
	first    triton.Value   // where in the order the batch begins
	matrices []triton.Value // of each layer [in units]
	biases   []triton.Value // of each layer [units 1]
}

// units are the places of what layer i gets along an axis, and which of them
// are there; the zero Value where all are.
func (s *stacker) units(i, axis int) (at, in triton.Value) {
	at = s.b.Range(s.side(i)).Expand(1 - axis)
	if s.spare(i) {
		in = at.Less(s.width(i))
	}
	return at, in
}

func newStacker(b *triton.Block, l Stack) *stacker {
	s := &stacker{Stack: l, b: b}
	for i, units := range l.Units {
		w := b.Input(6 + 2*i)
		n, nIn := s.units(i+1, 0)
		s.biases = append(s.biases, load(b.Input(7+2*i).At(n), nIn))
		n, nIn = s.units(i+1, 1)
		k, kIn := s.units(i, 0)
		s.matrices = append(s.matrices, s.rounded(load(w.At(k.Mul(units).Add(n)), kIn, nIn)))
	}
	if l.Batch < l.Examples {
		s.first = beginning(b.Input(1).Load(), b.Input(3).Load(), l.Examples, l.Batch)
	}
	return s
}

// sums are the gradients of each layer's weights, and of the biases where these
// are not a row of them, and squares that add up to the loss.
func (s *stacker) sums() (sums []triton.Value) {
	for i := range s.Units {
		sums = append(sums, s.b.Zeros(dtypes.Float32, s.side(i), s.side(i+1)))
		if !s.spare(i) {
			sums = append(sums, s.b.Zeros(dtypes.Float32, s.side(i+1)))
		}
	}
	return append(sums, s.b.Zeros(dtypes.Float32, s.side(len(s.Units)), s.rows()))
}

func (s *stacker) write() {
	b := s.b
	part := b.ProgramID(0)
	b.If(part.Equal(0), func() {
		b.Output(2).Store(b.Input(2).Load().Add(b.Input(3).Load()).Add(1).To(dtypes.Float32))
	}, nil)
	from, sums := part.Mul(s.rows()*s.turns()), s.sums()
	if s.turns() == 1 {
		sums = s.turn(from, sums, s.gradient)
	} else {
		sums = b.For(0, s.rows()*s.turns(), s.rows(), sums, func(i triton.Value, sums []triton.Value) []triton.Value {
			return s.turn(from.Add(i), sums, func(int, triton.Value, triton.Value) {})
		})
		rest := sums
		for i := range s.Units {
			weights, biases := rest[0], triton.Value{}
			if rest = rest[1:]; !s.spare(i) {
				biases, rest = rest[0], rest[1:]
			}
			s.gradient(i, weights, biases)
		}
	}
	out := s.Units[len(s.Units)-1]
	b.Output(0).At(part).Store(sums[len(sums)-1].Sum(1).Sum(0).Mul(1 / float64(out)))
	b.Output(1).At(part).Store(0)
}

// gradient stores the part of a layer.
func (s *stacker) gradient(i int, weights, biases triton.Value) {
	units := s.Units[i]
	n, nIn := s.units(i+1, 1)
	k, kIn := s.units(i, 0)
	if s.spare(i) {
		kIn = k.LessEqual(s.width(i))
	}
	at := s.b.Output(3 + i).At(s.b.ProgramID(0).Mul((s.width(i) + 1) * units))
	store(at.At(k.Mul(units).Add(n)), weights, kIn, nIn)
	if !s.spare(i) {
		n, nIn := s.units(i+1, 0)
		store(at.At(n.Add(s.width(i)*units)), biases.Expand(1), nIn)
	}
}

// turn goes both ways with the rows from a place of the batch on. done is told of
// each layer's gradients when they are there.
func (s *stacker) turn(first triton.Value, sums []triton.Value, done func(i int, weights, biases triton.Value)) []triton.Value {
	b, last := s.b, len(s.Units)
	row := b.Range(s.rows()).Expand(0).Add(first)
	example := row.Min(s.Batch - 1)
	if s.Batch < s.Examples {
		example = b.Input(0).At(s.first.Add(example)).Load()
	}
	y := s.numbers(5, last, example)
	a := []triton.Value{s.numbers(4, 0, example)}
	var factors []triton.Value // what the products take of a
	var before []triton.Value  // the activations
	for i, act := range s.Acts {
		factors = append(factors, s.rounded(a[i]))
		z := s.product(s.matrices[i].Transpose(), factors[i], s.biases[i].Spread(s.side(i+1), s.rows()))
		before, a = append(before, z), append(a, activate(act, z))
	}

	_, out := s.units(last, 0)
	mine, _ := and(row.Less(s.Batch), out)
	e := mine.Select(a[last].Sub(y), 0)
	sums = slices.Clone(sums)
	at := len(sums) - 1
	sums[at] = e.MulAdd(e, sums[at])
	d := backward(s.Acts[last-1], e.Mul(2/float64(s.Batch*s.Units[last-1])), before[last-1], a[last])
	for i := last - 1; i >= 0; i-- {
		x, biases := factors[i], triton.Value{}
		if s.spare(i) {
			unit, _ := s.units(i, 0)
			x = unit.Equal(s.width(i)).Select(1, x)
		} else {
			at--
			biases = sums[at].Add(d.Sum(1))
			sums[at] = biases
		}
		at--
		sums[at] = s.product(s.turned(x), s.rounded(s.turned(d).Transpose()), sums[at])
		done(i, sums[at], biases)
		if i > 0 {
			d = s.product(s.matrices[i], s.rounded(d), b.Zeros(dtypes.Float32, s.side(i), s.rows()))
			d = backward(s.Acts[i-1], d, before[i-1], a[i])
		}
	}
	return sums
}

// rounded is a factor of products as all of them take it.
func (s *stacker) rounded(x triton.Value) triton.Value {
	if s.tile().Rounding == triton.Nearest {
		return x.TF32()
	}
	return x
}

// product is sum + x·y.
func (s *stacker) product(x, y, sum triton.Value) triton.Value {
	rounding := s.tile().Rounding
	if rounding == triton.Nearest {
		rounding = triton.Truncated
	}
	return s.b.Dot(x, y, sum, rounding)
}

// turned is a tile with its rows in another order: of eight, 0 2 4 6 1 3 5 7. It
// costs nothing, and neither does it then to make a factor of it: of the result of
// a product a lane has two numbers side by side, and of a factor two that are four
// apart.
func (s *stacker) turned(x triton.Value) triton.Value {
	units := x.Dims()[0]
	return x.Reshape(units*s.rows()/8, 4, 2).Transpose().Reshape(units, s.rows())
}

// numbers are those of the examples: layer i gets them, or would behind the last.
func (s *stacker) numbers(input, i int, example triton.Value) triton.Value {
	unit, in := s.units(i, 0)
	p := s.b.Input(input).At(example.Mul(s.width(i)))
	if s.width(i) > stackFew {
		return load(p.At(unit), in)
	}
	x := s.b.Zeros(dtypes.Float32, s.side(i), s.rows())
	for k := range s.width(i) {
		x = unit.Equal(k).Select(p.At(k).Load(), x)
	}
	return x
}
