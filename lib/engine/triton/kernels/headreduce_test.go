package kernels

import (
	"testing"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton"
)

// TestHeadReduce holds a layer that begins the last one, and HeadReduce, against the layer,
// Head and LinearInput, for parts and batches of odd sizes, and with every tiling.
func TestHeadReduce(t *testing.T) {
	for i, l := range []Linear{
		{Batch: 20, In: 33, Out: 100, Classes: 10},
		{Batch: 1, In: 5, Out: 3, Classes: 2, NoBias: true},
		{Batch: 17, In: 20, Out: 600, Classes: 16},
		{Batch: 33, In: 7, Out: 64, Classes: 10, X: dtypes.BFloat16, Y: dtypes.BFloat16, Compute: dtypes.BFloat16},
		{Batch: 100, In: 40, Out: 40, Classes: 3, NoBias: true},
	} {
		l.Act = act(i)
		l.Tile = []Tile{{M: 32, N: 32, K: 16, Split: 2, Rounding: triton.Exact}, {M: 16, N: 16, K: 16, Rounding: triton.Exact}}[i%2]
		x, w, last, names := numbers(1, l.Batch*l.In), numbers(2, l.In*l.Out), numbers(3, l.Out*l.Classes), labels(4, l.Batch, l.Classes)
		in := [][]float64{x, w}
		var bias [][]float64
		if !l.NoBias {
			in, bias = append(in, numbers(5, l.Out)), [][]float64{numbers(6, l.Classes)}
		}
		alone := l
		alone.Classes = 0
		y := run(t, alone.Kernel(), in...)[0]
		got := run(t, l.Kernel(), append(in, last)...)
		near(t, name(i, " y"), got[0], y, 0)
		e := HeadReduce{Batch: l.Batch, In: l.Out, Classes: l.Classes, Parts: l.Parts(), X: l.Y, G: l.Y, Compute: l.Compute, Act: l.Act, NoBias: l.NoBias}
		all := append(append([][]float64{got[1]}, bias...), names, last)
		if l.Act != Identity {
			all = append(all, y)
		}
		h := Head{Batch: l.Batch, In: l.Out, Classes: l.Classes, X: l.Y, G: l.Y, Compute: l.Compute, NoBias: l.NoBias, Tile: Tile{Rounding: triton.Exact}}
		want := run(t, h.Kernel(), append(append([][]float64{y, last}, bias...), names)...)
		d := LinearInput{Batch: l.Batch, In: l.Out, Out: l.Classes, G: l.Y, X: l.Y, D: l.Y, Compute: l.Compute, Act: l.Act, Tile: Tile{Rounding: triton.Exact}}
		below := [][]float64{want[2], last}
		if l.Act != Identity {
			below = append(below, y)
		}
		want = append(want, run(t, d.Kernel(), below...)...)
		limit := 1e-5
		if l.Compute == dtypes.BFloat16 {
			limit = 4e-3 // a gradient on the edge between two bfloat16
		}
		for _, tile := range e.Tiles() {
			tile.Rounding = triton.Exact
			got := run(t, e.With(tile).(HeadReduce).Kernel(), all...)
			for k := range want {
				near(t, name(i, " ", tile, " output ", k), got[k], want[k], limit)
			}
		}
	}
}
