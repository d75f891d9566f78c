package xla

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// MaxPool is max pooling with the gradient that p names. Where the gradient reads the
// image, the image is computed again if there is a way.
func (l Lowering) MaxPool(x *Node, p models.MaxPool2D, again models.Again) *Node {
	stride := p.Stride
	if p.Gradient == models.Mask && (p.Pad > 0 || stride != p.Window) {
		return overlapping{p.Window, stride, p.Pad}.pool(x) // which keeps positions, not the image
	}
	pool := func(x *Node) *Node { return l.reading(x, p) }
	if again != nil {
		return pooled(pool, x, again)
	}
	return pool(x)
}

// reading is a pooling whose gradient reads the image.
func (l Lowering) reading(x *Node, p models.MaxPool2D) *Node {
	d, stride := x.Shape().Dimensions, p.Stride
	if p.Gradient != models.Mask && (p.Gradient == models.SelectAndScatter || stride != p.Window || p.Pad > 0) {
		return MaxPool(x).Window(p.Window).Strides(stride).PaddingPerDim([][2]int{{p.Pad, p.Pad}, {p.Pad, p.Pad}}).Done()
	}
	height, width := d[1]/stride, d[2]/stride
	if height*stride != d[1] || width*stride != d[2] {
		x = Slice(x, AxisRange(), AxisRange(0, height*stride), AxisRange(0, width*stride), AxisRange())
	}
	windows := Reshape(x, d[0], height, stride, width, stride, d[3])
	if p.Gradient == models.IndexedFill {
		return indexed(windows)
	}
	if lower.PairwiseMaxima(l.Target, d[3]) {
		return greatest(windows)
	}
	return gradient.EachMax(windows, 2, 4)
}

// overlapping are windows for max pooling that may lie over each other, or on
// padding.
type overlapping struct{ window, stride, pad int }

// pool takes the maximum of each window of x [n height width channels], and keeps
// the place of the first one in its window. The backward pass is a sum over the windows
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
	place := dtypes.Uint8 // what is kept for the backward pass
	if o.window > 16 {
		place = dtypes.Int32
	}
	at = ConvertDType(at, place)
	return derived(y, x, func(v *Node) *Node { return o.back(v, at, d[1], d[2]) })
}

// back is the gradient of images, height by width with their padding, where v is that
// of the windows and at are the positions of their maxima.
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

// greatest is ReduceMax of windows [n height window width window channels], value and
// gradient, by maxima of two arrays at a time. The barrier is for all to read one image:
// XLA would compute it again for each of the parts, and a maximum is looked for among
// numbers whose last bit may differ from its own.
func greatest(windows *Node) *Node {
	d := windows.Shape().Dimensions
	image := OptimizationBarrier(StopGradient(windows))
	x := Reshape(image, d[0], d[1], d[2], d[3]*d[4]*d[5])
	rows := maxima(d[2], func(k int) *Node { return Slice(x, AxisRange(), AxisRange(), AxisElem(k)) })
	rows = Reshape(rows, d[0], d[1], d[3], d[4]*d[5])
	y := maxima(d[4], func(k int) *Node {
		return Slice(rows, AxisRange(), AxisRange(), AxisRange(), AxisRange(k*d[5], (k+1)*d[5]))
	})
	return derived(y, windows, func(v *Node) *Node {
		spread := func(x *Node) *Node { return BroadcastToDims(Reshape(x, d[0], d[1], 1, d[3], 1, d[5]), d...) }
		return Where(Equal(image, spread(y)), spread(v), ZerosLike(windows))
	})
}

// maxima is the maximum of some arrays.
func maxima(n int, part func(k int) *Node) *Node {
	most := part(0)
	for k := 1; k < n; k++ {
		most = Max(most, part(k))
	}
	return most
}

// indexed takes each window's maximum and keeps its index; the gradient is
// written there.
func indexed(windows *Node) *Node {
	d := windows.Shape().Dimensions
	n, area := d[0]*d[1]*d[3]*d[5], d[2]*d[4]
	flat := Reshape(TransposeAllAxes(windows, 0, 1, 3, 5, 2, 4), n, area)
	x := StopGradient(flat)
	at := ArgMax(x, -1, dtypes.Int32) // [n]
	y := derived(ReduceMax(x, 1), flat, func(v *Node) *Node { return Transpose(fill(area, at, v), 0, 1) })
	return Reshape(y, d[0], d[1], d[3], d[5])
}

// fill is zeros [area n] with number k of values [n] at [at[k], k]. For each
// index it writes all n numbers of a row.
func fill(area int, at, values *Node) *Node {
	g, n := at.Graph(), at.Shape().Size()
	zeros := Zeros(g, shapes.Make(values.DType(), area, n))
	index, first := Iota(g, at.Shape(), 0), Const(g, int32(0))
	state := []*Node{zeros, at, values, index}
	return timeSteps(n, state, func(here func(*Node) *Node, _ func(all, one *Node) *Node, s []*Node) []*Node {
		corner := []*Node{here(s[1]), first}
		row := Where(Equal(s[3], here(s[3])), s[2], Reshape(DynamicSlice(s[0], corner, []int{1, n}), n))
		return append([]*Node{DynamicUpdateSlice(s[0], Reshape(row, 1, n), corner)}, s[1:]...)
	}, false)[0]
}
