package xla

import (
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/lower"
)

// blocks are those of a convolution of stride 1.
type blocks struct{ lower.Blocks }

func blocksOf(x *Node, tall, wide, channels int) blocks {
	return blocks{lower.BlocksOf([4]int(x.Shape().Dimensions), tall, wide, channels)}
}

// columns are what blocks see of each row of the image: [n, its height, blocks of a row,
// seen].
func (b blocks) columns(x *Node) *Node {
	var l []*Node
	for at := 0; at < b.Width; at += b.Block {
		w := Slice(x, AxisRange(), AxisRange(), AxisRange(at, at+b.Block+b.Wide-1))
		l = append(l, Reshape(w, b.N, b.Height+b.Tall-1, 1, b.Seen()))
	}
	return Concatenate(l, 2)
}

// windows is the matrix: [rows tall·seen]. In the same form for output and gradient, XLA
// makes it once.
func (b blocks) windows(x *Node) *Node {
	all := b.columns(x)
	var l []*Node
	for i := range b.Tall {
		l = append(l, Slice(all, AxisRange(), AxisRange(i, i+b.Height)))
	}
	return Reshape(Concatenate(l, 3), b.Rows(), b.Tall*b.Seen())
}

// convolveBlocks is a convolution of stride 1: windows · weights, which stand in
// their matrix once for each neighbour, at its place. It has no gradient.
func convolveBlocks(x, w *Node, pads [2][2]int) *Node {
	x = frame(x, pads)
	k := w.Shape().Dimensions
	b := blocksOf(x, k[0], k[1], k[3])
	zero := ScalarZero(w.Graph(), w.DType())
	var columns []*Node
	for at := range b.Block {
		w := Pad(w, zero, compute.PadAxis{}, compute.PadAxis{Start: at, End: b.Block - 1 - at}, compute.PadAxis{}, compute.PadAxis{})
		columns = append(columns, Reshape(w, b.Tall*b.Seen(), 1, b.Channels))
	}
	weights := Reshape(Concatenate(columns, 1), b.Tall*b.Seen(), b.Block*b.Channels)
	return Reshape(Dot(b.windows(x), weights).Product(), b.N, b.Height, b.Width, b.Channels)
}

// weightsProduct is the gradient of a convolution's weights, by windows of the image and
// what arrives at the output. It holds each tap's product once for each neighbour of a
// block, and they are added up. XLA's product has longer rows, and is faster, where the
// wider of both gives the columns.
func weightsProduct(x, v *Node, pads [2][2]int) *Node {
	x = frame(x, pads)
	d, out := x.Shape().Dimensions, v.Shape().Dimensions
	b := blocksOf(x, d[1]-out[1]+1, d[2]-out[2]+1, out[3])
	arrived := Reshape(v, b.Rows(), b.Block*b.Channels)
	if b.Seen() < 48 && b.Tall*b.Seen() > b.Block*b.Channels {
		products := DotGeneral(arrived, []int{0}, nil, b.windows(x), []int{0}, nil)
		products = Reshape(products, b.Block, b.Channels, b.Tall, b.Block+b.Wide-1, b.In)
		return TransposeAllAxes(b.shifted(func(k int) *Node {
			return Reshape(Slice(products, AxisElem(k), AxisRange(), AxisRange(), AxisRange(k, k+b.Wide)), b.Channels, b.Tall, b.Wide, b.In)
		}), 1, 2, 3, 0)
	}
	multiply := func(windows *Node) *Node {
		return DotGeneral(Reshape(windows, b.Rows(), windows.Shape().Size()/b.Rows()), []int{0}, nil, arrived, []int{0}, nil)
	}
	var products *Node
	if b.Seen() >= 48 { // long enough for a product of its own for each row of the kernel
		all := b.columns(x)
		var parts []*Node
		for i := range b.Tall {
			parts = append(parts, multiply(Slice(all, AxisRange(), AxisRange(i, i+b.Height))))
		}
		products = Concatenate(parts, 0)
	} else {
		products = multiply(b.windows(x))
	}
	products = Reshape(products, b.Tall, b.Block+b.Wide-1, b.In, b.Block, b.Channels)
	return b.shifted(func(k int) *Node {
		return Reshape(Slice(products, AxisRange(), AxisRange(k, k+b.Wide), AxisRange(), AxisElem(k)), b.Tall, b.Wide, b.In, b.Channels)
	})
}

// shifted adds up what the neighbours of a block have of the weights.
func (b blocks) shifted(neighbour func(k int) *Node) *Node {
	var l []*Node
	for k := range b.Block {
		l = append(l, neighbour(k))
	}
	return added(l)
}

// imageProduct is the gradient of images without a frame: what arrives at the
// output · weights, each tap of it added where the tap was.
func imageProduct(v, w *Node) *Node {
	d, k := v.Shape().Dimensions, w.Shape().Dimensions
	taps := DotGeneral(Reshape(v, d[0]*d[1]*d[2], d[3]), []int{1}, nil, Reshape(w, k[0]*k[1]*k[2], k[3]), []int{1}, nil)
	taps = Reshape(taps, d[0], d[1], d[2], k[0]*k[1], k[2])
	zero := ScalarZero(v.Graph(), v.DType())
	var placed []*Node
	for i := range k[0] {
		for j := range k[1] {
			tap := Reshape(Slice(taps, AxisRange(), AxisRange(), AxisRange(), AxisElem(i*k[1]+j)), d[0], d[1], d[2], k[2])
			placed = append(placed, Pad(tap, zero, compute.PadAxis{}, compute.PadAxis{Start: i, End: k[0] - 1 - i}, compute.PadAxis{Start: j, End: k[1] - 1 - j}, compute.PadAxis{}))
		}
	}
	return added(placed)
}

// imageRows is the gradient of images of height × width: a convolution along rows, whose
// outputs are what each row of the kernel adds, and these are added where they belong.
func imageRows(v, w *Node, height, width int, pads [2][2]int) *Node {
	d, k := v.Shape().Dimensions, w.Shape().Dimensions
	zero := ScalarZero(v.Graph(), v.DType())
	wide := d[2] + k[1] - 1 // of the image with its frame
	across := Reshape(TransposeAllAxes(Reverse(w, 1), 1, 3, 0, 2), 1, k[1], k[3], k[0]*k[2])
	rows := Convolve(v, across).PaddingPerDim([][2]int{{0, 0}, {k[1] - 1, k[1] - 1}}).Done()
	rows = Reshape(rows, d[0], d[1], wide, k[0], k[2])
	var placed []*Node
	for i := range k[0] {
		row := Reshape(Slice(rows, AxisRange(), AxisRange(), AxisRange(), AxisElem(i)), d[0], d[1], wide, k[2])
		placed = append(placed, Pad(row, zero, compute.PadAxis{}, compute.PadAxis{Start: i, End: k[0] - 1 - i}, compute.PadAxis{}, compute.PadAxis{}))
	}
	return Slice(added(placed), AxisRange(), AxisRange(pads[0][0], pads[0][0]+height), AxisRange(pads[1][0], pads[1][0]+width))
}
