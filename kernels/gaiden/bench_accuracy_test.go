package main

import (
	"math"
	"testing"

	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// TestFirstWeights holds what nets of one seed begin with: what a seed gives today, it
// gives in a year. Benchmark accuracy records the same of the device that it runs on,
// so that a GPU's can be held against these, of a CPU.
func TestFirstWeights(t *testing.T) {
	s := inSession(t)
	for _, tt := range []struct {
		net            models.Net
		squares, place float64
	}{
		{models.SeedCNN(), 493.6609641226047, 99022.54789078607},
		{models.MLP(1000), 2011.4507138080369, 843329.2606021626},
		{models.KerasCNN(), 315.0750050382264, 559344.8971414194},
	} {
		net := fit.New(tt.net.Name, tt.net, fit.Config{Session: s, Seed: 1})
		if err := net.Reset(); err != nil {
			t.Fatal(err)
		}
		got, err := firstWeights(net)
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got.squares/tt.squares-1) > 1e-6 || math.Abs(got.place/tt.place-1) > 1e-6 {
			t.Errorf("%s: got %.9g and %.9g, want %.9g and %.9g", tt.net.Name, got.squares, got.place, tt.squares, tt.place)
		}
	}
}
