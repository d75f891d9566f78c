package models

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// poolWindow is the settings that pools share.
type poolWindow struct {
	window, stride, pad int
}

func (p poolWindow) check() error {
	err := cmp.Or(least("Window", p.window, 1), usual("Stride", p.stride, "Window"), least("Pad", p.pad, 0))
	if err == nil && p.pad > 0 && p.pad >= p.window {
		err = fmt.Errorf("Pad is %d with windows of %d: want less, for some would hold nothing but padding", p.pad, p.window)
	}
	return err
}

// over pools each side by itself, and multiplies it by scale: fewer operations than whole windows.
// Rows that fill no window are dropped.
func (p poolWindow) over(x *Node, join func(a, b *Node) *Node, scale float64) *Node {
	stride := cmp.Or(p.stride, p.window)
	for i, d := range slices.Backward(sides(x)) { // so that the first of equal maxima is the first row by row
		if d+2*p.pad < p.window {
			panic(fmt.Errorf("window %s on sides of %s: want one that is no larger", times(slices.Repeat([]int{p.window}, len(sides(x)))), times(sides(x))))
		}
		if p.pad > 0 { // of a maximum
			edge := x.Shape().Clone()
			edge.Dimensions[1+i] = p.pad
			never := FillScalar(x.Graph(), edge, math.Inf(-1))
			x = Concatenate([]*Node{never, x, never}, 1+i)
		}
		out := (x.Shape().Dimensions[1+i]-p.window)/stride + 1
		var all *Node
		for k := range p.window {
			if part := SliceAxis(x, 1+i, AxisRange(k, k+(out-1)*stride+1).Stride(stride)); all == nil {
				all = part
			} else {
				all = join(all, part)
			}
		}
		if x = all; scale != 1 {
			x = MulScalar(x, scale)
		}
	}
	return x
}

// firstMax is Max, with all of the gradient for the first of equal numbers.
func firstMax(a, b *Node) *Node {
	return Where(Or(GreaterOrEqual(a, b), NotEqual(a, a)), a, b) // a NaN stays
}

func (p poolWindow) mean(x *Node) *Node { return p.over(x, Add, 1/float64(p.window)) }

// within is how many of the time steps of each window are there, float32 [n length' 1].
func (p poolWindow) within(mask *Node) *Node {
	there := ConvertDType(InsertAxes(mask, -1), dtypes.Float32)
	if p.pad > 0 {
		edge := Zeros(mask.Graph(), shapes.Make(dtypes.Float32, mask.Shape().Dimensions[0], p.pad, 1))
		there = Concatenate([]*Node{edge, there, edge}, 1)
	}
	return poolWindow{p.window, p.stride, 0}.over(there, Add, 1)
}

// withAny is y, a pooled sequence, without the windows in which no time step is there: these are
// padding, and 0.
func withAny(y, within *Node) *Node {
	mask := GreaterThan(Squeeze(within, -1), ScalarZero(y.Graph(), dtypes.Float32))
	return WithMask(zeroed(y, mask), mask)
}

// AvgPool1D takes the mean of each window of a sequence: of the time steps that are there, where
// x has a mask.
type AvgPool1D struct {
	Name   string
	Window int
	Stride int // default: Window
}

func (l AvgPool1D) Title() (name, kind string) { return l.Name, "AveragePooling1D" }
func (l AvgPool1D) check() error               { return poolWindow{l.Window, l.Stride, 0}.check() }

// Apply takes x shaped [n length channels] and returns [n length' channels]; steps that fill no
// window are dropped.
func (l AvgPool1D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	p := poolWindow{l.Window, l.Stride, 0}
	if mask := MaskOf(x); mask != nil {
		within := p.within(mask)
		return withAny(Div(p.over(zeroed(x, mask), Add, 1), ConvertDType(MaxScalar(within, 1), x.DType())), within)
	}
	return p.mean(x)
}

// AvgPool2D takes the mean of each window of an image.
type AvgPool2D struct {
	Name   string
	Window int
	Stride int // default: Window
}

func (l AvgPool2D) Title() (name, kind string) { return l.Name, "AveragePooling2D" }
func (l AvgPool2D) check() error               { return poolWindow{l.Window, l.Stride, 0}.check() }

// Apply takes x shaped [n height width channels] and returns [n height' width' channels]; rows and
// columns that fill no window are dropped.
func (l AvgPool2D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	images(x)
	return poolWindow{l.Window, l.Stride, 0}.mean(x)
}

// AvgPool3D takes the mean of each window of a volume.
type AvgPool3D struct {
	Name   string
	Window int
	Stride int // default: Window
}

func (l AvgPool3D) Title() (name, kind string) { return l.Name, "AveragePooling3D" }
func (l AvgPool3D) check() error               { return poolWindow{l.Window, l.Stride, 0}.check() }

// Apply takes x shaped [n depth height width channels] and returns [n depth' height' width'
// channels]; what fills no window is dropped.
func (l AvgPool3D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	volumes(x)
	return poolWindow{l.Window, l.Stride, 0}.mean(x)
}

// MaxPool1D takes the maximum of each window of a sequence: of the time steps that are there, where
// x has a mask.
type MaxPool1D struct {
	Name   string
	Window int
	Stride int // default: Window
	Pad    int // on each side; less than Window
}

func (l MaxPool1D) Title() (name, kind string) { return l.Name, "MaxPooling1D" }
func (l MaxPool1D) check() error               { return poolWindow{l.Window, l.Stride, l.Pad}.check() }

// Apply takes x shaped [n length channels] and returns [n length' channels]; steps that fill no
// window are dropped.
func (l MaxPool1D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	p := poolWindow{l.Window, l.Stride, l.Pad}
	if mask := MaskOf(x); mask != nil {
		there := BroadcastToDims(InsertAxes(mask, -1), x.Shape().Dimensions...)
		most := p.over(Where(there, x, FillScalar(x.Graph(), x.Shape(), math.Inf(-1))), firstMax, 1)
		return withAny(most, p.within(mask))
	}
	return p.over(x, firstMax, 1)
}

// MaxPool3D takes the maximum of each window of a volume.
type MaxPool3D struct {
	Name   string
	Window int
	Stride int // default: Window
	Pad    int // on each side; less than Window
}

func (l MaxPool3D) Title() (name, kind string) { return l.Name, "MaxPooling3D" }
func (l MaxPool3D) check() error               { return poolWindow{l.Window, l.Stride, l.Pad}.check() }

// Apply takes x shaped [n depth height width channels] and returns [n depth' height' width'
// channels]; what fills no window is dropped.
func (l MaxPool3D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	volumes(x)
	return poolWindow{l.Window, l.Stride, l.Pad}.over(x, firstMax, 1)
}

// GlobalAvgPool takes the mean over a whole sequence, image or volume: of the time steps that are there,
// where x has a mask.
type GlobalAvgPool struct{ Name string }

func (l GlobalAvgPool) Title() (name, kind string) { return l.Name, "GlobalAveragePooling" }

// Apply takes x shaped [n … channels] and returns [n channels].
func (GlobalAvgPool) Apply(_ *model.Scope, x *Node) *Node {
	axes := sideAxes(x)
	mask := MaskOf(x)
	if mask == nil {
		return ReduceMean(x, axes...)
	}
	there := ConvertDType(InsertAxes(mask, -1), x.DType())
	count := MaxScalar(ReduceSum(there, 1), 1) // of an example that is all padding the mean is 0
	return Div(ReduceSum(Mul(x, there), 1), count)
}

// GlobalMaxPool takes the maximum over a whole sequence, image or volume: of the time steps that
// are there, where x has a mask.
type GlobalMaxPool struct{ Name string }

func (l GlobalMaxPool) Title() (name, kind string) { return l.Name, "GlobalMaxPooling" }

// Apply takes x shaped [n … channels] and returns [n channels].
func (GlobalMaxPool) Apply(_ *model.Scope, x *Node) *Node {
	axes := sideAxes(x)
	if mask := MaskOf(x); mask != nil {
		there := BroadcastToDims(InsertAxes(mask, -1), x.Shape().Dimensions...)
		most := ReduceMax(Where(there, x, FillScalar(x.Graph(), x.Shape(), -math.MaxFloat32/2)), 1)
		some := ReduceMax(ConvertDType(there, dtypes.Int32), 1)
		return Where(GreaterThan(some, ZerosLike(some)), most, ZerosLike(most)) // of an example that is all padding it is 0
	}
	return ReduceMax(x, axes...)
}

// sideAxes are the axes of x between the first and the last.
func sideAxes(x *Node) (axes []int) {
	if x.Rank() < 3 {
		panic(fmt.Errorf("got an input of rank %d: want [n … channels], such as sequences or images", x.Rank()))
	}
	for i := range sides(x) {
		axes = append(axes, 1+i)
	}
	return axes
}
