package models

import (
	. "github.com/gomlx/gomlx/core/graph"
)

// library is XLA's convolution of images [n height width in] with weights
// [kernel kernel in out], but for what by names as products.
//
// The gradient of x is written out here: GoMLX v0.28.2 shifts it by one place
// when the kernel's size is even.
func library(x, w *Node, stride int, pads [2][2]int, by products) *Node {
	k := w.Shape().Dimensions[0]
	for _, p := range pads {
		if max(p[0], p[1]) > 2*((k-1)/2) { // GoMLX derives nothing for such padding, and refuses
			x, pads = frame(x, pads), [2][2]int{}
		}
	}
	image, weights := StopGradient(x), w
	if by.weights || by.taps || by.parts > 1 {
		weights = StopGradient(w)
	}
	var y *Node
	if by.output {
		y = convolveBlocks(image, weights, pads)
	} else {
		y = Convolve(image, weights).Strides(stride).PaddingPerDim(pads[:]).Done()
	}
	switch {
	case by.weights:
		y = derived(y, w, func(v *Node) *Node { return weightsProduct(image, v, pads) })
	case by.taps:
		y = derived(y, w, func(v *Node) *Node { return tapsProduct(image, v, k, k, stride, pads) })
	case by.parts > 1:
		y = derived(y, w, func(v *Node) *Node { return weightsInParts(image, v, k, stride, pads, by.parts) })
	}
	return derived(y, x, func(v *Node) *Node {
		d, out := x.Shape().Dimensions, v.Shape().Dimensions
		switch {
		case by.image:
			return imageProduct(v, w)
		case by.rows:
			return imageRows(v, w, d[1], d[2], pads)
		}
		var back [2][2]int
		for i, p := range pads {
			// Rows that no window reached get zeros: they are padding here.
			back[i] = [2]int{k - 1 - p[0], d[1+i] + p[0] - 1 - (out[1+i]-1)*stride}
		}
		// Inputs and outputs trade places by the axes, not by a transposition: so
		// XLA sees that it is an input's gradient, for which cuDNN has kernels.
		axes := ConvolveAxesConfig{InputBatch: 0, InputSpatial: []int{1, 2}, InputChannels: 3, KernelSpatial: []int{0, 1}, KernelInputChannels: 3,
			KernelOutputChannels: 2, OutputBatch: 0, OutputSpatial: []int{1, 2}, OutputChannels: 3}
		c := Convolve(v, Reverse(w, 0, 1)).AxesConfig(axes).PaddingPerDim(back[:])
		if stride > 1 {
			c = c.InputDilationPerAxis(stride, stride)
		}
		return c.Done()
	})
}

// patches is a convolution as one product: the kernel's taps, each a shifted
// view of the image, stand side by side.
func patches(x, w *Node, stride int, pads [2][2]int) *Node {
	k := w.Shape().Dimensions
	all, out := taps(x, k[0], k[1], stride, pads)
	return Reshape(MatMul(all, Reshape(w, k[0]*k[1]*k[2], k[3])), append(out, k[3])...)
}

// taps is what each output of a convolution sees, a row for each, of an output of
// [n height width].
func taps(x *Node, tall, wide, stride int, pads [2][2]int) (rows *Node, out []int) {
	x = frame(x, pads)
	d := x.Shape().Dimensions
	out = []int{d[0], (d[1]-tall)/stride + 1, (d[2]-wide)/stride + 1}
	var l []*Node
	for i := range tall {
		for j := range wide {
			l = append(l, Slice(x, AxisRange(),
				AxisRange(i, i+(out[1]-1)*stride+1).Stride(stride), AxisRange(j, j+(out[2]-1)*stride+1).Stride(stride), AxisRange()))
		}
	}
	all := l[0]
	if len(l) > 1 {
		all = Concatenate(l, -1)
	}
	return Reshape(all, out[0]*out[1]*out[2], tall*wide*d[3]), out
}

// tapsProduct is the gradient of weights [tall wide in channels]: taps of the image ·
// what arrives at the output.
func tapsProduct(x, v *Node, tall, wide, stride int, pads [2][2]int) *Node {
	rows, out := taps(x, tall, wide, stride, pads)
	channels := v.Shape().Dimensions[3]
	product := weightsOf(rows, Reshape(v, out[0]*out[1]*out[2], channels))
	return Reshape(product, tall, wide, x.Shape().Dimensions[3], channels)
}

// weightsInParts is the gradient of weights [kernel kernel in channels] by XLA's
// convolution of the image with what arrives at the output, for which the batch is what
// channels are to others. Parts of the batch come one after the other, and their
// gradients are added up.
func weightsInParts(x, v *Node, kernel, stride int, pads [2][2]int, parts int) *Node {
	axes := ConvolveAxesConfig{InputBatch: 3, InputSpatial: []int{1, 2}, InputChannels: 0, KernelSpatial: []int{1, 2}, KernelInputChannels: 0,
		KernelOutputChannels: 3, OutputBatch: 2, OutputSpatial: []int{0, 1}, OutputChannels: 3}
	d, out := x.Shape().Dimensions, v.Shape().Dimensions
	for i := range pads { // of rows that no window reached, none is read
		pads[i][1] = kernel + (out[1+i]-1)*stride - d[1+i] - pads[i][0]
	}
	size := (d[0] + parts - 1) / parts
	var l []*Node
	for at := 0; at < d[0]; at += size {
		some := AxisRange(at, min(at+size, d[0]))
		l = append(l, Convolve(Slice(x, some), Slice(v, some)).AxesConfig(axes).DilationPerAxis(stride, stride).PaddingPerDim(pads[:]).Done())
	}
	return added(l)
}

// frame puts zeros around images. GoMLX has no gradient of Pad; XLA makes one
// of this.
func frame(x *Node, pads [2][2]int) *Node {
	if pads == [2][2]int{} {
		return x
	}
	g, d := x.Graph(), append([]int{}, x.Shape().Dimensions...)
	var corner []*Node
	for _, at := range []int{0, pads[0][0], pads[1][0], 0} {
		corner = append(corner, Const(g, int32(at)))
	}
	d[1] += pads[0][0] + pads[0][1]
	d[2] += pads[1][0] + pads[1][1]
	return DynamicUpdateSlice(BroadcastToDims(number(x, 0), d...), x, corner)
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
