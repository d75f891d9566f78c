package metrics

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"
)

// decided is the settings that Precision, Recall and F1 share.
type decided struct {
	threshold float64
	macro     bool
}

func (d decided) check() error {
	if !(d.threshold >= 0 && d.threshold < 1) {
		return fmt.Errorf("Threshold is %g: want more than 0 and less than 1, or 0 for 0.5", d.threshold)
	}
	return nil
}

// each says whether classes are judged one by one.
func (d decided) each(output, y shapes.Shape) bool {
	return labels(y) && (d.macro || classes(output) > 2)
}

func (d decided) sums(m Metric, output, y shapes.Shape) (int, error) {
	if !labels(y) {
		return 3 * classes(output), nil
	}
	if err := wantLabels(m, output, y); err != nil {
		return 0, err
	}
	if !d.each(output, y) {
		return 3, nil
	}
	if d.threshold != 0 {
		return 0, want(m, fmt.Sprintf("a Threshold for %d classes, one of which is the answer", classes(output)), "Threshold left out")
	}
	return 3 * classes(output), nil
}

// apply counts, for each class: answers that it is there and is, that it is there and is
// not, that it is not there and is.
func (d decided) apply(b Batch) *graph.Node {
	var yes, is *graph.Node // of each class, bool [… classes]
	width := classes(b.Output.Shape())
	weight, threshold := b.Weight, cmp.Or(d.threshold, 0.5)
	if labels(b.Y.Shape()) && !d.each(b.Output.Shape(), b.Y.Shape()) {
		yes, is, width = b.positive(threshold), b.isOne(), 1
	} else if labels(b.Y.Shape()) {
		one := func(label *graph.Node) *graph.Node { return graph.OneHot(label, width, dtypes.Float32) }
		half := graph.Scalar(b.Y.Graph(), dtypes.Float32, 0.5)
		yes, is = graph.GreaterThan(one(graph.ArgMax(b.Output, -1, dtypes.Int32)), half), graph.GreaterThan(one(b.Y), half)
		weight = graph.BroadcastToDims(graph.InsertAxes(weight, -1), b.Output.Shape().Dimensions...)
	} else {
		yes, is = b.positive(threshold), b.isOne()
	}
	count := func(x *graph.Node) *graph.Node {
		x = graph.Mul(float(x), weight)
		return graph.ReduceSum(graph.Reshape(x, x.Shape().Size()/width, width), 0)
	}
	return graph.Concatenate([]*graph.Node{count(graph.LogicalAnd(yes, is)), count(graph.LogicalAnd(yes, graph.LogicalNot(is))), count(graph.LogicalAnd(graph.LogicalNot(yes), is))}, 0)
}

// value is the mean over the classes of which there is an answer or an example.
func (decided) value(sums []float64, of func(hit, wrong, missed float64) (part, whole float64)) float64 {
	width := len(sums) / 3
	sum, n := 0.0, 0.0
	for k := range width {
		hit, wrong, missed := sums[k], sums[width+k], sums[2*width+k]
		if hit+wrong+missed == 0 {
			continue
		}
		n++
		if part, whole := of(hit, wrong, missed); whole > 0 {
			sum += part / whole
		}
	}
	if n == 0 {
		return 0
	}
	return sum / n
}

// positive says of each answer whether its probability is above a threshold.
func (b Batch) positive(threshold float64) *graph.Node {
	at := func(x *graph.Node, limit float64) *graph.Node {
		return graph.GreaterThan(x, graph.Scalar(x.Graph(), dtypes.Float32, limit))
	}
	switch {
	case labels(b.Y.Shape()):
		return at(b.difference(), math.Log(threshold/(1-threshold)))
	case b.Logits:
		return at(b.Output, math.Log(threshold/(1-threshold)))
	}
	return at(b.Output, threshold)
}

// difference is the logit of class 1 of two.
func (b Batch) difference() *graph.Node {
	rank := b.Output.Rank()
	of := func(class int) *graph.Node {
		ranges := make([]graph.SliceAxisSpec, rank)
		for i := range ranges {
			ranges[i] = graph.AxisRange()
		}
		ranges[rank-1] = graph.AxisElem(class)
		return graph.Squeeze(graph.Slice(b.Output, ranges...), -1)
	}
	return graph.Sub(of(1), of(0))
}

// isOne says of each target whether it is 1.
func (b Batch) isOne() *graph.Node {
	if labels(b.Y.Shape()) {
		return graph.Equal(b.Y, graph.OnesLike(b.Y))
	}
	return graph.GreaterThan(b.Y, graph.Scalar(b.Y.Graph(), dtypes.Float32, 0.5))
}

// Precision is how many of the answers that say so are right: of class 1, if there are two,
// or the mean over more classes. Where targets are 0 and 1, the output's last axis has the
// classes.
type Precision struct {
	Threshold float64 // the probability above which the answer is class 1; default: 0.5
	Macro     bool    // the mean over classes where there are two
}

// Title is precision.
func (Precision) Title() string { return "precision" }

// Maximize is true.
func (Precision) Maximize() bool { return true }

func (m Precision) check() error { return decided{m.Threshold, m.Macro}.check() }

// Sums is 3 for each class.
func (m Precision) Sums(output, y shapes.Shape) (int, error) {
	return decided{m.Threshold, m.Macro}.sums(m, output, y)
}

// Apply counts.
func (m Precision) Apply(b Batch) *graph.Node { return decided{m.Threshold, m.Macro}.apply(b) }

// Value is 0 where there is no such answer.
func (m Precision) Value(sums []float64) float64 {
	return decided{}.value(sums, func(hit, wrong, _ float64) (float64, float64) { return hit, hit + wrong })
}

// Recall is how many of the examples of a class are found: of class 1, if there are two, or
// the mean over more classes.
type Recall struct {
	Threshold float64 // as of Precision
	Macro     bool
}

// Title is recall.
func (Recall) Title() string { return "recall" }

// Maximize is true.
func (Recall) Maximize() bool { return true }

func (m Recall) check() error { return decided{m.Threshold, m.Macro}.check() }

// Sums is 3 for each class.
func (m Recall) Sums(output, y shapes.Shape) (int, error) {
	return decided{m.Threshold, m.Macro}.sums(m, output, y)
}

// Apply counts.
func (m Recall) Apply(b Batch) *graph.Node { return decided{m.Threshold, m.Macro}.apply(b) }

// Value is 0 where there is no such example.
func (m Recall) Value(sums []float64) float64 {
	return decided{}.value(sums, func(hit, _, missed float64) (float64, float64) { return hit, hit + missed })
}

// F1 is the harmonic mean of precision and recall: of class 1, if there are two, or the mean
// over more classes.
type F1 struct {
	Threshold float64 // as of Precision
	Macro     bool
}

// Title is f1.
func (F1) Title() string { return "f1" }

// Maximize is true.
func (F1) Maximize() bool { return true }

func (m F1) check() error { return decided{m.Threshold, m.Macro}.check() }

// Sums is 3 for each class.
func (m F1) Sums(output, y shapes.Shape) (int, error) {
	return decided{m.Threshold, m.Macro}.sums(m, output, y)
}

// Apply counts.
func (m F1) Apply(b Batch) *graph.Node { return decided{m.Threshold, m.Macro}.apply(b) }

// Value is 0 where no answer is right.
func (m F1) Value(sums []float64) float64 {
	return decided{}.value(sums, func(hit, wrong, missed float64) (float64, float64) { return 2 * hit, 2*hit + wrong + missed })
}

// MeanIoU is the mean over the classes of how many of the positions that have a class, by the answers
// or the labels, have it by both (intersection over union, the Jaccard index), as for segmentation:
// of classes that occur in one or the other. Where targets are 0 and 1, the output's last axis has
// the classes.
type MeanIoU struct {
	Threshold float64 // of targets of 0 and 1, as of Precision
}

// Title is mean_iou.
func (MeanIoU) Title() string { return "mean_iou" }

// Maximize is true.
func (MeanIoU) Maximize() bool { return true }

func (m MeanIoU) check() error { return decided{m.Threshold, true}.check() }

// Sums is 3 for each class.
func (m MeanIoU) Sums(output, y shapes.Shape) (int, error) {
	return decided{m.Threshold, true}.sums(m, output, y)
}

// Apply counts.
func (m MeanIoU) Apply(b Batch) *graph.Node { return decided{m.Threshold, true}.apply(b) }

// Value is 0 where no answer is right.
func (m MeanIoU) Value(sums []float64) float64 {
	return decided{}.value(sums, func(hit, wrong, missed float64) (float64, float64) { return hit, hit + wrong + missed })
}

// AUC is the area under the curve of true positives against false ones (ROC), by the
// trapezoids between some thresholds, as Keras computes it: for labels of two classes, or
// targets of 0 and 1.
type AUC struct {
	Thresholds int // default: 200
}

// Title is auc.
func (AUC) Title() string { return "auc" }

// Maximize is true.
func (AUC) Maximize() bool { return true }

func (m AUC) check() error {
	if m.Thresholds != 0 && (m.Thresholds < 3 || m.Thresholds > 10000) {
		return fmt.Errorf("Thresholds is %d: want 3 to 10000, or 0 for 200", m.Thresholds)
	}
	return nil
}

func (m AUC) thresholds() int { return cmp.Or(m.Thresholds, 200) }

// Sums is 2 for each threshold.
func (m AUC) Sums(output, y shapes.Shape) (int, error) {
	if labels(y) && classes(output) != 2 {
		return 0, want(m, fmt.Sprintf("labels of %d classes", classes(output)), "labels of two, or targets of 0 and 1")
	}
	return 2 * m.thresholds(), nil
}

// Apply counts answers above each threshold, where the target is 1 and where it is 0.
func (m AUC) Apply(b Batch) *graph.Node {
	p := b.Output
	if labels(b.Y.Shape()) {
		p = graph.Sigmoid(b.difference())
	} else if b.Logits {
		p = graph.Sigmoid(p)
	}
	limits := make([]float32, m.thresholds())
	for i := range limits {
		limits[i] = float32(float64(i) / float64(len(limits)-1))
	}
	limits[0] = -1e-7 // all answers are above it
	size, n := p.Shape().Size(), len(limits)
	spread := func(x *graph.Node) *graph.Node { return graph.BroadcastToDims(graph.Reshape(x, size, 1), size, n) }
	above := float(graph.GreaterThan(spread(p), graph.BroadcastToDims(graph.Reshape(graph.Const(p.Graph(), limits), 1, n), size, n)))
	count := func(is *graph.Node) *graph.Node {
		return graph.ReduceSum(graph.Mul(above, spread(graph.Mul(float(is), b.Weight))), 0)
	}
	is := b.isOne()
	return graph.Concatenate([]*graph.Node{count(is), count(graph.LogicalNot(is))}, 0)
}

// Value is NaN where all targets are the same.
func (m AUC) Value(sums []float64) float64 {
	n := len(sums) / 2
	hit, wrong := sums[:n], sums[n:]
	area := 0.0
	for i := range n {
		last := i == n-1
		nextHit, nextWrong := 0.0, 0.0
		if !last {
			nextHit, nextWrong = hit[i+1], wrong[i+1]
		}
		area += (wrong[i] - nextWrong) * (hit[i] + nextHit) / 2
	}
	if all := hit[0] * wrong[0]; all > 0 {
		return area / all
	}
	return math.NaN()
}
