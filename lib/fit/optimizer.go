package fit

import . "github.com/gomlx/gomlx/core/graph"

// Optimizer changes weights by their gradients. Package optim has optimizers that compute
// what PyTorch's do. One of your own that also has the method Rule of [optim.Optimizer]
// is compiled into the fused kernels.
type Optimizer interface {
	// Title names the optimizer and the arrays it keeps for each weight.
	Title() (name string, moments []string)
	// Rate is the learning rate.
	Rate() float64
	// Update returns a weight and its arrays after step t, counted from 1; rate and t
	// are float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}
