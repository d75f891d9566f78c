package models

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// LayerNorm normalizes the last axis of each example to mean 0 and variance 1, and then
// scales and shifts it (Ba et al., 2016).
type LayerNorm struct {
	Name    string
	Epsilon float64 // added to the variance; default: 1e-5
}

func (l LayerNorm) Title() (name, kind string) { return l.Name, "LayerNormalization" }

func (l LayerNorm) check() error { return epsilon(l.Epsilon, "1e-5") }

// Apply takes any x of rank 2 or more.
func (l LayerNorm) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	width := lastAxis(x)
	scale := float(variable(scope, x.Graph(), "scale", nil, Fill(1), width))
	offset := float(variable(scope, x.Graph(), "offset", nil, Fill(0), width))
	return loweringOf(x.Graph()).Norm(x, scale, offset, cmp.Or(l.Epsilon, 1e-5))
}

// Norm is one pass over x in GoMLX's operations: see the gradient of byRootMeanSquare.
func (Plain) Norm(x, scale, offset *Node, epsilon float64) *Node {
	y := Mul(byRootMeanSquare(x, offset != nil, epsilon, -1), ExpandLeftToRank(scale, x.Rank()))
	if offset != nil {
		y = Add(y, ExpandLeftToRank(offset, x.Rank()))
	}
	return ConvertDType(y, x.DType())
}

// RMSNorm divides the last axis of each example by its root mean square, and then scales
// it (Zhang and Sennrich, 2019), as Llama does.
type RMSNorm struct {
	Name    string
	Epsilon float64 // added to the mean square; default: 1e-6
	PlusOne bool    // the factor is 1 + scale, and scale begins with 0, as in Gemma
}

func (l RMSNorm) Title() (name, kind string) { return l.Name, "RMSNormalization" }

func (l RMSNorm) check() error { return epsilon(l.Epsilon, "1e-6") }

// Apply takes any x of rank 2 or more.
func (l RMSNorm) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	first := 1.0
	if l.PlusOne {
		first = 0
	}
	scale := float(variable(scope, x.Graph(), "scale", nil, Fill(first), lastAxis(x)))
	if l.PlusOne {
		scale = AddScalar(scale, 1)
	}
	return loweringOf(x.Graph()).Norm(x, scale, nil, cmp.Or(l.Epsilon, 1e-6))
}

// GroupNorm normalizes groups of channels, the last axis, over each example (Wu and He,
// 2018), of a sequence with a mask over the time steps that are there. With one group it is layer
// normalization of whole images.
type GroupNorm struct {
	Name    string
	Groups  int
	Epsilon float64 // added to the variance; default: 1e-5
}

func (l GroupNorm) Title() (name, kind string) { return l.Name, "GroupNormalization" }

func (l GroupNorm) check() error {
	if err := least("Groups", l.Groups, 1); err != nil {
		return err
	}
	return epsilon(l.Epsilon, "1e-5")
}

// Apply takes x shaped [n … channels].
func (l GroupNorm) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	d, channels := x.Shape().Dimensions, lastAxis(x)
	if channels%l.Groups != 0 {
		panic(fmt.Errorf("got %d channels: want a multiple of %d, its Groups", channels, l.Groups))
	}
	scale := float(variable(scope, x.Graph(), "scale", nil, Fill(1), channels))
	offset := float(variable(scope, x.Graph(), "offset", nil, Fill(0), channels))
	grouped := func(x *Node) *Node {
		return Reshape(x, d[0], x.Shape().Size()/d[0]/channels, l.Groups, channels/l.Groups)
	}
	var y *Node
	if epsilon, mask := cmp.Or(l.Epsilon, 1e-5), MaskOf(x); mask != nil {
		y, _, _, _ = normalOf(grouped(float(zeroed(x, mask))), grouped(countOf(x, mask)), epsilon, 1, 3)
	} else {
		y = byRootMeanSquare(grouped(x), true, epsilon, 1, 3)
	}
	y = Reshape(y, d...)
	y = Add(Mul(y, ExpandLeftToRank(scale, x.Rank())), ExpandLeftToRank(offset, x.Rank()))
	return ConvertDType(y, x.DType())
}

// InstanceNorm normalizes each channel of each example by itself, and then scales and shifts it
// (Ulyanov et al., 2016), as PyTorch does with affine=True.
type InstanceNorm struct {
	Name    string
	Epsilon float64 // added to the variance; default: 1e-5
}

func (l InstanceNorm) Title() (name, kind string) { return l.Name, "InstanceNormalization" }

func (l InstanceNorm) check() error { return epsilon(l.Epsilon, "1e-5") }

// Apply takes x shaped [n … channels].
func (l InstanceNorm) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sideAxes(x)
	return GroupNorm{Groups: lastAxis(x), Epsilon: l.Epsilon}.Apply(scope, x)
}

// countOf is 1 for the numbers of x that are there and 0 for padding, float32 of x's shape.
func countOf(x, mask *Node) *Node {
	return ConvertDType(zeroed(OnesLike(x), mask), dtypes.Float32)
}

// normalOf is x normalized over some axes, with the mean and the variance of the numbers that
// count, and how many these are.
func normalOf(x, count *Node, epsilon float64, axes ...int) (y, mean, variance, n *Node) {
	n = MaxScalar(ReduceAndKeep(count, ReduceSum, axes...), 1)
	mean = Div(ReduceAndKeep(Mul(x, count), ReduceSum, axes...), n)
	x = Sub(x, mean)
	variance = Div(ReduceAndKeep(Mul(Square(x), count), ReduceSum, axes...), n)
	return Mul(x, Inverse(Sqrt(AddScalar(variance, epsilon)))), mean, variance, n
}

// byRootMeanSquare is x, less its mean if centered, divided by its root mean square over some
// axes, in float32. Its gradient is written out: all its means are of one pass, and of the
// forward pass it reads x and the means only. What GoMLX derives needs several passes and keeps
// more.
func byRootMeanSquare(x *Node, centered bool, epsilon float64, axes ...int) *Node {
	mean := func(x *Node) *Node { return ReduceAndKeep(x, ReduceMean, axes...) }
	parts := func(x *Node) (middle, factor *Node) {
		if x = float(x); centered {
			middle = mean(x)
			x = Sub(x, middle)
		}
		return middle, Inverse(Sqrt(AddScalar(mean(Square(x)), epsilon)))
	}
	result := func(x, middle, factor *Node) *Node {
		if x = float(x); centered {
			x = Sub(x, middle)
		}
		return Mul(x, factor)
	}
	middle, factor := parts(StopGradient(x))
	return gradient.Define(result(StopGradient(x), middle, factor), []*Node{x}, func(v *Node) []*Node {
		again := x
		if gradient.Again(x.Graph()) {
			middle, factor = parts(x)
		} else {
			again = OptimizationBarriers(x, v)[0]
		}
		y := result(again, middle, factor)
		less := Mul(y, mean(Mul(v, y)))
		if centered {
			less = Add(less, mean(v))
		}
		return []*Node{Mul(factor, Sub(v, less))}
	})
}

// lastAxis is the length of x's last axis, which is not that of the examples.
func lastAxis(x *Node) int {
	if x.Rank() < 2 {
		panic(fmt.Errorf("got an input of rank %d: want 2 or more", x.Rank()))
	}
	return x.Shape().Dimensions[x.Rank()-1]
}

// epsilon refuses an Epsilon that means nothing.
func epsilon(got float64, otherwise string) error {
	if !(got >= 0) || math.IsInf(got, 0) {
		return fmt.Errorf("Epsilon is %g: want more than 0, or 0 for %s", got, otherwise)
	}
	return nil
}
