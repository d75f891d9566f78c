package trial

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
)

// singles are the ops that are whole loops or batches, each alone: their tilings can be
// tried, and those that round can round to bfloat16.
func singles() []operation {
	var l []operation
	for _, bf16 := range []bool{false, true} {
		for _, s := range [][3]int{{50, 20, 5}, {100, 20, 5}, {100, 100, 50}, {50, 128, 64}, {100, 64, 128}, {3, 4096, 20}} {
			one := kernels.LSTM{Length: s[0], Batch: s[1], Units: s[2], Compute: kind(bf16)}
			name := fmt.Sprintf("%d×%d, %d units", s[0], s[1], s[2])
			l = append(l, of("lstm forwards "+name, one, bf16), of("lstm back "+name, kernels.LSTMBack{LSTM: one}, bf16))
		}
		for _, s := range []kernels.Gather{{Examples: 60000, Size: 784, Batch: 8}, {Examples: 60000, Size: 784, Batch: 100, Steps: 4}, {Examples: 50000, Size: 3072, Batch: 100}} {
			s.X, s.Y = dtypes.Uint8, kind(bf16)
			l = append(l, of(fmt.Sprintf("batch %d of %d×%d, %d at once", s.Batch, s.Examples, s.Size, max(1, s.Steps)), s, bf16))
		}
		for _, s := range [][2]int{{100, 10}, {4096, 1000}} {
			c := of(fmt.Sprintf("loss %d×%d", s[0], s[1]), kernels.Softmax{Batch: s[0], Classes: s[1], X: kind(bf16), G: kind(bf16)}, bf16)
			c.loose, c.zeros = map[int]float64{1: 0.3}, few(s[0], s[1])
			l = append(l, c)
		}
	}
	return l
}

// take is the batch of a step.
func take(examples, size, n int, bytes, bf16 bool) operation {
	x := tiling.Input{Shape: f32(examples, size)}
	if bytes {
		x = tiling.Input{Shape: shapes.Make(dtypes.Uint8, examples, size), Fill: tiling.Below, Limit: 256}
	}
	var zeros []int
	if n == 1 { // a label may be 0; not all of the five
		zeros = []int{1, 4, 7, 10, 13}
	}
	return operation{
		name: fmt.Sprintf("take %d of %d×%d %s", n, examples, size, word(bf16)), bf16: bf16, zeros: zeros,
		Form: tiling.Form{
			Inputs: []tiling.Input{x, {Shape: shapes.Make(dtypes.Int32, examples), Fill: tiling.Below, Limit: 10}, {Shape: shapes.Make(dtypes.Int32, examples), Fill: tiling.Below, Limit: float64(examples)}},
			Build: func(o fused.Ops, in []*Node) []*Node {
				number := func(n int) *Node { return Const(in[0].Graph(), int32(n)) }
				source := fused.Source{X: in[0], Labels: in[1], Order: in[2], Place: number(examples % n), Step: number(7), Batch: n}
				var out []*Node
				for _, b := range append(o.Take(source, number(examples/n-1), 1), o.Take(source, number(0), 4)...) {
					out = append(out, b.X, b.Labels, b.Number)
				}
				return out
			},
		},
	}
}
