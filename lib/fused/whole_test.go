package fused

import (
	"fmt"
	"testing"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/triton/kernels"
)

// compareWhole holds step number turn of a plan by its kernels, which are to be
// those of ran, against the same in GoMLX's ops. in are x, y, order and rate, and
// the state of each weight from place at on.
func compareWhole(t *testing.T, name string, plan Whole, rule kernels.Rule, weights []variable, at map[string]int, in []*tensors.Tensor, batch, turn int, ran string) {
	t.Helper()
	each := 1 + rule.Moments()
	step := func(o Ops, in []*Node) []*Node {
		g := in[0].Graph()
		number := func(n int) *Node { return Const(g, int32(n)) }
		journal := &Journal{Rows: Zeros(g, f32(3, 3)), At: number(1)}
		states, row := plan.Train(Step{Ops: o, Rule: rule, Rate: in[3], Journal: journal, State: func(name string) []*Node { return in[at[name] : at[name]+each] }},
			Source{X: in[0], Labels: in[1], Order: in[2], Place: number(1), Step: number(4), Batch: batch}, number(turn))
		if row != nil {
			t.Errorf("%s: got a row beside the journal, want none", name)
		}
		out := []*Node{journal.Rows, journal.At}
		for _, w := range weights {
			out = append(out, states[w.name]...)
		}
		return out
	}
	want := plainly(t, in, func(in []*Node) []*Node { return step(Ops{}, in) })
	got, all := emulated(t, Ops{}, in, step)
	if fmt.Sprint(all) != ran {
		t.Errorf("%s: ran %v, want %s", name, all, ran)
	}
	some, left := emulated(t, Ops{Choose: without[kernels.PartsUpdate]}, in, step)
	if len(left) != 1 || left[0] != all[0] {
		t.Errorf("%s: ran %v, want no kernel for the updates", name, left)
	}
	for i := range want {
		near(t, fmt.Sprint(name, " output ", i), got[i], want[i], 1e-4)
		near(t, fmt.Sprint(name, " output ", i, " with no kernel for the updates"), some[i], want[i], 1e-4)
	}
}
