package fit

import (
	"context"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
)

// classifier is a net of vectors and two or more classes.
func classifier(inputs, classes int) models.Net {
	return models.Net{Name: "classifier", Input: []int{inputs}, Layers: []models.Layer{
		models.Dense{Name: "hidden", Units: 8, Act: models.ReLU},
		models.Dense{Name: "output", Units: classes},
	}}
}

// points are examples whose label depends on the first input.
func points(n, inputs, classes int) Data {
	x, y := make([]float32, n*inputs), make([]int32, n)
	for i := range x {
		x[i] = float32(math.Sin(float64(i*i%997 + i)))
	}
	for i := range y {
		y[i] = min(int32(classes)-1, int32((x[i*inputs]+1)/2*float32(classes)))
	}
	return Data{X: x, Y: y}
}

func metricsOf(s Score) map[string]float64 {
	m := map[string]float64{"loss": s.Loss, "accuracy": s.Accuracy()}
	for _, x := range s.Metrics {
		m[x.Name] = x.Value
	}
	return m
}

func sameMetrics(t *testing.T, what string, got, want map[string]float64) {
	t.Helper()
	if len(got) != len(want) {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
	for name, w := range want {
		if g := got[name]; !(math.Abs(g-w) < 1e-4) {
			t.Errorf("%s: %s: got %v, want %v", what, name, g, w)
		}
	}
}

// TestMetrics holds that metrics in the epoch program, in Evaluate and in jobs are what they
// are of the net's predictions, for sets that fill no last batch; and that devices that share
// a batch, single steps, packed states and unrolled loops give the same.
func TestMetrics(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	config := Config{Seed: 1, FirstLook: true, Metrics: []metrics.Metric{metrics.Accuracy{}, metrics.TopK{K: 2}, metrics.Perplexity{}, metrics.F1{},
		metrics.Func{Name: "first", Of: func(out, _ *graph.Node) *graph.Node {
			return graph.Reshape(graph.Slice(out, graph.AxisRange(), graph.AxisElem(0)), out.Shape().Dimensions[0])
		}}}}
	train := Train{Epochs: 3, Batch: 12, InOrder: true}
	run := func(name string, change func(*Net, *Train)) (*Net, *Set, *History) {
		c, tr := config, train
		n := New(name, classifier(3, 4), c)
		n.config.Session = s
		if change != nil {
			change(n, &tr)
		}
		data := load(t, n, "points", points(601, 3, 4))
		tr.Validation = data
		h, err := n.WithContext(ctx).Fit(data, tr)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return n, data, h
	}
	n, data, h := run("whole", nil)
	score, err := n.Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	p, err := n.Predict(data)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]float64{"loss": 0, "accuracy": 0, "top2": 0, "perplexity": 0, "f1": 0, "first": 0}
	counts := make([][3]float64, 4) // hits, wrong, missed
	for i, label := range data.Labels {
		row, larger := p.Row(i), 0
		for _, v := range row {
			if v > row[label] {
				larger++
			}
		}
		if larger < 2 {
			want["top2"] += 1.0 / 601
		}
		want["loss"] -= math.Log(p.Probabilities(i)[label]) / 601
		want["first"] += float64(row[0]) / 601
		if c := p.Classes[i]; c == label {
			want["accuracy"] += 1.0 / 601
			counts[c][0]++
		} else {
			counts[c][1]++
			counts[label][2]++
		}
	}
	want["perplexity"] = math.Exp(want["loss"])
	for _, c := range counts {
		want["f1"] += 2 * c[0] / (2*c[0] + c[1] + c[2]) / 4
	}
	sameMetrics(t, "Evaluate", metricsOf(*score), want)
	sameMetrics(t, "validation", metricsOf(*h.Last().Validation), want)
	if got := score.Metric("f1"); got != metricsOf(*score)["f1"] || !math.IsNaN(score.Metric("auc")) || score.Metric("accuracy") != score.Accuracy() {
		t.Errorf("Metric: got %v", got)
	}
	if text := h.String(); !strings.Contains(text, "main/top2") || !strings.Contains(text, "validation/main/f1") || !strings.Contains(score.String(), ", top2 ") {
		t.Errorf("got\n%s\n%s, want the metrics", text, score)
	}
	for _, tt := range []struct {
		name   string
		change func(*Net, *Train)
	}{
		{"devices", func(n *Net, _ *Train) { n.config.Devices, n.config.AllDevices = 2, true }},
		{"packed", func(n *Net, _ *Train) { n.packing = true }},
		{"single", func(n *Net, _ *Train) { n.loop = plan.SingleSteps }},
		{"unrolled", func(n *Net, _ *Train) { n.unroll = 5 }},
	} {
		_, _, other := run(tt.name, tt.change)
		for i, e := range other.Epochs {
			sameMetrics(t, tt.name, metricsOf(e.Train), metricsOf(h.Epochs[i].Train))
			sameMetrics(t, tt.name+", validation", metricsOf(*e.Validation), metricsOf(*h.Epochs[i].Validation))
		}
	}
	n = attach(t, s, "job", classifier(3, 4), config)
	data = load(t, n, "points", points(601, 3, 4))
	train.Validation = data
	job, err := n.FitJob(data, train)
	if err != nil {
		t.Fatal(err)
	}
	other, err := job.Follow(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, e := range other.Epochs {
		sameMetrics(t, "job", metricsOf(e.Train), metricsOf(h.Epochs[i].Train))
		sameMetrics(t, "job, validation", metricsOf(*e.Validation), metricsOf(*h.Epochs[i].Validation))
	}
}

// TestMetricsOfPositions holds that ignored labels, and targets of weight 0, do not count.
func TestMetricsOfPositions(t *testing.T) {
	t.Parallel()
	s := open(t)
	m := models.Net{Name: "tagger", Input: []int{5}, Integers: true, Layers: []models.Layer{
		models.Embedding{Name: "tokens", Vocab: 7, Units: 4}, models.Dense{Name: "head", Units: 3}}}
	n := attach(t, s, "tagger", m, Config{Seed: 1, FirstLook: true, Loss: losses.CrossEntropy{IgnoreNegative: true}, Metrics: []metrics.Metric{metrics.Perplexity{}, metrics.TopK{K: 1}}})
	x, y := make([]int32, 37*5), make([]int32, 37*5)
	for i := range x {
		if x[i], y[i] = int32(i*i%7), int32(i*i%7%3); i%3 == 1 {
			y[i] = -100
		}
	}
	data := load(t, n, "words", Data{X: x, Y: y})
	if _, err := n.Fit(data, Train{Batch: 8}); err != nil {
		t.Fatal(err)
	}
	score, err := n.Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	sameMetrics(t, "ignored labels", metricsOf(*score), map[string]float64{"loss": score.Loss, "accuracy": score.Accuracy(), "perplexity": math.Exp(score.Loss), "top1": score.Accuracy()})

	joints := attach(t, s, "joints", classifier(3, 2), Config{Seed: 1, FirstLook: true, Loss: losses.Visibility{}, Metrics: []metrics.Metric{metrics.MAE{}, metrics.R2{}}})
	d := points(45, 3, 2)
	targets, v := make([]float32, 90), make([]float32, 90)
	for i := range targets {
		if targets[i], v[i] = float32(math.NaN()), 0; i%4 > 0 {
			targets[i], v[i] = float32(math.Cos(float64(i))), 1
		}
	}
	data = load(t, joints, "joints", Data{X: d.X, Y: targets, V: v})
	p, err := joints.Predict(data)
	if err != nil {
		t.Fatal(err)
	}
	if score, err = joints.Evaluate(data); err != nil {
		t.Fatal(err)
	}
	mae := 0.0
	var sums [2][4]float64 // of each output: n, y, y², residual
	for i, y := range targets {
		if v[i] == 0 {
			continue
		}
		d := float64(p.Output[i] - y)
		mae += math.Abs(d)
		for k, x := range []float64{1, float64(y), float64(y) * float64(y), d * d} {
			sums[i%2][k] += x
		}
	}
	r2 := 0.0
	for _, s := range sums {
		r2 += (1 - s[3]/(s[2]-s[1]*s[1]/s[0])) / 2
	}
	sameMetrics(t, "weights", metricsOf(*score), map[string]float64{"loss": score.Loss, "accuracy": 0, "mae": mae / (sums[0][0] + sums[1][0]), "r2": r2})
}

func sum(l []int32) (n int) {
	for _, x := range l {
		n += int(x)
	}
	return n
}

// TestMetricsCount holds that each target counts once in metrics, as in the accuracy, whatever its
// weight is: in Evaluate, in training, where the last batch is not full, and in jobs.
func TestMetricsCount(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := points(45, 3, 4)
	for i := range 45 {
		d.V = append(d.V, float32(i%3)) // 0 does not count
	}
	n := attach(t, s, "weighted", classifier(3, 4), Config{Seed: 1, FirstLook: true, Metrics: []metrics.Metric{metrics.TopK{K: 1}}})
	data := load(t, n, "points", d)
	score, err := n.Evaluate(data)
	if err != nil {
		t.Fatal(err)
	}
	if score.N != 30 || math.Abs(score.Metric("top1")-score.Accuracy()) > 1e-6 {
		t.Errorf("Evaluate: got %v of %d, want top1 to be the accuracy of 30", score, score.N)
	}
	train := Train{Batch: 8, LearningRate: 1e-6, Validation: data, InOrder: true}
	h, err := n.Fit(data, train)
	if err != nil {
		t.Fatal(err)
	}
	if want := []int32{5, 5, 6, 5, 5, 4}; !slices.Equal(h.Answers, want) || h.Last().Train.Right != sum(h.Right) {
		t.Errorf("steps: got %v of %v, want of %v, and %d in all", h.Right, h.Answers, want, h.Last().Train.Right)
	}
	job, err := n.FitJob(data, train)
	if err != nil {
		t.Fatal(err)
	}
	other, err := job.Follow(t.Context(), nil)
	if err != nil || !slices.Equal(other.Answers, h.Answers) || other.Last().Validation.N != 30 || len(other.Last().Train.Metrics) != 1 {
		t.Errorf("a job: got %v, %v, want steps of %v", other, err, h.Answers)
	}
	for _, e := range []Score{h.Last().Train, *h.Last().Validation} {
		if e.N != 30 || math.Abs(e.Metric("top1")-e.Accuracy()) > 1e-6 {
			t.Errorf("Fit: got %v of %d, want top1 to be the accuracy of 30", e, e.N)
		}
	}
}

// TestBadMetrics holds that a metric which does not fit fails at the net's first use, or
// when data are loaded.
func TestBadMetrics(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		all         []metrics.Metric
		first, load string
	}{
		{[]metrics.Metric{metrics.F1{}, metrics.F1{Macro: true}}, `Metrics[1] is called "f1"`, ""},
		{[]metrics.Metric{nil}, "Metrics[0] is nil", ""},
		{[]metrics.Metric{metrics.TopK{K: 5}}, "", "top5: got 3 classes"},
		{[]metrics.Metric{metrics.AUC{}}, "", "labels of 3 classes"},
		{[]metrics.Metric{metrics.MAE{}}, "", "want numbers"},
		{[]metrics.Metric{metrics.Func{Name: "mine", Of: func(out, y *graph.Node) *graph.Node { return graph.Add(out, y) }}}, "", "metric mine"},
		{[]metrics.Metric{metrics.Func{Name: "mine", Of: func(out, y *graph.Node) *graph.Node { return out }}}, "", "results of shape"},
	} {
		n := New("bad", classifier(3, 3), Config{Session: s, Metrics: tt.all})
		_, err := n.Weights()
		if tt.first == "" && err == nil {
			_, err = n.Upload("points", points(20, 3, 3))
		}
		if want := tt.first + tt.load; err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: got %v, want %q", tt.all, err, want)
		}
	}
	n := attach(t, s, "own", classifier(3, 3), Config{FirstLook: true, Metrics: []metrics.Metric{ownMetric{}}})
	data := load(t, n, "points", points(20, 3, 3))
	if _, err := n.FitJob(data, Train{}); err == nil || !strings.Contains(err.Error(), "which another process does not know") {
		t.Errorf("a job with a metric of your own: got %v, want an error", err)
	}
	h, err := n.Fit(data, Train{Batch: 7})
	if err != nil || h.Last().Train.Metric("examples") != 20 {
		t.Errorf("a metric of your own: got %v, %v, want 20 examples", h, err)
	}
}

// ownMetric counts examples.
type ownMetric struct{ metrics.MAE }

func (ownMetric) Title() string                       { return "examples" }
func (ownMetric) Sums(_, _ shapes.Shape) (int, error) { return 1, nil }
func (ownMetric) Apply(b metrics.Batch) *graph.Node {
	return graph.Reshape(graph.ReduceAllSum(b.Weight), 1)
}
func (ownMetric) Value(sums []float64) float64 { return sums[0] }

// TestMetricsPlan holds that a plan says why metrics do without Gaiden's kernels, and that the
// accuracy of labels, which every score has, does not change it.
func TestMetricsPlan(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, tt := range []struct {
		all  []metrics.Metric
		want string
	}{{nil, "Gaiden's kernels"}, {[]metrics.Metric{metrics.Accuracy{}}, "Gaiden's kernels"}, {[]metrics.Metric{metrics.F1{}}, "metrics need the net's output"}} {
		n := attach(t, s, "net", classifier(3, 4), Config{Seed: 1, Metrics: tt.all})
		n.target = played("cuda", "9.0")
		p, err := n.Plan(load(t, n, "points", points(601, 3, 4)), Train{Batch: 12})
		if err != nil || !strings.Contains(p.String(), tt.want) {
			t.Errorf("%v: got %v, %v, want %q", tt.all, p, err, tt.want)
		}
	}
}
