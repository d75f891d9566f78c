package losses

import (
	"errors"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
)

// weighted is the loss of values [n …] and its weight, as Apply returns them. v are weights
// of the values, or of the examples [n]; nil: each example counts 1.
func weighted(values, v *Node) (loss, weight *Node) {
	switch {
	case v == nil:
		return rowMeans(values), nil
	case v.Rank() == 1 && values.Rank() > 1:
		return Mul(rowMeans(values), v), StopGradient(v)
	}
	return rowSums(Mul(values, v)), StopGradient(rowSums(v))
}

// weightedExamples is [weighted] of losses [n] that examples have as a whole: weights of an
// example's numbers count as their mean.
func weightedExamples(values, v *Node) (loss, weight *Node) {
	if v == nil {
		return values, nil
	}
	return weighted(values, rowMeans(v))
}

// seen is y without targets that do not count, which may be NaN.
func seen(y, v *Node) *Node {
	if v == nil {
		return y
	}
	return Seen(y, Spread(v, y))
}

// Spread are weights of the shape of y: those of examples [n] become those of their numbers.
func Spread(v, y *Node) *Node {
	if v.Rank() == 1 && y.Rank() > 1 {
		for v.Rank() < y.Rank() {
			v = InsertAxes(v, -1)
		}
		v = BroadcastToDims(v, y.Shape().Dimensions...)
	}
	return v
}

// LogSumExp is log Σ exp(x) along an axis, without overflow, as the likelihood of a mixture and
// Cox's partial likelihood need it: PyTorch's logsumexp. Of nothing but -∞ it is -∞, with a
// gradient of 0.
func LogSumExp(x *Node, axis int) *Node {
	most := StopGradient(ReduceAndKeep(x, ReduceMax, axis))
	finite := GreaterThan(most, Infinity(x.Graph(), x.DType(), -1))
	sum := ReduceSum(Exp(Sub(x, Where(finite, most, ZerosLike(most)))), axis)
	most, finite = Squeeze(most, axis), Squeeze(finite, axis)
	return Where(finite, Add(Log(Where(finite, sum, OnesLike(sum))), most), most)
}

// Func is a loss of your own as a function: Of returns a loss for each number
// of y, [n …], for each example, [n], or one of the batch, which is neither weighted nor divided.
// Weights count as in others.
//
//	losses.Func{Name: "log cosh", Of: func(out, y *Node) *Node { return Log(Cosh(Sub(out, y))) }}
type Func struct {
	Name string
	Of   func(out, y *Node) *Node
}

// Title is the name.
func (l Func) Title() string { return l.Name }

func (l Func) check(int) error {
	if l.Name == "" {
		return errors.New("Name is empty: want one, under which the loss is shown")
	}
	if l.Of == nil {
		return errors.New("Of is nil: want a function of the output and the targets")
	}
	return nil
}

// Apply takes what Of takes.
func (l Func) Apply(out, y, v *Node) (loss, weight *Node) {
	must(l, 0)
	values := l.of(out, y, v)
	n := out.Shape().Dimensions[0]
	if values.Rank() == 0 {
		if v != nil {
			panic(fmt.Errorf("loss %q: Of returned one loss of %d examples, which have weights or count in part: want one for each example, of shape [%d]", l.Name, n, n))
		}
		values = BroadcastToDims(InsertAxes(values, 0), n)
	}
	if v != nil && (v.Rank() != values.Rank()) {
		return weightedExamples(rowMeans(values), v)
	}
	return weighted(values, v)
}

// of calls Of, and says what is wrong with it or with what it returns.
func (l Func) of(out, y, v *Node) *Node {
	defer func() {
		if r := recover(); r != nil {
			err, is := r.(error)
			if !is {
				err = fmt.Errorf("%v", r)
			}
			if y == nil {
				err = fmt.Errorf("its y is nil, as the data have no targets: want Y in them, or an Of without y: %w", err)
			}
			panic(fmt.Errorf("loss %q: %w", l.Name, err))
		}
	}()
	if y != nil {
		y = seen(y, v)
	}
	loss := l.Of(out, y)
	n := out.Shape().Dimensions[0]
	if loss == nil {
		panic(fmt.Errorf("Of returned nil: want a loss for each of %d examples, or a scalar", n))
	}
	if s := loss.Shape(); s.DType != out.DType() || s.Rank() > 0 && s.Dimensions[0] != n {
		panic(fmt.Errorf("Of returned %s: want %s, of shape [%d] with a loss for each example, [%d …] with one for each number, or a scalar", s, out.DType(), n, n))
	}
	return loss
}
