package fused

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
)

// Source is where the batches of an epoch come from: examples and labels on the
// device, in an order.
type Source struct {
	X      *Node // [examples size], uint8, which becomes 0 to 1, or float32
	Labels *Node // [examples] int32; for a SequencePlan, what is to come out: [examples size] float32
	Order  *Node // [examples] int32
	Place  *Node // int32 scalar: where in the order batch 0 begins
	Step   *Node // int32 scalar: steps done before batch 0
	Batch  int
}

// Take is batch number at of a source, an int32 scalar: x [batch size] of
// Compute's type, labels [batch], and the number of the step from 1, a float32
// scalar.
func (o Ops) Take(s Source, at *Node) (x, labels, number *Node) {
	d := s.X.Shape().Dimensions
	if s.X.Rank() != 2 || s.Labels.Rank() != 1 || s.Labels.Shape().Dimensions[0] != d[0] || s.Batch < 1 || s.Batch > d[0] {
		panic(fmt.Errorf("fused: Take: got x %s, labels %s and a batch of %d, want [examples size], [examples] and no more than there are", s.X.Shape(), s.Labels.Shape(), s.Batch))
	}
	if !o.Plain && o.Builder != nil {
		k := kernels.Gather{Examples: d[0], Size: d[1], Batch: s.Batch, X: s.X.DType(), Y: o.Compute}.Kernel()
		out := o.call(k, s.Order, s.Place, s.Step, at, s.X, s.Labels)
		return out[0], out[1], out[2]
	}
	g := at.Graph() // that of a loop's body, where X may be from outside
	first := Add(s.Place, Mul(at, Const(g, int32(s.Batch))))
	places := Add(Iota(g, shapes.Make(dtypes.Int32, s.Batch, 1), 0), first)
	index := Reshape(Gather(s.Order, places), s.Batch, 1)
	x = ConvertDType(Gather(s.X, index), dtypes.Float32)
	if s.X.DType() == dtypes.Uint8 {
		x = MulScalar(x, 1.0/255)
	}
	number = ConvertDType(Add(Add(s.Step, at), Const(g, int32(1))), dtypes.Float32)
	return to(x, o.Compute), Gather(s.Labels, index), number
}

// Journal is a table of what steps gave, and the row that the next step writes.
type Journal struct {
	Rows *Node // [rows 3] float32
	At   *Node // int32 scalar
}

// write is the plain form of kernels.Tally with rows.
func (l *Journal) write(row *Node) {
	g := l.At.Graph()
	d := l.Rows.Shape().Dimensions
	here := Equal(Iota(g, shapes.Make(dtypes.Int32, d...), 0), BroadcastToDims(l.At, d...))
	l.Rows = Where(here, BroadcastToDims(row, d...), l.Rows)
	l.At = Add(l.At, Const(g, int32(1)))
}
