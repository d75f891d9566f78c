package fit

import (
	"iter"
	"math"
	"slices"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
)

// Settings that are used together.

// TestWeightZeroAnswers holds that labels of weight 0, such as those of padding, are no
// answers: in Fit, its validation and Evaluate, of a set, one that was found, and a stream
// with items of which nothing counts.
func TestWeightZeroAnswers(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := points(24, 3, 4)
	x, y := d.X.([]float32), d.Y.([]int32)
	positions := models.Net{Name: "positions", Input: []int{2, 3}, Layers: []models.Layer{models.Dense{Name: "output", Units: 4}}}
	for _, tt := range []struct {
		name string
		net  models.Net
		v    []float32
		want int
	}{
		{"examples", classifier(3, 4), append(make([]float32, 8), slices.Repeat([]float32{0, 0.5}, 8)...), 8},
		{"labels", positions, append(make([]float32, 4), slices.Repeat([]float32{0, 0, 0, 2, 1}, 4)...), 8},
		{"examples of positions", positions, append(make([]float32, 2), slices.Repeat([]float32{1, 0}, 5)...), 10},
	} {
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), tt.net, Config{Seed: 1, FirstLook: true, Metrics: []metrics.Metric{metrics.TopK{K: 1}}})
		examples := len(x) / shapeSize(tt.net.Input)
		each, labels := len(tt.v)/examples, len(y)/examples
		set := load(t, n, n.name, Data{X: x, Y: y, V: tt.v})
		found := attach(t, s, n.name, tt.net, n.config)
		again, err := found.Data(set.Name)
		if err != nil {
			t.Fatal(err)
		}
		var items iter.Seq2[Data, error] = func(yield func(Data, error) bool) {
			for i := range examples {
				if !yield(Data{X: x[i*labels*3 : (i+1)*labels*3], Y: y[i*labels : (i+1)*labels], V: tt.v[i*each : (i+1)*each]}, nil) {
					return
				}
			}
		}
		stream, err := n.Stream("stream", items, 4)
		if err != nil {
			t.Fatal(err)
		}
		want, err := n.Predict(set)
		if err != nil {
			t.Fatal(err)
		}
		right := 0
		for i, c := range want.Classes {
			if c == y[i] && tt.v[i*len(tt.v)/len(y)] > 0 {
				right++
			}
		}
		for _, data := range []*Set{set, again, stream} {
			score, err := n.Evaluate(data)
			if err != nil {
				t.Errorf("%s: %s: %v", tt.name, data, err)
			} else if score.Right != right || score.N != tt.want {
				t.Errorf("%s: %s: got %d of %d right, want %d of %d", tt.name, data, score.Right, score.N, right, tt.want)
			}
		}
		h, err := n.Fit(set, Train{Batch: 4, Validation: stream})
		if err != nil {
			t.Fatal(err)
		}
		if got := h.Last(); got.Train.N != tt.want || got.Validation.N != tt.want || got.Train.Right > tt.want {
			t.Errorf("%s: got %v, want %d answers", tt.name, got, tt.want)
		}
	}
}

func shapeSize(dims []int) int {
	size := 1
	for _, d := range dims {
		size *= d
	}
	return size
}

// TestBatchLossesAreWhole holds that what would be another loss in parts of a batch, or of
// targets that are not mixed, is refused.
func TestBatchLossesAreWhole(t *testing.T) {
	t.Parallel()
	s := open(t)
	joint := losses.Joint{{Name: "class", Size: 3, Loss: losses.CrossEntropy{IgnoreNegative: true}}, {Name: "number", Size: 1, Loss: losses.MSE{}}}
	mixed := classifier(3, 4)
	mixed.Layers = append([]models.Layer{models.MixUp{Name: "mix"}}, mixed.Layers...)
	numbers := Data{X: make([]float32, 24), Y: make([]float32, 16)}
	rms := losses.Func{Name: "root of the mean", Of: func(out, y *Node) *Node { return Sqrt(ReduceAllMean(Square(Sub(out, y)))) }}
	mean := losses.Func{Name: "mean", Of: func(out, y *Node) *Node { return ReduceMean(Square(Sub(out, y)), 1) }}
	outputs := Data{X: formula("x", 24), Y: make([]float32, 32)}
	weighted := outputs
	weighted.V = []float32{1, 1, 1, 1, 1, 1, 1, 0}
	for _, tt := range []struct {
		name   string
		net    models.Net
		config Config
		data   Data
		train  Train
		want   string
	}{
		{"contrastive", classifier(3, 4), Config{Loss: losses.Contrastive{}}, points(8, 3, 4), Train{Batch: 8, Accumulate: 2}, "loss of a whole batch"},
		{"devices", classifier(3, 4), Config{Loss: losses.Contrastive{}, Devices: 2, AllDevices: true}, points(8, 3, 4), Train{Batch: 8}, "loss of a whole batch"},
		{"joint", classifier(3, 4), Config{Loss: joint}, numbers, Train{Batch: 8, Accumulate: 2}, "loss of a whole batch"},
		{"function", classifier(3, 4), Config{Loss: rms}, outputs, Train{Batch: 8, Accumulate: 2}, "root of the mean is a loss of a whole batch"},
		{"function, devices", classifier(3, 4), Config{Loss: rms, Devices: 2, AllDevices: true}, outputs, Train{Batch: 8}, "or a loss of each example"},
		{"function, weights", classifier(3, 4), Config{Loss: rms}, weighted, Train{Batch: 8}, "want one for each example, of shape [8]"},
		{"function of examples", classifier(3, 4), Config{Loss: mean}, weighted, Train{Batch: 8, Accumulate: 2}, ""},
		{"plain joint", classifier(3, 4), Config{Loss: losses.Joint{{Size: 3, Loss: losses.CrossEntropy{}}, {Size: 1, Loss: losses.MSE{}}}}, numbers, Train{Batch: 8, Accumulate: 2}, ""},
		{"mixup", mixed, Config{Step: func(s *step.Step) {
			s.Minimize(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y))
		}}, points(8, 3, 4), Train{Batch: 8}, "MixUp, which mixes targets too"},
	} {
		tt.config.FirstLook = true
		n := attach(t, s, strings.ReplaceAll(tt.name, " ", "-"), tt.net, tt.config)
		_, err := n.Fit(load(t, n, n.name, tt.data), tt.train)
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.name, err, tt.want)
		}
	}
}

// TestGradientsOfBadBatch holds that a batch whose gradients are no numbers changes nothing,
// the running means of batch norms included.
func TestGradientsOfBadBatch(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "norm", models.Net{Name: "norm", Input: []int{3}, Layers: []models.Layer{models.BatchNorm{Name: "norm"}, models.Dense{Name: "output", Units: 4}}}, Config{FirstLook: true})
	d := points(16, 3, 4)
	d.X.([]float32)[4] = float32(math.NaN())
	set := load(t, n, "points", d)
	for _, tt := range []struct {
		examples []int32
		same     bool
	}{{[]int32{0, 1, 2, 3}, true}, {[]int32{4, 5, 6, 7}, false}} {
		before := allWeights(t, n)
		g := n.Gradients(step.Batch{Data: set.Name, Examples: tt.examples})
		if err := n.Apply(g); (err != nil) != tt.same {
			t.Errorf("%v: got %v", tt.examples, err)
		}
		for i, w := range allWeights(t, n) {
			if same := slices.Equal(w.Data, before[i].Data); same != tt.same {
				t.Errorf("examples %v: %s is the same: %t, want %t; got %v", tt.examples, w.Name, same, tt.same, w.Data)
			}
		}
	}
}

// TestLossFuncWeights holds that targets of weight 0 may be NaN for a loss of your own too.
func TestLossFuncWeights(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, of := range map[string]func(out, y *Node) *Node{
		"numbers":  func(out, y *Node) *Node { return Square(Sub(out, y)) },
		"examples": func(out, y *Node) *Node { return ReduceMean(Square(Sub(out, y)), 1) },
	} {
		n := attach(t, s, name, classifier(1, 2), Config{FirstLook: true, Loss: losses.Func{Name: name, Of: of}})
		nan := float32(math.NaN())
		all := load(t, n, name, Data{X: []float32{1, 2, 3}, Y: []float32{1, 2, nan, nan, 3, 4}, V: []float32{1, 0, 1}})
		some := load(t, n, name+"-some", Data{X: []float32{1, 3}, Y: []float32{1, 2, 3, 4}})
		got, want := n.Gradients(step.Batch{Data: all.Name, Examples: []int32{0, 1, 2}}), n.Gradients(step.Batch{Data: some.Name, Examples: []int32{0, 1}})
		g, err := got.Norm()
		if w, err2 := want.Norm(); err != nil || err2 != nil || !(math.Abs(g-w) < 1e-5) {
			t.Errorf("%s: got a gradient of norm %g, want %g; %v, %v", name, g, w, err, err2)
		}
	}
	if err := attach(t, s, "none", classifier(1, 2), Config{}).Apply(nil); err == nil {
		t.Error("no gradients: got no error")
	}
}

// TestStreamEndsWithRun holds that the iterator has returned when Fit has.
func TestStreamEndsWithRun(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "net", classifier(3, 4), Config{FirstLook: true})
	d := points(40, 3, 4)
	calls := make(chan int, 1)
	calls <- 0
	count := func(by int) { calls <- <-calls + by }
	stream, err := n.Stream("stream", func(yield func(Data, error) bool) {
		count(1)
		defer count(-1)
		for i := range 40 {
			if !yield(Data{X: d.X.([]float32)[3*i : 3*i+3], Y: d.Y.([]int32)[i : i+1]}, nil) {
				return
			}
		}
	}, 10)
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.Fit(stream, Train{Epochs: 50, Batch: 10, Threshold: 100})
	if err != nil || len(h.Epochs) != 1 {
		t.Fatal(h, err)
	}
	if got := <-calls; got != 0 {
		t.Errorf("got %d calls of the iterator that have not returned, want none", got)
	}
}
