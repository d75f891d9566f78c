package fit

import (
	"math"
	"slices"
	"testing"

	"gaiden/lib/losses"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
)

// augmented is a net with each layer that changes images while it is trained.
func augmented() models.Net {
	return models.Net{Name: "augmented", Input: []int{8, 8, 1}, Layers: []models.Layer{
		models.Normalize{Name: "normalize", Mean: []float64{0.2}, Deviation: []float64{0.5}},
		models.RandomFlip{Name: "flip"},
		models.RandomAffine{Name: "affine", Degrees: 10, Shift: 0.1, Scale: 0.1},
		models.RandomCrop{Name: "crop", Pad: 1},
		models.ColorJitter{Name: "colour", Brightness: 0.2, Contrast: 0.2},
		models.Cutout{Name: "cutout", Size: 2},
		models.MixUp{Name: "mixup"},
		models.Flatten{Name: "flatten"},
		models.Dense{Name: "hidden", Units: 24, Act: models.ReLU},
		models.Dense{Name: "output", Units: 10},
	}}
}

// TestAugmented holds that augmentations work in all forms of steps, that the seed decides
// them, and that they leave tests and predictions alone.
func TestAugmented(t *testing.T) {
	t.Parallel()
	s := open(t)
	d := digits(300, []int{8, 8, 1}, 1)
	var loop []float32
	for _, tt := range []struct {
		name   string
		config Config
		like   bool // the loop's numbers
	}{
		{"loop", Config{}, true}, {"twice", Config{}, true}, {"single steps", Config{}, true}, {"unrolled", Config{}, true},
		{"BF16", Config{BF16: true}, false}, {"two devices", Config{Devices: 2, AllDevices: true}, false}, {"another seed", Config{Seed: 2}, false},
	} {
		tt.config.FirstLook = true
		n := attach(t, s, "net", augmented(), tt.config)
		switch tt.name {
		case "single steps":
			n.loop = plan.SingleSteps
		case "unrolled":
			n.unroll = 3
		}
		set := load(t, n, "bars", d)
		h, err := n.Fit(set, Train{Epochs: 6, Batch: 20, LearningRate: 0.005})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if loop == nil {
			loop = h.Losses
		}
		for i, l := range h.Losses {
			if tt.like && math.Abs(float64(l-loop[i])) > 1e-3 || !tt.like && i == 0 && l == loop[i] {
				t.Errorf("%s: loss %d is %g, and %g of the loop", tt.name, i, l, loop[i])
				break
			}
		}
		if first, last := h.Epochs[0].Train.Loss, h.Last().Train.Loss; !(last < first-0.1) {
			t.Errorf("%s: the loss went from %g to %g", tt.name, first, last)
		}
		a, err1 := n.Evaluate(set)
		b, err2 := n.Evaluate(set)
		if err1 != nil || err2 != nil || a.Loss != b.Loss {
			t.Errorf("%s: got %v, %v and %v, %v of one set", tt.name, a, err1, b, err2)
		}
		n.Reset()
	}
	n := attach(t, s, "job", augmented(), Config{FirstLook: true})
	job, err := n.FitJob(load(t, n, "bars", d), Train{Batch: 20, LearningRate: 0.005})
	if err != nil {
		t.Fatal(err)
	}
	if h, err := job.Follow(t.Context(), nil); err != nil || !near(h.Losses, loop[:15], 1e-3) {
		t.Errorf("job: got %v, %v, want %v", h, err, loop[:15])
	}
	if _, err := n.Phases(load(t, n, "bars", d), 20); err != nil {
		t.Error(err)
	}
}

func near(a, b []float32, within float64) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) <= within })
}

// TestMixUpTargets holds that targets are mixed as the examples are: with x and its target 0
// or 1, and a net that returns x, both examples of a batch have the loss s·(1-s), whose mean
// over the shares of a uniform λ is 1/6; for one of 0.5 to 1 alone it would be 1/12.
func TestMixUpTargets(t *testing.T) {
	t.Parallel()
	s := open(t)
	net := models.Net{Name: "same", Input: []int{1}, Layers: []models.Layer{models.MixUp{Name: "mix", Alpha: 1}, models.Dense{Name: "out", Units: 1, NoBias: true}}}
	n := attach(t, s, "net", net, Config{Loss: losses.MSE{}, FirstLook: true})
	if err := n.SetWeights([]Tensor{{Name: "out/weights", Dims: []int{1, 1}, Data: []float32{1}}}); err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 1000)
	for i := range x {
		x[i] = float32(i % 2)
	}
	h, err := n.Fit(load(t, n, "d", Data{X: x, Y: SameX}), Train{Batch: 2, InOrder: true, LearningRate: 1e-30})
	if err != nil {
		t.Fatal(err)
	}
	sum := 0.0
	for _, l := range h.Losses {
		if l < 0 || l > 0.2501 {
			t.Fatalf("got a loss of %g, want 0 to 1/4", l)
		}
		sum += float64(l) / float64(len(h.Losses))
	}
	if math.Abs(sum-1./6) > 0.01 {
		t.Errorf("got a mean loss of %g, want 1/6", sum)
	}
	n = attach(t, s, "classes", models.Net{Name: "c", Input: []int{16}, Layers: []models.Layer{models.MixUp{Name: "mix"}, models.Dense{Name: "out", Units: 10}}}, Config{Kernels: plainOps, FirstLook: true})
	if p, err := n.Plan(load(t, n, "bars", digits(40, []int{16}, 1)), Train{Batch: 10}); err != nil || p.Main.Kernels != nil && p.Main.Kernels.Layers != nil {
		t.Errorf("got %v, %v, want XLA's kernels, for Gaiden's mix no targets", p, err)
	}
}
