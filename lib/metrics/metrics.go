// Package metrics has metrics such as the F1 score. They are computed on the device, in the
// program of an epoch and in Evaluate:
//
//	net := fit.New("cnn", model, fit.Config{Metrics: []metrics.Metric{metrics.TopK{K: 5}, metrics.F1{}}})
//	history, err := net.Fit(train, fit.Train{Epochs: 5, Validation: test, Monitor: "f1", KeepBest: true})
//	fmt.Println(history, history.Last().Validation.Metric("top5"))
//	report.Curve(history, "f1")
//
// Every target counts once, the accuracy's too, as with Keras' metrics and torchmetrics: weights
// in fit.Data.V are the loss's alone (Keras' weighted_metrics have no equal here). Targets of
// weight 0 and labels that the loss ignores do not count, nor does what fills the last batch. The
// accuracy of a net with labels is always computed and needs no metric.
//
// For the mean of a function, use [Func]. Any other metric of your own is a type with the
// methods of [Metric].
package metrics

import (
	"fmt"
	"math"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Metric is computed from sums over the batches of a set: each batch gives some numbers,
// which are added up, and their sums give the value.
type Metric interface {
	// Title is the name in tables and plots, such as "top5".
	Title() string
	// Sums is how many numbers a batch gives. It is an error where the metric does not fit
	// the output of a net, shaped [n …], or its targets; see Batch.
	Sums(output, y shapes.Shape) (int, error)
	// Apply returns a batch's numbers, float32 [Sums].
	Apply(b Batch) *graph.Node
	// Value is the metric of the sums; NaN where nothing counted.
	Value(sums []float64) float64
	// Maximize says whether a larger value is better.
	Maximize() bool
}

// Kinds are the types that the description of a training can name: all metrics but [Of], which
// is a part's of a user's own loss.
func Kinds() []any {
	return []any{Accuracy{}, AUC{}, F1{}, Func{}, MAE{}, MeanIoU{}, Perplexity{}, Precision{}, R2{}, Recall{}, RMSE{}, TopK{}}
}

// Batch is what a metric is computed from.
type Batch struct {
	Output *graph.Node // what the net returned, float32 [n …]
	Y      *graph.Node // labels, int32, of Output's shape without the last axis; or numbers of Output's shape
	Weight *graph.Node // 1 for each element of Y that counts, 0 for the others, float32 of its shape
	// Logits says that the numbers of Output are logits for targets of 0 and 1, as with
	// losses.BinaryCrossEntropy. With other losses they are the probabilities.
	Logits bool
}

// labels says whether the targets are labels.
func labels(y shapes.Shape) bool { return y.DType == dtypes.Int32 }

// classes is how many classes labels have, or numbers the last axis.
func classes(output shapes.Shape) int {
	if output.Rank() < 2 {
		return 1
	}
	return output.Dimensions[output.Rank()-1]
}

// Check says which of a net's metrics cannot be used: without a name, with that of another one,
// or with a setting that means nothing.
func Check(all []Metric) error {
	seen := map[string]bool{"loss": true}
	for i, m := range all {
		if m == nil {
			return fmt.Errorf("Metrics[%d] is nil: want a metric such as metrics.TopK{K: 5}", i)
		}
		if c, is := m.(interface{ check() error }); is {
			if err := c.check(); err != nil {
				return fmt.Errorf("Metrics[%d]: %T: %w", i, m, err)
			}
		}
		title := m.Title()
		if title == "" || strings.ContainsAny(title, "/\n") {
			return fmt.Errorf("Metrics[%d] is called %q: want a name, without / and line breaks", i, title)
		}
		if seen[title] {
			return fmt.Errorf("Metrics[%d] is called %q, as is the loss or another metric: want names that differ", i, title)
		}
		seen[title] = true
	}
	return nil
}

// want is the error of a metric that does not fit.
func want(m Metric, got, want string) error {
	return fmt.Errorf("metric %s: got %s, want %s", m.Title(), got, want)
}

// wantLabels is an error unless the targets are labels of several classes.
func wantLabels(m Metric, output, y shapes.Shape) error {
	switch {
	case !labels(y):
		return want(m, "numbers as targets", "labels")
	case classes(output) < 2:
		return want(m, fmt.Sprintf("an output of %v", output.Dimensions[1:]), "one number a class")
	}
	return nil
}

// wantNumbers is an error unless the targets are numbers.
func wantNumbers(m Metric, y shapes.Shape) error {
	if labels(y) {
		return want(m, "labels", "numbers as targets")
	}
	return nil
}

// mean is the numbers of a metric that is a weighted mean: the sum of x, shaped like Weight,
// and the sum of the weights.
func (b Batch) mean(x *graph.Node) *graph.Node {
	return graph.Stack([]*graph.Node{graph.ReduceAllSum(graph.Mul(x, b.Weight)), graph.ReduceAllSum(b.Weight)}, 0)
}

func float(x *graph.Node) *graph.Node { return graph.ConvertDType(x, dtypes.Float32) }

// quotient is a / b; NaN for 0 / 0.
func quotient(sums []float64) float64 {
	if sums[1] == 0 {
		return math.NaN()
	}
	return sums[0] / sums[1]
}

// Func is the mean of a function of your own.
type Func struct {
	Name string
	// Of returns a number for each example, float32 [n], or for each element of y.
	Of  func(output, y *graph.Node) *graph.Node
	Max bool // larger values are better
}

// Title is Name.
func (m Func) Title() string { return m.Name }

// Maximize is Max.
func (m Func) Maximize() bool { return m.Max }

func (m Func) check() error {
	if m.Of == nil {
		return fmt.Errorf("Of is nil: want a function of the output and the targets")
	}
	return nil
}

// Sums is 2.
func (m Func) Sums(_, _ shapes.Shape) (int, error) { return 2, nil }

// Apply means over examples or elements.
func (m Func) Apply(b Batch) *graph.Node {
	x := m.Of(b.Output, b.Y)
	n := b.Output.Shape().Dimensions[0]
	if x.Rank() > 1 && x.Shape().Size() == n && !x.Shape().EqualDimensions(b.Y.Shape()) {
		x = graph.Reshape(x, n) // [n 1], as of a reduction that keeps its axis
	}
	switch {
	case x.DType() == dtypes.Float32 && x.Shape().EqualDimensions(b.Y.Shape()):
		return b.mean(x)
	case x.DType() == dtypes.Float32 && x.Rank() == 1 && x.Shape().Dimensions[0] == n:
		each := graph.Reshape(b.Weight, n, b.Weight.Shape().Size()/n)
		return Batch{Weight: graph.ReduceMean(each, 1)}.mean(x) // an example counts as much as its targets do
	}
	panic(want(m, fmt.Sprintf("results of shape %s from Func.Of", x.Shape()), fmt.Sprintf("Float32 of shape %v or %v", []int{n}, b.Y.Shape().Dimensions)))
}

// Value is the mean.
func (m Func) Value(sums []float64) float64 { return quotient(sums) }
