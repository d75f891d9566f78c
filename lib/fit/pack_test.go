package fit

import (
	"context"
	"fmt"
	"math"
	"testing"

	"gaiden/lib/lower/plan"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// TestPacked holds that steps on a packed state give the losses, weights and
// moments of those on arrays, on one device and on two, and leave no array
// behind: for arrays of every kind, means and random numbers among them. So do,
// packed or not, gradients that devices add up in buckets. (Not
// with Adam: biases before batch norm have no gradient but what
// rounding leaves, and Adam makes steps of that.)
func TestPacked(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range kinds() {
		batch := 10
		if tt.net.Name == "resnet" {
			batch = 12 // of 40 examples: the last batch has 4
		}
		for _, devices := range tt.devices {
			t.Run(fmt.Sprint(tt.net.Name, " on ", devices), func(t *testing.T) {
				train := func(packed, bucketed bool) (numbers []float32) {
					n := attach(t, s, fmt.Sprintf("net%d-%d-%t-%t", i, devices, packed, bucketed), tt.net, Config{Seed: 1, Devices: devices, AllDevices: true, Optimizer: optim.SGD{Momentum: 0.9}, FirstLook: true})
					n.packing, n.testBuckets = packed, bucketed
					if c := (plan.Part{Devices: devices, Split: true}); bucketed && len(n.buckets(c)) < 2 {
						t.Fatalf("got one bucket of %v, want some", n.model.Names())
					}
					data := load(t, n, fmt.Sprint("data", i), tt.data)
					var alive []int64
					for range 3 { // from the second on, chunks of several steps, two at a time
						h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3, Batch: batch, LearningRate: 1e-3, Validation: data})
						if err != nil {
							t.Fatal(err)
						}
						numbers = append(append(numbers, h.Losses...), float32(h.Last().Validation.Loss))
						alive = append(alive, live(t, s))
					}
					if alive[1] != alive[2] {
						t.Errorf("packed %t: got %d bytes after two runs, %d after three: want as many", packed, alive[1], alive[2])
					}
					for _, v := range n.layout.all() {
						a, err := s.Array(n.name + "/" + v.name)
						if err != nil {
							t.Fatal(err)
						}
						if v.path == rng || v.name == "step" {
							continue
						}
						w := make([]float32, v.shape.Size())
						if err := a.Values(w); err != nil {
							t.Fatal(err)
						}
						numbers = append(numbers, w...)
					}
					return numbers
				}
				want := train(false, false)
				for _, packed := range []bool{true, false} {
					if devices == 1 && !packed {
						continue
					}
					got := train(packed, devices > 1)
					for k := range want {
						if math.Abs(float64(got[k]-want[k])) > 1e-6 {
							t.Fatalf("packed %t: number %d of %d: got %v, want %v", packed, k, len(want), got[k], want[k])
						}
					}
				}
			})
		}
	}
}

// TestPackedIn16Bits holds that steps which keep matrices in 16 bits next to those in float32
// give the losses of steps that convert them each time.
func TestPackedIn16Bits(t *testing.T) {
	t.Parallel()
	s := open(t)
	for name, c := range map[string]Config{
		"averaged": {BF16: true, Optimizer: optim.EMA{Optimizer: optim.AdamW{}}},
		"frozen":   {BF16: true, Optimizer: optim.Groups{Optimizer: optim.SGD{Momentum: 0.9}, Groups: []optim.Group{{Names: []string{"l2/*"}, Frozen: true}}}},
		"devices":  {BF16: true, Optimizer: optim.Adam{}, Devices: 2, AllDevices: true},
	} {
		t.Run(name, func(t *testing.T) {
			var want []float32
			for _, packed := range []bool{false, true} {
				n := attach(t, s, fmt.Sprint(name, packed), models.MLP(32), c)
				n.packing = packed
				data := load(t, n, "data16", digits(40, n.model.Input, 1))
				h, err := n.Fit(data, Train{Epochs: 4, Batch: 12, Accumulate: map[string]int{"frozen": 3}[name], Validation: data})
				if err != nil {
					t.Fatal(err)
				}
				got := append(h.Losses, float32(h.Last().Validation.Loss))
				if want == nil {
					want = got
					continue
				}
				for k := range want {
					if !(math.Abs(float64(got[k]-want[k])) <= 1e-6) {
						t.Fatalf("loss %d of %d: got %v, want %v", k, len(want), got[k], want[k])
					}
				}
			}
		})
	}
}
