// Package losses has the losses that training minimizes. Each is a function of GoMLX nodes,
// and the same for all devices:
//
//	config := fit.Config{Loss: losses.MSE{}}
//
// [CrossEntropy], [BinaryCrossEntropy] and [KLDivergence] are for classes and probabilities, and
// take logits; [Hinge] is for targets of -1 and 1. For numbers there are [MSE], [MAE], [Huber],
// [Poisson] and [Cosine], for sequences without alignment [CTC], for embeddings [Contrastive].
// [Joint] adds losses of the parts of an output. Formulas and defaults are PyTorch's.
//
// A loss of your own is a [Func], or a type with the two methods of [Loss].
package losses

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// Loss is what training minimizes.
type Loss interface {
	// Title names the loss.
	Title() string
	// Apply returns the loss of each example, shaped [n], and its weight, shaped alike: a
	// batch's loss is the sum of the losses by the sum of the weights. nil: each has weight
	// 1. out is what the net returned in float32; y and v are the batch's targets and their
	// weights.
	Apply(out, y, v *Node) (loss, weight *Node)
}

// Kinds are the types that the description of a training can name: all losses but [Func] and
// [Joint], which hold a user's own.
func Kinds() []any {
	return []any{BinaryCrossEntropy{}, Contrastive{}, Cosine{}, CrossEntropy{}, CTC{}, Hinge{}, Huber{}, KLDivergence{}, MAE{}, MSE{}, Poisson{}, Visibility{}}
}

// Mean is a loss of a batch as a scalar, for a training step of your own: 0 where nothing of the
// batch counts, as in fit.Config.Loss.
func Mean(l Loss, out, y *Node) *Node {
	loss, weight := l.Apply(out, y, nil)
	if weight == nil {
		return ReduceAllMean(loss)
	}
	return perWeight(ReduceAllSum(loss), weight)
}

// perWeight is a sum by the sum of weights, 0 where that is 0.
func perWeight(sum, weight *Node) *Node {
	of := ReduceAllSum(weight)
	return Div(sum, Where(Equal(of, ZerosLike(of)), OnesLike(of), of))
}

// OfBatch says whether a loss is not a mean over the examples' own losses: it cannot be
// computed of a batch in parts.
func OfBatch(l Loss) bool {
	switch l := l.(type) {
	case Contrastive:
		return true
	case Joint:
		for _, p := range l {
			if c, is := p.Loss.(CrossEntropy); is && (c.IgnoreNegative || c.ClassWeights != nil) || OfBatch(p.Loss) {
				return true
			}
		}
	}
	return false
}

// Alike says whether all examples count alike: the weights that Apply returns where it is given
// none are nil or equal.
func Alike(l Loss) bool {
	switch l := l.(type) {
	case BinaryCrossEntropy, Cosine, Func, Hinge, Huber, MAE, MSE, Poisson:
		return true
	case CrossEntropy:
		return !l.IgnoreNegative && l.ClassWeights == nil
	}
	return false
}

// Wants is what the targets of a loss must be, "" where t is one. column is the place of t
// among the targets of an example, which matters for a [Joint].
func Wants(l Loss, column int, t float32) string {
	want := ""
	switch l := l.(type) {
	case Joint:
		return l.wants(column, t)
	case Hinge:
		if t != 1 && t != -1 {
			want = "-1 or 1"
		}
	case Poisson:
		if t < 0 {
			want = "a count, 0 or more"
		}
	case BinaryCrossEntropy:
		if t < 0 || t > 1 {
			want = "a probability, 0 to 1"
		}
	case KLDivergence:
		if t < 0 {
			want = "a probability, 0 to 1"
		}
	}
	if want != "" {
		want += ", for " + l.Title()
	}
	return want
}

// Check says which setting of a loss means nothing; classes is how many there are, 0 where
// that is not known.
func Check(l Loss, classes int) error {
	if c, is := l.(interface{ check(classes int) error }); is {
		if err := c.check(classes); err != nil {
			return fmt.Errorf("%T: %w", l, err)
		}
	}
	return nil
}

// Visibility is the loss of notebook 08's article for the positions of joints:
// ‖(x−t)·v‖² / N over a batch, where v is 1 for coordinates that can be seen
// and 0 for others, and N is Σv/2, the number of joints seen. Targets with weight 0 are
// ignored, even NaN, and a batch in which nothing is seen has a loss of 0. Without weights, or with Blind, every joint counts.
type Visibility struct {
	// Blind leaves v out.
	Blind bool
	// Explicit uses the gradient that the article writes down, 2·(x−t)·v/N, in
	// place of the one that GoMLX derives. The numbers are the same.
	Explicit bool
}

// Seen is y, and 0 where v is 0: such a target may be NaN.
func Seen(y, v *Node) *Node { return Where(Equal(v, ZerosLike(v)), ZerosLike(y), y) }

func (Visibility) Title() string { return "visibility" }

// Apply takes out, y and v of one shape [n …].
func (l Visibility) Apply(out, y, v *Node) (loss, weight *Node) {
	if v == nil || l.Blind {
		v = OnesLike(y)
	}
	v = Spread(v, y)
	y = Seen(y, v)
	weight = StopGradient(MulScalar(rowSums(v), 0.5))
	if !l.Explicit {
		return rowSums(Square(Mul(Sub(out, y), v))), weight
	}
	// Linear in out, so that what arrives at out is 1/N for each number; the
	// hook makes the article's gradient of it.
	d := Mul(Sub(out, y), v)
	out = IdentityWithCustomGradient(out, func(_, up *Node) *Node { return Mul(MulScalar(up, 2), Mul(d, v)) })
	value := rowSums(Square(StopGradient(d)))
	return Add(value, Sub(rowSums(out), StopGradient(rowSums(out)))), weight
}
