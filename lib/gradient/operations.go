package gradient

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Gradients of operations for which GoMLX v0.28.2 has none, and at corners, ties and poles
// PyTorch's, where GoMLX's are others.
func init() {
	for kind, rule := range map[NodeType]func(y *Node, in []*Node, v *Node) []*Node{
		NodeTypeAbs: absolute, NodeTypeMax: larger, NodeTypeMin: larger, NodeTypeSqrt: root, NodeTypePow: power,
		NodeTypeRsqrt: func(y *Node, in []*Node, v *Node) []*Node {
			return []*Node{Mul(v, MulScalar(Mul(y, Square(y)), -0.5))}
		},
		NodeTypeExpm1: func(y *Node, in []*Node, v *Node) []*Node { return []*Node{Mul(v, AddScalar(y, 1))} },
		NodeTypeFloor: constant, NodeTypeCeil: constant, NodeTypeRound: constant, NodeTypeArgMinMax: constant,
		NodeTypeClamp: func(_ *Node, in []*Node, v *Node) []*Node {
			inside := LogicalAnd(GreaterOrEqual(in[1], in[0]), LessOrEqual(in[1], in[2]))
			return []*Node{nil, Where(inside, v, ZerosLike(v)), nil}
		},
		NodeTypeReduceMax: extremum, NodeTypeReduceMin: extremum,
		NodeTypeAtan2: func(_ *Node, in []*Node, v *Node) []*Node {
			v = Div(v, Add(Square(in[0]), Square(in[1])))
			return []*Node{summed(Mul(v, in[1]), in[0]), summed(Neg(Mul(v, in[0])), in[1])}
		},
		NodeTypeRem: func(y *Node, in []*Node, v *Node) []*Node {
			return []*Node{summed(v, in[0]), summed(Mul(v, Div(Sub(y, in[0]), in[1])), in[1])}
		},
		NodeTypeReduceProduct: product,
		// For its mean and variance there is none: they are those of earlier batches.
		NodeTypeBatchNormForInference: func(y *Node, in []*Node, v *Node) []*Node {
			x, scale, offset, mean := in[0], in[1], in[2], in[3]
			axis := int(setting(y, "featureAxis").Int())
			var over []int
			for i := range x.Rank() {
				if i != axis {
					over = append(over, i)
				}
			}
			factor := y.CloneWithInputs(OnesLike(x), scale, ZerosLike(offset), ZerosLike(mean), in[4])
			normal := y.CloneWithInputs(x, OnesLike(scale), ZerosLike(offset), mean, in[4])
			return []*Node{Mul(v, factor), ReduceSum(Mul(v, normal), over...), ReduceSum(v, over...), nil, nil}
		},
	} {
		VJPRegistration[kind] = func(y *Node, v []*Node, _ shapes.Shape) []*Node { return rule(y, y.Inputs(), v[0]) }
	}
	VJPRegistration[NodeTypeSort] = sorted
}

// absolute is 0 at 0.
func absolute(y *Node, in []*Node, v *Node) []*Node {
	x := in[0]
	if !x.DType().IsComplex() {
		return []*Node{Mul(v, Sign(x))}
	}
	v = Div(v, Where(Equal(y, ZerosLike(y)), OnesLike(y), y))
	return []*Node{Complex(Mul(v, Real(x)), Mul(v, Imag(x)))}
}

// larger is the gradient of the larger of two numbers, or the smaller: equal ones share it, but
// that of a limit, as in MaxScalar and ClipScalar, is all for the other, as in PyTorch's clamp.
// So GoMLX's Relu has a slope of 1/2 at 0, where models.ReLU has 0: its Max with zeros is also that
// of Softplus and of cross entropies of logits, which would be wrong for logits of 0 otherwise.
func larger(y *Node, in []*Node, v *Node) []*Node {
	a, b := spread(in[0], y), spread(in[1], y)
	if y.Type() == NodeTypeMin { // then the second is the larger one where it gets nothing
		a, b = b, a
	}
	limit := func(x *Node) bool { return x.Type() == NodeTypeConstant && x.IsScalar() && !y.IsScalar() }
	tie := v
	if !limit(in[0]) && !limit(in[1]) {
		tie = Where(Equal(a, b), MulScalar(v, 0.5), v)
	}
	none := ZerosLike(v)
	all := []*Node{Where(LessThan(a, b), none, tie), Where(LessThan(b, a), none, tie)}
	for i, x := range in {
		if all[i] = summed(all[i], x); limit(x) {
			all[i] = nil
		}
	}
	return all
}

// root is the gradient of a square root: infinite at 0, but 0 where that is a norm.
func root(y *Node, in []*Node, v *Node) []*Node {
	if !squares(in[0]) {
		return []*Node{Div(MulScalar(v, 0.5), y)}
	}
	zero := Equal(y, ZerosLike(y))
	return []*Node{Where(zero, ZerosLike(v), Div(MulScalar(v, 0.5), Where(zero, OnesLike(y), y)))}
}

// squares says whether x is a sum or a mean of squares.
func squares(x *Node) bool {
	in := x.Inputs()
	switch x.Type() {
	case NodeTypeMul:
		return in[0] == in[1] || in[0].Type() == NodeTypeConstant && squares(in[1]) || in[1].Type() == NodeTypeConstant && squares(in[0])
	case NodeTypeDiv:
		return in[1].Type() == NodeTypeConstant && squares(in[0])
	case NodeTypeAdd:
		return squares(in[0]) && squares(in[1])
	case NodeTypeReduceSum, NodeTypeReshape, NodeTypeBroadcastInDim, NodeTypeConvertDType, NodeTypeIdentity:
		return squares(in[0])
	}
	return false
}

// power is the gradient of a power: where the exponent is 0 that of the base is, and where a base
// of 0 has an exponent of 0 or more, that of the exponent.
func power(y *Node, in []*Node, v *Node) []*Node {
	a, b := spread(in[0], y), in[1] // a constant exponent stays a scalar, which XLA knows how to use
	flat, one := Equal(b, ZerosLike(b)), OnesLike(b)
	less := Sub(Where(flat, one, b), one)
	none := ZerosLike(v)
	base := summed(Where(spread(flat, y), none, Mul(v, Mul(spread(b, y), Pow(a, spread(less, y))))), in[0])
	if b.Type() == NodeTypeConstant {
		return []*Node{base, nil}
	}
	level := Equal(a, ZerosLike(a))
	if !y.DType().IsComplex() {
		level = LogicalAnd(level, spread(GreaterOrEqual(b, ZerosLike(b)), y))
	}
	return []*Node{base, summed(Where(level, none, Mul(v, Mul(y, Log(Where(level, OnesLike(a), a))))), b)}
}

// spread is an operand in the shape of the result.
func spread(x, y *Node) *Node {
	d := y.Shape().Dimensions
	if slices.Equal(x.Shape().Dimensions, d) {
		return x
	}
	return BroadcastToDims(x, d...)
}
func constant(_ *Node, in []*Node, _ *Node) []*Node { return make([]*Node, len(in)) }

// summed is the gradient for an operand that may have been broadcast.
func summed(v, operand *Node) *Node {
	if operand.IsScalar() && !v.IsScalar() {
		return ReduceAllSum(v)
	}
	var over []int
	for i, d := range operand.Shape().Dimensions {
		if d == 1 && v.Shape().Dimensions[i] != 1 {
			over = append(over, i)
		}
	}
	if over == nil {
		return v
	}
	return ReduceAndKeep(v, ReduceSum, over...)
}

// kept are the dimensions of what a reduction reduces, with 1 for those that go, and their axes.
func kept(y *Node) (dims, over []int) {
	axes := ints(setting(y, "axes")) // none: all
	dims = y.Inputs()[0].Shape().Clone().Dimensions
	for i := range dims {
		if len(axes) == 0 || slices.Contains(axes, i) {
			over, dims[i] = append(over, i), 1
		}
	}
	return dims, over
}

// extremum is the gradient of maxima or minima: equal ones share it, as in PyTorch's amax.
func extremum(y *Node, in []*Node, v *Node) []*Node {
	x := in[0]
	dims, over := kept(y)
	spread := func(y *Node) *Node { return spread(Reshape(y, dims...), x) }
	is := ConvertDType(Equal(x, spread(y)), x.DType())
	return []*Node{Mul(spread(Div(v, ReduceSum(is, over...))), is)}
}

// product is the gradient of a product of numbers, one or more of which may be 0.
func product(y *Node, in []*Node, v *Node) []*Node {
	x := in[0]
	dims, over := kept(y)
	spread := func(y *Node) *Node { return spread(Reshape(y, dims...), x) }
	zero := Equal(x, ZerosLike(x))
	zeros := spread(ReduceSum(ConvertDType(zero, x.DType()), over...))
	safe := Where(zero, OnesLike(x), x)
	others := Div(spread(y.CloneWithInputs(safe)), safe) // of those that are not 0
	left := Sub(zeros, ConvertDType(zero, x.DType()))    // zeros among the others
	return []*Node{Mul(spread(v), Where(Equal(left, ZerosLike(x)), others, ZerosLike(x)))}
}

// sorted is the gradient of an array that is sorted, or of several together: the order of the
// results, and then that of the arrays, is found by the indices that are among them, or by the
// values of the only one.
func sorted(node *Node, v []*Node, _ shapes.Shape) []*Node {
	in, axis := node.Inputs(), int(setting(node, "axis").Int())
	key := slices.IndexFunc(in, func(x *Node) bool { return x.Type() == NodeTypeIota })
	if key < 0 && len(in) > 1 {
		panic(fmt.Errorf("the gradient of %d arrays that are sorted together: want indices among them, which Iota makes: their order is not known from values that may be equal", len(in)))
	}
	key = max(0, key)
	result := node
	if len(in) > 1 { // GoMLX makes nodes of the results right after it
		result = node.Graph().NodeById(node.Id() + 1 + NodeId(key))
	}
	index := Iota(node.Graph(), shapes.Make(dtypes.Int32, in[0].Shape().Dimensions...), axis)
	from := sortedBy(axis, in[key], index)[1]
	all := make([]*Node, len(in))
	for i, x := range in {
		if x.DType().IsFloat() {
			all[i] = sortedBy(axis, from, index, sortedBy(axis, result, index, v[i])[2])[2]
		}
	}
	return all
}

// sortedBy sorts arrays by the first of them; equal ones stay in their order.
func sortedBy(axis int, l ...*Node) []*Node {
	less := NewClosure(l[0].Graph(), func(g *Graph) []*Node {
		var first [2]*Node
		for i, x := range l {
			a, b := Parameter(g, fmt.Sprint("a", i), shapes.Make(x.DType())), Parameter(g, fmt.Sprint("b", i), shapes.Make(x.DType()))
			if i == 0 {
				first = [2]*Node{a, b}
			}
		}
		return []*Node{LessThan(first[0], first[1])}
	})
	return SortFunc(less, axis, true, l...)
}

// setting is one of those that GoMLX keeps of an operation to itself.
func setting(node *Node, name string) reflect.Value {
	v := reflect.ValueOf(node).Elem().FieldByName("inputs").Elem().Elem().FieldByName(name)
	if !v.IsValid() {
		panic(fmt.Errorf("%s has no %q, which its gradient needs: want GoMLX v0.28.2", node, name))
	}
	return v
}

// Reached is one of some nodes that y has a gradient for, nil if there is none.
func Reached(y *Node, of map[*Node]bool) *Node {
	seen := map[*Node]bool{}
	var search func(x *Node) *Node
	search = func(x *Node) *Node {
		if of[x] {
			return x
		}
		if seen[x] || x.NumOutputs() == 1 && !x.DType().IsFloat() && !x.DType().IsComplex() || reflect.ValueOf(x).Elem().FieldByName("stopGradient").Bool() {
			return nil
		}
		seen[x] = true
		for _, in := range x.Inputs() {
			if found := search(in); found != nil {
				return found
			}
		}
		return nil
	}
	return search(y)
}
