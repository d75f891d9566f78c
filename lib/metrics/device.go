package metrics

import (
	"math"

	"github.com/gomlx/gomlx/core/graph"
)

// OnDevice is Value as a scalar of a program, where the session decides something by a metric
// itself: sums are those of m, shaped [n]. It is nil for a type that is not of this package.
func OnDevice(m Metric, sums *graph.Node) *graph.Node {
	n := sums.Shape().Dimensions[0]
	of := func(part, parts int) *graph.Node { // one of so many equal parts
		return graph.Slice(sums, graph.AxisRange(part*n/parts, (part+1)*n/parts))
	}
	zero := graph.ScalarZero(sums.Graph(), sums.DType())
	ratio := func(a, b *graph.Node) *graph.Node { // 0 for 0 / 0
		none := graph.Equal(b, graph.ZerosLike(b))
		return graph.Where(none, graph.ZerosLike(a), graph.Div(a, graph.Where(none, graph.OnesLike(b), b)))
	}
	scores := func(part, whole *graph.Node) *graph.Node {
		seen := graph.ConvertDType(graph.GreaterThan(graph.Add(graph.Add(of(0, 3), of(1, 3)), of(2, 3)), graph.ZerosLike(part)), sums.DType())
		return ratio(graph.ReduceAllSum(graph.Mul(seen, ratio(part, whole))), graph.ReduceAllSum(seen))
	}
	switch m := m.(type) {
	case located:
		return OnDevice(m.Metric, sums)
	case Accuracy, TopK, MAE, Func:
		return graph.Reshape(graph.Div(of(0, 2), of(1, 2)))
	case Perplexity:
		return graph.Exp(graph.Reshape(graph.Div(of(0, 2), of(1, 2))))
	case RMSE:
		return graph.Sqrt(graph.Reshape(graph.Div(of(0, 2), of(1, 2))))
	case Precision:
		return scores(of(0, 3), graph.Add(of(0, 3), of(1, 3)))
	case Recall:
		return scores(of(0, 3), graph.Add(of(0, 3), of(2, 3)))
	case F1:
		twice := graph.MulScalar(of(0, 3), 2)
		return scores(twice, graph.Add(twice, graph.Add(of(1, 3), of(2, 3))))
	case MeanIoU:
		return scores(of(0, 3), graph.Add(of(0, 3), graph.Add(of(1, 3), of(2, 3))))
	case R2:
		y, squares := graph.Add(of(2, 6), of(3, 6)), graph.Add(of(4, 6), of(5, 6))
		variance := graph.Sub(squares, graph.Div(graph.Square(y), of(0, 6)))
		varies := graph.GreaterThan(variance, graph.MulScalar(squares, 1e-12))
		exact := graph.ConvertDType(graph.Equal(of(1, 6), graph.ZerosLike(y)), sums.DType())
		return graph.ReduceAllMean(graph.Where(varies, graph.OneMinus(ratio(of(1, 6), variance)), exact))
	case AUC:
		next := func(x *graph.Node) *graph.Node {
			return graph.Concatenate([]*graph.Node{graph.Slice(x, graph.AxisRange(1)), graph.Reshape(zero, 1)}, 0)
		}
		hit, wrong := of(0, 2), of(1, 2)
		area := graph.ReduceAllSum(graph.Mul(graph.Sub(wrong, next(wrong)), graph.MulScalar(graph.Add(hit, next(hit)), 0.5)))
		all := graph.Reshape(graph.Mul(graph.Slice(hit, graph.AxisRange(0, 1)), graph.Slice(wrong, graph.AxisRange(0, 1))))
		return graph.Where(graph.GreaterThan(all, zero), graph.Div(area, all), graph.Scalar(sums.Graph(), sums.DType(), math.NaN()))
	}
	return nil
}
