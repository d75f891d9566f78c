package fit

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
)

// TestEpochsAhead holds that epochs which are requested before the last one has
// ended are those of a run that looks at each: the same losses and the same
// figures of every epoch, of nets of every kind, with a last batch that is not
// full; and that nothing is left behind.
func TestEpochsAhead(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	for i, tt := range kinds() {
		for _, packed := range []bool{false, true} {
			t.Run(fmt.Sprint(tt.net.Name, " packed ", packed), func(t *testing.T) {
				train := func(patience int) (losses []float32, epochs []Epoch) {
					n := attach(t, s, fmt.Sprintf("net%d-%t-%d", i, packed, patience), tt.net, Config{Seed: 1, FirstLook: true})
					n.packing = packed
					data := load(t, n, fmt.Sprint("data", i), tt.data)
					var alive []int64
					for range 3 {
						seen := 0
						h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 5, Batch: 12, LearningRate: 1e-3, Patience: patience, Progress: func(p Progress) {
							if p.Epoch < seen || p.Epoch > seen+1 && seen > 0 || p.Step > p.Steps {
								t.Errorf("progress: got epoch %d, step %d of %d after epoch %d", p.Epoch, p.Step, p.Steps, seen)
							}
							seen = p.Epoch
						}})
						if err != nil {
							t.Fatal(err)
						}
						losses = append(losses, h.Losses...)
						for _, e := range h.Epochs {
							e.Elapsed = 0
							epochs = append(epochs, e)
						}
						alive = append(alive, live(t, s))
					}
					if alive[1] != alive[2] {
						t.Errorf("patience %d: got %d bytes after two runs, %d after three: want as many", patience, alive[1], alive[2])
					}
					return losses, epochs
				}
				want, each := train(1000)
				got, all := train(0)
				if !slices.Equal(got, want) {
					t.Errorf("losses: got %v, want %v", got, want)
				}
				if len(all) != 15 || !reflect.DeepEqual(all, each) {
					t.Errorf("epochs: got %+v, want %+v", all, each)
				}
			})
		}
	}
}

// TestStopBetweenEpochs holds that a run of short epochs which is stopped keeps
// what it has done, and can be continued, however much was requested ahead.
func TestStopBetweenEpochs(t *testing.T) {
	t.Parallel()
	s := open(t)
	for i, packed := range []bool{false, true} {
		n := attach(t, s, fmt.Sprint("net", i), small(), Config{Seed: 1, FirstLook: true})
		n.packing = packed
		data := load(t, n, "bars", digits(40, n.model.Input, 1))
		if _, err := n.Fit(data, Train{Epochs: 2, Batch: 10}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 1_000_000, Batch: 10, Progress: func(p Progress) {
			if p.Epoch == 20 {
				cancel()
			}
		}})
		if !errors.Is(err, context.Canceled) {
			t.Fatalf("packed %t: got error %v, want one that it was stopped", packed, err)
		}
		if len(h.Epochs) < 19 || h.Steps < 4*len(h.Epochs) || len(h.Losses) != h.Steps {
			t.Errorf("packed %t: got %d epochs, %d steps and %d losses, want 19 epochs at least, of 4 steps", packed, len(h.Epochs), h.Steps, len(h.Losses))
		}
		before := live(t, s)
		if _, err := n.Fit(data, Train{Epochs: 3, Batch: 10}); err != nil {
			t.Errorf("packed %t: next run: %v", packed, err)
		}
		if after := live(t, s); after != before {
			t.Errorf("packed %t: got %d bytes after the next run, %d before it: want as many", packed, after, before)
		}
	}
}
