package models

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// window is how a kernel, or a pool's window, slides over the sides of x: all axes but the first
// and the last.
type window struct {
	size, stride, dilation int
	pads                   [][2]int // of each side, before and after; nil: none
}

// span is from the first to the last element that a window reaches.
func (w window) span() int { return (w.size-1)*max(1, w.dilation) + 1 }

// same has the pads with which the sides of x keep their size, divided by the stride.
func (w window) same(x *Node) window {
	stride := max(1, w.stride)
	w.pads = nil
	for _, d := range sides(x) {
		total := max(0, ((d+stride-1)/stride-1)*stride+w.span()-d)
		w.pads = append(w.pads, [2]int{total / 2, total - total/2})
	}
	return w
}

// sides are the dimensions of x between the first and the last.
func sides(x *Node) []int { return x.Shape().Dimensions[1 : x.Rank()-1] }

// views are what each element of a window sees of x, the last side first, as shifted parts of x of
// one shape, [n out… channels].
func (w window) views(x *Node) (views []*Node) {
	stride, dilation := max(1, w.stride), max(1, w.dilation)
	for i, p := range w.pads {
		x = padded(x, 1+i, p[0], p[1])
	}
	var out []int
	for _, d := range sides(x) {
		if d < w.span() {
			n := len(sides(x))
			panic(fmt.Errorf("a kernel that spans %s on sides of %s: want one that is no larger; give it padding", times(slices.Repeat([]int{w.span()}, n)), times(sides(x))))
		}
		out = append(out, (d-w.span())/stride+1)
	}
	at := make([]int, len(out))
	for {
		axes := []SliceAxisSpec{AxisRange()}
		for i, k := range at {
			axes = append(axes, AxisRange(k*dilation, k*dilation+(out[i]-1)*stride+1).Stride(stride))
		}
		views = append(views, Slice(x, axes...))
		i := len(at) - 1
		for ; i >= 0 && at[i] == w.size-1; i-- {
			at[i] = 0
		}
		if i < 0 {
			return views
		}
		at[i]++
	}
}

// times is 3×3.
func times(dims []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(dims), "[]"), " ", "×")
}

// convolve slides kernels with weights [size… inputs/groups channels] over x [n sides… inputs]. It
// is a multiplication of what the kernel sees, next to each other, with a matrix, or one for each
// group of channels.
func (w window) convolve(x, weights, biases *Node, groups int, act Act) *Node {
	views, in, channels := w.views(x), lastAxis(x), lastAxis(weights)
	dims := views[0].Shape().Dimensions
	rows, taps, g := views[0].Shape().Size()/in, len(views), max(1, groups)
	var y *Node
	if g == 1 {
		y = loweringOf(x.Graph()).Dense(Reshape(Concatenate(views, -1), rows, taps*in), Linear{Reshape(weights, taps*in, channels), biases, act})[0]
		return Reshape(y, append(slices.Clone(dims[:len(dims)-1]), channels)...)
	}
	y = Einsum("rtgi,tigo->rgo", Reshape(Stack(views, -2), rows, taps, g, in/g), Reshape(weights, taps, in/g, g, channels/g))
	y = Reshape(y, append(slices.Clone(dims[:len(dims)-1]), channels)...)
	if biases != nil {
		y = loweringOf(x.Graph()).AddBiases(y, biases)
	}
	return act.of(y)
}

// slider are the settings that convolutions share.
type slider struct {
	channels, kernel, groups int
	noBias                   bool
	init, biasInit           Init
	act                      Act
}

// slide makes the variables of a convolution, and applies it.
func (s slider) slide(scope *model.Scope, x *Node, w window) *Node {
	in, g := lastAxis(x), max(1, s.groups)
	if in%g != 0 {
		panic(fmt.Errorf("got %d channels: want a multiple of %d, its Groups", in, g))
	}
	weights := variable(scope, x.Graph(), "weights", s.init, Glorot, append(slices.Repeat([]int{s.kernel}, len(sides(x))), in/g, s.channels)...)
	var biases *Node
	if !s.noBias {
		biases = variable(scope, x.Graph(), "biases", s.biasInit, Fill(0), s.channels)
	}
	return w.convolve(x, weights, biases, g, s.act)
}

// Conv3D slides cubic kernels over volumes, such as scans or short films.
type Conv3D struct {
	Name     string
	Channels int
	Kernel   int
	Stride   int  // default: 1
	Dilation int  // distance of a kernel's taps; default: 1
	Groups   int  // of inputs and channels, each convolved by itself; default: 1
	Same     bool // pad so that a volume keeps its size, divided by the stride
	Pad      int  // on each side; not with Same
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [kernel kernel kernel inputs/groups channels]; default: Glorot
}

func (l Conv3D) Title() (name, kind string) { return l.Name, "Conv3D" }

func (l Conv3D) check() error {
	return cmp.Or(least("Channels", l.Channels, 1), least("Kernel", l.Kernel, 1), usual("Stride", l.Stride, "1"), usual("Dilation", l.Dilation, "1"),
		groupsOf(l.Groups, l.Channels), least("Pad", l.Pad, 0), unused(l.Same && l.Pad > 0, "Pad", "Same"))
}

// Apply takes x shaped [n depth height width inputs] and returns [n depth' height' width'
// channels].
func (l Conv3D) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	volumes(x)
	w := window{l.Kernel, l.Stride, l.Dilation, slices.Repeat([][2]int{{l.Pad, l.Pad}}, 3)}
	if l.Same {
		w = w.same(x)
	}
	return slider{l.Channels, l.Kernel, l.Groups, l.NoBias, l.Init, nil, l.Act}.slide(scope, x, w)
}

// volumes refuses what is not shaped [n depth height width channels].
func volumes(x *Node) {
	if x.Rank() != 5 {
		panic(fmt.Errorf("got an input of rank %d: want volumes shaped [n depth height width channels]", x.Rank()))
	}
}

// groupsOf refuses groups that do not divide the channels.
func groupsOf(groups, channels int) error {
	if err := usual("Groups", groups, "1"); err != nil || groups == 0 || channels%groups == 0 {
		return err
	}
	return fmt.Errorf("Groups is %d with %d Channels: want a divisor", groups, channels)
}
