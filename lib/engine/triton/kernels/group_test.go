package kernels

import (
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// TestGroup holds a group against its members alone.
func TestGroup(t *testing.T) {
	weights := shapes.Make(dtypes.Float32, 3, 3, 2, 5)
	for i, r := range rules {
		members := []Member{
			LinearUpdate{Batch: 7, In: 33, Out: 20, Tile: Tile{M: 16, N: 16, K: 16}},
			PartsUpdate{Parts: 3, Weights: weights},
			Tally{Batch: 37, Rows: 2},
			LinearUpdate{Batch: 7, In: 5, Out: 3, NoBias: true},
			PartsUpdate{Parts: 300, Weights: shapes.Make(dtypes.Float32, 4, 7)},
		}
		loss, hit := numbers(21, 37), labels(22, 37, 2)
		in := [][][]float64{
			append(append([][]float64{numbers(1, 7*33), numbers(2, 7*20)}, initial(r.rule, 33*20)...), initial(r.rule, 20)...),
			append(append([][]float64{numbers(3, 3*19*5)}, initial(r.rule, 90)...), initial(r.rule, 5)...),
			{loss, hit, make([]float64, 6), {1}},
			append([][]float64{numbers(4, 7*5), numbers(5, 7*3)}, initial(r.rule, 15)...),
			append(append([][]float64{numbers(6, 300*5*7)}, initial(r.rule, 28)...), initial(r.rule, 7)...),
		}
		var all, want [][]float64
		for k, m := range members {
			all = append(all, clone(in[k])...)
			one := clone(in[k])
			rule := r.rule
			if _, tally := m.(Tally); tally {
				rule = nil // a tally has no state
			} else {
				one = append(one, []float64{0.01}, []float64{3})
			}
			want = append(want, run(t, Group{Members: []Member{m}, Rule: rule}.Kernel(), one...)...)
		}
		got := run(t, Group{Members: members, Rule: r.rule}.Kernel(), append(all, []float64{0.01}, []float64{3})...)
		for k := range want {
			near(t, name("rule ", i, " output ", k), got[k], want[k], 0)
		}
		sum, hits := 0.0, 0.0
		for k := range loss {
			sum, hits = sum+loss[k], hits+hit[k]
		}
		each := 1 + r.rule.Moments()
		near(t, "tally", got[4*each], []float64{0, 0, 0, sum / 37, 37, hits}, 1e-5)
		near(t, "the next row", got[4*each+1], []float64{2}, 0)
	}
}
