package models

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Pooling is how max pooling hands its gradient back. All three give it to the first maximum of
// a window, as PyTorch and JAX do.
type Pooling int

const (
	// Mask keeps the position of each window's first maximum and compares all positions with it:
	// notebook 02's fast way.
	Mask Pooling = iota
	// SelectAndScatter is XLA's op for it. On a GPU, where windows lie over each other, the sums
	// are in no fixed order: a second run can differ in the last bits.
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

func (l MaxPool2D) Title() (name, kind string) { return l.Name, "MaxPooling2D" }

// Apply takes x shaped [n height width channels] and returns
// [n height' width' channels]; rows and columns that fill no window are
// dropped.
func (l MaxPool2D) Apply(_ *model.Scope, x *Node) *Node { return l.apply(x, nil) }

func (l MaxPool2D) apply(x *Node, again Again) *Node {
	must(l)
	images(x)
	d, stride := x.Shape().Dimensions, l.Stride
	if stride < 1 {
		stride = l.Window
	}
	if d[1]+2*l.Pad < l.Window || d[2]+2*l.Pad < l.Window {
		panic(fmt.Errorf("window %d×%d on an image of %d×%d: want one that is no larger", l.Window, l.Window, d[1]+2*l.Pad, d[2]+2*l.Pad))
	}
	l.Stride = stride
	return loweringOf(x.Graph()).MaxPool(x, l, again)
}
