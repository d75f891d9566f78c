package fused

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
)

// Linear is act(x·w + bias) for x [n in], w [in out] and bias [out] or nil. The
// result is [n out] of Compute's type. It has a gradient.
func (o Ops) Linear(x, w, bias *Node, act kernels.Act) *Node {
	n, in, out := sizes("Linear", x, w)
	biasOf := func(l []*Node) *Node {
		if bias == nil {
			return nil
		}
		return l[2]
	}
	return gradient.Lowered(operands(x, w, bias), func(l []*Node) *Node {
		x, w := l[0], l[1]
		y := o.layer(x, w, biasOf(l), act)
		return gradient.Define(StopGradient(y), l, func(g *Node) []*Node {
			g = to(slope(act, to(g, dtypes.Float32), to(y, dtypes.Float32)), g.DType())
			dx := o.LinearInput(g, w, nil, kernels.Identity)
			op, is := choose(o, kernels.LinearUpdate{Batch: n, In: in, Out: out, X: x.DType(), G: g.DType(), Compute: o.Compute, NoBias: bias == nil})
			if !is {
				return []*Node{dx, o.weights(x, g), ReduceSum(to(g, dtypes.Float32), 0)}
			}
			return append([]*Node{dx}, o.call(op.Kernel(), x, g)...)
		})
	}, func(l []*Node) *Node { return o.linear(l[0], l[1], biasOf(l), act) })
}

// layer is Linear without a gradient.
func (o Ops) layer(x, w, bias *Node, act kernels.Act) *Node {
	n, in, out := sizes("Linear", x, w)
	op, is := choose(o, kernels.Linear{Batch: n, In: in, Out: out, X: x.DType(), Y: o.Compute, Compute: o.Compute, Act: act, NoBias: bias == nil})
	if !is {
		return o.linear(x, w, bias, act)
	}
	return o.call(op.Kernel(), operands(x, w, bias)...)[0]
}

// weights is the gradient of a layer's weights in GoMLX's ops.
func (o Ops) weights(x, g *Node) *Node {
	return to(Einsum("ni,no->io", to(x, o.Compute), to(g, o.Compute)), dtypes.Float32)
}

func (o Ops) linear(x, w, bias *Node, act kernels.Act) *Node {
	y := MatMul(to(x, o.Compute), to(w, o.Compute))
	if bias != nil {
		y = Add(y, ExpandLeftToRank(to(bias, o.Compute), 2))
	}
	return activate(act, y)
}

// LinearInput is (g·wᵀ)·act'(x) for g [n out] and w [in out]: the gradient of
// x [n in], taken on through the activation that made x. x may be nil where
// that is the identity. The result is of Compute's type.
func (o Ops) LinearInput(g, w, x *Node, act kernels.Act) *Node {
	n, out, in := g.Shape().Dimensions[0], g.Shape().Dimensions[1], w.Shape().Dimensions[0]
	if x == nil {
		act = kernels.Identity
	}
	op := kernels.LinearInput{Batch: n, In: in, Out: out, G: g.DType(), D: o.Compute, Compute: o.Compute, Act: act}
	all := []*Node{g, w}
	if act != kernels.Identity {
		op.X = x.DType()
		all = append(all, x)
	}
	if chosen, is := choose(o, op); is {
		return o.call(chosen.Kernel(), all...)[0]
	}
	d := Einsum("no,io->ni", to(g, o.Compute), to(w, o.Compute))
	if act == kernels.Identity {
		return d
	}
	return slope(act, d, to(x, o.Compute))
}

// LinearUpdate is a step of an optimizer on the weights and biases of a dense
// layer: x [n in], g [n out]; state is the weights [in out] and their moments,
// bias the biases [out] and theirs, or nil. rate and t are float32 scalars, t
// the number of the step from 1.
func (o Ops) LinearUpdate(x, g *Node, state, bias []*Node, rule kernels.Rule, rate, t *Node) (newState, newBias []*Node) {
	n, in, out := x.Shape().Dimensions[0], x.Shape().Dimensions[1], g.Shape().Dimensions[1]
	op, is := choose(o, kernels.LinearUpdate{Batch: n, In: in, Out: out, X: x.DType(), G: g.DType(), Compute: o.Compute, NoBias: bias == nil, Rule: rule})
	if !is {
		newState = gomlx.Update(rule, rate, t, state, o.weights(x, g))
		if bias != nil {
			newBias = gomlx.Update(rule, rate, t, bias, ReduceSum(to(g, dtypes.Float32), 0))
		}
		return newState, newBias
	}
	all := append(append([]*Node{x, g}, state...), bias...)
	got := o.call(op.Kernel(), append(all, rate, t)...)
	return got[:len(state)], got[len(state):]
}

// Head is the last dense layer of a classifier with softmax and cross entropy:
// x [n in], w [in classes], bias [classes] or nil, labels [n] int32. It returns
// the loss of each example, 1 for each that is right and 0 for the others, and
// the gradient of the mean loss by the logits, of Compute's type.
func (o Ops) Head(x, w, bias, labels *Node) (loss, hit, g *Node) {
	n, in, classes := sizes("Head", x, w)
	op, is := kernels.Head{}, false
	if classes <= kernels.LargestHead {
		op, is = choose(o, kernels.Head{Batch: n, In: in, Classes: classes, X: x.DType(), G: o.Compute, Compute: o.Compute, NoBias: bias == nil})
	}
	if !is {
		return o.Softmax(to(o.layer(x, w, bias, kernels.Identity), dtypes.Float32), labels)
	}
	got := o.call(op.Kernel(), append(operands(x, w, bias), labels)...)
	return got[0], got[1], got[2]
}

// splitHead is a dense layer that has started the last one behind it.
type splitHead struct {
	y, parts *Node
	end      kernels.HeadReduce
}

// startHead is layer, and starts the head behind it, whose weights are last and which may
// have biases; nil where there are no kernels, or it is not worth it.
func (o Ops) startHead(x, w, bias *Node, act kernels.Act, last *Node, biased bool) *splitHead {
	n, in, out := sizes("startHead", x, w)
	l, is := choose(o, kernels.Linear{Batch: n, In: in, Out: out, X: x.DType(), Y: o.Compute, Compute: o.Compute, Act: act, NoBias: bias == nil})
	if !is {
		return nil
	}
	l.Classes = last.Shape().Dimensions[1]
	e := kernels.HeadReduce{Batch: n, In: out, Classes: l.Classes, Parts: l.Parts(), X: o.Compute, G: o.Compute, Compute: o.Compute, Act: act, NoBias: !biased}
	if !e.Fits() {
		return nil
	}
	if e, is = choose(o, e); !is {
		return nil
	}
	if e.Tile.Rounding == 0 {
		e.Tile.Rounding = l.Tile.Rounding
	}
	got := o.call(l.Kernel(), append(operands(x, w, bias), last)...)
	return &splitHead{got[0], got[1], e}
}

// finishHead is Head for a layer that has been started, and the gradient that goes below it,
// through the activation of the layer there, of Compute's type.
func (o Ops) finishHead(l *splitHead, last, bias, labels *Node) (loss, hit, g, below *Node) {
	return o.headReduce(l.end, l.parts, last, bias, labels, l.y)
}

// HeadReduce is Head whose product is there in parts, [parts n kernels.LargestHeadReduce] float32, and
// the gradient that goes below the layer, through the activation that made its input x, of
// Compute's type. x is not looked at where that is Identity.
func (o Ops) HeadReduce(parts, w, bias, labels, x *Node, act kernels.Act) (loss, hit, g, below *Node) {
	shape, in, classes := parts.Shape().Dimensions, w.Shape().Dimensions[0], w.Shape().Dimensions[1]
	op, is := choose(o, kernels.HeadReduce{Batch: shape[1], In: in, Classes: classes, Parts: shape[0], X: o.Compute, G: o.Compute, Compute: o.Compute, Act: act, NoBias: bias == nil})
	if is {
		return o.headReduce(op, parts, w, bias, labels, x)
	}
	logits := Slice(ReduceSum(parts, 0), AxisRange(), AxisRange(0, classes))
	if bias != nil {
		logits = Add(logits, ExpandLeftToRank(bias, 2))
	}
	loss, hit, g = o.Softmax(logits, labels)
	return loss, hit, g, o.LinearInput(g, w, x, act)
}

func (o Ops) headReduce(op kernels.HeadReduce, parts, w, bias, labels, x *Node) (loss, hit, g, below *Node) {
	in := []*Node{parts}
	if bias != nil {
		in = append(in, bias)
	}
	in = append(in, labels, w)
	if op.Act != kernels.Identity {
		in = append(in, x)
	}
	got := o.call(op.Kernel(), in...)
	return got[0], got[1], got[2], got[3]
}

// Softmax is Head for logits [n classes] that are there.
func (o Ops) Softmax(logits, labels *Node) (loss, hit, g *Node) {
	n, classes := logits.Shape().Dimensions[0], logits.Shape().Dimensions[1]
	op, is := kernels.Softmax{}, false
	if classes <= kernels.LargestSoftmax {
		op, is = choose(o, kernels.Softmax{Batch: n, Classes: classes, X: logits.DType(), G: o.Compute})
	}
	if is {
		got := o.call(op.Kernel(), logits, labels)
		return got[0], got[1], got[2]
	}
	logits = to(logits, dtypes.Float32)
	z := Sub(logits, ReduceAndKeep(logits, ReduceMax, -1))
	right := OneHot(labels, classes, dtypes.Float32)
	e := Exp(z)
	total := ReduceAndKeep(e, ReduceSum, -1)
	loss = Sub(Reshape(Log(total), n), ReduceSum(Mul(z, right), -1))
	hit = ConvertDType(Equal(ArgMax(logits, -1, dtypes.Int32), labels), dtypes.Float32)
	return loss, hit, to(MulScalar(Sub(Div(e, total), right), 1/float64(n)), o.Compute)
}

// sizes are those of x [n in] and w [in out].
func sizes(op string, x, w *Node) (n, in, out int) {
	if x.Rank() != 2 || w.Rank() != 2 || x.Shape().Dimensions[1] != w.Shape().Dimensions[0] {
		panic(fmt.Errorf("fused: %s: got x %s and w %s, want [n in] and [in out]", op, x.Shape(), w.Shape()))
	}
	return x.Shape().Dimensions[0], x.Shape().Dimensions[1], w.Shape().Dimensions[1]
}

// operands leaves out a bias that is not there.
func operands(x, w, bias *Node) []*Node {
	if bias == nil {
		return []*Node{x, w}
	}
	return []*Node{x, w, bias}
}

func activate(act kernels.Act, x *Node) *Node { return activations.Apply(gomlx.Ops, act, x) }

// slope takes a gradient through the activation whose result was y.
func slope(act kernels.Act, g, y *Node) *Node { return activations.Back(gomlx.Ops, act, g, y) }
