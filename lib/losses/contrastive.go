package losses

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Contrastive draws what the net returns for examples of the same label together, and that of
// others apart (Khosla et al., 2020): with labels that two examples of a batch have each, it
// is NT-Xent of SimCLR (Chen et al., 2020). It takes any labels, and what the net returns,
// [n units], is scaled to length 1. An example without another one of its label in the batch
// does not count.
type Contrastive struct {
	Temperature float64 // default: 0.1
}

// Title is contrastive loss.
func (Contrastive) Title() string { return "contrastive loss" }

func (l Contrastive) check(int) error {
	if !(l.Temperature >= 0) || math.IsInf(l.Temperature, 0) {
		return fmt.Errorf("Temperature is %g: want more than 0, or 0 for 0.1", l.Temperature)
	}
	return nil
}

// Apply takes out [n …] and labels [n].
func (l Contrastive) Apply(out, labels, v *Node) (loss, weight *Node) {
	must(l, 0)
	temperature := cmp.Or(l.Temperature, 0.1)
	n := out.Shape().Dimensions[0]
	z := unit(Reshape(out, n, out.Shape().Size()/n))
	labels = Reshape(labels, n)
	row := Iota(out.Graph(), shapes.Make(dtypes.Int32, n, n), 0)
	other := ConvertDType(NotEqual(row, Transpose(row, 0, 1)), z.DType())
	pairs := Mul(other, ConvertDType(Equal(InsertAxes(labels, 1), InsertAxes(labels, 0)), z.DType()))
	similar := MulScalar(Einsum("ik,jk->ij", z, z), 1/temperature)
	similar = Sub(similar, StopGradient(ReduceAndKeep(similar, ReduceMax, 1)))
	log := Sub(similar, Log(ReduceAndKeep(Mul(Exp(similar), other), ReduceSum, 1)))
	many := ReduceSum(pairs, 1)
	each := Neg(Div(ReduceSum(Mul(pairs, log), 1), MaxScalar(many, 1)))
	counts := ConvertDType(GreaterThan(many, ZerosLike(many)), z.DType())
	if v != nil {
		counts = Mul(counts, rowMeans(v))
	}
	return Mul(each, counts), StopGradient(counts)
}

// unit are rows of length 1, or 0.
func unit(x *Node) *Node {
	return Div(x, Sqrt(MaxScalar(ReduceAndKeep(Square(x), ReduceSum, -1), 1e-16)))
}

// Cosine is 1 - the cosine between what the net returns and the target, along the
// last axis: PyTorch's CosineEmbeddingLoss of pairs that are alike.
type Cosine struct{}

// Title is cosine similarity.
func (Cosine) Title() string { return "cosine similarity" }

// Apply takes out and y of one shape [n …].
func (Cosine) Apply(out, y, v *Node) (loss, weight *Node) {
	y = seen(y, v)
	return weightedExamples(rowMeans(OneMinus(ReduceSum(Mul(unit(out), unit(y)), -1))), v)
}
