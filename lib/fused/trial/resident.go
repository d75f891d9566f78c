package main

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
)

// residents is some training steps of a multilayer perceptron in one kernel. Outputs are
// the state, the journal's rows and the number of the next step. The limit is that of
// stack, for the same reason: TF32 decides what is nearly 0 before a ReLU.
func residents(net models.Net, floats bool, n, steps int, rule kernels.Adam) operation {
	plan, err := fused.NewPlan(net)
	if err != nil {
		panic(err)
	}
	const many = 3000
	r, err := fused.NewResident(net, rule, many, n)
	if err != nil {
		panic(err)
	}
	c := operation{limit: 3e-2, times: 2, Form: tiling.Form{Chain: map[int]int{}, Poke: -1}}
	weights, each := weightsOf(net), 1+rule.Moments()
	at, name := c.states(weights, each), ""
	for _, w := range weights {
		if w.shape.Rank() == 2 {
			name += fmt.Sprint(w.shape.Dimensions[0], "→")
		}
	}
	classes := weights[len(weights)-1].shape
	classes = shapes.Make(dtypes.Int32, classes.Dimensions[classes.Rank()-1])
	state := len(c.Inputs)
	size := shapes.Make(dtypes.Float32, net.Input...).Size()
	x := tiling.Input{Shape: shapes.Make(dtypes.Uint8, many, size), Fill: tiling.Below, Limit: 256}
	if floats {
		x, name = tiling.Input{Shape: f32(many, size)}, "floats "+name
	}
	c.name = fmt.Sprintf("resident %s%d b%d, %d steps f32", name, classes.Size(), n, steps)
	c.Inputs = append(c.Inputs, tiling.Input{Shape: f32(), Fill: tiling.Number, Limit: 0.001},
		x, tiling.Input{Shape: shapes.Make(dtypes.Int32, many), Fill: tiling.Below, Limit: float64(classes.Size())},
		tiling.Input{Shape: shapes.Make(dtypes.Int32, many), Fill: tiling.Below, Limit: many})
	c.loose = map[int]float64{state: 0.1} // a hit more or less
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		g := in[0].Graph()
		number := func(n int) *Node { return Const(g, int32(n)) }
		states := map[string][]*Node{}
		for _, w := range weights {
			states[w.name] = in[at[w.name] : at[w.name]+each]
		}
		// The last batch would begin after the order's end.
		source := fused.Source{X: in[state+1], Labels: in[state+2], Order: in[state+3], Place: number(many - (steps+1)*n + 1), Step: number(3), Batch: n}
		journal := &fused.Journal{Rows: Zeros(g, f32(steps+2, 3)), At: number(1)}
		s := fused.Step{Ops: o, Rule: rule, Rate: in[state], Journal: journal, State: func(name string) []*Node { return states[name] }}
		if o.Builder != nil && !o.Plain {
			states = r.Train(s, source, steps)
		} else {
			for range steps {
				b := o.Take(source, journal.At, 1)[0]
				s.X, s.Labels, s.T = Reshape(b.X, append([]int{n}, net.Input...)...), b.Labels, b.Number
				next, _ := plan.Train(s)
				states = next
			}
		}
		var out []*Node
		for _, w := range weights {
			out = append(out, states[w.name]...)
		}
		return append(out, journal.Rows, journal.At)
	}
	return c
}
