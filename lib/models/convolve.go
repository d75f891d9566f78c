package models

import (
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// library is XLA's convolution of images [n height width in] with weights
// [kernel kernel in out].
//
// The gradient of x is written out here: GoMLX v0.28.2 shifts it by one place
// when the kernel's size is even.
func library(x, w *Node, stride int, pads [2][2]int) *Node {
	y := Convolve(StopGradient(x), w).Strides(stride).PaddingPerDim(pads[:]).Done()
	return derived(y, x, func(v *Node) *Node {
		d, k, out := x.Shape().Dimensions, w.Shape().Dimensions, v.Shape().Dimensions
		var back [2][2]int
		for i := range back {
			back[i][0] = k[i] - 1 - pads[i][0]
			// what the last window did not reach gets zeros too
			back[i][1] = d[1+i] + pads[i][0] - 1 - (out[1+i]-1)*stride
			for end := range back[i] {
				if back[i][end] < 0 { // padding that no window needed: cut it off afterwards
					return cutBack(v, w, stride, pads, d)
				}
			}
		}
		return reverse(v, w, stride, back)
	})
}

// reverse is the convolution of the gradient v with the kernel turned round.
func reverse(v, w *Node, stride int, pads [2][2]int) *Node {
	turned := TransposeAllAxes(Reverse(w, 0, 1), 0, 1, 3, 2)
	c := Convolve(v, turned).PaddingPerDim(pads[:])
	if stride > 1 {
		c = c.InputDilationPerAxis(stride, stride)
	}
	return c.Done()
}

// cutBack is the gradient of the padded image, without its frame: for padding
// that is wider than the kernel.
func cutBack(v, w *Node, stride int, pads [2][2]int, d []int) *Node {
	k, out := w.Shape().Dimensions, v.Shape().Dimensions
	var full [2][2]int
	for i := range full {
		full[i] = [2]int{k[i] - 1, max(k[i]-1, d[1+i]+pads[i][0]+pads[i][1]-1-(out[1+i]-1)*stride)}
	}
	whole := reverse(v, w, stride, full)
	return Slice(whole, AxisRange(), AxisRange(pads[0][0], pads[0][0]+d[1]), AxisRange(pads[1][0], pads[1][0]+d[2]), AxisRange())
}

// patches is a convolution as one product: the kernel's taps, each a shifted
// view of the image, stand side by side.
func patches(x, w *Node, stride int, pads [2][2]int) *Node {
	if pads != [2][2]int{} {
		x = frame(x, pads)
	}
	d, k := x.Shape().Dimensions, w.Shape().Dimensions
	height, width := (d[1]-k[0])/stride+1, (d[2]-k[1])/stride+1
	var taps []*Node
	for i := range k[0] {
		for j := range k[1] {
			taps = append(taps, Slice(x, AxisRange(),
				AxisRange(i, i+(height-1)*stride+1).Stride(stride), AxisRange(j, j+(width-1)*stride+1).Stride(stride), AxisRange()))
		}
	}
	all := taps[0]
	if len(taps) > 1 {
		all = Concatenate(taps, -1)
	}
	size := k[0] * k[1] * k[2]
	y := MatMul(Reshape(all, d[0]*height*width, size), Reshape(w, size, k[3]))
	return Reshape(y, d[0], height, width, k[3])
}

// frame puts zeros around images. GoMLX has no gradient of Pad; XLA makes one
// of this.
func frame(x *Node, pads [2][2]int) *Node {
	g, d := x.Graph(), append([]int{}, x.Shape().Dimensions...)
	var corner []*Node
	for _, at := range []int{0, pads[0][0], pads[1][0], 0} {
		corner = append(corner, Const(g, int32(at)))
	}
	d[1] += pads[0][0] + pads[0][1]
	d[2] += pads[1][0] + pads[1][1]
	return DynamicUpdateSlice(Zeros(g, shapes.Make(x.DType(), d...)), x, corner)
}

// derived is y, with gradient(v) as the gradient of x where v is that of y. It
// is for ops that GoMLX cannot derive, or derives wrongly: x must not reach y
// in its sight.
func derived(y, x *Node, gradient func(v *Node) *Node) *Node {
	var arrived *Node // the gradient of y; it comes first
	x = IdentityWithCustomGradient(x, func(_, _ *Node) *Node { return gradient(arrived) })
	// The choice is constant, so XLA drops it and the sum; GoMLX sees a way from
	// y back to x.
	always := BroadcastToDims(Const(y.Graph(), true), y.Shape().Dimensions...)
	way := BroadcastToDims(ReduceAllSum(x), y.Shape().Dimensions...)
	return IdentityWithCustomGradient(Where(always, y, way), func(_, v *Node) *Node {
		arrived = v
		return v
	})
}
