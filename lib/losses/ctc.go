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
	max := StopGradient(ReduceAndKeep(out, ReduceMax, -1))
	z := StopGradient(Sub(out, max))
	p := Sub(z, Log(ReduceAndKeep(Exp(z), ReduceSum, -1)))

	a := l.align(labels, p)
	forward, backward := a.pass(a.first, 1), a.pass(a.last, -1)
	final := a.only(LogicalAnd(a.last, a.inside), Reshape(Slice(forward, AxisRange(a.steps-1, a.steps)), a.n, a.slots))
	most := ReduceAndKeep(final, ReduceMax, 1)
	total := Add(Reshape(most, a.n), Log(ReduceSum(Exp(Sub(final, most)), 1))) // [n]
	fits := GreaterThan(total, Scalar(a.g, dtypes.Float32, never/2))
	value := Where(fits, Neg(total), ZerosLike(total))

	// The gradient by logits: their softmax less how probable each class is at each step.
	ways := Sub(Sub(Add(forward, backward), a.emit), BroadcastToDims(Reshape(total, 1, a.n, 1), a.steps, a.n, a.slots))
	at := Einsum("tns,nsc->ntc", Exp(MinScalar(ways, 0)), a.hot)
	slope := Where(BroadcastToDims(Reshape(fits, a.n, 1, 1), d...), Sub(Exp(p), at), ZerosLike(p))
	out = IdentityWithCustomGradient(out, func(out, v *Node) *Node { return gradient.Once([]*Node{v}, []*Node{out}, "losses.CTC")[0] })
	linear := rowSums(Mul(out, StopGradient(slope)))
	value = Add(StopGradient(value), Sub(linear, StopGradient(linear)))
	return weightedExamples(value, v)
}

// alignment is the slots that labels have: one for each, and between them, and before and
// after them, one for a blank.
type alignment struct {
	g               *Graph
	n, steps, slots int
	hot             *Node // [n slots classes]: the class of each slot
	emit            *Node // [steps n slots]: log of its probability at each step
	label, off      *Node // [n slots]: the classes as numbers; a scalar: the log of what cannot be
	odd, inside     *Node // [n slots]: the slots of labels; those that an example has
	first, last     *Node // [n slots]: where a way may begin, and end
}

// align makes the slots of labels for the logs of probabilities [n steps classes].
func (l CTC) align(labels, p *Node) *alignment {
	d, length := p.Shape().Dimensions, labels.Shape().Dimensions[1]
	a := &alignment{g: p.Graph(), n: d[0], steps: d[1], slots: 2*length + 1}
	there := GreaterOrEqual(labels, ZerosLike(labels))
	lengths := ReduceSum(ConvertDType(there, dtypes.Int32), -1)
	blank := AddScalar(ZerosLike(labels), float64(l.Blank))
	with := Reshape(Stack([]*Node{blank, Where(there, labels, blank)}, 2), a.n, 2*length)
	with = Concatenate([]*Node{with, Slice(blank, AxisRange(), AxisRange(0, 1))}, 1)
	a.hot = OneHot(with, d[2], dtypes.Float32)
	a.emit = TransposeAllAxes(Einsum("ntc,nsc->nts", p, a.hot), 1, 0, 2)
	place := Iota(a.g, shapes.Make(dtypes.Int32, a.n, a.slots), 1)
	end := BroadcastToDims(InsertAxes(MulScalar(lengths, 2), -1), a.n, a.slots)
	a.off = Scalar(a.g, dtypes.Float32, never)
	a.label = ConvertDType(with, dtypes.Float32)
	a.odd = Equal(ModScalar(place, 2), OnesLike(place))
	a.inside = LessOrEqual(place, end)
	a.first = LessOrEqual(place, OnesLike(place))
	a.last = GreaterOrEqual(place, AddScalar(end, -1))
	return a
}

// only is x where here is true.
func (a *alignment) only(here, x *Node) *Node {
	return Where(here, x, BroadcastToDims(a.off, a.n, a.slots))
}

// shift has for each slot the value of the slot by slots before, or behind.
func (a *alignment) shift(x *Node, by int) *Node {
	pad := BroadcastToDims(a.off, a.n, abs(by))
	if by > 0 {
		return Concatenate([]*Node{pad, Slice(x, AxisRange(), AxisRange(0, a.slots-by))}, 1)
	}
	return Concatenate([]*Node{Slice(x, AxisRange(), AxisRange(-by, a.slots)), pad}, 1)
}

// pass is log of the sums over all ways to (or from) each slot at each step: [steps n slots].
func (a *alignment) pass(begins *Node, by int) *Node {
	g := a.g
	skip := LogicalAnd(a.odd, NotEqual(a.label, a.shift(a.label, 2*by))) // a label may follow another one at once
	start, step := 0, 1
	if by < 0 {
		start, step = a.steps-1, -1
	}
	limit, one := Scalar(g, dtypes.Int32, a.steps-1), Scalar(g, dtypes.Int32, 1)
	by1, from := Scalar(g, dtypes.Int32, step), Scalar(g, dtypes.Int32, start) // here: constants of a loop cannot be used after it
	now := a.only(LogicalAnd(begins, a.inside), Reshape(Slice(a.emit, AxisRange(start, start+1)), a.n, a.slots))
	all := BroadcastToDims(a.off, a.steps, a.n, a.slots)
	all = DynamicUpdateSlice(all, InsertAxes(now, 0), []*Node{Scalar(g, dtypes.Int32, start), Scalar(g, dtypes.Int32, 0), Scalar(g, dtypes.Int32, 0)})
	if a.steps == 1 {
		return all
	}
	parameters := func(g *Graph) (i, now, all *Node) {
		return Parameter(g, "i", shapes.Make(dtypes.Int32)), Parameter(g, "now", shapes.Make(dtypes.Float32, a.n, a.slots)), Parameter(g, "all", shapes.Make(dtypes.Float32, a.steps, a.n, a.slots))
	}
	cond := NewClosure(g, func(g *Graph) []*Node {
		i, _, _ := parameters(g)
		return []*Node{LessThan(i, limit)}
	})
	body := NewClosure(g, func(g *Graph) []*Node {
		i, now, all := parameters(g)
		next := Add(i, one)
		t := Add(Mul(next, by1), from)
		emit := Reshape(DynamicSlice(a.emit, []*Node{t, ZerosLike(t), ZerosLike(t)}, []int{1, a.n, a.slots}), a.n, a.slots)
		one, two := a.shift(now, by), a.only(skip, a.shift(now, 2*by))
		most := Max(now, Max(one, two))
		sum := Add(Exp(Sub(now, most)), Add(Exp(Sub(one, most)), Exp(Sub(two, most))))
		now = a.only(a.inside, Add(Add(most, Log(sum)), emit))
		return []*Node{next, now, DynamicUpdateSlice(all, InsertAxes(now, 0), []*Node{t, ZerosLike(t), ZerosLike(t)})}
	})
	return While(cond, body, Scalar(g, dtypes.Int32, 0), now, all)[2]
}

func abs(n int) int {
	if n < 0 {
		return -n
	}
	return n
}
