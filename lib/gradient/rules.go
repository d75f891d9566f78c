package gradient

import (
	"fmt"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// GoMLX derives the gradients of slices and convolutions, and has none for what these are made
// of, so that second derivatives stopped there: of a penalty on the gradients of a critic, for
// instance. These operations are linear, so the gradient of a gradient is the operation again:
// that of a slice is padded, and that of the padding is a slice.
var convolve = VJPRegistration[NodeTypeConvGeneral] // GoMLX's

func init() {
	slice := VJPRegistration[NodeTypeSlice]
	VJPRegistration[NodeTypeSlice] = func(node *Node, v []*Node, s shapes.Shape) []*Node {
		out := slice(node, v, s)
		if out[0].Type() == NodeTypePad {
			known(node.Graph())[out[0]] = func(v *Node) *Node { return node.CloneWithInputs(v) }
		}
		return out
	}
	VJPRegistration[NodeTypePad] = func(node *Node, v []*Node, _ shapes.Shape) []*Node {
		again := known(node.Graph())[node]
		if again == nil {
			panic(fmt.Errorf("%s has no gradient, as it was made by GoMLX: want gradient.Padded, or Concatenate with zeros", node))
		}
		return []*Node{again(v[0]), nil}
	}
	for kind, what := range map[NodeType]string{NodeTypeWhile: "a loop, graph.While: want models.Scan, which has one", NodeTypeIf: "graph.If: want Where of both results"} {
		VJPRegistration[kind] = func(*Node, []*Node, shapes.Shape) []*Node { panic(fmt.Errorf("there is no gradient of %s", what)) }
	}
	VJPRegistration[NodeTypeIdentity] = func(_ *Node, v []*Node, _ shapes.Shape) []*Node { return v }
	VJPRegistration[NodeTypeReverse] = func(node *Node, v []*Node, _ shapes.Shape) []*Node {
		return []*Node{node.CloneWithInputs(v[0])}
	}
	VJPRegistration[NodeTypeConvGeneral] = func(node *Node, v []*Node, s shapes.Shape) []*Node { return convolution(node, v[0], s) }
}

// convolution are the gradients for the images and the kernels of a convolution, where v is that
// of its result. All three are linear in two of images, kernels and results, and the gradient of
// each is made of the other two.
func convolution(node *Node, v *Node, s shapes.Shape) []*Node {
	got := convolve(node, []*Node{v}, s)
	if !Again(node.Graph()) {
		return got
	}
	x, w := node.Inputs()[0], node.Inputs()[1]
	of := func(x, w *Node) *Node { return node.CloneWithInputs(x, w) }
	return []*Node{
		Define(StopGradient(got[0]), []*Node{v, w}, func(u *Node) []*Node { return []*Node{of(u, w), convolution(of(u, w), v, s)[1]} }),
		Define(StopGradient(got[1]), []*Node{x, v}, func(u *Node) []*Node { return []*Node{convolution(of(x, u), v, s)[0], of(x, u)} }),
	}
}

// Padded is GoMLX's Pad, with a gradient for x. It adds elements and removes none.
func Padded(x, fill *Node, axes ...compute.PadAxis) *Node {
	y := Pad(x, fill, axes...)
	known(x.Graph())[y] = func(v *Node) *Node {
		var part []SliceAxisSpec
		for i, a := range axes {
			part = append(part, AxisRange(a.Start, v.Shape().Dimensions[i]-a.End).Stride(a.Interior+1))
		}
		return Slice(v, part...)
	}
	return y
}

// known are gradients of a graph, and what their own gradient is made of.
func known(g *Graph) map[*Node]func(v *Node) *Node {
	const key = "/gaiden/gradients"
	all, _ := model.GetGraphParam(g, key)
	of, _ := all.(map[*Node]func(v *Node) *Node)
	if of == nil {
		of = map[*Node]func(v *Node) *Node{}
		model.SetGraphParam(g, key, of)
	}
	return of
}
