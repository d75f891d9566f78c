package metrics

import (
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Accuracy is the share of right answers: for labels, the class with the largest number is
// the right one; for targets of 0 and 1, the probability is on their side of 0.5. With labels
// a score always has it, and this adds nothing.
type Accuracy struct{}

// Title is accuracy.
func (Accuracy) Title() string { return "accuracy" }

// Maximize is true.
func (Accuracy) Maximize() bool { return true }

// Sums is 2.
func (m Accuracy) Sums(output, y shapes.Shape) (int, error) {
	if labels(y) {
		return 2, wantLabels(m, output, y)
	}
	return 2, nil
}

// Apply counts.
func (m Accuracy) Apply(b Batch) *graph.Node {
	if labels(b.Y.Shape()) {
		return b.mean(float(graph.Equal(graph.ArgMax(b.Output, -1, dtypes.Int32), b.Y)))
	}
	return b.mean(float(graph.Equal(float(b.positive(0.5)), float(b.isOne()))))
}

// Value is the share.
func (Accuracy) Value(sums []float64) float64 { return quotient(sums) }

// TopK is the share of labels whose class is among the K with the largest numbers. Classes
// with equal numbers share their place, as with Keras.
type TopK struct {
	K int
}

// Title is top and K: top5.
func (m TopK) Title() string { return fmt.Sprintf("top%d", m.K) }

// Maximize is true.
func (TopK) Maximize() bool { return true }

func (m TopK) check() error {
	if m.K < 1 {
		return fmt.Errorf("K is %d: want 1 or more", m.K)
	}
	return nil
}

// Sums is 2.
func (m TopK) Sums(output, y shapes.Shape) (int, error) {
	if err := wantLabels(m, output, y); err != nil {
		return 0, err
	}
	if c := classes(output); m.K > c {
		return 0, want(m, fmt.Sprintf("%d classes", c), "K no larger than that")
	}
	return 2, nil
}

// Apply counts the classes with larger numbers than the label's.
func (m TopK) Apply(b Batch) *graph.Node {
	d := b.Output.Shape().Dimensions
	own := graph.ReduceAndKeep(graph.Mul(b.Output, graph.OneHot(b.Y, d[len(d)-1], dtypes.Float32)), graph.ReduceSum, -1)
	larger := graph.ReduceSum(float(graph.GreaterThan(b.Output, graph.BroadcastToDims(own, d...))), -1)
	return b.mean(float(graph.LessThan(larger, graph.Scalar(larger.Graph(), dtypes.Float32, float64(m.K)))))
}

// Value is the share.
func (TopK) Value(sums []float64) float64 { return quotient(sums) }

// Perplexity is e to the mean cross entropy of all labels: between how many classes a net
// hesitates. Settings of the loss, such as label smoothing, have no effect on it.
type Perplexity struct{}

// Title is perplexity.
func (Perplexity) Title() string { return "perplexity" }

// Maximize is false.
func (Perplexity) Maximize() bool { return false }

// Sums is 2.
func (m Perplexity) Sums(output, y shapes.Shape) (int, error) { return 2, wantLabels(m, output, y) }

// Apply adds up the cross entropy.
func (m Perplexity) Apply(b Batch) *graph.Node {
	d := b.Output.Shape().Dimensions
	z := graph.Sub(b.Output, graph.ReduceAndKeep(b.Output, graph.ReduceMax, -1))
	own := graph.ReduceSum(graph.Mul(z, graph.OneHot(b.Y, d[len(d)-1], dtypes.Float32)), -1)
	return b.mean(graph.Sub(graph.Log(graph.ReduceSum(graph.Exp(z), -1)), own))
}

// Value is the exponential of the mean.
func (Perplexity) Value(sums []float64) float64 { return math.Exp(quotient(sums)) }
