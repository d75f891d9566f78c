package fused

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
)

// Source is where the batches of an epoch come from: examples and targets on the
// device, in an order.
type Source struct {
	X     *Node // [examples size], uint8, which becomes 0 to 1, or float32
	Y     *Node // [examples], int32, labels, or [examples numbers], float32
	Order *Node // [examples] int32
	Place *Node // int32 scalar: where in the order batch 0 begins
	Step  *Node // int32 scalar: steps done before batch 0
	Batch int
}

// Batch is what a step takes from a source.
type Batch struct {
	X      *Node // [batch size], of Compute's type
	Y      *Node // [batch] or [batch numbers], as in the source
	Number *Node // of the step from 1, a float32 scalar
}

// Take is a number of batches of a source from batch number at on, an int32
// scalar. One that would begin after the last of the order is the last.
func (o Ops) Take(s Source, at *Node, batches int) []Batch {
	d, y := s.X.Shape().Dimensions, s.Y.Shape()
	if s.X.Rank() != 2 || s.numbers() < 0 || y.Dimensions[0] != d[0] || s.Batch < 1 || s.Batch > d[0] {
		panic(fmt.Errorf("fused: Take: got x %s, y %s and a batch of %d, want [examples size], [examples] int32 or [examples numbers] float32, and no more than there are", s.X.Shape(), y, s.Batch))
	}
	l := make([]Batch, batches)
	op, is := kernels.Gather{}, false
	if s.numbers() <= kernels.LargestTargets {
		op, is = choose(o, kernels.Gather{Examples: d[0], Size: d[1], Batch: s.Batch, Steps: batches, Targets: s.numbers(), X: s.X.DType(), Y: o.Compute})
	}
	if is {
		out := o.call(op.Kernel(), s.Order, s.Place, s.Step, at, s.X, s.Y)
		for i := range l {
			l[i] = Batch{out[3*i], out[3*i+1], out[3*i+2]}
		}
		return l
	}
	for i := range l {
		if i > 0 {
			at = Add(at, Const(at.Graph(), int32(1)))
		}
		index, number := s.index(at)
		x := ConvertDType(Gather(s.X, index), dtypes.Float32)
		if s.X.DType() == dtypes.Uint8 {
			x = MulScalar(x, 1.0/255)
		}
		l[i] = Batch{to(x, o.Compute), Gather(s.Y, index), number}
	}
	return l
}

// numbers are the targets of an example, 0 where it has a label, and -1 where it has neither.
func (s Source) numbers() int {
	switch y := s.Y.Shape(); {
	case y.DType == dtypes.Int32 && y.Rank() == 1:
		return 0
	case y.DType == dtypes.Float32 && y.Rank() == 2:
		return y.Dimensions[1]
	}
	return -1
}

// index is which examples batch number at has, [batch 1], and the number of its
// step from 1.
func (s Source) index(at *Node) (index, number *Node) {
	g := at.Graph() // that of a loop's body, where X may be from outside
	last := s.Order.Shape().Dimensions[0] - s.Batch
	first := Min(Add(s.Place, Mul(at, Const(g, int32(s.Batch)))), Const(g, int32(last)))
	places := Add(Iota(g, shapes.Make(dtypes.Int32, s.Batch, 1), 0), first)
	number = ConvertDType(Add(Add(s.Step, at), Const(g, int32(1))), dtypes.Float32)
	return Reshape(Gather(s.Order, places), s.Batch, 1), number
}

// Journal is a table of what steps gave, and the row that the next step writes: the mean
// loss, the number of examples, and how many answers were right.
type Journal struct {
	Rows *Node // [rows 3] float32
	At   *Node // int32 scalar
}

// write is the plain form of kernels.Tally.
func (l *Journal) write(row *Node) {
	g := l.At.Graph()
	d := l.Rows.Shape().Dimensions
	here := Equal(Iota(g, shapes.Make(dtypes.Int32, d...), 0), BroadcastToDims(l.At, d...))
	l.Rows = Where(here, BroadcastToDims(row, d...), l.Rows)
	l.At = Add(l.At, Const(g, int32(1)))
}
