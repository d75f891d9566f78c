package trial

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/triton"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/models"
)

// recurrent is a net for sequences of any sizes.
func recurrent(length, in, wide, units, out int) models.Net {
	return models.Net{Name: "recurrent", Input: []int{length, in}, Layers: []models.Layer{
		models.Dense{Name: "l1", Units: wide}, models.LSTM{Name: "l2", Units: units}, models.Dense{Name: "l3", Units: out}}}
}

// dense is a net of dense layers of any sizes, all with an activation but the last.
func dense(act models.Act, in int, units ...int) models.Net {
	net := models.Net{Name: "dense", Input: []int{in}}
	for i, n := range units {
		l := models.Dense{Name: fmt.Sprint("l", i+1), Units: n}
		if i < len(units)-1 {
			l.Act = act
		}
		net.Layers = append(net.Layers, l)
	}
	return net
}

// sequence is a training step of a small net for sequences.
func sequence(net models.Net, n int, rule kernels.Rule) operation {
	plan, err := fused.NewSequencePlan(net, n)
	if err != nil {
		panic(err)
	}
	last := net.Layers[2].(models.Dense).Units
	c := whole(net, plan, 600, n, net.Input[0]*net.Input[1], net.Input[0]*last, rule)
	c.name, c.limit = fmt.Sprintf("sequence %v b%d %s f32", net.Input, n, rule.Name()), 1e-4
	return c
}

// stack is a training step of a small stack of dense layers, of batches that are
// all examples, or not. TF32 changes the sign of a share p of what is nearly 0
// before a ReLU, and gradients of noise below are then off by about √p: see step.
// The exact cases hold the same kernels to 0.01 %, or, where there are a million
// such signs and the order of a sum may change one, to 0.5 %.
func stack(net models.Net, examples, n int, rule kernels.Rule, rounding triton.Rounding) operation {
	plan, err := fused.NewStackPlan(net, n)
	if err != nil {
		panic(err)
	}
	plan.Rounding = rounding
	var units []int
	for _, l := range net.Layers {
		units = append(units, l.(models.Dense).Units)
	}
	c := whole(net, plan, examples, n, net.Input[0], units[len(units)-1], rule)
	c.name, c.limit, c.times = fmt.Sprintf("stack %d→%v b%d of %d %s f32", net.Input[0], units, n, examples, rule.Name()), 3e-2, 2
	if rounding == triton.Exact {
		c.name, c.limit, c.times = c.name+" exact", 1e-4, 0
		if n > 10000 {
			c.limit = 5e-3
		}
	}
	return c
}

// whole is a training step of a plan that is one kernel and the update, from its
// examples, of some sizes, to its weights. Outputs are the state and the journal.
func whole(net models.Net, plan fused.Whole, many, n, in, out int, rule kernels.Rule) operation {
	c := operation{Form: tiling.Form{Chain: map[int]int{}, Poke: -1}}
	weights, each := weightsOf(net), 1+rule.Moments()
	at := c.states(weights, each)
	state := len(c.Inputs)
	c.Inputs = append(c.Inputs, tiling.Input{Shape: f32(), Fill: tiling.Number, Limit: 0.001},
		tiling.Input{Shape: f32(many, in)}, tiling.Input{Shape: f32(many, out)},
		tiling.Input{Shape: shapes.Make(dtypes.Int32, many), Fill: tiling.Below, Limit: float64(many)})
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		g := in[0].Graph()
		number := func(n int) *Node { return Const(g, int32(n)) }
		journal := &fused.Journal{Rows: Zeros(g, f32(3, 3)), At: number(1)}
		states, _ := plan.Train(fused.Step{Ops: o, Rule: rule, Rate: in[state], Journal: journal, State: func(name string) []*Node { return in[at[name] : at[name]+each] }},
			fused.Source{X: in[state+1], Labels: in[state+2], Order: in[state+3], Place: number(max(0, many-2*n)), Step: number(3), Batch: n}, number(1))
		var out []*Node
		for _, w := range weights {
			out = append(out, states[w.name]...)
		}
		return append(out, journal.Rows, journal.At)
	}
	return c
}

// states adds weights and their moments, in place, to the inputs. It returns where each
// weight's are.
func (c *operation) states(weights []weight, each int) (at map[string]int) {
	at = map[string]int{}
	for _, w := range weights {
		at[w.name] = len(c.Inputs)
		for k := range each {
			c.Chain[len(c.Inputs)] = len(c.Inputs)
			f := tiling.Input{Shape: w.shape, Fill: tiling.Small}
			if k > 0 {
				f.Fill = tiling.Number // so that the moments show the gradient
			}
			c.Inputs = append(c.Inputs, f)
		}
	}
	return at
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

// exact is a case whose products are float32 on both sides: what differs by TF32
// alone is equal here, but for the order of sums. It shows that the wide limits
// of nets with pooling are for what TF32 decides, and for nothing else: see step.
func exact(c operation) operation {
	build := c.Build
	c.name, c.op, c.limit, c.loose, c.moves, c.times = c.name+" exact", nil, 1e-4, map[int]float64{}, nil, 0
	c.Build = func(o fused.Ops, in []*Node) []*Node {
		o.Choose = func(op kernels.Op) kernels.Op { return op.With(kernels.Tile{Rounding: triton.Exact}) }
		return build(o, in)
	}
	return c
}

// oneSign is an exact case of KerasCNN's step, whose second ReLU has 1,179,648
// numbers: a few are closer to 0 than what the order of a sum moves, 1e-7, and one
// that changes its sign moves the moments of the convolutions below by 0.03 to
// 0.2 %, and nothing above. The limit for these is 0.5 %.
func oneSign(c operation) operation {
	for i := range 12 { // weights and biases of two layers, with two moments each
		c.loose[i] = 5e-3
	}
	return c
}
