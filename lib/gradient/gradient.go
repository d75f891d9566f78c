// Package gradient gives expressions gradients that GoMLX cannot derive, or derives badly:
// those of loops, of native calls, of operations it has no rule for. The author of an operation
// gives its backward pass:
//
//	y := gradient.Define(StopGradient(f(x)), []*Node{x}, func(v *Node) []*Node {
//		return []*Node{Mul(v, slope(x))} // v is the gradient of y, of its shape
//	})
//
// [Final] is the gradient of a training step, which nothing differentiates again; any other
// gradient may be differentiated again.
package gradient

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Define is y, whose gradient for each of wrt is what backward returns for it where v is
// the gradient of y: of its shape, nil for none. It is called once in each backward pass, of
// which a graph may have several; a gradient of another shape, or too few of them, panics.
// Put StopGradient around what y makes of wrt, or GoMLX adds the gradient that it derives; what
// else y is made of keeps that gradient.
//
//	sign := gradient.Define(StopGradient(Sign(x)), []*Node{x}, func(v *Node) []*Node { return []*Node{v} }) // straight-through
func Define(y *Node, wrt []*Node, backward func(v *Node) []*Node) *Node {
	var v, made *Node // the gradient of y, which is known before those of wrt are requested; that of gradients
	var gradients []*Node
	var way *Node
	for i, x := range wrt {
		x = IdentityWithCustomGradient(x, func(x, _ *Node) *Node {
			if made != v {
				gradients, made = backward(v), v
				if len(gradients) < len(wrt) {
					panic(fmt.Errorf("gradient: Define: backward returned %d gradients for %d nodes: want one for each, nil for none", len(gradients), len(wrt)))
				}
			}
			switch got := gradients[i]; {
			case got == nil:
				return ZerosLike(x)
			case !slices.Equal(got.Shape().Dimensions, x.Shape().Dimensions):
				panic(fmt.Errorf("gradient: Define: the gradient for %s has shape %s: want %s", x, got.Shape(), x.Shape()))
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

// DefineAll is Define for several nodes with a common gradient.
func DefineAll(ys, wrt []*Node, backward func(v []*Node) []*Node) []*Node {
	var flat []*Node
	for _, y := range ys {
		flat = append(flat, Reshape(ConvertDType(StopGradient(y), dtypes.Float32), -1))
	}
	parts := func(all *Node) (l []*Node) {
		at := 0
		for _, y := range ys {
			s := y.Shape()
			l = append(l, ConvertDType(Reshape(Slice(all, AxisRange(at, at+s.Size())), s.Dimensions...), s.DType))
			at += s.Size()
		}
		return l
	}
	return parts(Define(Concatenate(flat, 0), wrt, func(v *Node) []*Node { return backward(parts(v)) }))
}

// Final is GoMLX's Gradient where nothing differentiates the result, as in a training step.
// Expressions of this package then have the gradients that are computed fastest; those of any
// other Gradient can be differentiated again.
func Final(loss *Node, wrt ...*Node) []*Node {
	g := loss.Graph()
	before := !Again(g)
	model.SetGraphParam(g, finalKey, true)
	model.SetGraphParam(g, passKey, Pass(g)+1)
	defer model.SetGraphParam(g, finalKey, before)
	return Gradient(loss, wrt...)
}

const finalKey, passKey = "/gaiden/final gradient", "/gaiden/backward pass"

// Pass numbers the calls of Final for a graph: what one of them has noted is not for the next.
func Pass(g *Graph) int {
	n, _ := model.GetGraphParam(g, passKey)
	pass, _ := n.(int)
	return pass
}

// Again says whether the gradient that is being derived may be differentiated again. Then
// backward of [Define] has to return expressions with gradients, or [Once].
func Again(g *Graph) bool {
	final, _ := model.GetGraphParam(g, finalKey)
	return final != true
}

// Of is the gradient for wrt of what f makes of it, where v is the gradient of that: in
// operations that can be differentiated again, if those of f can.
func Of(f func(wrt []*Node) *Node, wrt []*Node, v *Node) []*Node {
	fresh := make([]*Node, len(wrt))
	for i, x := range wrt {
		fresh[i] = Identity(x)
	}
	return Gradient(ReduceAllSum(ConvertDType(Mul(f(fresh), v), dtypes.Float32)), fresh...)
}

// Lowered is op of some nodes. Its gradient is that of op, or where that may be differentiated
// again, that of plain, the same in operations with gradients of any order.
func Lowered(in []*Node, op, plain func(in []*Node) *Node) *Node {
	var got []*Node
	given := make([]*Node, len(in))
	for i, x := range in {
		given[i] = IdentityWithCustomGradient(x, func(_, v *Node) *Node {
			if got != nil {
				return got[i]
			}
			return v
		})
	}
	return IdentityWithCustomGradient(op(given), func(_, v *Node) *Node {
		if got = nil; Again(v.Graph()) {
			got = Of(plain, in, v)
		}
		return v
	})
}

// Once is gradients of some nodes that cannot be differentiated again: doing it is an error.
func Once(gradients, of []*Node, what string) []*Node {
	if !Again(of[0].Graph()) {
		return gradients
	}
	all := make([]*Node, len(gradients))
	for i, x := range gradients {
		all[i] = Define(x, of, func(*Node) []*Node { panic(fmt.Errorf("%s: this has a gradient, but no second derivative", what)) })
	}
	return all
}

// Reversed is x with an axis in reverse, which has a gradient.
func Reversed(x *Node, axis int) *Node {
	return Define(Reverse(StopGradient(x), axis), []*Node{x}, func(v *Node) []*Node { return []*Node{Reversed(v, axis)} })
}
