package losses

import (
	"cmp"
	"fmt"
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// MSE is the mean of the squared differences of an example.
type MSE struct{}

func (MSE) Title() string { return "mean squared error" }

// Apply takes out and y of one shape [n …].
func (MSE) Apply(out, y, v *Node) (loss, weight *Node) {
	return weighted(Square(Sub(out, seen(y, v))), v)
}

// MAE is the mean of the absolute differences of an example.
type MAE struct{}

func (MAE) Title() string { return "mean absolute error" }

// Apply takes out and y of one shape [n …].
func (MAE) Apply(out, y, v *Node) (loss, weight *Node) {
	return weighted(Abs(Sub(out, seen(y, v))), v)
}

// Hinge is the mean of max(0, 1 - y·out), for targets y of -1 and 1.
type Hinge struct{}

// Title is hinge loss.
func (Hinge) Title() string { return "hinge loss" }

// Apply takes out and y of one shape [n …].
func (Hinge) Apply(out, y, v *Node) (loss, weight *Node) {
	return weighted(MaxScalar(OneMinus(Mul(seen(y, v), out)), 0), v)
}

// Poisson is the mean of exp(out) - y·out, for counts y and the logarithms of their means:
// PyTorch's PoissonNLLLoss.
type Poisson struct{}

// Title is Poisson loss.
func (Poisson) Title() string { return "Poisson loss" }

// Apply takes out and y of one shape [n …].
func (Poisson) Apply(out, y, v *Node) (loss, weight *Node) {
	return weighted(Sub(Exp(out), Mul(seen(y, v), out)), v)
}

// Huber is the mean over an example of half of the squared differences up to Delta, and
// beyond it of a line (Huber, 1964): outliers count less than with [MSE].
type Huber struct {
	Delta float64 // default: 1
}

func (Huber) Title() string { return "Huber loss" }

func (l Huber) check(int) error {
	if !(l.Delta >= 0) || math.IsInf(l.Delta, 0) {
		return fmt.Errorf("Delta is %g: want more than 0, or 0 for 1", l.Delta)
	}
	return nil
}

// Apply takes out and y of one shape [n …].
func (l Huber) Apply(out, y, v *Node) (loss, weight *Node) {
	must(l, 0)
	delta := cmp.Or(l.Delta, 1)
	d := Abs(Sub(out, seen(y, v)))
	near := MinScalar(d, delta)
	return weighted(Add(MulScalar(Square(near), 0.5), MulScalar(Sub(d, near), delta)), v)
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
