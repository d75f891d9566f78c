package fit

import (
	"fmt"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/metrics"
)

// measured are metrics of a set: of the results of a batch, each has some sums, one after
// the other, behind those of the loss.
type measured []oneMeasured

type oneMeasured struct {
	metrics.Metric
	sums int
	// right: it is the accuracy of labels some of which may not count, which a Score has apart:
	// its sums are the correct answers and how many labels there were.
	right bool
}

// size is how many sums there are.
func (all measured) size() (n int) {
	for _, m := range all {
		n += m.sums
	}
	return n
}

// values are the metrics of their sums.
func (all measured) values(sums []float64) []result.Metric {
	var l []result.Metric
	for _, m := range all {
		if !m.right {
			l = append(l, result.Metric{Name: m.Title(), Value: m.Value(sums[:m.sums])})
		}
		sums = sums[m.sums:]
	}
	return l
}

// answers are how many labels counted, of the sums; all where each does.
func (all measured) answers(sums []float64, every int) int {
	if len(all) > 0 && all[0].right {
		return int(math.Round(sums[1]))
	}
	return every
}

// maximizes says whether larger results of a name are better: "" and loss are the loss.
// The error says which names there are.
func (all measured) maximizes(name string, labels bool) (bool, error) {
	names := []string{"loss"}
	if labels {
		names = append(names, "accuracy")
	}
	if name == "" || slices.Contains(names, name) {
		return name == "accuracy", nil
	}
	for _, m := range all {
		if m.Title() == name {
			return m.Maximize(), nil
		}
		if m.right {
			continue
		}
		names = append(names, m.Title())
	}
	return false, fmt.Errorf("Monitor is %q: want one of %q, or another metric in Config.Metrics", name, names)
}

// measured are the net's metrics of a set that fits; see checkMetrics.
func (n *Net) measured(s *Set) measured {
	if n.config.Step != nil {
		return n.reported(s)
	}
	all, _ := n.metricsOf(s.labelled())
	if n.labelled(s) && (n.ignores() || s.shapeOf("v").Ok()) {
		all = append(measured{{metrics.Accuracy{}, 2, true}}, all...)
	}
	return all
}

// metricsOf are the net's metrics of labels or of numbers. A score of labels has its accuracy
// anyway.
func (n *Net) metricsOf(labels bool) (all measured, err error) {
	output, y := n.batchShapes(2, labels)
	for _, m := range n.config.Metrics {
		if _, is := m.(metrics.Accuracy); is && labels {
			continue
		}
		m, err := n.ofPart(m)
		if err != nil {
			return nil, err
		}
		sums, err := m.Sums(output, y)
		if err != nil {
			return nil, err
		}
		if sums < 1 {
			return nil, fmt.Errorf("metric %s has %d sums: want 1 or more", m.Title(), sums)
		}
		all = append(all, oneMeasured{Metric: m, sums: sums})
	}
	return all, nil
}

// ofPart is a metric that knows where the results of its part of a losses.Joint are.
func (n *Net) ofPart(m metrics.Metric) (metrics.Metric, error) {
	of, is := m.(metrics.Of)
	joint, parts := n.config.Loss.(losses.Joint)
	if !is || !parts {
		return m, nil
	}
	output, y, loss := joint.Find(of.Part)
	if loss == nil {
		return nil, fmt.Errorf("metric %s is of part %q: want one of %s", of.Title(), of.Part, joint.Title())
	}
	_, labels := loss.(losses.CrossEntropy)
	_, logits := loss.(losses.BinaryCrossEntropy)
	return of.At(metrics.Span{Output: output, Y: y, Labels: labels, Logits: logits}), nil
}

// batchShapes are the shapes of what the net returns for a batch, and of its targets.
func (n *Net) batchShapes(size int, labels bool) (output, y shapes.Shape) {
	output = shapes.Make(dtypes.Float32, append([]int{size}, n.output...)...)
	if labels {
		return output, shapes.Make(dtypes.Int32, append([]int{size}, n.positions()...)...)
	}
	if joint, is := n.config.Loss.(losses.Joint); is && len(joint) > 0 && joint[len(joint)-1].Name != "" {
		_, y, _ := joint.Find(joint[len(joint)-1].Name)
		return output, shapes.Make(dtypes.Float32, size, y[1])
	}
	return output, output
}

// metricsFit says why a set is none for the net's metrics.
func (n *Net) metricsFit(s *Set) error {
	whole := slices.ContainsFunc(n.config.Metrics, func(m metrics.Metric) bool { _, is := m.(metrics.Of); return !is })
	if whole && !s.labelled() && s.targets != shapes.Make(dtypes.Float32, n.output...).Size() {
		if _, is := n.config.Loss.(losses.Joint); is {
			return fmt.Errorf("fit: %s: Config.Metrics has one of the whole of %d results: want metrics.Of{Part: …, Metric: …}, of a part of the losses.Joint", n.name, shapes.Make(dtypes.Float32, n.output...).Size())
		}
		return fmt.Errorf("fit: %s: Config.Metrics for %s, which has %s, %d an example, and the net returns %v: want as many, or no metrics", n.name, s.Name, s.kind(), s.targets, n.output)
	}
	return n.checkMetrics(s.labelled())
}

// checkMetrics says which metric does not fit labels or numbers as targets. It writes each
// once, so that a function of your own fails here and not in a training.
func (n *Net) checkMetrics(labels bool) error {
	if len(n.config.Metrics) == 0 {
		return nil
	}
	if err, known := n.metricErrors[labels]; known {
		return err
	}
	all, err := n.metricsOf(labels)
	if err != nil {
		err = fmt.Errorf("fit: %s: %w", n.name, err)
	}
	for _, m := range all {
		if err != nil {
			break
		}
		_, err = n.trace("metric "+m.Title(), func(t *trace) []*Node {
			output, y := n.batchShapes(2, labels)
			b := metrics.Batch{Output: Parameter(t.g, "output", output), Y: Parameter(t.g, "y", y)}
			b.Weight = Ones(t.g, shapes.Make(dtypes.Float32, y.Dimensions...))
			x := m.Apply(b)
			if want := shapes.Make(dtypes.Float32, m.sums); !x.Shape().Equal(want) {
				panic(fmt.Errorf("it returns %s, want %s, because it has %d sums", x.Shape(), want, m.sums))
			}
			return []*Node{x}
		})
	}
	if n.metricErrors == nil {
		n.metricErrors = map[bool]error{}
	}
	n.metricErrors[labels] = err
	return err
}

// columns of the result of a step: mean loss, number it was divided by, right answers; behind
// them are the sums of metrics.
const lossColumns = 3

// columns is how many numbers are the result of a step.
func (n *Net) columns(s *Set) int { return lossColumns + n.measured(s).size() }

// sums are those of the metrics of a batch, one after another; nil without metrics. A target
// counts once, as in the accuracy, or not at all: where the loss ignores it, its weight is 0, or
// mask is 0, as for the examples that fill the last batch. right is how many answers are.
func (t *trace) sums(s *Set, out *Node, b batch, mask, right *Node) *Node {
	all := t.net.measured(s)
	if len(all) == 0 {
		return nil
	}
	t.mark("metrics")
	y, weight := b.y, Ones(t.g, shapes.Make(dtypes.Float32, b.y.Shape().Dimensions...))
	if s.labelled() && t.net.ignores() {
		counts := GreaterOrEqual(y, ZerosLike(y))
		weight, y = ConvertDType(counts, dtypes.Float32), Where(counts, y, ZerosLike(y))
	}
	if b.v != nil {
		v := losses.Spread(b.v, y)
		if weight = Mul(weight, ConvertDType(NotEqual(v, ZerosLike(v)), dtypes.Float32)); y.DType().IsFloat() {
			y = losses.Seen(y, v)
		}
	}
	if mask != nil {
		one := Reshape(mask, append([]int{mask.Shape().Size()}, slices.Repeat([]int{1}, y.Rank()-1)...)...)
		weight = Mul(weight, BroadcastToDims(one, y.Shape().Dimensions...))
	}
	_, logits := t.net.lossOf(s).(losses.BinaryCrossEntropy)
	var l []*Node
	for _, m := range all {
		if m.right {
			l = append(l, Stack([]*Node{right, ReduceAllSum(weight)}, 0))
			continue
		}
		l = append(l, m.Apply(metrics.Batch{Output: StopGradient(out), Y: y, Weight: weight, Logits: logits}))
	}
	return Concatenate(l, 0)
}

// row is the result of a batch [1 columns].
func row(sum, weight, right, sums *Node) *Node {
	r := Stack([]*Node{sum, weight, right}, 0)
	if sums != nil {
		r = Concatenate([]*Node{r, sums}, 0)
	}
	return Reshape(r, 1, r.Shape().Size())
}
