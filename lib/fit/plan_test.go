package fit

import (
	"context"
	"testing"

	"gaiden/lib/lower/plan"
)

// TestPlanOnce holds that each training decides its plan once, and what looks at the net
// without training it decides none.
func TestPlanOnce(t *testing.T) {
	t.Parallel()
	s := open(t)
	ctx := context.Background()
	n := attach(t, s, "net", small(), Config{FirstLook: true})
	data := load(t, n, "data", digits(40, n.model.Input, 1))
	count := 0
	n.decided = func(*plan.Plan) { count++ }
	for _, tt := range []struct {
		name string
		do   func() error
		want int
	}{
		{"Train", func() error {
			_, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3, Batch: 12, Validation: data})
			return err
		}, 1},
		{"a second Train", func() error { _, err := n.WithContext(ctx).Fit(data, Train{Batch: 12}); return err }, 1},
		{"merged epochs", func() error { _, err := n.WithContext(ctx).Fit(data, Train{Epochs: 3, Batch: 40}); return err }, 1},
		{"a job", func() error {
			j, err := n.FitJob(data, Train{Epochs: 2, Batch: 12, Validation: data})
			if err == nil {
				_, err = j.Follow(ctx, nil)
			}
			return err
		}, 1},
		{"Plan", func() error { _, err := n.Plan(data, Train{Batch: 12}); return err }, 1},
		{"Test", func() error { _, err := n.WithContext(ctx).Evaluate(data); return err }, 0},
		{"Phases", func() error { _, err := n.WithContext(ctx).Phases(data, 12); return err }, 0},
	} {
		count = 0
		if err := tt.do(); err != nil || count != tt.want {
			t.Errorf("%s: got %d plans and %v, want %d", tt.name, count, err, tt.want)
		}
	}
}
