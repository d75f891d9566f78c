package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Norm is a kernel where package lower chooses one.
func (l Lowering) Norm(x, scale, offset *Node, epsilon float64) *Node {
	if l.Calls == nil || !lower.NormKernel(l.Target, x.Shape().Size(), x.DType()) {
		return models.Plain{}.Norm(x, scale, offset, epsilon)
	}
	return l.Calls.Norm(x, scale, offset, epsilon)
}
