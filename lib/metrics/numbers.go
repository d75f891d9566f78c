package metrics

import (
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// MAE is the mean of the absolute differences between output and targets.
type MAE struct{}

// Title is mae.
func (MAE) Title() string { return "mae" }

// Maximize is false.
func (MAE) Maximize() bool { return false }

// Sums is 2.
func (m MAE) Sums(_, y shapes.Shape) (int, error) { return 2, wantNumbers(m, y) }

// Apply adds up the differences.
func (MAE) Apply(b Batch) *graph.Node { return b.mean(graph.Abs(graph.Sub(b.Output, b.Y))) }

// Value is the mean.
func (MAE) Value(sums []float64) float64 { return quotient(sums) }

// RMSE is the root of the mean squared difference between output and targets.
type RMSE struct{}

// Title is rmse.
func (RMSE) Title() string { return "rmse" }

// Maximize is false.
func (RMSE) Maximize() bool { return false }

// Sums is 2.
func (m RMSE) Sums(_, y shapes.Shape) (int, error) { return 2, wantNumbers(m, y) }

// Apply adds up the squares.
func (RMSE) Apply(b Batch) *graph.Node { return b.mean(graph.Square(graph.Sub(b.Output, b.Y))) }

// Value is the root of the mean.
func (RMSE) Value(sums []float64) float64 { return math.Sqrt(quotient(sums)) }

// R2 is the coefficient of determination: 1 for a net that is always right, 0 for one that
// always returns the mean of the targets. Where there are several outputs, along the last
// axis, it is the mean over them, as in scikit-learn.
type R2 struct{}

// Title is r2.
func (R2) Title() string { return "r2" }

// Maximize is true.
func (R2) Maximize() bool { return true }

// Sums is 6 for each output.
func (m R2) Sums(output, y shapes.Shape) (int, error) {
	return 6 * classes(output), wantNumbers(m, y)
}

// Apply adds up in float64: the variance is a small difference of large sums where the mean
// of the targets is large. Two numbers hold each of these.
func (R2) Apply(b Batch) *graph.Node {
	width := classes(b.Output.Shape())
	column := func(x *graph.Node) *graph.Node {
		return graph.ConvertDType(graph.Reshape(x, x.Shape().Size()/width, width), dtypes.Float64)
	}
	w, y, out := column(b.Weight), column(b.Y), column(b.Output)
	total := func(x *graph.Node) *graph.Node { return graph.ReduceSum(graph.Mul(w, x), 0) }
	parts := []*graph.Node{float(graph.ReduceSum(w, 0)), float(total(graph.Square(graph.Sub(y, out))))}
	for _, x := range []*graph.Node{total(y), total(graph.Square(y))} {
		high := float(x)
		parts = append(parts, high, float(graph.Sub(x, graph.ConvertDType(high, dtypes.Float64))))
	}
	return graph.Concatenate(parts, 0)
}

// Value is the mean over the outputs of 1 - residual / variance. Where targets do not vary
// it is 1 or 0, as in scikit-learn.
func (R2) Value(sums []float64) float64 {
	width := len(sums) / 6
	sum := 0.0
	for k := range width {
		at := func(i int) float64 { return sums[i*width+k] }
		n, residual, y, squares := at(0), at(1), at(2)+at(3), at(4)+at(5)
		if n == 0 {
			return math.NaN()
		}
		switch variance := squares - y*y/n; {
		case variance > 1e-12*squares:
			sum += 1 - residual/variance
		case residual == 0:
			sum++
		}
	}
	return sum / float64(width)
}
