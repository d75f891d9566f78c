package models

import (
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Lowering is how a convolution is computed.
type Lowering int

const (
	// Automatic is one product where each output sees the whole image, and Patches
	// where they were measured to be faster: on a GPU, kernels from 2×2 to 5×5 and
	// stride 1 on up to 16 input channels; on a CPU, up to 3×3 with a stride; and 1×1
	// everywhere. On a CPU it is Winograd for much work, and otherwise Library with as
	// much of Products as was measured to be faster.
	Automatic Lowering = iota
	// Patches multiplies a matrix of image patches with the weights.
	Patches
	// Library is XLA's convolution.
	Library
	// Products is made of products of matrices, output and gradient of the weights, where
	// the stride is 1; the images' is a convolution along rows. A row of a matrix is not one
	// place of the output but a block of neighbours. With a stride the gradient of the
	// weights is a product.
	Products
	// Winograd needs fewer products, for kernels from 3×3 to 5×5 and stride 1 in
	// float32. Others are Library.
	Winograd
)

// Conv2D slides square kernels over an image.
type Conv2D struct {
	Name     string
	Channels int
	Kernel   int
	Stride   int  // default: 1
	Same     bool // pad so that the image keeps its size, divided by the stride
	Pad      int  // on each side; not with Same
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [kernel kernel inputs channels]; default: Glorot
	BiasInit Init // of the biases, [channels]; default: 0
	Lowering Lowering

	recompute bool // see Net.Recomputed
}

// Title names the layer.
func (l Conv2D) Title() (name, kind string) { return l.Name, "Conv2D" }

// Apply takes x shaped [n height width inputs] and returns
// [n height' width' channels].
func (l Conv2D) Apply(scope *model.Scope, x *Node) *Node { return l.apply(scope, x, nil) }

// apply takes what makes x again for the gradient of the weights; nil: x is kept.
func (l Conv2D) apply(scope *model.Scope, x *Node, once again) *Node {
	d := x.Shape().Dimensions
	must(l)
	images(x)
	stride := max(1, l.Stride)
	pads := [2][2]int{{l.Pad, l.Pad}, {l.Pad, l.Pad}}
	if l.Same {
		for i := range pads {
			total := max(0, ((d[1+i]+stride-1)/stride-1)*stride+l.Kernel-d[1+i])
			pads[i] = [2]int{total / 2, total - total/2}
		}
	}
	if h, w := d[1]+pads[0][0]+pads[0][1], d[2]+pads[1][0]+pads[1][1]; h < l.Kernel || w < l.Kernel {
		panic(fmt.Errorf("kernel %d×%d on an image of %d×%d: want one that is no larger; give it padding", l.Kernel, l.Kernel, h, w))
	}
	w := variable(scope, x.Graph(), "weights", l.Init, Glorot, l.Kernel, l.Kernel, d[3], l.Channels)
	slide := func(x, w *Node) *Node {
		switch {
		case l.whole(x, stride, pads):
			return whole(x, w, stride, pads)
		case l.patches(x, stride):
			return patches(x, w, stride, pads)
		}
		if fast, ok := l.winograd(x, stride, pads); ok {
			return fast.convolve(x, w, pads)
		}
		return library(x, w, stride, pads, l.products(x, stride, pads))
	}
	var y *Node
	if !l.recompute {
		y = slide(x, w)
	} else {
		y = convolved(slide, x, w, once)
	}
	if !l.NoBias {
		y = biased(y, variable(scope, x.Graph(), "biases", l.BiasInit, Fill(0), l.Channels))
	}
	return l.Act.of(y)
}

// patches decides for Lowering. Measured on an H200: SeedCNN, LeNet5 and Keras'
// first layer gain, its second (32 channels) loses; a step of ResNet152 kept the
// device busy for 29.3 ms with products for its 1×1 layers, and for 31.6 without, of
// which 1.9 were copies that are made no more. On 2 CPU cores XLA's convolution is
// level for SeedCNN and faster for the others (Keras: 114 against 173 ms a step), and
// compiles in half the time; but the gradients of one that strides take it long, some in
// loops of its own: ResNet14 took 76 ms a step and 40 so.
func (l Conv2D) patches(x *Node, stride int) bool {
	in := x.Shape().Dimensions[3]
	switch {
	case l.Lowering == Patches:
		return true
	case l.Channels == 1 && withOneDNN(x.Graph()):
		return true // its weights' gradient is wrong for kernels of 1×1 (plugin 0.11.2)
	case l.Lowering != Automatic || l.Kernel > 5:
		return false
	case stride > 1:
		return l.Kernel <= 3 && onCPU(x.Graph())
	case l.Kernel == 1:
		return true
	}
	return in <= 16 && !onCPU(x.Graph())
}

// products are what of a convolution is written as products: the output, and the
// gradients of the image, by taps or along rows, and of the weights, by blocks or
// by taps. The output's need the weights'. Of a gradient of the weights that XLA's
// convolution takes, parts is how many portions of the batch it is the sum of.
type products struct {
	output, image, rows, weights, taps bool
	parts                              int
}

// products decides for Lowering.
//
// XLA's CPU compiler gathers what one place of the output sees, number by number,
// and multiplies it with as many columns as there are channels. Blocks of neighbours
// have longer rows and more columns. On 2 CPU cores, each alone and written in JAX
// 0.10.2, ms of XLA's convolution and of blocks, the output and the gradient of the
// weights:
//
//	LeNet5's first layer   3.7 and 0.8, 4.9 and 0.9
//	SeedCNN's, a batch of 100   1.2 and 0.3, 0.5 and 0.2
//	3 to 16 channels, 3×3, 64 of 32×32   1.1 and 0.4, 0.7 and 0.6
//	6 to 16 (LeNet5's second)   0.37 and 0.32, 0.40 and 0.37
//	8 to 8, 3×3, 64 of 32×32   1.1 and 0.9, 1.4 and 0.9
//
// A step of LeNet5 takes 6.3 so for 8.8, one of SeedCNN with 100 images 1.7 for 3.3,
// the best of eight epochs.
// The gradient of an image of few channels gathers in the same way, and by rows of
// the kernel LeNet5's second layer takes 0.4 for 1.3, its step 5.6 for 6.3. (Blocks for that
// layer's output and weights, 0.5 ms alone and 0.8 XLA's, make its step 5 % slower.)
//
// It takes the gradient of the weights for a convolution whose kernel is as large as
// the output, and that of an image smaller than the kernel is mostly padding: as a
// product the latter took LeNet5's step from 15 to 10 ms. With oneDNN, ms, XLA's
// against a product (the clock of that machine varied by two; KerasCNN's 47 needs an
// allocator that keeps large blocks, and is 77 without):
//
//	weights of KerasCNN    8.6 to 1.7, 86 to 47
//	weights of LeNet5      8.1 to 4.2, 1.4 to 1.6 (10×10), 0.5 to 0.5 (2×2)
//	image of LeNet5's conv2 and conv3    1.7 to 2.3, 9.8 to 0.5
//
// That gradient takes it up to four times as long for each image of a batch with more
// than 12 to 17 MB of outputs: perhaps they leave a cache. So it gets the batch in
// parts. A batch of 128, ms, whole and in parts of so many images, each alone:
//
//	DeepPose's first layer, of 11×11   1,240 and 387 (4)
//	its second, of 5×5   1,548 and 640 (16)
//	its third, of 3×3   1,087 and 242 (16)
//	64 to 64 channels, 3×3, 32×32   146 and 90 (8)
//
// On a GPU it takes the gradient of the weights where taps are few. For such cuDNN's
// fastest is often one whose blocks add up as they come (its algorithm 0), so that a
// second run differs in the last bits: two of ResNet14's in float32, on an H200.
func (l Conv2D) products(x *Node, stride int, pads [2][2]int) products {
	d := slices.Clone(x.Shape().Dimensions)
	for i, p := range pads {
		d[1+i] += p[0] + p[1]
	}
	places := d[0] * ((d[1]-l.Kernel)/stride + 1) * ((d[2]-l.Kernel)/stride + 1)
	switch {
	case l.Lowering == Library || l.Lowering == Winograd:
		return products{}
	case l.Lowering == Products && stride > 1:
		return products{taps: true}
	case l.Lowering == Products:
		return products{output: true, rows: true, weights: true}
	case !onCPU(x.Graph()):
		return products{taps: places*l.Kernel*l.Kernel*d[3] <= largestTaps}
	}
	part := largestPart / min(stride, 2)
	parts := (places*l.Channels + part - 1) / part
	if stride > 1 {
		return products{parts: parts}
	}
	b := blocksOf(d, l.Kernel, l.Kernel, l.Channels)
	image := b.height < l.Kernel && pads == [2][2]int{}
	few := b.in <= 4 && b.block > 1 && b.rows()*b.tall*b.seen() <= largestWindows
	if withOneDNN(x.Graph()) {
		return products{output: few, image: image, weights: few || b.height >= 16, parts: parts}
	}
	rows := !image && b.in <= 8 && b.n*b.height*d[2]*l.Kernel*b.channels <= largestRows
	return products{output: few, image: image, rows: rows, weights: few, parts: parts}
}

// How many numbers the windows of blocks may have, what the places of a convolution along
// rows see, and taps: 256, 16 and 16 MiB of float32. XLA's convolution needs no such memory.
// And the outputs of a part: 6 MiB, 3 with a stride. DeepPose's first layer with its
// pooling took 920 to 1,120 ms a step with parts of 12 MiB, 590 to 650 of 6, 580 to 590 of
// 3; its other convolutions 3.83, 3.54 and 3.57 s.
const largestWindows, largestRows, largestTaps, largestPart = 64 << 20, 4 << 20, 4 << 20, 3 << 19

// Lowered is the net with one lowering for all its convolutions.
func (n Net) Lowered(l Lowering) Net {
	n.Layers = changed(n.Layers, func(c Conv2D) Conv2D {
		c.Lowering = l
		return c
	})
	return n
}

// withProducts says whether large matrices are multiplied by package gemm.
func withProducts(g *Graph) bool { return strings.Contains(g.Backend().Description(), "products") }

// withSteps says whether it computes gradients where weights change by them.
func withSteps(g *Graph) bool { return strings.Contains(g.Backend().Description(), "steps") }

// withOneDNN reads it where onCPU reads what it does.
func withOneDNN(g *Graph) bool { return strings.Contains(g.Backend().Description(), "oneDNN") }

// onCPU reads what the graph will run on from its backend's description.
func onCPU(g *Graph) bool { return strings.Contains(strings.ToLower(g.Backend().Description()), "cpu") }

// whole decides for Lowering: whether each output sees the whole image. The
// convolution is then one product, with a matrix of which each output has the
// weights that lie over the image. cuDNN takes the 2×2 images of ResNet152 for
// kernels, turns both around, and multiplies their padding, too: on an H200 at
// 2,048 images a layer of 256 channels took 44, 19 and 19 µs and turned arrays for
// 40, and takes about 10 µs for each of three products.
func (l Conv2D) whole(x *Node, stride int, pads [2][2]int) bool {
	if l.Lowering != Automatic {
		return false
	}
	for i, p := range pads {
		side := x.Shape().Dimensions[1+i]
		last := (side + p[0] + p[1] - l.Kernel) / stride * stride // where the last window begins, in the padded image
		if p[0] < last || side+p[0] > l.Kernel {
			return false
		}
	}
	return true
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
