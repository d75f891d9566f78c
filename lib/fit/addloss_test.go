package fit

import (
	"math"
	"strings"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// ridge is a layer that adds a tenth of its weights' squares to the loss.
type ridge struct{ models.Dense }

func (l ridge) Apply(scope *model.Scope, x *Node) *Node {
	y := l.Dense.Apply(scope, x)
	w := scope.GetVariable("weights").NodeValue(x.Graph())
	models.AddLoss(MulScalar(ReduceAllSum(Square(w)), 0.05))
	models.AddLoss(MulScalar(ReduceAllSum(Square(w)), 0.05))
	return y
}

// TestAddLoss holds that what a layer adds counts, in the gradient too: a step of SGD is that
// of the loss with weight decay, whatever the batch is divided into.
func TestAddLoss(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := func(l models.Layer) models.Net {
		return models.Net{Name: "ridge", Input: []int{6}, Layers: []models.Layer{l}}
	}
	dense := models.Dense{Name: "out", Units: 10, NoBias: true}
	for name, c := range map[string]Config{"plain": {}, "devices": {Devices: 2, AllDevices: true}, "packed": {}, "bf16": {BF16: true},
		"step": {Step: func(s *step.Step) {
			s.Minimize(Add(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y), s.Added()))
		}}} {
		c.Seed, c.Optimizer = 1, optim.SGD{LearningRate: 0.1}
		a := attach(t, s, "adds", net(ridge{dense}), c)
		a.packing = name == "packed"
		c.Optimizer = optim.SGD{LearningRate: 0.1, WeightDecay: 0.2}
		if c.Step != nil {
			c.Step = nil
		}
		b := attach(t, s, "decays", net(dense), c)
		train := load(t, a, "bars", digits(50, []int{6}, 1))
		squares := 0.0
		for _, w := range weightsOf(t, b)["out/weights"] {
			squares += float64(w) * float64(w)
		}
		x, err := a.Evaluate(train)
		if err != nil {
			t.Fatal(err)
		}
		y, err := b.Evaluate(train)
		if err != nil {
			t.Fatal(err)
		}
		if d := x.Loss - y.Loss - 0.1*squares; math.Abs(d) > 2e-3 {
			t.Errorf("%s: Evaluate gives %v with %v added, %v without", name, x.Loss, 0.1*squares, y.Loss)
		}
		h, err := a.Fit(train, Train{Epochs: 2, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		g, err := b.Fit(train, Train{Epochs: 2, Batch: 16})
		if err != nil {
			t.Fatal(err)
		}
		if d := float64(h.Losses[0]-g.Losses[0]) - 0.1*squares; math.Abs(d) > 2e-3 {
			t.Errorf("%s: Fit gives %v with %v added, %v without", name, h.Losses[0], 0.1*squares, g.Losses[0])
		}
		w := weightsOf(t, b)["out/weights"]
		for i, v := range weightsOf(t, a)["out/weights"] {
			if d := math.Abs(float64(v - w[i])); d > 1e-5 && !(c.BF16 && d < 5e-3) {
				t.Errorf("%s: weight %d is %v, want %v", name, i, v, w[i])
			}
		}
		for _, n := range []*Net{a, b} {
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
	n := attach(t, s, "left", net(ridge{dense}), Config{Step: func(s *step.Step) { s.Minimize(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y)) }})
	if _, err := n.Fit(load(t, n, "bars", digits(50, []int{6}, 1)), Train{}); err == nil || !strings.Contains(err.Error(), "want Step.Added") {
		t.Errorf("a step that leaves it out: got %v", err)
	}
}

// TestVAE holds that a variational autoencoder learns, as one function that draws from its
// latent space and adds its KL divergence.
func TestVAE(t *testing.T) {
	t.Parallel()
	s := open(t)
	vae := models.Net{Name: "vae", Input: []int{8}, Function: func(scope *model.Scope, in models.Inputs) *Node {
		h := models.Call(scope, models.Dense{Name: "encoder", Units: 16, Act: Tanh}, in["x"])
		mean, log := models.Call(scope, models.Dense{Name: "mean", Units: 2}, h), models.Call(scope, models.Dense{Name: "log", Units: 2}, h)
		models.AddLoss(MulScalar(Sub(Add(Square(mean), Exp(log)), OnePlus(log)), 0.05))
		z := Add(mean, Mul(Exp(MulScalar(log, 0.5)), scope.RandomNormal(h.Graph(), mean.Shape())))
		return models.Call(scope, models.Dense{Name: "decoder", Units: 8}, z)
	}}
	n := attach(t, s, "vae", vae, Config{Seed: 1, Loss: losses.MSE{}})
	train := load(t, n, "bars", Data{X: digits(64, []int{8}, 1).X, Y: SameX})
	h, err := n.Fit(train, Train{Epochs: 60, Batch: 32, LearningRate: 0.01})
	if err != nil {
		t.Fatal(err)
	}
	if first, last := h.Losses[0], h.Last().Train.Loss; last > 0.5*float64(first) {
		t.Errorf("the loss fell from %v to %v: want less than half", first, last)
	}
}
