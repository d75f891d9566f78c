package losses

import (
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// MSE is the mean of the squared differences of an example.
type MSE struct{}

func (MSE) Title() string { return "mean squared error" }

// Apply takes out and y of one shape [n …].
func (MSE) Apply(out, y, _ *Node) (loss, weight *Node) { return rowMeans(Square(Sub(out, y))), nil }

// MAE is the mean of the absolute differences of an example.
type MAE struct{}

func (MAE) Title() string { return "mean absolute error" }

// Apply takes out and y of one shape [n …].
func (MAE) Apply(out, y, _ *Node) (loss, weight *Node) { return rowMeans(Abs(Sub(out, y))), nil }

// Huber is the mean over an example of half of the squared differences up to Delta, and
// beyond it of a line (Huber, 1964): outliers count less than with [MSE].
type Huber struct {
	Delta float64 // default: 1
}

func (Huber) Title() string { return "Huber loss" }

func (l Huber) check() error {
	if !(l.Delta >= 0) || math.IsInf(l.Delta, 0) {
		return fmt.Errorf("Delta is %g: want more than 0, or 0 for 1", l.Delta)
	}
	return nil
}

// Apply takes out and y of one shape [n …].
func (l Huber) Apply(out, y, _ *Node) (loss, weight *Node) {
	must(l, 0)
	delta := l.Delta
	if delta == 0 {
		delta = 1
	}
	d := Abs(Sub(out, y))
	near := MinScalar(d, delta)
	return rowMeans(Add(MulScalar(Square(near), 0.5), MulScalar(Sub(d, near), delta))), nil
}

// must is Check for a loss that is being built.
func must(l Loss, classes int) {
	if err := Check(l, classes); err != nil {
		panic(err)
	}
}

// rowMeans are means of x [n …] over each example.
func rowMeans(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	return ReduceMean(Reshape(x, n, x.Shape().Size()/n), 1)
}

// rowSums are sums of x [n …] over each example.
func rowSums(x *Node) *Node {
	n := x.Shape().Dimensions[0]
	return ReduceSum(Reshape(x, n, x.Shape().Size()/n), 1)
}
