package main

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
)

// mlp is a whole training step of 784-1000-1000-10 with Adam: batches are
// gathered from 60,000 examples on the device. The outputs are the state, the
// number of the step, and mean loss and hits.
func mlp(n int, bf16 bool) operation {
	const examples = 60000
	widths := []int{784, 1000, 1000, 10}
	c := operation{name: fmt.Sprintf("mlp step b%d %s", n, word(bf16)), bf16: bf16, chain: map[int]int{}}
	for i := range 3 {
		for _, dims := range [][]int{{widths[i], widths[i+1]}, {widths[i+1]}} {
			for k := range 3 {
				c.chain[len(c.in)] = len(c.in)
				c.in = append(c.in, input{shape: f32(dims...), fill: [...]fill{small, small, positive}[k]})
			}
		}
		weights := float64(widths[i] * widths[i+1])
		c.bytes += 4 * 6 * weights
		c.flops += 6 * float64(n) * weights
	}
	c.flops -= 2 * float64(n) * 784 * 1000 // nobody asks for the gradient of the images
	state := len(c.in)
	c.chain[state] = state
	c.in = append(c.in,
		input{shape: f32(), fill: number, limit: 1},
		input{shape: shapes.Make(dtypes.Uint8, examples, 784), fill: classes, limit: 256},
		input{shape: shapes.Make(dtypes.Int32, examples), fill: classes, limit: 10},
		input{shape: shapes.Make(dtypes.Int32, n), fill: classes, limit: examples},
		input{shape: f32(), fill: number, limit: 0.001})
	c.build = func(o fused.Ops, in []*Node) []*Node {
		t, rate := in[state], in[state+4]
		at := Reshape(in[state+3], n, 1)
		x := MulScalar(ConvertDType(Gather(in[state+1], at), kind(bf16 && o.Compute == dtypes.BFloat16)), 1.0/255)
		labels := Gather(in[state+2], at)
		w := func(layer int) []*Node { return in[6*layer : 6*layer+3] }
		b := func(layer int) []*Node { return in[6*layer+3 : 6*layer+6] }
		h1 := o.Linear(x, w(0)[0], b(0)[0], kernels.ReLU)
		h2 := o.Linear(h1, w(1)[0], b(1)[0], kernels.ReLU)
		loss, hit, g3 := o.Head(h2, w(2)[0], b(2)[0], labels)
		g2 := o.LinearInput(g3, w(2)[0], h2, kernels.ReLU)
		g1 := o.LinearInput(g2, w(1)[0], h1, kernels.ReLU)
		rule := kernels.Adam{}
		w3, b3 := o.LinearUpdate(h2, g3, w(2), b(2), rule, rate, t, g2)
		w2, b2 := o.LinearUpdate(h1, g2, w(1), b(1), rule, rate, t, g1)
		w1, b1 := o.LinearUpdate(x, g1, w(0), b(0), rule, rate, t)
		var out []*Node
		for _, l := range [][]*Node{w1, b1, w2, b2, w3, b3, {AddScalar(t, 1)}} {
			out = append(out, l...)
		}
		return append(out, Stack([]*Node{ReduceAllMean(loss), ReduceAllMean(hit)}, 0))
	}
	return c
}
