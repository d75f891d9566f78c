package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/data"
	"gaiden/lib/engine/device/devicetest"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/metrics"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

func TestMain(m *testing.M) {
	devicetest.Play(session.Version, nil)
	os.Exit(m.Run())
}

func TestGrid(t *testing.T) {
	got := Grid(map[string][]float64{"rate": {1, 2}, "units": {3, 4}})
	want := []Settings{{"rate": 1, "units": 3}, {"rate": 1, "units": 4}, {"rate": 2, "units": 3}, {"rate": 2, "units": 4}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	ranges := map[string]Range{"rate": {From: 1e-4, To: 1, Log: true}, "units": {From: 8, To: 64, Whole: true}, "drop": {To: 0.5}, "width": {Values: []float64{32, 64, 256}}}
	a, err := Random(200, 1, ranges)
	if err != nil {
		t.Fatal(err)
	}
	b, _ := Random(200, 1, ranges)
	if !reflect.DeepEqual(a, b) || reflect.DeepEqual(a[0], a[1]) {
		t.Error("one seed twice: got other settings")
	}
	small, widths := 0, map[float64]int{}
	for _, s := range a {
		if s["rate"] < 1e-4 || s["rate"] > 1 || s["units"] != math.Round(s["units"]) || s.Int("units") < 8 || s.Int("units") > 64 || s["drop"] > 0.5 {
			t.Errorf("got %v, want values of the ranges", s)
		}
		if s["rate"] < 1e-2 {
			small++
		}
		widths[s["width"]]++
	}
	if small < 70 || small > 130 {
		t.Errorf("got %d of 200 rates below 0.01, want about half", small)
	}
	if len(widths) != 3 || min(widths[32], widths[64], widths[256]) < 40 {
		t.Errorf("got widths %v of 200, want each of the list about as often", widths)
	}
	for _, bad := range []Range{{Values: []float64{}}, {Values: []float64{1}, To: 2}, {From: 1}, {From: 0, To: 1, Log: true}, {From: math.NaN()}, {To: math.Inf(1)}} {
		if _, err := Random(1, 1, map[string]Range{"x": bad}); err == nil {
			t.Errorf("%+v: got no error", bad)
		}
	}
}

// TestRefused: what cannot be searched is said before all trials have run.
func TestRefused(t *testing.T) {
	tries := 0
	train := func(Settings) (*fit.History, error) {
		tries++
		return &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: result.Score{Loss: 1, Metrics: []result.Metric{{Name: "f1"}}}}}}, nil
	}
	if _, err := Run([]Settings{{}, {}}, "acc", train); err == nil || tries != 1 || !strings.Contains(err.Error(), `no result "acc": want one of ["loss" "f1"]`) {
		t.Errorf("an unknown result: got %v after %d trials", err, tries)
	}
	if _, err := Run([]Settings{{}}, "loss", nil); err == nil {
		t.Error("no function: got no error")
	}
	for _, n := range []int{0, -1} {
		if _, err := Random(n, 1, map[string]Range{"x": {From: 1, To: 2}}); err == nil {
			t.Errorf("%d settings: got no error", n)
		}
	}
	for _, ranges := range []map[string]Range{nil, {"x": {}}, {"x": {From: 1.2, To: 1.4, Whole: true}}} {
		if _, err := Random(1, 1, ranges); err == nil {
			t.Errorf("%v: got no error", ranges)
		}
	}
	for _, s := range must(Random(100, 1, map[string]Range{"x": {From: 0.6, To: 2.4, Whole: true}})) {
		if x := s["x"]; x != 1 && x != 2 {
			t.Errorf("got %v, want 1 or 2", x)
		}
	}
}

func must[T any](x T, err error) T {
	if err != nil {
		panic(err)
	}
	return x
}

// TestRun holds the order of trials, whatever the direction, and what a failed one is.
func TestRun(t *testing.T) {
	all := []Settings{{"x": 1}, {"x": 2}, {"x": 3}, {"x": 4}, {"x": 0}, {"x": 9}, {"x": 7}}
	train := func(s Settings) (*fit.History, error) {
		switch s["x"] {
		case 3:
			return nil, errors.New("no memory")
		case 7:
			return nil, fmt.Errorf("value %d", []int{}[s.Int("x")])
		case 0, 9: // would be the best, had they not failed
			v := result.Score{Loss: s["x"], Metrics: []result.Metric{{Name: "f1", Value: s["x"]}}}
			if s["x"] == 0 {
				panic(errors.New("no data")) // as must does
			}
			return &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: v}}}, errors.New("the loss is NaN")
		}
		worse := result.Score{Loss: 10, Metrics: []result.Metric{{Name: "f1", Value: 0}}}
		v := result.Score{Loss: s["x"], Metrics: []result.Metric{{Name: "f1", Value: s["x"] / 10}}}
		return &fit.History{Epochs: []fit.Epoch{{Number: 1, Train: worse, Validation: &v}, {Number: 2, Train: v, Validation: &worse}}}, nil
	}
	for _, tt := range []struct {
		monitor string
		want    []float64
	}{{"loss", []float64{1, 2, 4, 3, 0, 9, 7}}, {"f1", []float64{4, 2, 1, 3, 0, 9, 7}}} {
		r, err := Run(all, tt.monitor, train)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, x := range r.Trials {
			got = append(got, x.Settings["x"])
		}
		if !reflect.DeepEqual(got, tt.want) || r.Best().Epoch != 1 || r.Trials[3].Err == nil || !math.IsNaN(r.Trials[3].Value) {
			t.Errorf("%s: got %v, %+v, want %v", tt.monitor, got, r.Best(), tt.want)
		}
		if text := r.String(); !strings.Contains(text, "rank") || !strings.Contains(text, "failed: no memory") || !strings.Contains(text, "failed: panic: no data") || !strings.Contains(text, "index out of range [7]") || !strings.Contains(text, "search_test.go:") || !strings.Contains(text, tt.monitor) {
			t.Errorf("got\n%s", text)
		}
	}
	if _, err := Run(nil, "loss", train); err == nil {
		t.Error("no settings: got no error")
	}
}

// TestTrials holds that a range test leaves a net as it is and suggests a rate with which it
// learns, and that trials of one shape are compiled once.
func TestTrials(t *testing.T) {
	s, err := session.Config{Socket: devicetest.Start(t), Space: "search"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	mlp := func(units int) models.Net {
		return models.Net{Name: "mlp", Input: []int{3}, Layers: []models.Layer{models.Dense{Name: "hidden", Units: units, Act: models.ReLU}, models.Dense{Name: "output", Units: 2}}}
	}
	x, y := make([]float32, 600), make([]int32, 200)
	for i := range x {
		x[i] = float32(math.Sin(float64(i * i)))
	}
	for i := range y {
		if x[3*i] > x[3*i+1] {
			y[i] = 1
		}
	}
	net, err := fit.Attach(s, "net", mlp(8), fit.Config{Optimizer: optim.SGD{}, Metrics: []metrics.Metric{metrics.F1{}}})
	if err != nil {
		t.Fatal(err)
	}
	data, err := net.Upload("points", fit.Data{X: x, Y: y})
	if err != nil {
		t.Fatal(err)
	}
	before, err := net.Weights()
	if err != nil {
		t.Fatal(err)
	}
	c, err := RangeTest{From: 1e-4, To: 1e4, Batch: 50}.Run(net, data)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(c.Rates); n < 30 || n >= 100 || c.Rates[0] != 1e-4 || !(c.Suggestion > 1e-3 && c.Suggestion < 10) || !strings.Contains(c.String(), "suggested") {
		t.Errorf("got %d rates, %v, want one that ends early", n, c)
	}
	if after, err := net.Weights(); err != nil || !reflect.DeepEqual(before, after) {
		t.Errorf("the net has other weights than before, %v", err)
	}
	if l, err := s.List("net-"); err != nil || len(l) > 0 {
		t.Errorf("got arrays %v, %v, want none of the copy", l, err)
	}
	over, end := context.WithCancel(t.Context())
	end()
	if c, err := (RangeTest{}).Run(net.WithContext(over), data); !errors.Is(err, context.Canceled) || c == nil || !c.Stopped || len(c.Rates) > 0 {
		t.Errorf("a net whose context has ended: got %v, %v, want no steps", c, err)
	}
	warm := optim.Scheduled{Optimizer: optim.SGD{}, Schedule: optim.Warmup{Steps: 1000}}
	for _, o := range []optim.Optimizer{warm, optim.Groups{Optimizer: optim.EMA{Optimizer: warm}, Groups: []optim.Group{{Names: []string{"*/biases"}, Optimizer: warm}}}} {
		scheduled := fit.New("net", mlp(8), fit.Config{Session: s, Optimizer: o})
		if same, err := (RangeTest{From: 1e-4, To: 1e4, Batch: 50}).Run(scheduled, data); err != nil || !slices.Equal(same.Rates, c.Rates) || math.Abs(same.Losses[20]-c.Losses[20]) > 1e-5 {
			t.Errorf("with a schedule: got %v, %v, want %v", same, err, c)
		}
	}
	half := &RateCurve{Rates: []float64{1e-7, 2e-7}, Losses: []float64{1, 1}, Suggestion: math.NaN(), Stopped: true}
	if got := half.String(); got != "range test: 2 rates from 1e-07 to 2e-07; stopped before its end" {
		t.Errorf("a test that was stopped: got %s", got)
	}
	if _, err := (RangeTest{From: 2, To: 1}).Run(net, data); err == nil || !strings.Contains(err.Error(), "from 2 to 1") {
		t.Errorf("a falling rate: got %v", err)
	}
	compiled := map[int][]bool{}
	r, err := Run(Grid(map[string][]float64{"units": {4, 8}, "rate": {1e-6, 0.5}}), "f1", func(p Settings) (*fit.History, error) {
		trial, err := fit.Attach(s, "trial", mlp(p.Int("units")), fit.Config{Optimizer: optim.SGD{}, Metrics: []metrics.Metric{metrics.F1{}}})
		if err != nil {
			return nil, err
		}
		defer trial.Reset()
		before := programs(t, s)
		h, err := trial.Fit(data, fit.Train{Epochs: 10, Batch: 20, LearningRate: p["rate"], Validation: data, Quiet: true})
		compiled[p.Int("units")] = append(compiled[p.Int("units")], programs(t, s) > before)
		return h, err
	})
	if err != nil {
		t.Fatal(err)
	}
	if best := r.Best(); best.Settings["rate"] != 0.5 || best.Value < 0.9 || len(r.Trials) != 4 {
		t.Errorf("got\n%s, want 0.5 as the best rate", r)
	}
	for units, l := range compiled {
		if !reflect.DeepEqual(l, []bool{true, false}) && !reflect.DeepEqual(l, []bool{false, false}) {
			t.Errorf("%d units: got compiled %v, want once at most", units, l)
		}
	}
}

var photos = &data.Encoder{Classes: []string{"day", "night"}}

// TestKFold holds that each example is in the validation of one fold, and in what the others
// train on, with its label and the encoder of all, and that nothing stays.
func TestKFold(t *testing.T) {
	s, err := session.Config{Socket: devicetest.Start(t), Space: "folds"}.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	// One weight of 1 and a bias of 0: the output is the example.
	model := models.Net{Name: "same", Input: []int{1}, Layers: []models.Layer{models.Dense{Name: "output", Units: 1}}}
	net, err := fit.Attach(s, "net", model, fit.Config{})
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]float32, 23), make([]float32, 23)
	for i := range x {
		x[i], y[i] = float32(i), float32(i)
	}
	data, err := net.Upload("numbers", fit.Data{X: x, Y: y})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := net.Stream("stream", func(yield func(fit.Data, error) bool) { yield(fit.Data{X: x, Y: y}, nil) }, 8)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := KFold(net, stream, 2, 1, func(Fold) (*fit.History, error) { return nil, nil }); err == nil || !strings.Contains(err.Error(), "stream is a stream") {
		t.Errorf("folds of a stream: got %v", err)
	}
	seen := map[float32]int{}
	histories, err := KFold(net, data, 5, 1, func(f Fold) (*fit.History, error) {
		if err := net.SetWeights([]fit.Tensor{{Name: "output/weights", Dims: []int{1, 1}, Data: []float32{1}}, {Name: "output/biases", Dims: []int{1}, Data: []float32{0}}}); err != nil {
			return nil, err
		}
		inside := map[float32]bool{}
		for i, set := range []*fit.Set{f.Validation, f.Train} {
			p, err := net.Predict(set)
			if err != nil {
				return nil, err
			}
			score, err := net.Evaluate(set)
			if err != nil || score.Loss > 1e-9 {
				t.Errorf("fold %d: got a loss of %v, %v, want 0: examples with their targets", f.Number, score, err)
			}
			for _, v := range p.Output {
				if inside[v] {
					t.Errorf("fold %d: example %v is there twice", f.Number, v)
				}
				if inside[v] = true; i == 0 {
					seen[v]++
				}
			}
		}
		if len(inside) != 23 {
			t.Errorf("fold %d: got %d examples, want all 23", f.Number, len(inside))
		}
		return net.Fit(f.Train, fit.Train{Validation: f.Validation, Quiet: true})
	})
	if err != nil || len(histories) != 5 || len(seen) != 23 {
		t.Errorf("got %d histories, %d examples in validations, %v, want 5 and 23", len(histories), len(seen), err)
	}
	for _, prefix := range []string{"data/numbers-", "net-"} {
		if l, err := s.List(prefix); err != nil || len(l) > 0 {
			t.Errorf("got arrays %v, %v, want none of the folds", l, err)
		}
	}
	if _, err := KFold(net, data, 24, 1, nil); err == nil || !strings.Contains(err.Error(), "24 folds of the 23 examples") {
		t.Errorf("too many folds: got %v", err)
	}
	_, err = net.Upload("images", fit.Data{X: [][2][3]float32{{}, {}, {}}, Y: make([]float32, 3)})
	if err == nil {
		t.Error("images for a net of one number: want an error")
	}
	conv, err := fit.Attach(s, "conv", models.Net{Input: []int{2, 3, 1}, Layers: []models.Layer{models.Conv2D{Channels: 1, Kernel: 2}, models.Flatten{}, models.Dense{Units: 1}}}, fit.Config{FirstLook: true})
	if err != nil {
		t.Fatal(err)
	}
	images, err := conv.Upload("images", fit.Data{X: make([]float32, 18), Y: make([]float32, 3), Encoder: photos})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := KFold(conv, images, 3, 1, func(f Fold) (*fit.History, error) { // of a net that has its Input from them
		if !reflect.DeepEqual(f.Train.Encoder, photos) || !reflect.DeepEqual(f.Validation.Encoder, photos) {
			t.Errorf("encoders of a fold: got %v and %v, want %v", f.Train.Encoder, f.Validation.Encoder, photos)
		}
		return fit.New("other", models.Net{Layers: conv.Model().Layers}, fit.Config{Session: s, FirstLook: true}).Fit(f.Train, fit.Train{Quiet: true})
	}); err != nil {
		t.Error(err)
	}
	histories, err = KFold(net, data, 2, 1, func(f Fold) (*fit.History, error) {
		if f.Number == 2 {
			panic("of the second")
		}
		return &fit.History{}, nil
	})
	if err == nil || len(histories) != 1 || !strings.Contains(err.Error(), "fold 2 of 2: panic: of the second") || !strings.Contains(err.Error(), "search_test.go:") {
		t.Errorf("a panic: got %d histories, %v, want the first fold's", len(histories), err)
	}
	over, end := context.WithCancel(t.Context())
	histories, err = KFold(net.WithContext(over), data, 2, 1, func(Fold) (*fit.History, error) { end(); return &fit.History{}, nil })
	if !errors.Is(err, context.Canceled) || len(histories) != 1 {
		t.Errorf("a context that ends in a fold: got %d histories, %v, want that one", len(histories), err)
	}
	broken := errors.New("broken")
	if _, err := KFold(net, data, 2, 1, func(Fold) (*fit.History, error) { return nil, broken }); !errors.Is(err, broken) || !strings.Contains(err.Error(), "fold 1 of 2") {
		t.Errorf("an error: got %v", err)
	}
}

// programs is how many programs the session has.
func programs(t *testing.T, s *session.Session) int {
	t.Helper()
	status, err := s.Status()
	if err != nil {
		t.Fatal(err)
	}
	return status.Programs
}
