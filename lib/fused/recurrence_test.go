package fused

import (
	"fmt"
	"math"
	"testing"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/gradient"
	"gaiden/lib/models"
)

// recurrent are recurrences of each cell, without their nodes.
var recurrent = map[string]models.Recurrence{
	"lstm": {Kind: "LSTM"}, "gru": {Kind: "GRU"}, "rnn_tanh": {Kind: "SimpleRNN", Act: Tanh},
	"rnn_relu": {Kind: "SimpleRNN", Act: models.ReLU}, "rnn_elu": {Kind: "SimpleRNN", Act: models.ELU},
}

// recurs are a recurrence's inputs, and it with its gradients.
func recurs(r models.Recurrence, length, batch, units int) ([]*tensors.Tensor, func(o Ops, in []*Node) []*Node) {
	gates, each := recurrentCells[r.Kind].gates, 0.5/math.Sqrt(float64(units))
	in := []*tensors.Tensor{random(1, f32(length, batch, gates*units), 1, 0), random(2, f32(units, gates*units), each, 0),
		random(3, f32(length, batch, units), 1, 0), random(4, f32(gates*units), 0.5, 0)}
	return in, func(o Ops, in []*Node) []*Node {
		r := r
		r.Z, r.Recurrent, r.Biases = in[0], in[1], in[3]
		h := o.Recurrence(r)
		return append([]*Node{h}, gradient.Final(ReduceAllSum(Mul(h, in[2])), in[0], in[1], in[3])...)
	}
}

// TestRecurrences holds each cell's kernels to its plain form, values and gradients.
func TestRecurrences(t *testing.T) {
	sizes := [][3]int{{1, 1, 1}, {2, 7, 5}, {4, 3, 33}}
	for name, r := range recurrent {
		for _, s := range sizes {
			for _, compute := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
				in, build := recurs(r, s[0], s[1], s[2])
				got, ran := emulated(t, Ops{Compute: compute}, in, build)
				want := plainly(t, in, func(in []*Node) []*Node { return build(Ops{}, in) })
				if fmt.Sprint(ran) != fmt.Sprintf("[%s %s_back]", name, name) {
					t.Errorf("%s %v: ran %v, want one kernel each way", name, s, ran)
				}
				for i := range want {
					near(t, fmt.Sprint(name, " ", s, " ", compute, " output ", i), got[i], want[i], map[dtypes.DType]float64{dtypes.Float32: 2e-5, dtypes.BFloat16: 2e-2}[compute])
				}
			}
		}
	}
}

// TestRecurrenceChoice holds that a layer for which XLA's form is the faster one in a direction
// has no kernel, and is the same but for rounding.
func TestRecurrenceChoice(t *testing.T) {
	for name, r := range recurrent {
		in, step := recurs(r, 4, 3, 5)
		want := plainly(t, in, func(in []*Node) []*Node { return step(Ops{}, in) })
		for _, plain := range []string{name + " 4 3 5 f32", name + " back 4 3 5 f32"} {
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
}
