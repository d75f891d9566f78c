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
// [n classes] and labels [n].
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
