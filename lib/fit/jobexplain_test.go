package fit

import (
	"context"
	"errors"
	"math"
	"testing"

	"gaiden/lib/fit/result"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestTrainJobNotFinite holds that a job whose numbers are not finite says of which layer
// or example, as Train does: of batches in order and not, of the last one that is not full,
// and of one behind good steps of its chunk.
func TestTrainJobNotFinite(t *testing.T) {
	s, ctx := open(t), context.Background()
	floats := func(n, size int) []float32 {
		x := make([]float32, n*size)
		for i := range x {
			x[i] = float32(i*i%97)/97 - 0.3
		}
		return x
	}
	torn := func(x []float32, at int) []float32 {
		x[at] = float32(math.Inf(1))
		return x
	}
	mlp := models.Net{Name: "mlp", Input: []int{16}, Layers: []models.Layer{models.Dense{Name: "hidden", Units: 8, Act: models.ReLU}, models.Dense{Name: "output", Units: 10}}}
	labels := digits(105, []int{16}, 1).Y
	for name, tt := range map[string]struct {
		net   models.Net
		data  Data
		train Train
		want  result.NotFiniteError // Part, Layer, Data and Example
	}{
		"example":            {small(), Data{X: torn(floats(105, 16), 57*16), Y: labels}, Train{Batch: 10, Epochs: 2}, result.NotFiniteError{Part: "examples", Data: "example", Example: 57}},
		"tail":               {small(), Data{X: torn(floats(105, 16), 103*16), Y: labels}, Train{Batch: 10, InOrder: true}, result.NotFiniteError{Part: "examples", Data: "tail", Example: 103}},
		"loop":               {mlp, Data{X: torn(floats(105, 16), 57*16), Y: labels}, Train{Batch: 10, Epochs: 2}, result.NotFiniteError{Part: "examples", Data: "loop", Example: 57}},
		"whole-set":          {mlp, Data{X: torn(floats(105, 16), 57*16), Y: labels}, Train{Batch: 105, Epochs: 3}, result.NotFiniteError{Part: "examples", Data: "whole-set", Example: 57}},
		"targets":            {models.Peaks(), Data{X: floats(40, 2), Y: torn(floats(40, 1), 23), V: seenBut(40, 23)}, Train{Batch: 7, Epochs: 2}, result.NotFiniteError{Part: "targets", Data: "targets", Example: 23}},
		"infinite-rate":      {small(), Data{X: floats(105, 16), Y: labels}, Train{Batch: 10}, result.NotFiniteError{Part: "weights", Layer: "conv"}},
		"large-rate-in-loop": {mlp, Data{X: floats(105, 16), Y: labels}, Train{Batch: 10, LearningRate: 1e18}, result.NotFiniteError{Part: "output", Layer: "output"}},
	} {
		t.Run(name, func(t *testing.T) {
			var errs [2]result.NotFiniteError
			for k, way := range []string{"train", "job"} {
				config := Config{Seed: 1, Optimizer: optim.SGD{}, FirstLook: true}
				if name == "infinite-rate" {
					config.Optimizer = explosive{}
				}
				if tt.data.V != nil {
					config.Loss = careless{}
				}
				n := attach(t, s, way, tt.net, config)
				defer n.Reset()
				data := load(t, n, name, tt.data)
				var err error
				if way == "train" {
					_, err = n.WithContext(ctx).Fit(data, tt.train)
				} else {
					var j *Job
					if j, err = n.FitJob(data, tt.train); err == nil {
						_, err = j.Follow(ctx, nil)
					}
				}
				var e *result.NotFiniteError
				if !errors.As(err, &e) {
					t.Fatalf("%s: got %v, want a NotFiniteError", way, err)
				}
				e.Net, e.Loss, e.Kept, e.KeptEpoch = "", 0, 0, 0 // what is kept is whole chunks, which are as long as the machine is fast
				errs[k] = *e
			}
			want := tt.want
			want.Epoch, want.Step = errs[0].Epoch, errs[0].Step
			if errs[0] != want || errs[1] != want {
				t.Errorf("Train got %+v, its job %+v, want %+v", errs[0], errs[1], want)
			}
		})
	}
}
