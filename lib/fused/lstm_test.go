package fused

import (
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
)

// TestLSTMChoice holds that a layer for which XLA's form is the faster one in a direction
// has no kernel, and is the same but for rounding.
func TestLSTMChoice(t *testing.T) {
	in := []*tensors.Tensor{random(1, f32(4, 3, 20), 1, 0), random(2, f32(5, 20), 0.5, 0), random(3, f32(4, 3, 5), 1, 0)}
	step := func(o Ops, in []*Node) []*Node {
		h := o.LSTM(in[0], in[1])
		return append([]*Node{h}, gradient.Final(ReduceAllSum(Mul(h, in[2])), in[0], in[1])...)
	}
	want := plainly(t, in, func(in []*Node) []*Node { return step(Ops{}, in) })
	for _, plain := range []string{"lstm 4 3 5 f32", "lstm back 4 3 5 f32"} {
		asked := map[string]bool{}
		got := plainly(t, in, func(in []*Node) []*Node {
			return step(Ops{Builder: hlo.NewBuilder(nil, "test", nil),
				Choose: func(op kernels.Op) kernels.Op {
					asked[op.Key()] = true
					if op.Key() == plain {
						return nil
					}
					return op
				},
				run: func(k triton.Kernel, _ []*Node) []*Node {
					t.Fatalf("without %s: got kernel %s, want none", plain, k.Name)
					return nil
				}}, in)
		})
		if !asked[plain] || len(asked) != 2 {
			t.Errorf("got choices of %v, want those of both directions", asked)
		}
		for i := range want {
			near(t, plain, got[i], want[i], 1e-6)
		}
	}
}
