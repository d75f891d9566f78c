package hlo_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
)

// TestFrames holds which sums of padded arrays become one array: those of neighbours that
// stand in zeros.
func TestFrames(t *testing.T) {
	for _, tt := range []struct {
		name string
		fill float32
		pads [3]compute.PadAxis // of three [4 2] on the last axis, where the sum is [4 6]

		want, not string
	}{
		{"three gates", 0, [3]compute.PadAxis{{End: 4}, {Start: 2, End: 2}, {Start: 4}}, "concatenate", "stablehlo.pad"},
		{"from the last to the first", 0, [3]compute.PadAxis{{Start: 4}, {Start: 2, End: 2}, {End: 4}}, "concatenate", "stablehlo.add"},
		{"the same place", 0, [3]compute.PadAxis{{End: 4}, {End: 4}, {End: 4}}, "stablehlo.add", "concatenate"},
		{"overlapping", 0, [3]compute.PadAxis{{End: 4}, {Start: 1, End: 3}, {Start: 0, End: 4}}, "stablehlo.add", "concatenate"},
		{"cut", 0, [3]compute.PadAxis{{Start: -1, End: 5}, {Start: -1, End: 5}, {Start: -1, End: 5}}, "stablehlo.add", "concatenate"},
		{"ones", 1, [3]compute.PadAxis{{End: 4}, {Start: 2, End: 2}, {Start: 4}}, "stablehlo.add", "concatenate"},
		{"holes", 0, [3]compute.PadAxis{{End: 3, Interior: 1}, {Start: 3, End: 0, Interior: 1}, {End: 3, Interior: 1}}, "stablehlo.add", "concatenate"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newDraft(t)
			f := d.main()
			var sum compute.Value
			for _, p := range tt.pads {
				one := d.v(f.Pad(d.param(f, dtypes.Float32, 4, 2), d.num(f, []float32{tt.fill}), compute.PadAxis{}, p))
				if sum == nil {
					sum = one
					continue
				}
				sum = d.v(f.Add(sum, one))
			}
			text := string(d.program(sum).Text(nil))
			if !strings.Contains(text, tt.want) || strings.Contains(text, tt.not) {
				t.Errorf("got\n%s\nwant %s in it, and no %s", text, tt.want, tt.not)
			}
		})
	}
}
