package fit

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/optim"
)

// Optimizer changes weights by their gradients. Those of package optim follow PyTorch to
// the letter: SGD, Adam, AdamW, NAdam, RMSprop, Adagrad, AdaDelta and Lion. One of your own
// needs these methods; with the method Rule of [optim.Optimizer] it gets kernels too.
// GoMLX has optimizers too; they keep counters and learning rates as variables, each a
// kernel of its own in every step.
type Optimizer interface {
	// Title names the optimizer, and the arrays it keeps for each weight.
	Title() (name string, moments []string)
	// Rate is the learning rate.
	Rate() float64
	// Update returns a weight and its arrays after a step. rate is the learning
	// rate, t the number of the step from 1, both float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}

// Optimizers of package optim that have these names too.
type (
	SGD      = optim.SGD
	Adam     = optim.Adam
	AdaDelta = optim.AdaDelta
)
