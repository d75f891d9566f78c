package kernels

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Gather makes the batches of some steps from examples on the device, in the
// order of an epoch: example order[place+at·batch+i] becomes number i of the
// first. A batch that would begin after the last one of the order is the last.
//
//	inputs:  order [examples] int32, place, step and at, int32 scalars,
//	         x [examples size], labels [examples] int32, or targets [examples Targets] float32
//	outputs: of each step, x [batch size], labels [batch] or targets [batch Targets], and
//	         step+at+1 as a float32 scalar, the number of the step from 1
//
// uint8 becomes 0 to 1.
type Gather struct {
	Examples, Size, Batch int
	Steps                 int          // default: 1
	Targets               int          // numbers of an example; 0: it has a label
	X                     dtypes.DType // elements of the examples: Uint8 or Float32
	Y                     dtypes.DType // elements of the batch; default: float32
	// Tile has the numbers N of an example in a block, and the warps. M is the example.
	Tile Tile
}

// tile is the one that Kernel uses: eight numbers for each thread.
func (g Gather) tile() Tile {
	t := g.Tile.or(Tile{N: 1024})
	t.M, t.N, t.K, t.Stages = 1, min(triton.Cover(t.N, 128), triton.Cover(g.Size, 128)), 1, 1
	if t.Warps == 0 {
		t.Warps = max(1, t.N/256)
	}
	return t
}

func (g Gather) Key() string {
	k := key("take", g.Examples, g.Size, g.Batch, max(1, g.Steps), short(g.X), short(g.Y))
	if g.Targets > 0 {
		k += fmt.Sprint("/targets", g.Targets)
	}
	return k
}

// LargestTargets is how many targets an example may have at most.
const LargestTargets = 4096

// targets are those of some examples.
func (g Gather) targets(examples int) shapes.Shape {
	if g.Targets > 0 {
		return shapes.Make(dtypes.Float32, examples, g.Targets)
	}
	return shapes.Make(dtypes.Int32, examples)
}

// Tiles are those worth trying: more blocks, or more threads, for small batches.
func (g Gather) Tiles() []Tile {
	return distinct([]Tile{{}, {N: 128}, {N: 256}, {N: 512}, {N: 2048}, {N: 256, Warps: 2}, {N: 512, Warps: 4}, {N: 1024, Warps: 8}, {N: 1024, Warps: 2}},
		func(t Tile) Tile { g.Tile = t; return g.tile() })
}

func (g Gather) With(t Tile) Op { g.Tile = t; return g }

func (g Gather) Kernel() triton.Kernel {
	t, steps := g.tile(), max(1, g.Steps)
	scalar := shapes.Make(dtypes.Int32)
	taken := min(steps*g.Batch, g.Examples) // some twice, if the steps are more than an epoch has
	k := triton.Kernel{
		Name: "gather", Grid: [3]int{triton.Blocks(g.Size, t.N), g.Batch, steps}, Warps: t.Warps, Stages: t.Stages,
		Inputs: []shapes.Shape{shapes.Make(dtypes.Int32, g.Examples), scalar, scalar, scalar,
			shapes.Make(cmp.Or(g.X, dtypes.Float32), g.Examples, g.Size), g.targets(g.Examples)},
		Takes: map[int]int{0: taken, 4: taken * g.Size, 5: taken * max(1, g.Targets)},
	}
	for range steps {
		k.Outputs = append(k.Outputs, shapes.Make(cmp.Or(g.Y, dtypes.Float32), g.Batch, g.Size), g.targets(g.Batch), shapes.Make(dtypes.Float32))
	}
	k.Body = func(b *triton.Block) {
		column, row := b.ProgramID(0), b.ProgramID(1)
		at := b.Input(3).Load()
		var which triton.Value
		if steps > 1 {
			which = b.ProgramID(2)
			at = at.Add(which)
		}
		example := b.Input(0).At(b.Input(1).Load().Add(at.Mul(g.Batch)).Min(g.Examples - g.Batch).Add(row)).Load()
		n := stretch(b, column, t.N, g.Size)
		x := load(b.Input(4).At(example.Mul(g.Size).Add(n.at)), n.mask()).To(dtypes.Float32)
		if g.X == dtypes.Uint8 {
			x = x.Mul(1.0 / 255)
		}
		var write func(step int)
		write = func(step int) {
			if step < steps-1 {
				b.If(which.Greater(step), func() { write(step + 1) }, func() { g.write(b, step, column, row, at, example, n, x) })
				return
			}
			g.write(b, step, column, row, at, example, n, x)
		}
		write(0)
	}
	return k
}

// write stores a block's part of a step.
func (g Gather) write(b *triton.Block, step int, column, row, at, example triton.Value, n span, x triton.Value) {
	store(b.Output(3*step).At(row.Mul(g.Size).Add(n.at)), x, n.mask())
	b.If(column.Equal(0), func() {
		if g.Targets > 0 {
			t := stretch(b, column, triton.Cover(g.Targets, 1), g.Targets)
			store(b.Output(3*step+1).At(row.Mul(g.Targets).Add(t.at)), load(b.Input(5).At(example.Mul(g.Targets).Add(t.at)), t.mask()), t.mask())
		} else {
			b.Output(3*step + 1).At(row).Store(b.Input(5).At(example).Load())
		}
		b.If(row.Equal(0), func() {
			number := b.Input(2).Load().Add(at).Add(1).To(dtypes.Float32)
			b.Output(3*step + 2).Store(number)
		}, nil)
	}, nil)
}
