package kernels

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
)

// TestGather holds batches to the examples that the order names, in every tiling: an
// example that blocks divide evenly, one that leaves some over, and a last batch that
// would begin behind the order's end.
func TestGather(t *testing.T) {
	for _, g := range []Gather{
		{Examples: 9, Size: 3, Batch: 2, X: dtypes.Float32},
		{Examples: 7, Size: 300, Batch: 3, Steps: 3, X: dtypes.Uint8},
		{Examples: 5, Size: 1024, Batch: 2, Steps: 2, X: dtypes.Uint8, Y: dtypes.BFloat16},
		{Examples: 9, Size: 300, Batch: 2, Steps: 2, X: dtypes.Float32, Targets: 1},
		{Examples: 9, Size: 3, Batch: 2, X: dtypes.Float32, Targets: 7},
	} {
		const place, step, at = 1, 4, 1
		order, label := labels(1, g.Examples, g.Examples), labels(2, g.Examples*max(1, g.Targets), 10)
		x, by, off := numbers(3, g.Examples*g.Size), 1.0, 0.0
		if g.X == dtypes.Uint8 {
			x, by, off = labels(3, g.Examples*g.Size, 256), 255, 1e-7
		}
		if g.Y == dtypes.BFloat16 {
			off = 4e-3
		}
		for _, tile := range g.Tiles() {
			got := run(t, g.With(tile).(Gather).Kernel(), order, []float64{place}, []float64{step}, []float64{at}, x, label)
			for s := range max(1, g.Steps) {
				var wantX, wantLabels []float64
				first := min(place+(at+s)*g.Batch, g.Examples-g.Batch)
				for _, example := range order[first : first+g.Batch] {
					for _, v := range x[int(example)*g.Size:][:g.Size] {
						wantX = append(wantX, v/by)
					}
					wantLabels = append(wantLabels, label[int(example)*max(1, g.Targets):][:max(1, g.Targets)]...)
				}
				near(t, name(g.Key(), " ", tile, " step ", s), got[3*s], wantX, off)
				near(t, name(g.Key(), " ", tile, " labels ", s), got[3*s+1], wantLabels, 0)
				near(t, name(g.Key(), " ", tile, " number ", s), got[3*s+2], []float64{float64(step + at + s + 1)}, 0)
			}
		}
	}
}
