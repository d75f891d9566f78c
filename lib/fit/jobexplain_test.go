package fit

import (
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"gaiden/lib/fit/result"
	"gaiden/lib/lower"
	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestTrainJobNotFinite holds that a job whose numbers are not finite says of which layer
// or example, as Train does: of batches in order and not, of the last one that is not full,
// and of one behind good steps of its chunk, in chunks of one step and of many.
func TestTrainJobNotFinite(t *testing.T) {
	t.Parallel()
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
	unknown := floats(40, 16)
	unknown[23*16] = float32(math.NaN())
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
		"pooled":             {pooled(), Data{X: unknown, Y: digits(40, []int{16}, 1).Y}, Train{Batch: 10, InOrder: true}, result.NotFiniteError{Part: "examples", Data: "pooled", Example: 23}},
	} {
		t.Run(name, func(t *testing.T) {
			var errs [3]result.NotFiniteError
			for k, way := range []string{"train", "job", "slow-job"} {
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
					step := time.Duration(1)
					if k == 2 {
						step = lower.ChunkTime
					}
					takes(t, n, data, tt.train, step)
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
			for k, got := range errs {
				if got != want {
					t.Errorf("Fit and two jobs, %d: got %+v, want %+v", k, got, want)
				}
			}
		})
	}
}

// takes lets a job's steps be known to take so long.
func takes(t *testing.T, n *Net, data *Set, train Train, step time.Duration) {
	t.Helper()
	r, err := n.run(context.Background(), data, train, plan.Job)
	if err != nil {
		t.Fatal(err)
	}
	n.stepTime[r.main.key(data)] = step
	r.close()
}
