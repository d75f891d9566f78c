package losses

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
)

// CTC is -log of the probability of a sequence of labels by logits of more time steps, over
// all ways to repeat labels and to put blanks between them (Graves et al., 2006). It takes
// logits [n steps classes] and labels [n length], which are shorter where they end with
// negative ones. The logits of fewer steps count where the net has a mask of its sequences, by
// models.WithLengths; see [CTC.Within]. It is PyTorch's ctc_loss without its division by the
// lengths. Sequences that do not fit into the steps have a loss of 0, as with zero_infinity.
type CTC struct {
	Blank int // the class that stands for no label
}

// Title is CTC.
func (CTC) Title() string { return "CTC" }

func (l CTC) check(classes int) error {
	if l.Blank < 0 || classes > 0 && l.Blank >= classes {
		return fmt.Errorf("Blank is %d: want one of the %d classes, from 0", l.Blank, classes)
	}
	return nil
}

// Within are logits whose steps that are not there, where there [n steps] is false, give a blank
// and nothing else: the loss is then that of the others.
func (l CTC) Within(out, there *Node) *Node {
	class := Iota(out.Graph(), shapes.Make(dtypes.Int32, out.Shape().Dimensions...), 2)
	blank := Where(Equal(class, FillScalar(out.Graph(), class.Shape(), float64(l.Blank))), ZerosLike(out), FillScalar(out.Graph(), out.Shape(), never))
	return Where(BroadcastToDims(InsertAxes(there, -1), out.Shape().Dimensions...), out, blank)
}

// never is the logarithm of a probability of 0.
const never = -1e30

// Apply computes in logarithms, by loops over the time steps, with the gradient that follows
// from them.
func (l CTC) Apply(out, labels, v *Node) (loss, weight *Node) {
	if out.Rank() != 3 || labels.Rank() != 2 {
		panic(fmt.Errorf("CTC of outputs %s and labels %s: want [n steps classes] and [n length]", out.Shape(), labels.Shape()))
	}
	d := out.Shape().Dimensions
	must(l, d[2])
	g, n, steps, length := out.Graph(), d[0], d[1], labels.Shape().Dimensions[1]
	slots := 2*length + 1
	max := StopGradient(ReduceAndKeep(out, ReduceMax, -1))
	z := StopGradient(Sub(out, max))
	p := Sub(z, Log(ReduceAndKeep(Exp(z), ReduceSum, -1)))

	// A slot between labels, and before and after them, is a blank.
	there := GreaterOrEqual(labels, ZerosLike(labels))
	lengths := ReduceSum(ConvertDType(there, dtypes.Int32), -1)
	blank := AddScalar(ZerosLike(labels), float64(l.Blank))
	with := Reshape(Stack([]*Node{blank, Where(there, labels, blank)}, 2), n, 2*length)
	with = Concatenate([]*Node{with, Slice(blank, AxisRange(), AxisRange(0, 1))}, 1)
	hot := OneHot(with, d[2], dtypes.Float32)                         // [n slots classes]
	emit := TransposeAllAxes(Einsum("ntc,nsc->nts", p, hot), 1, 0, 2) // [steps n slots]
	place := Iota(g, shapes.Make(dtypes.Int32, n, slots), 1)
	end := BroadcastToDims(InsertAxes(MulScalar(lengths, 2), -1), n, slots)
	off := Scalar(g, dtypes.Float32, never)
	only := func(here, x *Node) *Node { return Where(here, x, BroadcastToDims(off, n, slots)) }
	shift := func(x *Node, by int) *Node { // the value of the slot by slots before, or behind
		pad := BroadcastToDims(off, n, abs(by))
		if by > 0 {
			return Concatenate([]*Node{pad, Slice(x, AxisRange(), AxisRange(0, slots-by))}, 1)
		}
		return Concatenate([]*Node{Slice(x, AxisRange(), AxisRange(-by, slots)), pad}, 1)
	}
	label := ConvertDType(with, dtypes.Float32)
	odd := Equal(ModScalar(place, 2), OnesLike(place))
	skips := func(by int) *Node { // a label may follow another one at once
		return LogicalAnd(odd, NotEqual(label, shift(label, by)))
	}
	inside := LessOrEqual(place, end)
	first := LessOrEqual(place, OnesLike(place))
	last := GreaterOrEqual(place, AddScalar(end, -1))

	// pass is log of the sums over all ways to (or from) each slot at each step.
	pass := func(begins *Node, by int) *Node {
		skip := skips(2 * by)
		start, step := 0, 1
		if by < 0 {
			start, step = steps-1, -1
		}
		at := func(i *Node) *Node {
			return Reshape(DynamicSlice(emit, []*Node{i, ZerosLike(i), ZerosLike(i)}, []int{1, n, slots}), n, slots)
		}
		limit, one := Scalar(g, dtypes.Int32, steps-1), Scalar(g, dtypes.Int32, 1)
		by1, from := Scalar(g, dtypes.Int32, step), Scalar(g, dtypes.Int32, start) // here: constants of a loop cannot be used after it
		now := only(LogicalAnd(begins, inside), Reshape(Slice(emit, AxisRange(start, start+1)), n, slots))
		all := BroadcastToDims(off, steps, n, slots)
		all = DynamicUpdateSlice(all, InsertAxes(now, 0), []*Node{Scalar(g, dtypes.Int32, start), Scalar(g, dtypes.Int32, 0), Scalar(g, dtypes.Int32, 0)})
		if steps == 1 {
			return all
		}
		parameters := func(g *Graph) (i, now, all *Node) {
			return Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "now", shapes.Make(dtypes.Float32, n, slots)), Parameter(g, "all", shapes.Make(dtypes.Float32, steps, n, slots))
		}
		cond := NewClosure(g, func(g *Graph) []*Node {
			i, _, _ := parameters(g)
			return []*Node{LessThan(i, limit)}
		})
		body := NewClosure(g, func(g *Graph) []*Node {
			i, now, all := parameters(g)
			next := Add(i, one)
			t := Add(Mul(next, by1), from)
			one, two := shift(now, by), only(skip, shift(now, 2*by))
			most := Max(now, Max(one, two))
			sum := Add(Exp(Sub(now, most)), Add(Exp(Sub(one, most)), Exp(Sub(two, most))))
			now = only(inside, Add(Add(most, Log(sum)), at(t)))
			return []*Node{next, now, DynamicUpdateSlice(all, InsertAxes(now, 0), []*Node{t, ZerosLike(t), ZerosLike(t)})}
		})
		return While(cond, body, Scalar(g, dtypes.Int32, 0), now, all)[2]
	}
	forward, backward := pass(first, 1), pass(last, -1)
	final := only(LogicalAnd(last, inside), Reshape(Slice(forward, AxisRange(steps-1, steps)), n, slots))
	most := ReduceAndKeep(final, ReduceMax, 1)
	total := Add(Reshape(most, n), Log(ReduceSum(Exp(Sub(final, most)), 1))) // [n]
	fits := GreaterThan(total, Scalar(g, dtypes.Float32, never/2))
	value := Where(fits, Neg(total), ZerosLike(total))

	// The gradient by logits: their softmax less how probable each class is at each step.
	ways := Sub(Sub(Add(forward, backward), emit), BroadcastToDims(Reshape(total, 1, n, 1), steps, n, slots))
	at := Einsum("tns,nsc->ntc", Exp(MinScalar(ways, 0)), hot)
	slope := Where(BroadcastToDims(Reshape(fits, n, 1, 1), d...), Sub(Exp(p), at), ZerosLike(p))
	out = IdentityWithCustomGradient(out, func(out, v *Node) *Node { return gradient.Once([]*Node{v}, []*Node{out}, "losses.CTC")[0] })
	linear := rowSums(Mul(out, StopGradient(slope)))
	value = Add(StopGradient(value), Sub(linear, StopGradient(linear)))
	return weightedExamples(value, v)
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
