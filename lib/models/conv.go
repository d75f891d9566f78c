package models

import (
	"fmt"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Conv2D slides square kernels over an image.
type Conv2D struct {
	Name     string
	Channels int
	Kernel   int
	Stride   int  // default: 1
	Dilation int  // distance of a kernel's taps; default: 1
	Groups   int  // of inputs and channels, each convolved by itself; default: 1
	Same     bool // pad so that the image keeps its size, divided by the stride
	Pad      int  // on each side; not with Same
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [kernel kernel inputs/groups channels]; default: Glorot
	BiasInit Init // of the biases, [channels]; default: 0
}

func (l Conv2D) Title() (name, kind string) { return l.Name, "Conv2D" }

// Apply takes x shaped [n height width inputs] and returns
// [n height' width' channels].
func (l Conv2D) Apply(scope *model.Scope, x *Node) *Node { return l.apply(scope, x, nil) }

// apply takes what computes x a second time; nil: x is kept.
func (l Conv2D) apply(scope *model.Scope, x *Node, again Again) *Node {
	d := x.Shape().Dimensions
	must(l)
	images(x)
	if l.Dilation > 1 || l.Groups > 1 {
		w := window{l.Kernel, l.Stride, l.Dilation, slices.Repeat([][2]int{{l.Pad, l.Pad}}, 2)}
		if l.Same {
			w = w.same(x)
		}
		return slider{l.Channels, l.Kernel, l.Groups, l.NoBias, l.Init, l.BiasInit, l.Act}.slide(scope, x, w)
	}
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
	lowering := loweringOf(x.Graph())
	y := lowering.Convolve(x, w, Convolution{Stride: stride, Pads: pads, Again: again})
	if !l.NoBias {
		y = lowering.AddBiases(y, variable(scope, x.Graph(), "biases", l.BiasInit, Fill(0), l.Channels))
	}
	return l.Act.of(y)
}
