package xla

import (
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Depthwise slides kernels over each channel by itself. What XLA's CPU compiler makes of the
// gradients that GoMLX derives takes some ten times as long, to compile and to run: a sum of
// paddings, and as many sums over images as a kernel has numbers.
func (l Lowering) Depthwise(x, w *Node, c models.Convolution) *Node {
	if !l.Target.CPU() {
		return models.Depthwise(x, w, c)
	}
	d := x.Shape().Dimensions
	return depthwise{c, [2]int{d[1], d[2]}}.convolve(x, w)
}

// depthwise is a convolution of images of a size. Each of its three products is linear in both
// factors, and its gradients are the other two.
type depthwise struct {
	models.Convolution
	size [2]int
}

func (c depthwise) convolve(x, w *Node) *Node {
	y := models.Depthwise(StopGradient(x), StopGradient(w), c.Convolution)
	return gradient.Define(y, []*Node{x, w}, func(v *Node) []*Node { return []*Node{c.images(v, w), c.weights(x, v, w)} })
}

// images is the gradient for the images, a convolution of v by the kernels in reverse.
func (c depthwise) images(v, w *Node) *Node {
	var axes [4]compute.PadAxis
	for i, n := range c.size {
		out, stride := v.Shape().Dimensions[1+i], max(1, c.Stride)
		start := (w.Shape().Dimensions[0]-1)*max(1, c.Dilation) - c.Pads[i][0]
		axes[1+i] = compute.PadAxis{Start: start, End: n + c.Pads[i][0] - 1 - (out-1)*stride, Interior: stride - 1}
	}
	x := models.Depthwise(Pad(StopGradient(v), number(v, 0), axes[:]...), Reverse(StopGradient(w), 0, 1), models.Convolution{Dilation: c.Dilation})
	return gradient.Define(x, []*Node{v, w}, func(u *Node) []*Node { return []*Node{c.convolve(u, w), c.weights(u, v, w)} })
}

// weights is the gradient for the kernels w, row by row.
func (c depthwise) weights(x, v, w *Node) *Node {
	g, d, k := x.Graph(), v.Shape().Dimensions, w.Shape().Dimensions[0]
	image, grown, stride, dilation := frame(StopGradient(x), c.Pads), StopGradient(v), max(1, c.Stride), max(1, c.Dilation)
	zero, one, rows, step := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(k)), Const(g, int32(dilation))
	sums := loop(zero, rows, one, []*Node{Zeros(g, w.Shape())}, func(i *Node, s []*Node) []*Node {
		seen := DynamicSlice(image, []*Node{zero, Mul(i, step), zero, zero}, []int{d[0], (d[1]-1)*stride + 1, image.Shape().Dimensions[2], d[3]})
		var row []*Node
		for j := range k {
			part := Slice(seen, AxisRange(), AxisRange().Stride(stride), AxisRange(j*dilation, j*dilation+(d[2]-1)*stride+1).Stride(stride))
			row = append(row, ConvertDType(ReduceSum(float(Mul(grown, part)), 0, 1, 2), w.DType()))
		}
		return []*Node{withPart(s[0], Stack(row, 0), i, zero)}
	})[0]
	return gradient.Define(sums, []*Node{x, v}, func(u *Node) []*Node { return []*Node{c.images(v, u), c.convolve(x, u)} })
}
