package xla

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/models"
)

// MaxPool is max pooling with the gradient that p names. Where the gradient reads the
// image, the image is computed again if there is a way.
func (l Lowering) MaxPool(x *Node, p models.MaxPool2D, again models.Again) *Node {
	switch apart := p.Stride == p.Window && p.Pad == 0; {
	case p.Gradient == models.Mask && !apart:
		return overlapping{p.Window, p.Stride, p.Pad}.pool(x)
	case p.Gradient == models.Mask:
		return l.firstMax(windows(x, p.Window)) // both keep positions, not the image
	case p.Gradient == models.IndexedFill && apart:
		return reading(func(x *Node) *Node { return indexed(windows(x, p.Window)) }, x, again)
	}
	return reading(func(x *Node) *Node {
		return MaxPool(x).Window(p.Window).Strides(p.Stride).PaddingPerDim([][2]int{{p.Pad, p.Pad}, {p.Pad, p.Pad}}).Done()
	}, x, again)
}

// reading is a pooling whose gradient reads the image.
func reading(pool func(x *Node) *Node, x *Node, again models.Again) *Node {
	if again != nil {
		return pooled(pool, x, again)
	}
	return pool(x)
}

// windows are those of images that lie side by side: [n height window width window channels].
func windows(x *Node, window int) *Node {
	d := x.Shape().Dimensions
	height, width := d[1]/window, d[2]/window
	if height*window != d[1] || width*window != d[2] {
		x = Slice(x, AxisRange(), AxisRange(0, height*window), AxisRange(0, width*window), AxisRange())
	}
	return Reshape(x, d[0], height, window, width, window, d[3])
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

// firstMax is the maximum of each of some windows, [n height width channels], by maxima of two
// arrays at a time, and keeps the place of the first one, row by row, for the backward pass.
func (l Lowering) firstMax(windows *Node) *Node {
	g, d := windows.Graph(), windows.Shape().Dimensions
	place := dtypes.Float32 // as wide as most images: a CPU computes both in vectors of one length
	if !l.Target.CPU() && d[2] <= 16 {
		place = dtypes.Uint8 // takes less memory
	}
	number := func(k int) *Node { return Const(g, float32(k)) }
	x := Reshape(StopGradient(windows), d[0], d[1], d[2], d[3], d[4]*d[5])
	y, at := first(d[4], func(k int) (y, at *Node) { // of each row of a window
		y = Slice(x, AxisRange(), AxisRange(), AxisRange(), AxisRange(), AxisRange(k*d[5], (k+1)*d[5]))
		return y, BroadcastToDims(number(k), y.Shape().Dimensions...)
	})
	all, places := y, at
	y, at = first(d[2], func(k int) (y, at *Node) {
		of := func(x *Node) *Node { return Slice(x, AxisRange(), AxisRange(), AxisElem(k)) }
		return of(all), Add(of(places), number(k*d[4]))
	})
	at = ConvertDType(at, place)
	return derived(Reshape(y, d[0], d[1], d[3], d[5]), windows, func(v *Node) *Node {
		spread := func(x *Node) *Node { return BroadcastToDims(Reshape(x, d[0], d[1], 1, d[3], 1, d[5]), d...) }
		index := func(axis int) *Node { return Iota(g, shapes.Make(dtypes.Float32, 1, 1, d[2], 1, d[4], 1), axis) }
		here := ConvertDType(Add(Mul(index(2), number(d[4])), index(4)), place)
		return Where(Equal(spread(at), BroadcastToDims(here, d...)), spread(v), ZerosLike(windows))
	})
}

// first is the maximum of some arrays, and the place of the first one.
func first(n int, part func(k int) (y, at *Node)) (y, at *Node) {
	y, at = part(0)
	for k := 1; k < n; k++ {
		next, place := part(k)
		at = Where(GreaterThan(next, y), place, at)
		y = Max(y, next)
	}
	return y, at
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
