package models

import (
	"cmp"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Conv1D slides kernels over sequences.
type Conv1D struct {
	Name     string
	Channels int
	Kernel   int
	Stride   int  // default: 1
	Dilation int  // distance of a kernel's taps; default: 1
	Groups   int  // of inputs and channels, each convolved by itself; default: 1
	Same     bool // pad so that a sequence keeps its length, divided by the stride
	Causal   bool // pad before a sequence only, so that no time step sees those after it
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [kernel inputs/groups channels]; default: Glorot
}

func (l Conv1D) Title() (name, kind string) { return l.Name, "Conv1D" }

func (l Conv1D) check() error {
	return cmp.Or(least("Channels", l.Channels, 1), least("Kernel", l.Kernel, 1), usual("Stride", l.Stride, "1"), usual("Dilation", l.Dilation, "1"),
		groupsOf(l.Groups, l.Channels), unused(l.Same && l.Causal, "Same", "Causal"))
}

// Apply takes x shaped [n length inputs] and returns [n length' channels].
func (l Conv1D) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	w := window{size: l.Kernel, stride: l.Stride, dilation: l.Dilation}
	cache := cacheOf(x.Graph())
	switch {
	case cache != nil && l.Causal:
		x = cache.continued(scope, x, w.span()-1)
	case l.Causal:
		w.pads = [][2]int{{w.span() - 1, 0}}
	case l.Same:
		w = w.same(x)
	}
	mask := MaskOf(x)
	y := slider{l.Channels, l.Kernel, l.Groups, l.NoBias, l.Init, nil, l.Act}.slide(scope, zeroed(x, mask), w)
	if mask == nil || y.Shape().Dimensions[1] == x.Shape().Dimensions[1] {
		return y
	}
	from, stride := 0, max(1, l.Stride) // a result is there if its step is, or all that it sees
	if w.pads == nil {
		from = w.span() - 1
	}
	return WithMask(y, Slice(mask, AxisRange(), AxisRange(from, from+(y.Shape().Dimensions[1]-1)*stride+1).Stride(stride)))
}

// DepthwiseConv2D slides a square kernel over each channel of an image by itself. With a
// [Conv2D] of kernel 1 after it, it is a separable convolution (Chollet, 2017).
type DepthwiseConv2D struct {
	Name     string
	Kernel   int
	Stride   int  // default: 1
	Dilation int  // distance of a kernel's taps; default: 1
	Same     bool // pad so that the image keeps its size, divided by the stride
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [kernel kernel channels]; default: uniform within ±1/kernel, as in PyTorch
}

func (l DepthwiseConv2D) Title() (name, kind string) { return l.Name, "DepthwiseConv2D" }

func (l DepthwiseConv2D) check() error {
	return cmp.Or(least("Kernel", l.Kernel, 1), usual("Stride", l.Stride, "1"), usual("Dilation", l.Dilation, "1"))
}

// Apply takes x shaped [n height width channels] and returns [n height' width' channels].
func (l DepthwiseConv2D) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	images(x)
	d, window := x.Shape().Dimensions, window{size: l.Kernel, stride: l.Stride, dilation: l.Dilation}
	if l.Same {
		window = window.same(x)
	}
	init := func(store *model.Store) model.VariableInitializer { return uniform(store, 1/float64(l.Kernel)) }
	w := variable(scope, x.Graph(), "weights", l.Init, init, l.Kernel, l.Kernel, d[3])
	c := Convolution{Stride: l.Stride, Dilation: l.Dilation}
	copy(c.Pads[:], window.pads)
	y := loweringOf(x.Graph()).Depthwise(x, w, c)
	if !l.NoBias {
		y = Add(y, ExpandLeftToRank(variable(scope, x.Graph(), "biases", nil, Fill(0), d[3]), 4))
	}
	return l.Act.of(y)
}

// ConvTranspose2D is the gradient of a [Conv2D] for its image, as a layer: it makes images
// larger by the stride (Zeiler et al., 2010).
type ConvTranspose2D struct {
	Name     string
	Channels int
	Kernel   int // the stride or more
	Stride   int // default: 1
	Pad      int // what is cut off on each side; less than Kernel
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [inputs kernel kernel channels]; default: uniform within ±1/(kernel·√channels), as in PyTorch
}

func (l ConvTranspose2D) Title() (name, kind string) { return l.Name, "Conv2DTranspose" }

func (l ConvTranspose2D) check() error {
	err := cmp.Or(least("Channels", l.Channels, 1), least("Kernel", l.Kernel, 1), usual("Stride", l.Stride, "1"), least("Pad", l.Pad, 0))
	switch {
	case err != nil:
		return err
	case l.Kernel < l.Stride:
		return fmt.Errorf("Kernel is %d with a Stride of %d: want the stride or more, because there would be gaps", l.Kernel, l.Stride)
	case l.Pad >= l.Kernel:
		return fmt.Errorf("Pad is %d with a Kernel of %d: want less", l.Pad, l.Kernel)
	}
	return nil
}

// Apply takes x shaped [n height width inputs] and returns [n height' width' channels] with
// height' = (height-1)·stride - 2·pad + kernel.
//
// Each tap of the kernel is a part of one matrix multiplication. Taps whose positions differ by
// a multiple of the stride fall on the same pixels; the others lie between these.
func (l ConvTranspose2D) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	images(x)
	d, stride := x.Shape().Dimensions, max(1, l.Stride)
	n, k, channels := d[0], l.Kernel, l.Channels
	height, width := (d[1]-1)*stride+k, (d[2]-1)*stride+k
	if height <= 2*l.Pad || width <= 2*l.Pad {
		panic(fmt.Errorf("a Pad of %d leaves nothing of %d×%d: want less", l.Pad, height, width))
	}
	init := func(store *model.Store) model.VariableInitializer {
		return uniform(store, 1/(float64(k)*math.Sqrt(float64(channels))))
	}
	w := variable(scope, x.Graph(), "weights", l.Init, init, d[3], k, k, channels)
	taps := loweringOf(x.Graph()).Dense(Reshape(x, n*d[1]*d[2], d[3]), Linear{W: Reshape(w, d[3], k*k*channels)})[0]
	taps = Reshape(taps, n, d[1], d[2], k, k, channels)
	each := (k + stride - 1) / stride // taps of a kernel that fall on the same pixels, a side
	rows, columns := d[1]+each-1, d[2]+each-1
	var between []*Node
	for a := range stride {
		for b := range stride {
			var sum *Node
			for p := 0; a+p*stride < k; p++ {
				for q := 0; b+q*stride < k; q++ {
					tap := Reshape(Slice(taps, AxisRange(), AxisRange(), AxisRange(), AxisElem(a+p*stride), AxisElem(b+q*stride)), n, d[1], d[2], channels)
					tap = padded(padded(tap, 1, p, each-1-p), 2, q, each-1-q)
					if sum == nil {
						sum = tap
					} else {
						sum = Add(sum, tap)
					}
				}
			}
			between = append(between, Reshape(sum, n, rows, 1, columns, 1, channels))
		}
	}
	var lines []*Node
	for a := range stride {
		lines = append(lines, Concatenate(between[a*stride:(a+1)*stride], 4))
	}
	y := Reshape(Concatenate(lines, 2), n, rows*stride, columns*stride, channels)
	y = Slice(y, AxisRange(), AxisRange(l.Pad, height-l.Pad), AxisRange(l.Pad, width-l.Pad))
	if !l.NoBias {
		y = Add(y, ExpandLeftToRank(variable(scope, x.Graph(), "biases", nil, Fill(0), channels), 4))
	}
	return l.Act.of(y)
}

// Upsample2D makes images larger: each pixel becomes Factor×Factor equal ones.
type Upsample2D struct {
	Name   string
	Factor int
}

func (l Upsample2D) Title() (name, kind string) { return l.Name, "UpSampling2D" }

func (l Upsample2D) check() error { return least("Factor", l.Factor, 1) }

// Apply takes x shaped [n height width channels] and returns [n height·factor width·factor
// channels].
func (l Upsample2D) Apply(_ *model.Scope, x *Node) *Node {
	must(l)
	images(x)
	d, f := x.Shape().Dimensions, l.Factor
	x = BroadcastToDims(Reshape(x, d[0], d[1], 1, d[2], 1, d[3]), d[0], d[1], f, d[2], f, d[3])
	return Reshape(x, d[0], d[1]*f, d[2]*f, d[3])
}

// Concat joins what branches of layers make of x, along the last axis, as Inception's
// modules and U-Nets do. A branch without layers is x itself.
type Concat struct {
	Name     string
	Branches [][]Layer // each layer with weights has a name of its own
}

func (l Concat) Title() (name, kind string) { return l.Name, "Concatenate" }

func (l Concat) check() error {
	if len(l.Branches) < 2 {
		return fmt.Errorf("Branches has %d: want two or more", len(l.Branches))
	}
	return checkBranches(l)
}

func (l Concat) branches() []branch {
	var all []branch
	for i, b := range l.Branches {
		all = append(all, branch{fmt.Sprintf("Branches[%d]", i), b})
	}
	return all
}

// Apply takes any x that all branches take.
func (l Concat) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	var all []*Node
	for _, b := range l.Branches {
		y := sequence(b, scope, x)
		if d := y.Shape().Dimensions; len(all) > 0 {
			first := all[0].Shape().Dimensions
			if len(d) != len(first) || fmt.Sprint(d[:len(d)-1]) != fmt.Sprint(first[:len(first)-1]) {
				panic(fmt.Errorf("branches return %v and %v: want the same sides but for the last", first, d))
			}
		}
		all = append(all, y)
	}
	return Concatenate(all, -1)
}
