package fit

import (
	"math"
	"slices"
	"strings"
	"testing"

	"gaiden/lib/fit/step"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestGradients holds that a loop of your own over batches is Fit: the same losses and weights,
// with dropout and batch norm, clipped by the optimizer and by hand, and added up.
func TestGradients(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := body()
	net.Layers = append(net.Layers[:2:2], models.Dropout{Name: "drop", Rate: 0.2}, net.Layers[2])
	adam := optim.Adam{LearningRate: 0.01}
	frozen := optim.Groups{Optimizer: adam, Groups: []optim.Group{{Names: []string{"body/*"}, Frozen: true}}}
	for name, tt := range map[string]struct {
		fit, loop Config
		change    func(*step.Gradients) *step.Gradients
	}{
		"adam":    {Config{Optimizer: adam}, Config{Optimizer: adam}, func(g *step.Gradients) *step.Gradients { return g }},
		"clipped": {Config{Optimizer: optim.Clipped{Optimizer: adam, Norm: 0.05}}, Config{Optimizer: adam}, func(g *step.Gradients) *step.Gradients { return g.Clip(0.05) }},
		"limited": {Config{Optimizer: optim.Clipped{Optimizer: optim.SGD{}, Value: 0.01}}, Config{Optimizer: optim.SGD{}}, func(g *step.Gradients) *step.Gradients { return g.ClipValue(0.01) }},
		"twice":   {Config{Optimizer: optim.SGD{LearningRate: 0.02}}, Config{Optimizer: optim.SGD{LearningRate: 0.01}}, func(g *step.Gradients) *step.Gradients { return g.Add(g).Scale(1) }},
		"devices": {Config{Optimizer: adam, Devices: 2, AllDevices: true}, Config{Optimizer: adam, Devices: 2, AllDevices: true}, func(g *step.Gradients) *step.Gradients { return g }},
		"groups":  {Config{Optimizer: optim.EMA{Optimizer: frozen}, BF16: true}, Config{Optimizer: optim.EMA{Optimizer: frozen}, BF16: true}, func(g *step.Gradients) *step.Gradients { return g }},
	} {
		tt.fit.Seed, tt.loop.Seed = 2, 2
		a, b := attach(t, s, "a", net, tt.fit), attach(t, s, "b", net, tt.loop)
		d := digits(40, []int{6}, 1)
		want, err := a.Fit(load(t, a, "bars", d), Train{Epochs: 2, Batch: 16, InOrder: true})
		if err != nil {
			t.Fatal(err)
		}
		load(t, b, "bars", d)
		for i := range 6 {
			batch := step.Batch{Data: "bars"}
			for k := i % 3 * 16; k < min(40, i%3*16+16); k++ {
				batch.Examples = append(batch.Examples, int32(k))
			}
			g := tt.change(b.Gradients(batch))
			if loss, err := g.Loss(); err != nil || math.Abs(loss-float64(want.Losses[i])) > 1e-5 {
				t.Errorf("%s: loss %d is %v, %v, want %v", name, i, loss, err, want.Losses[i])
			}
			if err := b.Apply(g); err != nil {
				t.Fatal(err)
			}
			if err := b.Apply(g); err == nil || !strings.Contains(err.Error(), "applied already") {
				t.Errorf("%s: applied twice: got %v", name, err)
			}
		}
		x, y := weightsOf(t, a), weightsOf(t, b)
		for name := range x {
			for i := range x[name] {
				if d := math.Abs(float64(x[name][i] - y[name][i])); d > 2e-5 {
					t.Errorf("%s: number %d is %v, want %v", name, i, y[name][i], x[name][i])
				}
			}
		}
		for _, n := range []*Net{a, b} {
			if err := n.Reset(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestGradientsLook holds what gradients say of themselves, which batches a set has, and which
// gradients are refused.
func TestGradientsLook(t *testing.T) {
	t.Parallel()
	s := open(t)
	n := attach(t, s, "n", body(), Config{Seed: 1, Optimizer: optim.SGD{LearningRate: 1e30}})
	other := attach(t, s, "other", body(), Config{Seed: 1})
	set := load(t, n, "bars", digits(40, []int{6}, 1))
	load(t, other, "bars", digits(40, []int{6}, 1))
	var seen []int32
	var batches []step.Batch
	for b := range set.Batches(16) {
		batches = append(batches, b)
		seen = append(seen, b.Examples...)
	}
	if in := slices.Clone(seen); len(batches) != 3 || len(batches[2].Examples) != 8 || slices.IsSorted(seen) {
		t.Errorf("batches of %v", seen)
	} else if slices.Sort(in); in[0] != 0 || in[39] != 39 || len(slices.Compact(in)) != 40 {
		t.Errorf("not each example is in a batch once: %v", in)
	}
	g := n.Gradients(batches[0])
	square := 0.0
	for _, name := range g.Names() {
		x, err := g.Values(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range x {
			square += float64(v) * float64(v)
		}
	}
	norm, err := g.Norm()
	if err != nil || math.Abs(norm-math.Sqrt(square)) > 1e-4*norm {
		t.Errorf("Norm is %v, %v, want %v", norm, err, math.Sqrt(square))
	}
	norms, err := g.Norms()
	for name, n := range norms {
		square -= n * n
		if x, err := g.Values(name); err != nil || len(x) == 1 && math.Abs(math.Abs(float64(x[0]))-n) > 1e-6 {
			t.Errorf("%s: got a norm of %g of %v, %v", name, n, x, err)
		}
	}
	if err != nil || len(norms) != len(g.Names()) || math.Abs(square) > 1e-4*norm*norm {
		t.Errorf("Norms: got %v, %v, want those of all weights, together %g", norms, err, norm)
	}
	if norm, err = g.Clip(0.01).Norm(); err != nil || math.Abs(norm-0.01) > 1e-5 {
		t.Errorf("Norm after Clip is %v, %v", norm, err)
	}
	before := weightsOf(t, n)["head/weights"]
	stepped := attach(t, s, "stepped", body(), Config{Step: func(s *step.Step) { s.Minimize(losses.Mean(losses.CrossEntropy{}, s.Forward(s.X), s.Y)) }})
	load(t, stepped, "bars", digits(40, []int{6}, 1))
	for what, tt := range map[string]struct {
		err  error
		want string
	}{
		"another net":   {other.Apply(g), "gradients of another net"},
		"added":         {n.Apply(n.Gradients(batches[0]).Add(other.Gradients(batches[0]))), "Add of those of another net"},
		"not finite":    {n.Apply(n.Gradients(batches[0]).Scale(1e30)), "the net keeps those it has"},
		"NaN":           {n.Apply(n.Gradients(batches[0]).Clip(math.NaN())), "clip by NaN: want a finite number"},
		"no batch":      {n.Apply(n.Gradients(step.Batch{Data: "bars"})), "batch of 0 examples of bars: want 1 or more"},
		"no example":    {n.Apply(n.Gradients(step.Batch{Data: "bars", Examples: []int32{40}})), "numbers from 0 to 39"},
		"no set":        {n.Apply(n.Gradients(step.Batch{Data: "none"})), `batch of "none"`},
		"no weight":     {second(n.Gradients(batches[0]).Values("hed")), `no weight "hed"`},
		"nothing":       {n.Apply(nil), "got no gradients"},
		"a step's":      {stepped.Gradients(batches[0]).Err(), "Config.Step"},
		"a part of net": {n.Part("body").Apply(n.Part("body").Gradients(batches[0])), "does not change by itself"},
	} {
		if tt.err == nil || !strings.Contains(tt.err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", what, tt.err, tt.want)
		}
	}
	if !slices.Equal(before, weightsOf(t, n)["head/weights"]) {
		t.Error("weights changed by what was refused")
	}
}

// TestGradientsOfEarlierSet: a set that another cell has uploaded is as good as an own one.
func TestGradientsOfEarlierSet(t *testing.T) {
	t.Parallel()
	s := open(t)
	load(t, attach(t, s, "earlier", body(), Config{Seed: 2}), "earlier/bars", digits(40, []int{6}, 1))
	n := attach(t, s, "earlier", body(), Config{Seed: 2})
	if loss, err := n.Gradients(step.Batch{Data: "earlier/bars", Examples: []int32{0, 1, 2}}).Loss(); err != nil || !(loss > 0) {
		t.Errorf("got loss %v, %v, want one", loss, err)
	}
	if _, err := n.Gradients(step.Batch{Data: "none", Examples: []int32{0}}).Loss(); err == nil || !strings.Contains(err.Error(), `batch of "none"`) {
		t.Errorf("set that is not there: got %v, want an error with its name", err)
	}
}
