package xla

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
)

func derived(y, x *Node, back func(v *Node) *Node) *Node {
	return gradient.Define(y, []*Node{x}, func(v *Node) []*Node { return []*Node{back(v)} })
}

// number is a constant of x's type. GoMLX makes its scalars once in a graph: one made
// in the body of a loop would be out of sight after it.
func number(x *Node, v float64) *Node {
	return Const(x.Graph(), shapes.CastAsDType(v, x.DType()))
}

// alone is x, computed by itself. What is put in the place of an operand of x must be
// made of it only: else XLA would copy the whole array at each place.
func alone(x *Node) *Node { return OptimizationBarriers(x)[0] }

// added is the sum of nodes, the first first.
func added(l []*Node) *Node {
	sum := l[0]
	for _, x := range l[1:] {
		sum = Add(sum, x)
	}
	return sum
}

func float(x *Node) *Node {
	if x.DType() == dtypes.Float32 {
		return x
	}
	return ConvertDType(x, dtypes.Float32)
}

// timeSteps is a loop over the first axis, forwards or backwards. at takes the
// place's part of an array [length …], put replaces it.
func timeSteps(length int, state []*Node, body func(at func(*Node) *Node, put func(all, one *Node) *Node, s []*Node) []*Node, back bool) []*Node {
	g := state[0].Graph()
	zero, one, limit := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(length))
	latest := Const(g, int32(length-1))
	return loop(zero, limit, one, state, func(i *Node, s []*Node) []*Node {
		place := i
		if back {
			place = Sub(latest, i)
		}
		at := func(all *Node) *Node { return partAt(all, place, zero) }
		put := func(all, one *Node) *Node { return withPart(all, one, place, zero) }
		return body(at, put, s)
	})
}

// loop runs body for numbers i from one to before another.
func loop(from, to, one *Node, state []*Node, body func(i *Node, s []*Node) []*Node) []*Node {
	shape := make([]shapes.Shape, len(state))
	for i, s := range state {
		shape[i] = s.Shape()
	}
	parameters := func(g *Graph) (i *Node, l []*Node) {
		i = Parameter(g, "i", shapes.Make(dtypes.Int32))
		for k, s := range shape {
			l = append(l, Parameter(g, fmt.Sprintf("s%d", k), s))
		}
		return i, l
	}
	cond := NewClosure(from.Graph(), func(g *Graph) []*Node {
		i, _ := parameters(g)
		return []*Node{LessThan(i, to)}
	})
	turn := NewClosure(from.Graph(), func(g *Graph) []*Node {
		i, l := parameters(g)
		return append([]*Node{Add(i, one)}, body(i, l)...)
	})
	return While(cond, turn, append([]*Node{from}, state...)...)[1:]
}

// partAt is part i of the first axis of an array, without that axis.
func partAt(all, i, zero *Node) *Node {
	d := append([]int{1}, all.Shape().Dimensions[1:]...)
	return Reshape(DynamicSlice(all, corner(i, zero, len(d)), d), d[1:]...)
}

// withPart is an array with another part i of its first axis.
func withPart(all, one, i, zero *Node) *Node {
	d := append([]int{1}, one.Shape().Dimensions...)
	return DynamicUpdateSlice(all, Reshape(one, d...), corner(i, zero, len(d)))
}

func corner(i, zero *Node, rank int) []*Node {
	at := []*Node{i}
	for range rank - 1 {
		at = append(at, zero)
	}
	return at
}
