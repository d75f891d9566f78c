package xla

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Convolve is a convolution with the gradients of the algorithm that lower.Convolution
// chooses.
func (l Lowering) Convolve(x, w *Node, c models.Convolution) *Node {
	d, k := x.Shape().Dimensions, w.Shape().Dimensions
	choice := lower.Convolution{Images: [4]int(d), Channels: k[3], Kernel: k[0], Stride: c.Stride, Pads: c.Pads, DType: x.DType()}.Choose(l.Target, l.Options)
	slide := func(x, w *Node) *Node {
		switch choice.Algorithm {
		case lower.WholeImage:
			return whole(x, w, c.Stride, c.Pads)
		case lower.Patches:
			return l.patches(x, w, c.Stride, c.Pads)
		case lower.Winograd:
			return winogradOf(choice.Tile, k[0]).convolve(x, w, c.Pads)
		}
		if choice.In == 0 {
			return l.library(x, w, c.Stride, c.Pads, choice.Split)
		}
		y := l.library(widened(x, d[0], d[1], d[2], choice.In), widened(w, k[0], k[1], choice.In, choice.Out), c.Stride, c.Pads, choice.Split)
		return Slice(y, AxisRange(), AxisRange(), AxisRange(), AxisRange(0, k[3]))
	}
	return gradient.Lowered([]*Node{x, w}, func(in []*Node) *Node {
		if l.Options.Recompute > 0 {
			return convolved(slide, in[0], in[1], c.Again)
		}
		return slide(in[0], in[1])
	}, func(in []*Node) *Node { return models.Plain{}.Convolve(in[0], in[1], c) })
}

// whole is a convolution whose outputs each see the whole image.
func whole(x, w *Node, stride int, pads [2][2]int) *Node {
	d, k := x.Shape().Dimensions, w.Shape().Dimensions
	inputs, channels := d[1]*d[2]*d[3], k[3]
	var out [2]int
	for i, p := range pads {
		out[i] = (d[1+i]+p[0]+p[1]-k[0])/stride + 1
	}
	var parts []*Node
	for i := range out[0] {
		for j := range out[1] {
			top, left := pads[0][0]-i*stride, pads[1][0]-j*stride
			part := Slice(w, AxisRange(top, top+d[1]), AxisRange(left, left+d[2]))
			parts = append(parts, Reshape(part, inputs, 1, channels))
		}
	}
	matrix := Reshape(Concatenate(parts, 1), inputs, len(parts)*channels)
	return Reshape(Dot(Reshape(x, d[0], inputs), matrix).Product(), d[0], out[0], out[1], channels)
}

// library is XLA's convolution of images [n height width in] with weights
// [kernel kernel in out], but for what by names as products.
func (l Lowering) library(x, w *Node, stride int, pads [2][2]int, by lower.Split) *Node {
	k := w.Shape().Dimensions[0]
	plain := func(x, w *Node) *Node { return Convolve(x, w).Strides(stride).PaddingPerDim(pads[:]).Done() }
	image, weights := x, w
	if by.Image || by.Rows || by.Output {
		image = StopGradient(x)
	}
	if by.Weights || by.Taps || by.Parts > 1 {
		weights = StopGradient(w)
	}
	var y *Node
	if by.Output {
		y = convolveBlocks(image, weights, pads)
	} else {
		y = plain(image, weights)
	}
	switch {
	case by.Weights:
		y = derived(y, w, func(v *Node) *Node { return weightsProduct(StopGradient(x), v, pads) })
	case by.Taps:
		y = derived(y, w, func(v *Node) *Node { return l.tapsProduct(StopGradient(x), v, k, k, stride, pads) })
	case by.Parts > 1:
		y = derived(y, w, func(v *Node) *Node { return weightsInParts(StopGradient(x), v, k, stride, pads, by.Parts) })
	}
	switch d := x.Shape().Dimensions; {
	case by.Image:
		y = derived(y, x, func(v *Node) *Node { return imageProduct(v, w) })
	case by.Rows:
		y = derived(y, x, func(v *Node) *Node { return imageRows(v, w, d[1], d[2], pads) })
	case by.Output:
		y = derived(y, x, func(v *Node) *Node {
			return gradient.Of(func(in []*Node) *Node { return plain(in[0], StopGradient(w)) }, []*Node{x}, v)[0]
		})
	}
	return y
}

// patches is a convolution as one product: the kernel's taps, each a shifted
// view of the image, stand side by side.
func (l Lowering) patches(x, w *Node, stride int, pads [2][2]int) *Node {
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
func (l Lowering) tapsProduct(x, v *Node, tall, wide, stride int, pads [2][2]int) *Node {
	rows, out := taps(x, tall, wide, stride, pads)
	channels := v.Shape().Dimensions[3]
	product := l.weightsOf(rows, Reshape(v, out[0]*out[1]*out[2], channels))
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

// frame puts zeros around images.
func frame(x *Node, pads [2][2]int) *Node {
	if pads == [2][2]int{} {
		return x
	}
	d := append([]int{}, x.Shape().Dimensions...)
	d[1] += pads[0][0] + pads[0][1]
	d[2] += pads[1][0] + pads[1][1]
	return among(x, []int{0, pads[0][0], pads[1][0], 0}, d)
}

// widened puts zeros behind x, to the dimensions d.
func widened(x *Node, d ...int) *Node { return among(x, make([]int, len(d)), d) }

// among is x in zeros of dimensions d. GoMLX has no gradient of Pad; XLA makes one of this.
func among(x *Node, corner, d []int) *Node {
	var at []*Node
	for _, i := range corner {
		at = append(at, Const(x.Graph(), int32(i)))
	}
	return DynamicUpdateSlice(BroadcastToDims(number(x, 0), d...), x, at)
}
