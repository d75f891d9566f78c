package models

import (
	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"
)

// weightsProduct is the gradient of a convolution's weights, by windows of the
// image · what arrives at the output. Products of few columns are slow, so a row
// of a product is a block of neighbours in the output, beside all of the image
// that they see: that holds each tap's product once for each neighbour, and
// they are added up.
func weightsProduct(x, v *Node, pads [2][2]int) *Node {
	if pads != [2][2]int{} {
		x = frame(x, pads)
	}
	d, out := x.Shape().Dimensions, v.Shape().Dimensions
	n, in, height, width, channels := d[0], d[3], out[1], out[2], out[3]
	tall, wide := d[1]-height+1, d[2]-width+1 // the kernel
	block := 1
	for b := 2; b <= 4 && b*channels <= 64; b++ {
		if width%b == 0 {
			block = b
		}
	}
	seen := (block + wide - 1) * in // of a row of the image
	rows := n * height * (width / block)
	right := Reshape(v, rows, block*channels)
	multiply := func(windows *Node) *Node {
		return DotGeneral(Reshape(windows, rows, windows.Shape().Size()/rows), []int{0}, nil, right, []int{0}, nil)
	}
	window := func(row, rows, at int) *Node {
		w := Slice(x, AxisRange(), AxisRange(row, row+rows), AxisRange(at, at+block+wide-1), AxisRange())
		return Reshape(w, n, rows, 1, seen)
	}
	var products *Node
	if seen >= 48 { // long enough for a product of its own for each row of the kernel
		var windows, parts []*Node
		for at := 0; at < width; at += block {
			windows = append(windows, window(0, d[1], at))
		}
		all := Concatenate(windows, 2)
		for i := range tall {
			parts = append(parts, multiply(Slice(all, AxisRange(), AxisRange(i, i+height))))
		}
		products = Concatenate(parts, 0)
	} else {
		var windows []*Node
		for at := 0; at < width; at += block {
			for i := range tall {
				windows = append(windows, window(i, height, at))
			}
		}
		products = multiply(Concatenate(windows, 2))
	}
	products = Reshape(products, tall, block+wide-1, in, block, channels)
	var sum *Node
	for b := range block {
		one := Reshape(Slice(products, AxisRange(), AxisRange(b, b+wide), AxisRange(), AxisElem(b)), tall, wide, in, channels)
		if sum == nil {
			sum = one
		} else {
			sum = Add(sum, one)
		}
	}
	return sum
}

// imageProduct is the gradient of images of height × width: what arrives at the
// output · weights, each tap of it added where the tap was.
func imageProduct(v, w *Node, height, width int, pads [2][2]int) *Node {
	d, k := v.Shape().Dimensions, w.Shape().Dimensions
	taps := DotGeneral(Reshape(v, d[0]*d[1]*d[2], d[3]), []int{1}, nil, Reshape(w, k[0]*k[1]*k[2], k[3]), []int{1}, nil)
	taps = Reshape(taps, d[0], d[1], d[2], k[0]*k[1], k[2])
	zero := ScalarZero(v.Graph(), v.DType())
	var sum *Node
	for i := range k[0] {
		for j := range k[1] {
			tap := Reshape(Slice(taps, AxisRange(), AxisRange(), AxisRange(), AxisElem(i*k[1]+j)), d[0], d[1], d[2], k[2])
			tap = Pad(tap, zero, compute.PadAxis{}, compute.PadAxis{Start: i, End: k[0] - 1 - i}, compute.PadAxis{Start: j, End: k[1] - 1 - j}, compute.PadAxis{})
			if sum == nil {
				sum = tap
			} else {
				sum = Add(sum, tap)
			}
		}
	}
	return Slice(sum, AxisRange(), AxisRange(pads[0][0], pads[0][0]+height), AxisRange(pads[1][0], pads[1][0]+width))
}
