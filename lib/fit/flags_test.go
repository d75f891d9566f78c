package fit

import (
	"math"
	"testing"

	"gaiden/lib/models"
)

// TestOneDNN holds that a net whose convolutions are oneDNN's learns what it
// learns without, the same twice, and that the session outlives the saving of its
// programs.
func TestOneDNN(t *testing.T) {
	t.Parallel()
	s := open(t)
	losses := func(name string, with bool) []float32 {
		net := models.Net{Name: "net", Input: []int{20, 20, 3}, Layers: []models.Layer{
			models.Conv2D{Name: "c1", Channels: 6, Kernel: 5, Act: models.ReLU}, // [n 16 16 6]: its weights' gradient is a product
			models.MaxPool2D{Name: "p1", Window: 4},
			models.Conv2D{Name: "c2", Channels: 8, Kernel: 3, Act: models.ReLU}, // [n 2 2 8]: its image's is
			models.Flatten{Name: "f"},
			models.Dense{Name: "output", Units: 10}}}
		n := attach(t, s, name, net, Config{Seed: 1, OneDNN: with})
		h, err := n.Fit(load(t, n, "bars", digits(64, net.Input, 1)), Train{Epochs: 3, Batch: 8})
		if err != nil {
			t.Fatal(err)
		}
		return h.Losses
	}
	want, got, again := losses("without", false), losses("with", true), losses("again", true)
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); d > 1e-4*math.Max(1, float64(want[i])) {
			t.Errorf("loss %d: got %v, want %v", i, got[i], want[i])
		}
		if again[i] != got[i] {
			t.Errorf("loss %d: got %v, want %v as before", i, again[i], got[i])
		}
	}
	if _, err := s.Status(); err != nil {
		t.Error(err)
	}
	// One channel, of which oneDNN makes a wrong gradient.
	one := models.Net{Name: "net", Input: []int{13, 6, 2}, Layers: []models.Layer{
		models.Conv2D{Name: "c1", Channels: 1, Kernel: 1},
		models.Flatten{Name: "f"},
		models.Dense{Name: "output", Units: 10}}}
	d := formulaData("SeedCNN", 4, 13*6*2, 0)
	var gradients [2]map[string][]float32
	for i, name := range []string{"one", "other"} {
		n := attach(t, s, name, one, Config{OneDNN: i == 1})
		_, gradients[i] = oneStep(t, n, d, 4)
	}
	compare(t, gradients[1], gradients[0], 1e-4)
}

// TestFirstLook holds that a net whose programs are compiled for a first look has
// programs of its own, the same first weights, and learns the same.
func TestFirstLook(t *testing.T) {
	t.Parallel()
	s := open(t)
	losses := func(name string, first bool) []float32 {
		c := Config{Seed: 1, FirstLook: first}
		if !first {
			c.Flags = optimized
		}
		n := attach(t, s, name, small(), c)
		h, err := n.Fit(load(t, n, "bars", digits(64, small().Input, 1)), Train{Epochs: 3, Batch: 8})
		if err != nil {
			t.Fatal(err)
		}
		return h.Losses
	}
	want, got := losses("net", false), losses("net2", true)
	for i := range want {
		if d := math.Abs(float64(got[i] - want[i])); d > 1e-4*math.Max(1, float64(want[i])) {
			t.Errorf("loss %d: got %v, want %v", i, got[i], want[i])
		}
	}
}
