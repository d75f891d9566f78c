package fused

import (
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// Norm normalizes the last axis of x: see [models.Lowering]. It has a gradient, which is one
// kernel too. Rows longer than [kernels.LargestNorm] have none.
func (o Ops) Norm(x, scale, offset *Node, epsilon float64) *Node {
	d := x.Shape().Dimensions
	width := d[len(d)-1]
	rows := x.Shape().Size() / width
	op := kernels.Norm{Rows: rows, Width: width, Offset: offset != nil, Epsilon: epsilon, X: x.DType()}
	forward, is := choose(o, op)
	back, both := choose(o, kernels.NormGradient{Norm: op})
	plain := func(in []*Node) *Node {
		if offset == nil {
			return models.Plain{}.Norm(in[0], in[1], nil, epsilon)
		}
		return models.Plain{}.Norm(in[0], in[1], in[2], epsilon)
	}
	in := operands(x, scale, offset)
	if !is || !both || width > kernels.LargestNorm {
		return plain(in)
	}
	return gradient.Lowered(in, func(in []*Node) *Node {
		flat := Reshape(in[0], rows, width)
		y := Reshape(o.call(forward.Kernel(), append([]*Node{flat}, in[1:]...)...)[0], d...)
		return gradient.Define(y, in, func(dy *Node) []*Node {
			out := o.call(back.Kernel(), flat, in[1], Reshape(dy, rows, width))
			sums := ReduceSum(Reshape(out[1], -1, len(in)-1, width), 0)
			got := []*Node{Reshape(out[0], d...)}
			for i := range in[1:] {
				got = append(got, Reshape(Slice(sums, AxisElem(i)), width))
			}
			return got
		})
	}, plain)
}

// NormOfSum is that of xla.Calls: one kernel forward, which also computes the sum, and one
// backward, which also adds the gradients of the sum's readers.
func (o Ops) NormOfSum(sum, x, z, biases, scale, offset *Node, epsilon float64) (y, kept *Node, columns func() (of, sums *Node)) {
	d := sum.Shape().Dimensions
	width := d[len(d)-1]
	rows := sum.Shape().Size() / width
	op := kernels.Norm{Rows: rows, Width: width, Offset: offset != nil, Sum: z != nil, Biases: biases != nil, Epsilon: epsilon, X: sum.DType()}
	forward, is := choose(o, op)
	op.Sum, op.Biases = true, false
	back, both := choose(o, kernels.NormGradient{Norm: op})
	if !is || !both || width > kernels.LargestNorm {
		return models.Plain{}.Norm(sum, scale, offset, epsilon), sum, nil
	}
	var dy, dsum *Node // dy of a pass until its gradients are computed, then that of sum
	var sums []*Node   // the gradients of scale and offset, and what dsum's columns add up to
	var pass int
	waits := func() bool { return dy != nil && pass == gradient.Pass(dy.Graph()) }
	compute := func(dz *Node) { // dz is the gradient of the sum's other readers, which comes last
		if dz == nil {
			dz = ZerosLike(sum)
		}
		out := o.call(back.Kernel(), Reshape(StopGradient(kept), rows, width), StopGradient(scale), Reshape(dy, rows, width), Reshape(dz, rows, width))
		all := ReduceSum(Reshape(out[1], back.Parts(), -1, width), 0)
		dsum, dy, sums = Reshape(out[0], d...), nil, nil
		for i := range all.Shape().Dimensions[0] {
			sums = append(sums, Reshape(Slice(all, AxisElem(i)), width))
		}
	}
	// GoMLX comes to nodes in the reverse of their order: to the sum after both its readers, and
	// to scale and offset after that.
	wrt := []*Node{nil}
	for i, x := range []*Node{scale, offset} {
		if x == nil {
			continue
		}
		wrt = append(wrt, IdentityWithCustomGradient(x, func(_, v *Node) *Node {
			if waits() { // the sum needs no gradient
				compute(nil)
			}
			if dsum == nil { // it is differentiated again
				return v
			}
			return Add(v, sums[i]) // v is of a gradient that is in the loss
		}))
	}
	wrt[0] = IdentityWithCustomGradient(sum, func(_, v *Node) *Node {
		if !waits() {
			return v
		}
		compute(v)
		return dsum
	})
	in := []*Node{Reshape(x, rows, width)}
	if z != nil {
		in = append(in, Reshape(z, rows, width))
	}
	if biases != nil {
		in = append(in, biases)
	}
	if in = append(in, scale); offset != nil {
		in = append(in, offset)
	}
	out := o.call(forward.Kernel(), in...)
	kept = StopGradient(wrt[0])
	if z != nil {
		kept = Reshape(out[1], d...)
	}
	y = gradient.Define(Reshape(out[0], d...), wrt, func(v *Node) []*Node {
		if dy, dsum = nil, nil; gradient.Again(v.Graph()) {
			return gradient.Of(func(in []*Node) *Node {
				return models.Plain{}.Norm(in[0], in[1], append(in, nil)[2], epsilon)
			}, wrt, v)
		}
		dy, pass = v, gradient.Pass(v.Graph())
		return make([]*Node, len(wrt))
	})
	kept = gradient.Define(kept, wrt[:1], func(v *Node) []*Node { return []*Node{v} })
	return y, kept, func() (of, columns *Node) {
		if dsum == nil {
			return nil, nil
		}
		return dsum, sums[len(sums)-1]
	}
}

// Activate is act(x + biases) of rows [… width], in 16 bits; biases may be nil. It has a gradient,
// which is one kernel too, with the sums for the biases.
func (o Ops) Activate(x, biases *Node, act activations.Activation) *Node {
	d := x.Shape().Dimensions
	width := d[len(d)-1]
	rows := x.Shape().Size() / width
	op := kernels.Activation{Rows: rows, Width: width, Act: act, NoBias: biases == nil, X: x.DType()}
	forward, is := choose(o, op)
	back, both := choose(o, kernels.ActivationGradient{Activation: op})
	in := []*Node{x}
	if biases != nil {
		in = append(in, biases)
	}
	plain := func(in []*Node) *Node {
		y := in[0]
		if len(in) > 1 {
			y = Add(y, ExpandLeftToRank(in[1], y.Rank()))
		}
		return gomlx.Apply(act.Expr(), y)
	}
	if !is || !both {
		return plain(in)
	}
	return gradient.Lowered(in, func(in []*Node) *Node {
		in = append([]*Node{Reshape(in[0], rows, width)}, in[1:]...)
		y := o.call(forward.Kernel(), in...)[0]
		return Reshape(gradient.Define(y, in, func(dy *Node) []*Node {
			got := o.call(back.Kernel(), append(in[:len(in):len(in)], dy)...)
			for i := range got[1:] {
				got[1+i] = ReduceSum(got[1+i], 0)
			}
			return got
		}), d...)
	}, plain)
}

// CrossEntropy are the losses of logits [… classes] for labels […], and 1 where the largest
// logit is the label's. rows computes the losses in GoMLX's operations. They have a gradient,
// for which the logits are read once more.
func (o Ops) CrossEntropy(logits, labels *Node, rows func(logits *Node) *Node) (loss, hit *Node) {
	d := labels.Shape().Dimensions
	classes, n := logits.Shape().Dimensions[logits.Rank()-1], labels.Shape().Size()
	op, is := choose(o, kernels.CrossEntropy{Rows: n, Classes: classes, X: logits.DType()})
	if !is {
		return rows(logits), to(Equal(ArgMax(logits, -1), labels), 0)
	}
	out := o.call(op.Kernel(), Reshape(logits, n, classes), Reshape(labels, n))
	for i, x := range out[:3] {
		out[i] = Reshape(x, d...)
	}
	loss = gradient.Lowered([]*Node{logits}, func(in []*Node) *Node {
		return gradient.Define(out[0], in, func(v *Node) []*Node {
			p := Exp(Sub(to(in[0], 0), InsertAxes(out[2], -1)))
			return []*Node{Mul(Sub(p, OneHot(labels, classes, p.DType())), InsertAxes(v, -1))}
		})
	}, func(in []*Node) *Node { return rows(in[0]) })
	return loss, out[1]
}

// CrossEntropyGradient is CrossEntropy with the gradient of the sum of the losses times factors,
// [… classes] like the logits and of their type. ok is false where there is no kernel for it.
func (o Ops) CrossEntropyGradient(logits, labels, factors *Node) (loss, hit, slopes *Node, ok bool) {
	d := labels.Shape().Dimensions
	classes, n := logits.Shape().Dimensions[logits.Rank()-1], labels.Shape().Size()
	op, is := choose(o, kernels.CrossEntropy{Rows: n, Classes: classes, X: logits.DType(), Gradient: true})
	if !is {
		return nil, nil, nil, false
	}
	out := o.call(op.Kernel(), Reshape(logits, n, classes), Reshape(labels, n), Reshape(factors, n))
	return Reshape(out[0], d...), Reshape(out[1], d...), Reshape(out[3], logits.Shape().Dimensions...), true
}
