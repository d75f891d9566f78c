// Package gradient gives expressions gradients that GoMLX cannot derive, or derives badly:
// those of loops, of native calls, of operations it has no rule for.
package gradient

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Define is y, whose gradient for each of wrt is what backward returns for it where v is
// the gradient of y: of its shape, nil for none. It is called once in each backward pass, of
// which a graph may have several. The way from wrt to y must be out of GoMLX's sight, by
// StopGradient, for else its gradient is added; what else y is made of keeps the gradient that
// GoMLX derives.
func Define(y *Node, wrt []*Node, backward func(v *Node) []*Node) *Node {
	var v, of *Node // the gradient of y, which is known before those of wrt are requested; that of gradients
	var gradients []*Node
	var way *Node
	for i, x := range wrt {
		x = IdentityWithCustomGradient(x, func(x, _ *Node) *Node {
			if of != v {
				gradients, of = backward(v), v
			}
			switch got := gradients[i]; {
			case got == nil:
				return ZerosLike(x)
			case got.DType() != x.DType():
				return ConvertDType(got, x.DType())
			default:
				return got
			}
		})
		s := ReduceAllSum(x)
		if s.DType() != y.DType() {
			s = ConvertDType(s, y.DType())
		}
		if way == nil {
			way = s
		} else {
			way = Add(way, s)
		}
	}
	if way == nil {
		return y
	}
	// The choice is constant, so XLA drops it and the sums; GoMLX sees a way from y back to
	// each of wrt.
	d := y.Shape().Dimensions
	always := BroadcastToDims(Const(y.Graph(), true), d...)
	y = Where(always, y, BroadcastToShape(way, shapes.Make(y.DType(), d...)))
	return IdentityWithCustomGradient(y, func(_, got *Node) *Node {
		v = got
		return got
	})
}

// Reversed is x with an axis in reverse, which has a gradient.
func Reversed(x *Node, axis int) *Node {
	return Define(Reverse(StopGradient(x), axis), []*Node{x}, func(v *Node) []*Node { return []*Node{Reversed(v, axis)} })
}
