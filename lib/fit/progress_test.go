package fit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"gaiden/lib/models"
)

// TestTimeOfProgress holds that a run tells where it is at least every half second,
// from its begin to its end: in an epoch of many chunks and in steps that are longer.
func TestTimeOfProgress(t *testing.T) {
	if os.Getenv("GAIDEN_TIMING") == "" {
		t.Skip("asserts times, which a busy machine spoils: run it by scripts/test timing, or with GAIDEN_TIMING=1")
	}
	s := open(t)
	const most, enough = 500 * time.Millisecond, 4 * time.Second
	for i, tt := range []struct {
		name            string
		net             models.Net
		examples, batch int
		slow            bool // a step takes longer than most
	}{
		{"chunks", models.SeedCNN(), 20000, 4, false},
		{"chunks of a loop", models.MLP(20), 200000, 2, false},
		{"long steps", models.KerasCNN(), 6000, 2000, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := attach(t, s, fmt.Sprint("net", i), tt.net, Config{Seed: 1})
			data := load(t, n, fmt.Sprint("data", i), digits(tt.examples, n.model.Input, 1))
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			var longest time.Duration
			var at Progress
			calls := map[string]int{}
			began := time.Now()
			last := began
			look := func(p Progress) {
				if d := time.Since(last); d > longest {
					longest, at = d, p
				}
				last = time.Now()
			}
			h, err := n.WithContext(ctx).Fit(data, Train{Epochs: 1000, Batch: tt.batch, Progress: func(p Progress) {
				look(p)
				calls[p.Phase]++
				if p.Elapsed > enough && (!tt.slow || p.Step > 1) {
					cancel()
				}
			}})
			if !errors.Is(err, context.Canceled) {
				t.Fatalf("got error %v, want context.Canceled", err)
			}
			look(Progress{Phase: "end"})
			if longest > most {
				t.Errorf("progress: got nothing for %v, until %s %v, want %v at most", longest, at.Phase, at, most)
			}
			if step := h.Device / time.Duration(max(1, h.Steps)); step > most != tt.slow {
				t.Errorf("a step takes %v: want more than %v: %t", step, most, tt.slow)
			}
			t.Logf("longest %v, until %s %v; %d steps in %v, calls %v", longest, at.Phase, at, h.Steps, time.Since(began), calls)
		})
	}
}
