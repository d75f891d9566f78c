package fit

import (
	"testing"

	"gaiden/lib/models"
)

// BenchmarkEpoch is µs per training step of an epoch program with Adam.
func BenchmarkEpoch(b *testing.B) {
	tests := []struct {
		name  string
		model models.Net
		batch int
		n     int
	}{
		{"SeedCNN", models.SeedCNN(), 8, 8000},
		{"MLP", models.MLP(1000), 100, 20000},
		{"LeNet5", models.LeNet5(), 100, 6000},
		{"KerasCNN", models.KerasCNN(), 128, 1280},
	}
	for _, tt := range tests {
		b.Run(tt.name, func(b *testing.B) {
			n, err := Attach(open(b), "net", tt.model, Config{})
			if err != nil {
				b.Fatal(err)
			}
			train := load(b, n, "train", digits(tt.n, tt.model.Input, 1))
			if _, err := n.Fit(train, Train{Batch: tt.batch}); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			steps := 0
			for b.Loop() {
				h, err := n.Fit(train, Train{Batch: tt.batch})
				if err != nil {
					b.Fatal(err)
				}
				steps += h.Steps
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(steps), "µs/step")
		})
	}
}
