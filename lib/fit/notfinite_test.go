package fit

import (
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/gobackend"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestNotFinite holds that a loss that is no number stops the run, names step
// and layer, and leaves good weights.
func TestNotFinite(t *testing.T) {
	for name, packed := range map[string]bool{"arrays": false, "packed": true} {
		t.Run(name, func(t *testing.T) { unusable(t, packed) })
	}
}

// explosive is SGD whose steps are endless: no weight is finite after one, whatever it was.
type explosive struct{ optim.SGD }

func (explosive) Update(rate, _, w, g *graph.Node, _ []*graph.Node) (*graph.Node, []*graph.Node) {
	return graph.Sub(w, graph.MulScalar(graph.Add(g, rate), math.Inf(1))), nil
}

func unusable(t *testing.T, packed bool) {
	s := open(t)
	ctx := context.Background()
	d := digits(100, []int{16}, 1)
	x := make([]float32, len(d.X.([]byte)))
	for i, b := range d.X.([]byte) {
		x[i] = float32(b) / 255
	}
	bad := slices.Clone(x)
	bad[57*16] = float32(math.Inf(1)) // example 57 is in step 6 of 10
	n := attach(t, s, "cnn", small(), Config{Optimizer: optim.SGD{}, FirstLook: true})
	n.packing = packed
	good := load(t, n, "good", Data{X: x, Y: d.Y})
	torn := load(t, n, "torn", Data{X: bad, Y: d.Y})
	before, err := n.WithContext(ctx).Evaluate(good)
	if err != nil {
		t.Fatal(err)
	}
	h, err := n.WithContext(ctx).Fit(torn, Train{Epochs: 2, Batch: 10, InOrder: true})
	var e *result.NotFiniteError
	if !errors.As(err, &e) {
		t.Fatalf("got error %v, want a NotFiniteError", err)
	}
	if want := "fit: cnn: loss is NaN at step 6 of epoch 1; the examples of torn are not finite at number 57; kept the weights after step "; !strings.HasPrefix(e.Error(), want) || e.Example != 57 || e.Hint() != "give example 57 of torn other numbers, or leave it out" {
		t.Errorf("got %v (%s), want %s", e, e.Hint(), want)
	}
	if h.Steps != e.Kept {
		t.Errorf("history: got %d steps, want the %d that were kept", h.Steps, e.Kept)
	}
	after, err := n.WithContext(ctx).Evaluate(good)
	if err != nil || math.IsNaN(after.Loss) || after.Loss > 2*before.Loss {
		t.Errorf("weights afterwards: got %v, %v, want good ones", after, err)
	}
	e = nil
	endless := attach(t, s, "cnn", small(), Config{Optimizer: explosive{}, FirstLook: true})
	endless.packing = packed
	_, err = endless.WithContext(ctx).Fit(good, Train{Epochs: 3, Batch: 10})
	if !errors.As(err, &e) {
		t.Fatalf("infinite learning rate: got error %v, want a NotFiniteError", err)
	}
	if found := strings.Contains(e.Error(), "; first in the weights of layer conv; kept"); found == packed || strings.Contains(e.Hint(), "names the layer") { // of packed weights that are not finite the step is not taken
		t.Errorf("infinite learning rate: got %v (%s), want the weights of conv, and no word of another way to find the layer", e, e.Hint())
	}
	last, err := n.WithContext(ctx).Evaluate(good)
	if err != nil || last.Loss != after.Loss || e.Kept != 0 {
		t.Errorf("after an infinite learning rate: got %v, %v, %v, want %v, as before", last, e, err, after)
	}
	j, err := n.FitJob(torn, Train{Epochs: 2, Batch: 10, InOrder: true})
	if err != nil {
		t.Fatal(err)
	}
	e = nil
	h, err = j.Follow(ctx, nil)
	if !errors.As(err, &e) || e.Step != 6 || e.Epoch != 1 || h.Steps != e.Kept {
		t.Errorf("as a job: got %v after %d steps, want a NotFiniteError at step 6 of epoch 1", err, h.Steps)
	}
	if last, err := n.WithContext(ctx).Evaluate(good); err != nil || math.IsNaN(last.Loss) {
		t.Errorf("weights after the job: got %v, %v, want good ones", last, err)
	}
}

// TestNotFiniteWrapped holds that no weight is written that is not finite, whatever is around
// an optimizer of your own, and where a schedule makes the steps endless.
func TestNotFiniteWrapped(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, o := range map[string]optim.Optimizer{
		"clipped":   optim.Clipped{Optimizer: explosive{}, Norm: 1},
		"groups":    optim.Groups{Optimizer: explosive{}},
		"ema":       optim.EMA{Optimizer: explosive{}},
		"scheduled": optim.Scheduled{Optimizer: explosive{}, Schedule: optim.Warmup{Steps: 3}},
		"growing":   optim.Scheduled{Optimizer: optim.SGD{}, Schedule: optim.Exponential{By: 1e30}},
	} {
		for _, packed := range []bool{false, true} {
			n := attach(t, s, name, models.Net{Input: []int{2}, Layers: []models.Layer{models.Dense{Name: "d", Units: 3, Act: models.ReLU}, models.Dense{Units: 1}}}, Config{Loss: losses.MSE{}, Optimizer: o, FirstLook: true})
			n.packing = packed
			data := load(t, n, name, Data{X: []float32{1, 2, 3, 4}, Y: []float32{1, 2}})
			_, err := n.Fit(data, Train{Epochs: 9, Batch: 1})
			var e *result.NotFiniteError
			if !errors.As(err, &e) {
				t.Errorf("%s, packed %t: got %v, want a NotFiniteError", name, packed, err)
			}
			for _, v := range n.layout.all() {
				if !v.shape.DType.IsFloat() {
					continue
				}
				a, err := s.Array(n.name + "/" + v.name)
				if err != nil {
					t.Fatal(err)
				}
				w := make([]float32, v.shape.Size())
				if err := a.Values(w); err != nil || slices.ContainsFunc(w, func(x float32) bool { return x-x != 0 }) {
					t.Errorf("%s, packed %t: %s is %v, %v, want finite numbers", name, packed, v.name, w, err)
				}
			}
			n.Reset()
		}
	}
}

// pooled is a net whose maxima hide some NaN from the loss.
func pooled() models.Net {
	return models.Net{Name: "pooled", Input: []int{4, 4, 1}, Layers: []models.Layer{
		models.Conv2D{Name: "conv", Channels: 2, Kernel: 3},
		models.MaxPool2D{Name: "pool", Window: 2, Gradient: models.SelectAndScatter},
		models.Flatten{Name: "flat"}, models.Dense{Name: "last", Units: 10},
	}}
}

// TestNotFinitePooled holds that an example is named whose NaN max pooling does not hand on
// to the loss: it is in the weights before it after the step.
func TestNotFinitePooled(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "pooled", pooled(), Config{Seed: 1, FirstLook: true})
	d := digits(40, []int{16}, 1)
	x := make([]float32, 40*16)
	x[23*16] = float32(math.NaN()) // the corner is in one number of a window
	_, err := n.Fit(load(t, n, "torn", Data{X: x, Y: d.Y}), Train{Batch: 10, InOrder: true})
	var e *result.NotFiniteError
	if !errors.As(err, &e) || e.Step != 4 || e.Part != "examples" || e.Example != 23 || e.Layer != "" {
		t.Errorf("got %v, want the examples of number 23, at step 4, the one after its own", err)
	}
}

// careless is a loss of your own, which counts what has no weight.
type careless struct{ losses.MSE }

func (careless) Apply(out, y, _ *graph.Node) (loss, weight *graph.Node) {
	return losses.MSE{}.Apply(out, y, nil)
}

// seenBut is weights of 1, and 0 for one.
func seenBut(n, one int) []float32 {
	v := slices.Repeat([]float32{1}, n)
	v[one] = 0
	return v
}

// TestNotFiniteTargets holds that targets that are not finite are named by their
// example, in whatever order the epoch has them.
func TestNotFiniteTargets(t *testing.T) {
	t.Parallel()
	n := attach(t, open(t), "peaks", models.Peaks(), Config{Seed: 1, FirstLook: true, Loss: careless{}})
	x, y := make([]float32, 2*40), make([]float32, 40)
	y[23] = float32(math.NaN())
	_, err := n.Fit(load(t, n, "torn", Data{X: x, Y: y, V: seenBut(40, 23)}), Train{Epochs: 2, Batch: 7})
	var e *result.NotFiniteError
	if !errors.As(err, &e) || e.Part != "targets" || e.Example != 23 || e.Layer != "" || !strings.Contains(err.Error(), "; the targets of torn are not finite at number 23; kept") {
		t.Errorf("got %v, want the targets of number 23", err)
	}
}

// TestLargeLoss holds that a loss is no reason to stop while it is finite.
func TestLargeLoss(t *testing.T) {
	t.Parallel()
	for _, packed := range []bool{false, true} {
		n := attach(t, open(t), "large", models.Net{Input: []int{1}, Layers: []models.Layer{models.Dense{Units: 1}}}, Config{Loss: losses.MSE{}, Optimizer: optim.SGD{LearningRate: 1e-3}, FirstLook: true})
		n.packing = packed
		h, err := n.Fit(load(t, n, "far", Data{X: []float32{1, 2}, Y: []float32{1e16, 1e16}}), Train{Epochs: 2, Batch: 2})
		if err != nil || h.Steps != 2 || !(h.Last().Train.Loss > 1e31) {
			t.Errorf("packed %t: got %v after %d steps, want 2 with a loss of more than 1e31", packed, err, h.Steps)
		}
	}
}

// TestTooLarge holds that one number that is not finite, or too large for the rate, is found in any
// gradient, also where several of one shape are looked at together.
func TestTooLarge(t *testing.T) {
	backend, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	exec, err := graph.NewExec(backend, func(all []*graph.Node) *graph.Node {
		last := len(all) - 1
		return (&trace{g: all[0].Graph()}).tooLarge(all[:last], all[last])
	})
	if err != nil {
		t.Fatal(err)
	}
	for at := -1; at < 2*checkedTogether+3; at++ {
		for _, wrong := range []float32{float32(math.NaN()), float32(math.Inf(-1)), 2e29} {
			var in []any
			for i := range 2*checkedTogether + 3 { // of two shapes
				g := make([]float32, 2+i/(2*checkedTogether+1))
				if i == at {
					g[1] = wrong
				}
				in = append(in, g)
			}
			got, err := exec.Call1(append(in, float32(10))...)
			if err != nil {
				t.Fatal(err)
			}
			if want := map[bool]float32{true: 1}[at >= 0]; got.Value() != want {
				t.Errorf("%g in gradient %d: got %v, want %g", wrong, at, got.Value(), want)
			}
		}
	}
}
