package kernels

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/triton"
)

// Gather makes the batch of a step from examples on the device, in the order of
// an epoch: example order[place+at·batch+i] becomes number i.
//
//	inputs:  order [examples] int32, place, step and at, int32 scalars,
//	         x [examples size], labels [examples] int32
//	outputs: x [batch size], labels [batch] int32,
//	         step+at+1 as a float32 scalar, the number of the step from 1
//
// uint8 becomes 0 to 1.
type Gather struct {
	Examples, Size, Batch int
	X                     dtypes.DType // elements of the examples: Uint8 or Float32
	Y                     dtypes.DType // elements of the batch; default: float32
}

// Kernel is the kernel of these sizes.
func (g Gather) Kernel() triton.Kernel {
	wide := min(1024, triton.Cover(g.Size, 128))
	scalar := shapes.Make(dtypes.Int32)
	return triton.Kernel{
		Name: "gather", Grid: [3]int{triton.Blocks(g.Size, wide), g.Batch}, Warps: max(1, wide/256), Stages: 1,
		Inputs: []shapes.Shape{shapes.Make(dtypes.Int32, g.Examples), scalar, scalar, scalar,
			shapes.Make(or32(g.X), g.Examples, g.Size), shapes.Make(dtypes.Int32, g.Examples)},
		Outputs: []shapes.Shape{shapes.Make(or32(g.Y), g.Batch, g.Size), shapes.Make(dtypes.Int32, g.Batch), shapes.Make(dtypes.Float32)},
		Body: func(b *triton.Block) {
			column, row := b.ProgramID(0), b.ProgramID(1)
			at := b.Input(3).Load()
			example := b.Input(0).At(b.Input(1).Load().Add(at.Mul(g.Batch)).Add(row)).Load()
			n := stretch(b, column, wide, g.Size)
			x := load(b.Input(4).At(example.Mul(g.Size).Add(n.at)), n.mask()).To(dtypes.Float32)
			if g.X == dtypes.Uint8 {
				x = x.Mul(1.0 / 255)
			}
			store(b.Output(0).At(row.Mul(g.Size).Add(n.at)), x, n.mask())
			b.If(column.Equal(0), func() {
				b.Output(1).At(row).Store(b.Input(5).At(example).Load())
				b.If(row.Equal(0), func() {
					number := b.Input(2).Load().Add(at).Add(1).To(dtypes.Float32)
					b.Output(2).Store(number)
				}, nil)
			}, nil)
		},
	}
}
