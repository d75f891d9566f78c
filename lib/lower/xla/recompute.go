package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Recomputes says whether the output of a batch norm of so many bytes is not kept for the
// way back: the layer behind it computes it again from the batch norm's input, which its own
// gradient needs, too (Chen et al., 2016, "Training deep nets with sublinear memory cost").
func (l Lowering) Recomputes(bytes int64) bool {
	return l.Options.Recompute > 0 && bytes >= l.Options.Recompute
}

// pooled is pool of x, whose gradient reads what once makes.
func pooled(pool func(x *Node) *Node, x *Node, once models.Again) *Node {
	return derived(pool(StopGradient(x)), x, func(v *Node) *Node {
		if gradient.Again(v.Graph()) {
			return gradient.Of(func(in []*Node) *Node { return pool(in[0]) }, []*Node{x}, v)[0]
		}
		x := Identity(once(v))
		return Gradient(ReduceAllSum(Mul(pool(x), StopGradient(v))), x)[0]
	})
}

// convolved is what apply makes of images and weights. The images' gradient is not
// made before the weights', so that what this needs is not kept to the end of the
// way back, where XLA would leave it; it reads images that once makes, if it is not nil.
func convolved(apply func(x, w *Node) *Node, x, w *Node, once models.Again) *Node {
	var weights *Node // their gradient: it comes first, as w is the newer node
	x = IdentityWithCustomGradient(x, func(_, v *Node) *Node {
		if weights == nil {
			return v
		}
		return OptimizationBarriers(v, weights)[0]
	})
	made := func(v *Node) *Node {
		weights = OptimizationBarriers(v)[0]
		return weights
	}
	if once == nil {
		return apply(x, IdentityWithCustomGradient(w, func(_, v *Node) *Node { return made(v) }))
	}
	return derived(apply(x, StopGradient(w)), w, func(v *Node) *Node {
		w := Identity(w)
		return made(Gradient(ReduceAllSum(Mul(apply(once(v), w), StopGradient(v))), w)[0])
	})
}
