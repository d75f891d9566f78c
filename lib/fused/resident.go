package fused

import (
	"fmt"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/ptx/resident"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/models"
)

// Resident is some training steps of a multilayer perceptron as one kernel, whose
// blocks keep the net's weights and moments on their processors: see package
// resident. It has no plain form: where it does not fit, a [Plan] writes step by step.
type Resident struct {
	layers []string // the Dense layers
	sizes  resident.MLP
}

// NewResident finds the layers of a net for the steps of a rule, with batches of so many
// examples. Its error says why there is no such kernel.
func NewResident(net models.Net, rule kernels.Rule, examples, batch int) (*Resident, error) {
	refuse := func(format string, args ...any) (*Resident, error) {
		return nil, fmt.Errorf("fused: %s: its weights cannot stay on the processors: %s", net.Name, fmt.Sprintf(format, args...))
	}
	if rule == nil {
		return refuse("got no optimizer of package optim")
	}
	r := &Resident{sizes: resident.MLP{Examples: examples, Batch: batch, In: 1, Steps: 1, Rows: 1, Rule: rule}}
	for _, n := range net.Input {
		r.sizes.In *= n
	}
	var units []int
	for i, layer := range net.Layers {
		if _, is := layer.(models.Flatten); is && i == 0 {
			continue
		}
		l, is := layer.(models.Dense)
		if !is || l.NoBias {
			return refuse("got a layer %s, want Dense layers with biases, and no others", net.Names()[i])
		}
		want := kernels.ReLU
		if i == len(net.Layers)-1 {
			want = kernels.Identity
		}
		if act, known := l.Act.Activation(); !known || act != want {
			return refuse("layer %s: want ReLU, and none in the last layer", net.Names()[i])
		}
		r.layers, units = append(r.layers, net.Names()[i]), append(units, l.Units)
	}
	if len(units) != 3 {
		return refuse("got %d Dense layers, want 3", len(units))
	}
	r.sizes.Hidden, r.sizes.Classes = [2]int{units[0], units[1]}, units[2]
	if !r.sizes.Fits() {
		return refuse("%d inputs, %v units, %d classes and batches of %d have no room, or %s is not known", r.sizes.In, r.sizes.Hidden, r.sizes.Classes, batch, rule.Name())
	}
	return r, nil
}

// Blocks is how many processors the kernel wants, all at once.
func (r *Resident) Blocks() int { return r.sizes.Blocks() }

// Weights is how many numbers stay on the processors, without moments.
func (r *Resident) Weights() int {
	return r.sizes.In*r.sizes.Hidden[0] + r.sizes.Hidden[0]*r.sizes.Hidden[1]
}

// String says so, and lists the layers.
func (r *Resident) String() string {
	return fmt.Sprintf("with batches of up to %d, many steps are one kernel, which keeps weights and moments on the processors: %s, the loss and the update\n",
		resident.MostBatch, strings.Join(r.layers, ", "))
}

// Train writes so many steps, from batch number s.Journal.At of the source on. X, Labels
// and T of the step are not looked at. It returns the new states by name; the steps' rows
// are in the journal.
func (r *Resident) Train(s Step, source Source, steps int) (state map[string][]*Node) {
	m := r.sizes
	m.Steps, m.Rows, m.Floats = steps, s.Journal.Rows.Shape().Dimensions[0], source.X.DType() == dtypes.Float32
	in := []*Node{source.Order, source.Place, s.Journal.At, Reshape(source.X, m.Examples, m.In), source.Labels,
		r.scales(s, source, steps), Zeros(s.Journal.At.Graph(), shapes.Make(dtypes.Int32, m.Counters())), s.Journal.Rows}
	var names []string
	for _, layer := range r.layers {
		names = append(names, layer+"/weights", layer+"/biases")
	}
	for _, name := range names {
		in = append(in, s.State(name)...)
	}
	if s.Mark != nil {
		s.Mark("layers/both ways")
	}
	out := s.Ops.call(m.Kernel(), in...)
	state = map[string][]*Node{}
	each := 1 + m.Rule.Moments()
	for i, name := range names {
		state[name] = out[each*i : each*(i+1)]
	}
	n := each * len(names)
	s.Journal.Rows, s.Journal.At = out[n], out[n+1]
	return state
}

// scales are the rule's scalars in each step, [steps 2].
func (r *Resident) scales(s Step, source Source, steps int) *Node {
	g := s.Journal.At.Graph() // that of a loop's body
	first := Add(Add(source.Step, s.Journal.At), Const(g, int32(1)))
	t := ConvertDType(Add(Iota(g, shapes.Make(dtypes.Int32, steps), 0), first), dtypes.Float32)
	l := elementwise.Eval(gomlx.Ops, gomlx.Scalars(s.Rate, t), r.sizes.Rule.Scalars()...)
	for i, x := range l {
		l[i] = BroadcastToDims(x, steps)
	}
	return Stack([]*Node{l[0], l[len(l)-1]}, 1)
}
