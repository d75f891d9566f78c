package fused

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
	"gaiden/lib/optim"
)

// stack is a net of dense layers.
func stack(in int, layers ...models.Layer) models.Net {
	return models.Net{Name: "stack", Input: []int{in}, Layers: layers}
}

// TestStackPlan holds a step by the kernel against one in GoMLX's ops; that those
// are the net's own, package fit tests.
func TestStackPlan(t *testing.T) {
	deep := stack(5, models.Dense{Name: "a", Units: 16, Act: Tanh}, models.Dense{Name: "b", Units: 3, Act: Sigmoid})
	for _, tt := range []struct {
		net         models.Net
		n, examples int
		rule        kernels.Rule
	}{
		{models.Peaks(), 35, 80, optim.Adam{}.Rule()},
		{models.Peaks(), 35, 35, optim.SGD{}.Rule()}, // as they lie
		{deep, 7, 9, optim.AdaDelta{}.Rule()},
	} {
		plan, err := NewStackPlan(tt.net, tt.n)
		if err != nil {
			t.Fatal(err)
		}
		plan.Rounding = triton.Exact
		last := plan.sizes.Units[len(plan.sizes.Units)-1]
		order := make([]float64, tt.examples)
		for i := range order {
			order[i] = float64(tt.examples - 1 - i)
		}
		in := []*tensors.Tensor{random(1, f32(tt.examples, tt.net.Input[0]), 1, 0), random(2, f32(tt.examples, last), 1, 0),
			tensor(shapes.Make(dtypes.Int32, tt.examples), order), tensor(f32(), []float64{0.1})}
		weights := variables(t, tt.net)
		each, at := 1+tt.rule.Moments(), map[string]int{}
		for i, w := range weights {
			at[w.name] = len(in)
			in = append(in, random(uint64(20+i), w.shape, 0.5, 0))
			for range each - 1 {
				in = append(in, tensor(w.shape, slices.Repeat([]float64{0.3}, w.shape.Size())))
			}
		}
		name := fmt.Sprint("stack_", tt.net.Input[0])
		for _, units := range plan.sizes.Units {
			name += fmt.Sprint("_", units)
		}
		compareWhole(t, fmt.Sprint(tt.net.Name, " of ", tt.n), plan, tt.rule, weights, at, in, tt.n, 1, fmt.Sprintf("[%s group_%s]", name, tt.rule.Name()))
	}
}

func TestNewStackPlan(t *testing.T) {
	dense := func(units int) models.Layer { return models.Dense{Name: "d", Units: units, Act: models.ReLU} }
	for _, tt := range []struct {
		net  models.Net
		want string // of the error
	}{
		{models.Peaks(), ""},
		{stack(16, dense(32), dense(32), dense(16)), ""},
		{stack(17, dense(1)), "17 numbers and layers of [1] units are too many"},
		{stack(2, dense(33), dense(1)), "layers of [33 1] units are too many"},
		{stack(2, dense(9), dense(9), dense(9), dense(1)), "too many"},
		{stack(2, dense(20)), "too many"},
		{stack(2), "too many"},
		{stack(2, models.Dense{Name: "d", Units: 3, NoBias: true}), "layer d: want Dense layers with biases"},
		{stack(2, dense(3), models.Dropout{Name: "o", Rate: 0.5}), "layer o: want Dense layers"},
		{stack(2, models.Dense{Name: "d", Units: 3, Act: Exp}), "layer d: its activation has no kernel"},
		{models.SineLSTM(5, 7), "want one of [numbers]"},
	} {
		_, err := NewStackPlan(tt.net, 20)
		if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(err.Error(), tt.want)) {
			t.Errorf("%s of %v: got %v, want %q", tt.net.Name, tt.net.Input, err, tt.want)
		}
	}
	for _, tt := range []struct {
		net  models.Net
		want string // of the plan, or its error
	}{
		{models.Peaks(), "l1, l2, l3 and the loss: one kernel"},
		{models.SineLSTM(5, 7), "l1, l2, l3 and the loss: one kernel"},
		{models.MLP(10), "no plan for its sequences"},
	} {
		p, err := NewWhole(tt.net, 20)
		got := fmt.Sprint(err)
		if err == nil {
			got = p.String()
		} else if p != nil {
			t.Errorf("%s: got a plan beside the error", tt.net.Name)
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.net.Name, got, tt.want)
		}
	}
}
