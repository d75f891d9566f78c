package optim

import (
	"math"
	"slices"
	"strings"
	"testing"
)

// TestPlateau holds the rates to what Keras 3's ReduceLROnPlateau sets after the same
// results, worked out by its source.
func TestPlateau(t *testing.T) {
	nan := math.NaN()
	for _, tt := range []struct {
		name    string
		p       ReduceOnPlateau
		results []float64
		want    []float64
	}{
		{"patience", ReduceOnPlateau{Patience: 2, Factor: 0.5}, []float64{3, 2, 2, 2, 2, 2, 1, 1}, []float64{8, 8, 8, 4, 4, 2, 2, 2}},
		{"too little better", ReduceOnPlateau{Patience: 1, Factor: 0.5, MinDelta: 0.1}, []float64{3, 2.95, 2.85, 2.8}, []float64{8, 4, 4, 2}},
		{"cooldown", ReduceOnPlateau{Patience: 1, Factor: 0.5, Cooldown: 2}, []float64{3, 3, 3, 3, 3, 3}, []float64{8, 4, 4, 2, 2, 1}},
		{"least rate", ReduceOnPlateau{Patience: 1, MinRate: 3}, []float64{3, 3, 3}, []float64{8, 3, 3}},
		{"no number", ReduceOnPlateau{Patience: 2, Factor: 0.5}, []float64{nan, nan, 1, nan, nan}, []float64{8, 4, 4, 4, 2}},
		{"off", ReduceOnPlateau{}, []float64{3, 3, 3}, []float64{8, 8, 8}},
	} {
		var s Plateau
		rate, got := 8.0, []float64{}
		for _, r := range tt.results {
			rate = s.Next(tt.p, r, rate)
			got = append(got, rate)
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
	for want, p := range map[string]ReduceOnPlateau{"": {}, "no Patience": {Factor: 0.5}, "Factor is 1": {Patience: 1, Factor: 1}, "Patience -1": {Patience: -1}, "MinRate NaN": {Patience: 1, MinRate: nan}} {
		if err := p.Check(); want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: got %v, want %q", p, err, want)
		}
	}
}
