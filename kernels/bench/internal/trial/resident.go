package trial

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
)

// residents is some training steps of a multilayer perceptron in one kernel. Outputs are
// the state, the journal's rows and the number of the next step. The reference has the
// kernel's factors, rounded to TF32, so that the same numbers are nearly 0 before a ReLU:
// one step is as near as the order of sums lets it be, 5e-5 on an H200. From there Adam,
// whose moments begin with 0, moves weights apart whose gradient is nearly 0, by 4e-3 to
// 7e-3.
func residents(net models.Net, floats bool, n, steps int, rule kernels.Rule) operation {
	plan, err := fused.NewPlan(net)
	if err != nil {
		panic(err)
	}
	const many = 3000
	r, err := fused.NewResident(net, rule, many, n)
	if err != nil {
		panic(err)
	}
	limit := 2e-4
	if steps > 1 {
		limit = 1e-2
	}
	c := operation{limit: limit, Form: tiling.Form{Chain: map[int]int{}, Poke: -1}}
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
	c.name = fmt.Sprintf("resident %s%d b%d, %d steps of %s f32", name, classes.Size(), n, steps, rule.Name())
	c.Inputs = append(c.Inputs, tiling.Input{Shape: f32(), Fill: tiling.Number, Limit: 0.001},
		x, tiling.Input{Shape: shapes.Make(dtypes.Int32, many), Fill: tiling.Below, Limit: float64(classes.Size())},
		tiling.Input{Shape: shapes.Make(dtypes.Int32, many), Fill: tiling.Below, Limit: many})
	c.loose = map[int]float64{state: 0.1} // a hit more or less
	// begin is what the steps begin with.
	begin := func(in []*Node) (source fused.Source, states map[string][]*Node) {
		states = map[string][]*Node{}
		for _, w := range weights {
			states[w.name] = in[at[w.name] : at[w.name]+each]
		}
		number := func(n int) *Node { return Const(in[0].Graph(), int32(n)) }
		// The last batch would begin after the order's end.
		return fused.Source{X: in[state+1], Labels: in[state+2], Order: in[state+3], Place: number(many - (steps+1)*n + 1), Step: number(3), Batch: n}, states
	}
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		g := in[0].Graph()
		source, states := begin(in)
		journal := &fused.Journal{Rows: Zeros(g, f32(steps+2, 3)), At: Const(g, int32(1))}
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
	c.reference = func(o fused.Ops, in []*Node) []*Node {
		g := in[0].Graph()
		source, states := begin(in)
		rows := []*Node{Zeros(g, f32(1, 3))}
		for k := range steps {
			b := o.Take(source, Const(g, int32(1+k)), 1)[0]
			row, gradients := rounded(weights, states, Reshape(b.X, n, -1), b.Labels)
			rows = append(rows, row)
			for i, w := range weights {
				states[w.name] = gomlx.Update(rule, in[state], b.Number, states[w.name], gradients[i])
			}
		}
		var out []*Node
		for _, w := range weights {
			out = append(out, states[w.name]...)
		}
		return append(out, Concatenate(append(rows, Zeros(g, f32(1, 3))), 0), Const(g, int32(1+steps)))
	}
	return c
}

// rounded is a step of a multilayer perceptron with ReLU on x [n in]: its row, and the
// gradients of weights, which are layer by layer. Factors of the products of all layers but the
// last are rounded to TF32, as package resident has them.
func rounded(weights []weight, states map[string][]*Node, x, labels *Node) (row *Node, gradients []*Node) {
	short := func(x *Node) *Node { // ten digits after the point
		bits := AddScalar(Bitcast(x, dtypes.Int32), 0x1000)
		return Bitcast(BitwiseAnd(bits, Const(x.Graph(), int32(^0x1FFF))), dtypes.Float32)
	}
	layers := len(weights) / 2
	h, factors := []*Node{x}, []*Node{}
	for l := range layers {
		w, y := states[weights[2*l].name][0], h[l]
		if l < layers-1 {
			w, y = short(w), short(y)
		}
		factors = append(factors, w)
		z := Add(Dot(y, w).Product(), ExpandLeftToRank(states[weights[2*l+1].name][0], 2))
		if l < layers-1 {
			z = Max(z, ZerosLike(z))
		}
		h = append(h, z)
	}
	loss, hit, d := fused.Ops{}.Softmax(h[layers], labels)
	n := x.Shape().Dimensions[0]
	row = Reshape(Stack([]*Node{ReduceAllMean(loss), Const(x.Graph(), float32(n)), ReduceAllSum(hit)}, 0), 1, 3)
	gradients = make([]*Node, len(weights))
	for l := layers - 1; l >= 0; l-- {
		gradients[2*l+1] = ReduceSum(d, 0)
		y := h[l]
		if l < layers-1 {
			d, y = short(d), short(y)
		}
		gradients[2*l] = Dot(TransposeAllAxes(y, 1, 0), d).Product()
		if l > 0 {
			d = Where(GreaterThan(h[l], ZerosLike(h[l])), Dot(d, TransposeAllAxes(factors[l], 1, 0)).Product(), ZerosLike(h[l]))
		}
	}
	return row, gradients
}
