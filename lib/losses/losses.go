// Package losses has what training makes small. Each loss is a function of GoMLX nodes that
// knows nothing of devices:
//
//	config := fit.Config{Loss: losses.MSE{}}
//
// A loss of one's own is a type with the two methods of [Loss].
package losses

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// Loss is what training makes small.
type Loss interface {
	// Title names the loss.
	Title() string
	// Apply returns the loss of each example, shaped [n], and how much each
	// counts in the mean of a batch, nil for the same. out is what the net
	// returned in float32; y and v are the batch's targets and their weights.
	Apply(out, y, v *Node) (loss, weight *Node)
}

// CrossEntropy is -log of the probability of the right class, for logits
// [n classes] and labels [n]. [gaiden/lib/fit.Net.Load] makes labels of one-hot rows.
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

// Title is visibility.
func (Visibility) Title() string { return "visibility" }

// Apply takes out, y and v of one shape [n …].
func (l Visibility) Apply(out, y, v *Node) (loss, weight *Node) {
	if v == nil || l.Blind {
		v = OnesLike(y)
	}
	y = Seen(y, v)
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
