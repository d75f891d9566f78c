package gradient

import (
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// Gradients of operations that GoMLX v0.28.2 has for some of their settings only, or, as those of
// complex numbers and of integers, wrong. All can be differentiated again: a penalty on the
// gradients of a critic needs that.

func init() {
	VJPRegistration[NodeTypePad] = func(node *Node, v []*Node, _ shapes.Shape) []*Node { return padding(node, v[0]) }
	for kind, what := range map[NodeType]string{NodeTypeWhile: "a loop, graph.While: want models.Scan, which has one", NodeTypeIf: "graph.If: want Where of both results"} {
		VJPRegistration[kind] = func(*Node, []*Node, shapes.Shape) []*Node { panic(fmt.Errorf("there is no gradient of %s", what)) }
	}
	VJPRegistration[NodeTypeIdentity] = func(_ *Node, v []*Node, _ shapes.Shape) []*Node { return v }
	VJPRegistration[NodeTypeReverse] = func(node *Node, v []*Node, _ shapes.Shape) []*Node {
		return []*Node{node.CloneWithInputs(v[0])}
	}
	VJPRegistration[NodeTypeConvGeneral] = func(node *Node, v []*Node, _ shapes.Shape) []*Node { return convolution(node, v[0]) }
	gather := VJPRegistration[NodeTypeGather]
	VJPRegistration[NodeTypeGather] = func(node *Node, v []*Node, s shapes.Shape) []*Node {
		if entries(node) {
			return gather(node, v, s)
		}
		return []*Node{gathered(node, v[0]), nil}
	}
	convert := VJPRegistration[NodeTypeConvertDType]
	VJPRegistration[NodeTypeConvertDType] = func(node *Node, v []*Node, s shapes.Shape) []*Node {
		if !continuous(node) || !continuous(node.Inputs()[0]) {
			return []*Node{nil}
		}
		return convert(node, v, s)
	}
	// The gradient for a complex number is that for its real part, and i times that for its
	// imaginary part. Of a function with a complex derivative it is v times the conjugate of
	// that, and GoMLX multiplies by the derivative itself.
	for _, kind := range []NodeType{NodeTypeMul, NodeTypeDiv, NodeTypePow, NodeTypeExp, NodeTypeExpm1, NodeTypeLog, NodeTypeLog1p, NodeTypeSin, NodeTypeCos, NodeTypeTanh,
		NodeTypeLogistic, NodeTypeSqrt, NodeTypeRsqrt, NodeTypeDotGeneral, NodeTypeConvGeneral, NodeTypeReduceProduct} {
		rule := VJPRegistration[kind]
		VJPRegistration[kind] = func(node *Node, v []*Node, s shapes.Shape) []*Node {
			if !node.DType().IsComplex() {
				return rule(node, v, s)
			}
			all := rule(node, []*Node{Conj(v[0])}, s)
			for i, x := range all {
				if x != nil {
					all[i] = Conj(x)
				}
			}
			return all
		}
	}
}

// continuous says whether x has numbers that something can have a gradient for.
func continuous(x *Node) bool { return x.DType().IsFloat() || x.DType().IsComplex() }

// padding are the gradients for what is padded, and for what it is padded with.
func padding(node, v *Node) []*Node {
	axes := setting(node, "axesConfig")
	var back []compute.PadAxis
	var part []SliceAxisSpec
	for i := range axes.Len() {
		at := func(name string) int { return int(axes.Index(i).FieldByName(name).Int()) }
		start, end := at("Start"), at("End")
		back = append(back, compute.PadAxis{Start: max(0, -start), End: max(0, -end)}) // what was cut off
		size := v.Shape().Dimensions[i] + back[i].Start + back[i].End
		part = append(part, AxisRange(max(0, start), size-max(0, end)).Stride(at("Interior")+1))
	}
	x := v
	for _, b := range back {
		if b != (compute.PadAxis{}) {
			x = Pad(v, ScalarZero(v.Graph(), v.DType()), back...)
			break
		}
	}
	x = Slice(x, part...)
	if node.Inputs()[1].IsConstantExpression() {
		return []*Node{x, nil}
	}
	return []*Node{x, Sub(ReduceAllSum(v), ReduceAllSum(x))}
}

// entries says whether a gather is of whole entries of the first axes, in their order.
func entries(node *Node) bool {
	dims, collapsed, first := node.Inputs()[0].Shape().Dimensions, ints(setting(node, "collapsedSliceAxes")), ints(setting(node, "startIndexMap"))
	sizes, offsets := ints(setting(node, "sliceSizes")), ints(setting(node, "offsetOutputAxes"))
	prefix := node.Rank() - len(offsets)
	for i, size := range sizes {
		if i < len(collapsed) && (collapsed[i] != i || size != 1) || i >= len(collapsed) && size != dims[i] {
			return false
		}
	}
	for i, axis := range offsets {
		if axis != prefix+i {
			return false
		}
	}
	for i, axis := range first {
		if axis != i {
			return false
		}
	}
	return len(collapsed) > 0 && len(first) == len(collapsed) && int(setting(node, "indexVectorAxis").Int()) == node.Inputs()[1].Rank()-1
}

// gathered is the gradient for what any gather takes its slices of.
func gathered(node, v *Node) *Node {
	x, indices := node.Inputs()[0], node.Inputs()[1]
	axis, sizes, first := int(setting(node, "indexVectorAxis").Int()), ints(setting(node, "sliceSizes")), ints(setting(node, "startIndexMap"))
	last := make([]int32, len(first)) // where a slice may begin: a gather moves it there
	for i, of := range first {
		last[i] = int32(x.Shape().Dimensions[of] - sizes[of])
	}
	if axis < indices.Rank() {
		wide := make([]int, indices.Rank())
		for i := range wide {
			wide[i] = 1
		}
		wide[axis] = len(last)
		limit := BroadcastToDims(Reshape(ConvertDType(Const(x.Graph(), last), indices.DType()), wide...), indices.Shape().Dimensions...)
		indices = Min(Max(indices, ZerosLike(indices)), limit)
	} else {
		indices = ClipScalar(indices, 0, float64(last[0]))
	}
	return BackendScatterSum(ZerosLike(x), indices, v, axis, ints(setting(node, "offsetOutputAxes")), ints(setting(node, "collapsedSliceAxes")), first, false, false)
}

// ints are the numbers of a setting.
func ints(v reflect.Value) []int {
	l := make([]int, v.Len())
	for i := range l {
		l[i] = int(v.Index(i).Int())
	}
	return l
}
