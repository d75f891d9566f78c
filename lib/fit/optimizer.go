package fit

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/optim"
)

// Optimizer changes weights by their gradients, as those of package optim do. One of your
// own that also has the method Rule of [optim.Optimizer] is compiled into fused kernels.
type Optimizer interface {
	Title() (name string, moments []string) // moments are the arrays kept for each weight
	Rate() float64                          // the learning rate
	// Update returns a weight and its arrays after step t, counted from 1; rate and t
	// are float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}

// clipped are all gradients of a step, as an optimizer that clips them wants them.
func clipped(o Optimizer, gradients []*Node) []*Node {
	if c, is := o.(optim.Clipper); is {
		return c.Clip(gradients)
	}
	return gradients
}
