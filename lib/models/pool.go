package models

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Pooling is how max pooling hands its gradient back. All three give the same
// where each window has one maximum.
type Pooling int

const (
	// Mask compares the image with the maximum: notebook 02's fast way. Equal
	// maxima of a window each get the gradient. Where windows lie over each other
	// or on padding, each keeps the place of its first maximum, and that gets the
	// gradient.
	Mask Pooling = iota
	// SelectAndScatter is XLA's op for it: the first maximum gets the gradient. On a
	// GPU, where windows lie over each other, the sums are in no fixed order: a
	// second run can differ in the last bits.
	SelectAndScatter
	// IndexedFill writes the gradient into zeros at the index of the first
	// maximum: notebook 02's slow way, kept to be measured. Its line
	// grad_x[:, max_index] = grad writes n numbers for each of n windows, and so
	// does this; a fill that writes one for each is no slower than Mask, since XLA
	// makes one loop of it. A batch of 64 takes 64 times as long as one of 8. It
	// needs windows that lie side by side; others fall back on SelectAndScatter.
	IndexedFill
)

// MaxPool2D takes the maximum of each window of an image. XLA's CPU compiler may leave out a
// NaN in a window, in JAX, too; PyTorch hands it on.
type MaxPool2D struct {
	Name     string
	Window   int
	Stride   int // default: Window
	Pad      int // on each side; less than Window
	Gradient Pooling
}

// Title names the layer.
func (l MaxPool2D) Title() (name, kind string) { return l.Name, "MaxPooling2D" }

// Apply takes x shaped [n height width channels] and returns
// [n height' width' channels]; rows and columns that fill no window are
// dropped.
func (l MaxPool2D) Apply(_ *model.Scope, x *Node) *Node { return l.pool(x) }

func (l MaxPool2D) pool(x *Node) *Node {
	must(l)
	images(x)
	d, stride := x.Shape().Dimensions, l.stride()
	if d[1]+2*l.Pad < l.Window || d[2]+2*l.Pad < l.Window {
		panic(fmt.Errorf("window %d×%d on an image of %d×%d: want one that is no larger", l.Window, l.Window, d[1]+2*l.Pad, d[2]+2*l.Pad))
	}
	if w := l.windows(); w != nil {
		return w.pool(x)
	}
	if l.Gradient == SelectAndScatter || stride != l.Window || l.Pad > 0 {
		return MaxPool(x).Window(l.Window).Strides(stride).PaddingPerDim([][2]int{{l.Pad, l.Pad}, {l.Pad, l.Pad}}).Done()
	}
	height, width := d[1]/stride, d[2]/stride
	if height*stride != d[1] || width*stride != d[2] {
		x = Slice(x, AxisRange(), AxisRange(0, height*stride), AxisRange(0, width*stride), AxisRange())
	}
	windows := Reshape(x, d[0], height, stride, width, stride, d[3])
	if l.Gradient == IndexedFill {
		return indexed(windows)
	}
	if onCPU(x.Graph()) && d[3] < 32 {
		return greatest(windows)
	}
	return ReduceMax(windows, 2, 4)
}

// greatest is ReduceMax of windows [n height window width window channels], value and
// gradient, by maxima of two arrays at a time: XLA's reduction takes a CPU long where
// channels are few. LeNet5's step went from 5.7 to 5.0 ms on 2 cores, SeedCNN's from 0.28
// to 0.25; with 64 channels Keras' net lost 4 %. The barrier is for all to read one image:
// XLA would make it again for each of the parts (SeedCNN's step takes 0.34 then), and a
// maximum is looked for among numbers whose last bit may differ from its own.
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

func (l MaxPool2D) stride() int {
	if l.Stride < 1 {
		return l.Window
	}
	return l.Stride
}

// windows are those of a Mask that do not simply lie side by side, nil for others.
func (l MaxPool2D) windows() *overlapping {
	if l.Gradient != Mask || l.Pad == 0 && l.stride() == l.Window {
		return nil
	}
	return &overlapping{l.Window, l.stride(), l.Pad}
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
	return places(n, state, func(here func(*Node) *Node, _ func(all, one *Node) *Node, s []*Node) []*Node {
		corner := []*Node{here(s[1]), first}
		row := Where(Equal(s[3], here(s[3])), s[2], Reshape(DynamicSlice(s[0], corner, []int{1, n}), n))
		return append([]*Node{DynamicUpdateSlice(s[0], Reshape(row, 1, n), corner)}, s[1:]...)
	}, false)[0]
}

// MeanPool2D takes the mean of a whole image: [n height width channels] in,
// [n channels] out.
type MeanPool2D struct{ Name string }

// Title names the layer.
func (l MeanPool2D) Title() (name, kind string) { return l.Name, "GlobalAveragePooling2D" }

// Apply takes x shaped [n height width channels] and returns [n channels].
func (MeanPool2D) Apply(_ *model.Scope, x *Node) *Node {
	images(x)
	return ReduceMean(x, 1, 2)
}
