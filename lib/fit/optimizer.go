package fit

import . "github.com/gomlx/gomlx/core/graph"

// Optimizer changes weights by their gradients, as those of package optim do. One of your
// own that also has the method Rule of [optim.Optimizer] is compiled into fused kernels.
type Optimizer interface {
	Title() (name string, moments []string) // moments are the arrays kept for each weight
	Rate() float64                          // the learning rate
	// Update returns a weight and its arrays after step t, counted from 1; rate and t
	// are float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}
