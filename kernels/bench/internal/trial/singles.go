package trial

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/engine/triton/kernels"
)

// singles are the ops that are whole loops, nets or batches, each alone: their tilings can be
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
	l = append(l, of("sequences 20 of 20000", kernels.Sequence{Examples: 20000, Batch: 20, Length: 100, In: 1, Wide: 5, Units: 5, Out: 1}, false))
	for _, s := range []kernels.Stack{
		{Examples: 40000, Batch: 40000, In: 2, Units: []int{20, 5, 1}, Acts: []kernels.Act{kernels.ReLU, kernels.ReLU, kernels.Identity}},
		{Examples: 40000, Batch: 100, In: 2, Units: []int{20, 5, 1}, Acts: []kernels.Act{kernels.ReLU, kernels.ReLU, kernels.Identity}},
		{Examples: 30000, Batch: 30000, In: 16, Units: []int{32, 32, 16}, Acts: []kernels.Act{kernels.ReLU, kernels.ReLU, kernels.Identity}},
	} {
		l = append(l, of(fmt.Sprintf("stack %d→%v, %d of %d", s.In, s.Units, s.Batch, s.Examples), s, false))
	}
	return l
}
