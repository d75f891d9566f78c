package fit

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Loss is what training makes small.
type Loss interface {
	// Title names the loss.
	Title() string
	// Apply returns the loss of each example, shaped [n], and how much each
	// counts in the mean of a batch, nil for the same. out is what the net
	// returned in float32; y and v are the batch's Data.Y and Data.V.
	Apply(out, y, v *Node) (loss, weight *Node)
}

// CrossEntropy is -log of the probability of the right class, for logits
// [n classes] and labels [n]. [Net.Load] makes labels of one-hot rows.
type CrossEntropy struct{}

// Title is cross entropy.
func (CrossEntropy) Title() string { return "cross entropy" }

// Apply subtracts the largest logit first, so that nothing overflows.
func (CrossEntropy) Apply(logits, labels, _ *Node) (loss, weight *Node) {
	classes := logits.Shape().Dimensions[1]
	z := Sub(logits, StopGradient(ReduceAndKeep(logits, ReduceMax, -1)))
	right := OneHot(labels, classes, z.DType())
	return Sub(Log(ReduceSum(Exp(z), -1)), ReduceSum(Mul(z, right), -1)), nil
}

// MSE is the mean of the squared differences of an example.
type MSE struct{}

// Title is mean squared error.
func (MSE) Title() string { return "mean squared error" }

// Apply takes out and y of one shape.
func (MSE) Apply(out, y, _ *Node) (loss, weight *Node) {
	d := Square(Sub(out, y))
	n := d.Shape().Dimensions[0]
	return ReduceMean(Reshape(d, n, d.Shape().Size()/n), 1), nil
}

// Visibility is the loss of notebook 08's article for the places of joints:
// ‖(x−t)·v‖² / N over a batch, where v is 1 for coordinates that can be seen
// and 0 for others, and N is Σv/2, the number of joints seen. Targets where v is 0 count
// nothing, also where they are no numbers, and a batch in which nothing is seen has a loss
// of 0. Without Data.V, or with Blind, every joint counts.
type Visibility struct {
	// Blind leaves v out.
	Blind bool
	// Explicit uses the gradient that the article writes down, 2·(x−t)·v/N, in
	// place of the one that GoMLX derives. The numbers are the same.
	Explicit bool
}

// seen is y, and 0 where v is: what counts nothing may be no number.
func seen(y, v *Node) *Node { return Where(Equal(v, ZerosLike(v)), ZerosLike(y), y) }

// Title is visibility.
func (Visibility) Title() string { return "visibility" }

// Apply takes out, y and v of one shape [n …].
func (l Visibility) Apply(out, y, v *Node) (loss, weight *Node) {
	if v == nil || l.Blind {
		v = OnesLike(y)
	}
	y = seen(y, v)
	n := out.Shape().Dimensions[0]
	rows := func(x *Node) *Node { return ReduceSum(Reshape(x, n, x.Shape().Size()/n), 1) }
	weight = StopGradient(MulScalar(rows(v), 0.5))
	if !l.Explicit {
		return rows(Square(Mul(Sub(out, y), v))), weight
	}
	// Linear in out, so that what arrives at out is 1/N for each number; the
	// hook makes the article's gradient of it.
	d := StopGradient(Mul(Sub(out, y), v))
	out = IdentityWithCustomGradient(out, func(_, up *Node) *Node { return Mul(MulScalar(up, 2), Mul(d, v)) })
	value := rows(Square(d))
	return Add(value, Sub(rows(out), StopGradient(rows(out)))), weight
}
