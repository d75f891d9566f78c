package metrics

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// Of is a metric of one result of a net that has several, by the name of its part in
// losses.Joint:
//
//	Metrics: []metrics.Metric{metrics.Of{Part: "class", Metric: metrics.Accuracy{}}} // class_accuracy
type Of struct {
	Part   string
	Metric Metric
}

func (m Of) check() error {
	if m.Metric == nil || m.Part == "" {
		return fmt.Errorf("Part is %q and Metric %v: want the name of a part of losses.Joint, and a metric of it", m.Part, m.Metric)
	}
	return Check([]Metric{m.Metric})
}

// Title is the part's and the metric's, as in Keras.
func (m Of) Title() string { return m.Part + "_" + m.Metric.Title() }

// Sums refuses a net that has no parts.
func (m Of) Sums(shapes.Shape, shapes.Shape) (int, error) {
	return 0, fmt.Errorf("metric %s is of part %q: want Config.Loss to be a losses.Joint with it", m.Metric.Title(), m.Part)
}

// Apply is not called; see Sums.
func (m Of) Apply(Batch) *graph.Node { return nil }

// Value is the metric's.
func (m Of) Value(sums []float64) float64 { return m.Metric.Value(sums) }

// Maximize is the metric's.
func (m Of) Maximize() bool { return m.Metric.Maximize() }

// At is the metric where the part's results and targets are known.
func (m Of) At(s Span) Metric { return located{m, s} }

// Span is where the numbers of a part are, each from one to before another.
type Span struct {
	Output, Y [2]int
	Labels    bool // its target is a label
	Logits    bool // see Batch
}

type located struct {
	Of
	Span
}

func (m located) Sums(output, y shapes.Shape) (int, error) {
	n := output.Dimensions[0]
	part := shapes.Make(output.DType, n, m.Output[1]-m.Output[0])
	if m.Labels {
		return m.Metric.Sums(part, shapes.Make(dtypes.Int32, n))
	}
	return m.Metric.Sums(part, part)
}

func (m located) Apply(b Batch) *graph.Node {
	cut := func(x *graph.Node, at [2]int) *graph.Node {
		return graph.Slice(x, graph.AxisRange(), graph.AxisRange(at[0], at[1]))
	}
	b.Output, b.Y, b.Weight, b.Logits = cut(b.Output, m.Output), cut(b.Y, m.Y), cut(b.Weight, m.Y), m.Logits
	if m.Labels {
		n := b.Y.Shape().Dimensions[0]
		there := graph.GreaterOrEqual(b.Y, graph.ZerosLike(b.Y)) // else the loss ignores it
		b.Weight = graph.Reshape(graph.Where(there, b.Weight, graph.ZerosLike(b.Weight)), n)
		b.Y = graph.Reshape(graph.ConvertDType(graph.Where(there, b.Y, graph.ZerosLike(b.Y)), dtypes.Int32), n)
	}
	return m.Metric.Apply(b)
}
