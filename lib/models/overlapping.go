package models

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
)

// overlapping are windows for max pooling that may lie over each other, or on
// padding.
type overlapping struct{ window, stride, pad int }

// pool takes the maximum of each window of x [n height width channels], and keeps
// the place of the first one in its window. The way back is a sum over the windows
// that a pixel lies in, in an order that does not change: XLA's select-and-scatter
// adds on a GPU as they come.
func (o overlapping) pool(x *Node) *Node {
	g, padded := x.Graph(), StopGradient(x)
	if o.pad > 0 {
		rim := compute.PadAxis{Start: o.pad, End: o.pad}
		padded = Pad(padded, Infinity(g, x.DType(), -1), compute.PadAxis{}, rim, rim, compute.PadAxis{})
	}
	d := padded.Shape().Dimensions
	height, width := (d[1]-o.window)/o.stride+1, (d[2]-o.window)/o.stride+1
	var y, at *Node
	for k := range o.window * o.window {
		i, j := k/o.window, k%o.window
		pixel := Slice(padded, AxisRange(), AxisRange(i, i+(height-1)*o.stride+1).Stride(o.stride), AxisRange(j, j+(width-1)*o.stride+1).Stride(o.stride), AxisRange())
		if k == 0 {
			y, at = pixel, Zeros(g, shapes.Make(dtypes.Int32, pixel.Shape().Dimensions...))
			continue
		}
		at = Where(GreaterThan(pixel, y), Const(g, int32(k)), at)
		y = Max(y, pixel)
	}
	place := dtypes.Uint8 // what is kept for the way back
	if o.window > 16 {
		place = dtypes.Int32
	}
	at = ConvertDType(at, place)
	return derived(y, x, func(v *Node) *Node { return o.back(v, at, d[1], d[2]) })
}

// back is the gradient of images, height by width with their padding, where v is that
// of the windows and at are the places of their maxima.
func (o overlapping) back(v, at *Node, height, width int) *Node {
	g, d := v.Graph(), v.Shape().Dimensions
	at, none := ConvertDType(at, dtypes.Int32), ScalarZero(g, v.DType())
	var parts []*Node
	for k := range o.window * o.window {
		spread := func(before, windows, all int) compute.PadAxis {
			return compute.PadAxis{Start: before, End: all - before - (windows-1)*o.stride - 1, Interior: o.stride - 1}
		}
		part := Where(Equal(at, Const(g, int32(k))), v, none)
		parts = append(parts, Pad(part, none, compute.PadAxis{}, spread(k/o.window, d[1], height), spread(k%o.window, d[2], width), compute.PadAxis{}))
	}
	return Slice(added(parts), AxisRange(), AxisRange(o.pad, height-o.pad), AxisRange(o.pad, width-o.pad), AxisRange())
}
