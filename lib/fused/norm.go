package fused

import (
	"cmp"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Norm is batch normalization of x [… channels] over all but the last axis, with
// what stands behind it: skip, shaped like x, is added if it is not nil (a
// residual block's other branch), and then comes the activation. y is of
// Compute's type; mean and variance [channels] are those of the batch, and have no
// gradient. scale and offset are [channels] float32. epsilon is added to the
// variance; 0 is 1e-5.
//
// With kernels it is two of them each way, as package kernels says, and x, y,
// mean and variance are all that is kept for the backward pass. Where the gradient of
// y is a sum of two, they add it up on their way.
func (o Ops) Norm(x, scale, offset, skip *Node, epsilon float64, act kernels.Act) (y, mean, variance *Node) {
	d := x.Shape().Dimensions
	channels := d[len(d)-1]
	for _, v := range []*Node{scale, offset} {
		if v.Rank() != 1 || v.Shape().Dimensions[0] != channels {
			panic(fmt.Errorf("fused: Norm: got x %s and a scale or offset %s, want [… channels] and [channels]", x.Shape(), v.Shape()))
		}
	}
	l := kernels.Norm{Rows: x.Shape().Size() / channels, Channels: channels, X: x.DType(), Y: o.Compute, Epsilon: cmp.Or(epsilon, 1e-5), Act: act}
	if skip != nil {
		if skip.Shape().CheckDims(d...) != nil {
			panic(fmt.Errorf("fused: Norm: got x %s and skip %s, want equal dimensions", x.Shape(), skip.Shape()))
		}
		l.Skip, skip = true, to(skip, o.Compute)
	}
	chosen, is := choose(o, l)
	if !is {
		return o.plainNorm(l, x, scale, offset, skip)
	}
	l = chosen
	flat := func(x *Node) *Node { return Reshape(x, l.Rows, channels) }
	in := []*Node{flat(x), o.call(l.Sums(), flat(x))[0], scale, offset}
	wrt := []*Node{x, scale, offset}
	if skip != nil {
		in, wrt = append(in, flat(skip)), append(wrt, skip)
	}
	out := o.call(l.Apply(), in...)
	y, mean, variance = Reshape(out[0], d...), out[1], out[2]
	y = gradient.Define(y, wrt, func(g *Node) []*Node {
		terms := []*Node{g}
		if skip != nil {
			terms = addends(g)
		}
		l.Terms = len(terms)
		in := []*Node{mean, variance, scale, offset, flat(x)}
		last := len(in)
		for _, g := range terms {
			in = append(in, flat(to(g, o.Compute)))
		}
		if skip == nil {
			parts := o.call(l.BackSums(), in...)[0]
			back := o.call(l.BackApply(), append(in, parts)...)
			return []*Node{Reshape(back[0], d...), back[1], back[2]}
		}
		sums := o.call(l.BackSums(), append(in, out[0])...)
		back := o.call(l.BackApply(), append(in[:last:last], sums[1], sums[0])...)
		return []*Node{Reshape(back[0], d...), back[1], back[2], Reshape(sums[1], d...)}
	})
	return y, mean, variance
}

// addends are the two gradients that GoMLX has added up, where g is their sum: a
// kernel that adds them itself saves the sum's way to memory and back.
func addends(g *Node) []*Node {
	if g.Type() != NodeTypeAdd {
		return []*Node{g}
	}
	l := g.Inputs()
	for _, x := range l {
		if !x.Shape().Equal(g.Shape()) {
			return []*Node{g}
		}
	}
	return l
}

// plainNorm is Norm in GoMLX's ops.
func (o Ops) plainNorm(l kernels.Norm, x, scale, offset, skip *Node) (y, mean, variance *Node) {
	rank := x.Rank()
	var axes []int
	for i := range rank - 1 {
		axes = append(axes, i)
	}
	x = to(x, dtypes.Float32)
	mean = ReduceMean(x, axes...)
	far := Sub(x, ExpandLeftToRank(mean, rank))
	variance = ReduceMean(Square(far), axes...)
	y = Mul(far, ExpandLeftToRank(Div(scale, Sqrt(AddScalar(variance, l.Epsilon))), rank))
	y = Add(y, ExpandLeftToRank(offset, rank))
	if skip != nil {
		y = Add(y, to(skip, dtypes.Float32))
	}
	return to(activate(l.Act, y), o.Compute), StopGradient(mean), StopGradient(variance)
}

// Normalizer is Norm for the batch norms of a net; see models.Net.Normalized.
// What it returns is of x's type.
func (o Ops) Normalizer() models.Normalizer {
	return func(x, scale, offset, skip *Node, epsilon float64, act models.Act) (y, mean, variance *Node) {
		o := o
		o.Compute = x.DType()
		a, known := act.Activation()
		if known = known && a.FromResult(); !known {
			a = kernels.Identity
		}
		y, mean, variance = o.Norm(x, scale, offset, skip, epsilon, a)
		if !known {
			y = act(y)
		}
		return y, mean, variance
	}
}
