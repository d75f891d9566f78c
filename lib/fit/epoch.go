package fit

import (
	"fmt"
	"strconv"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
)

func itoa(n int) string { return strconv.Itoa(n) }

// chunk says which steps a program can do: batches of Batch examples, turns of
// Inner·Unroll steps that XLA counts, and at most Limit turns a run.
type chunk struct {
	Batch, Inner, Unroll, Limit int
}

// turn is the number of steps of one turn.
func (c chunk) turn() int { return c.Inner * c.Unroll }

// columns of the result of a step: mean loss, number it was divided by, right
// answers.
const columns = 3

// epochProgram is some steps of an epoch:
//
//	variables, moments, step, x, y[, v], order [n], rate, place, turns →
//	variables, moments, step, results [Limit·turn+1 columns]
//
// The first batch begins at place in the order; turns is how many turns to do.
// The last row of the results is not 0 when a weight is not finite afterwards.
func (n *Net) epochProgram(s *Set, c chunk) (*hlo.Program, error) {
	return n.trace(fmt.Sprintf("epoch b%d", c.Batch), func(t *trace) []*Node {
		variables := t.variables()
		moments := t.slots(n.layout.moments)
		step := Parameter(t.g, "step", n.layout.step.shape)
		sources := t.sources(s)
		order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, s.N))
		rate := Parameter(t.g, "rate", shapes.Make(dtypes.Float32))
		place := Parameter(t.g, "place", shapes.Make(dtypes.Int32))
		turns := Parameter(t.g, "turns", shapes.Make(dtypes.Int32))

		size, unroll := t.scalar(int32(c.Batch)), t.scalar(int32(c.Unroll))
		zero, end, none := t.scalar(int32(0)), t.scalar(int32(c.Limit*c.turn())), t.scalar(float32(0))
		one := make([]*Node, c.Unroll)
		for k := range one {
			one[k] = t.scalar(int32(k))
		}
		done := Add(step, Mul(turns, t.scalar(int32(c.turn()))))
		results := Zeros(t.g, shapes.Make(dtypes.Float32, c.Limit*c.turn()+1, columns))
		state := append(append(append([]*Node{}, variables...), moments...), results)
		state = t.repeat(turns, c.Inner, state, func(i *Node, state []*Node) []*Node {
			nv, nm := len(variables), len(moments)
			for k := range c.Unroll {
				at := i
				if c.Unroll > 1 {
					at = Add(Mul(i, unroll), one[k])
				}
				t.mark("data/gather")
				index := DynamicSlice(order, []*Node{Add(place, Mul(at, size))}, []int{c.Batch})
				b := t.take(c.Batch, sources, rows(index))
				number := ConvertDType(Add(Add(step, at), t.scalar(int32(1))), dtypes.Float32)
				v, m, row := t.train(state[:nv], state[nv:nv+nm], b, rate, number, n.lossOf(s))
				t.mark("fit/results")
				state = append(append(append([]*Node{}, v...), m...), DynamicUpdateSlice(state[nv+nm], row, []*Node{at, zero}))
			}
			return state
		})
		last := len(state) - 1
		t.mark("fit/check")
		wrong := none
		for _, i := range n.layout.trained {
			wrong = Max(wrong, ReduceAllMax(ConvertDType(LogicalNot(IsFinite(state[i])), dtypes.Float32)))
		}
		row := BroadcastToDims(wrong, 1, columns)
		return append(state[:last:last], done, DynamicUpdateSlice(state[last], row, []*Node{end, zero}))
	})
}

// train is one step: variables and moments after it, and its result
// [1 columns].
func (t *trace) train(variables, moments []*Node, b batch, rate, number *Node, l Loss) (v, m []*Node, row *Node) {
	t.set(variables)
	out := t.apply(b.x, true)
	sum, weight, right := t.score(l, out, b, nil)
	mean := Div(sum, weight)
	v = t.buffers(variables)
	t.mark("loss/backward")
	var trained []*Node
	for _, i := range t.net.layout.trained {
		trained = append(trained, variables[i])
	}
	gradients := Gradient(mean, trained...)
	v, m = t.update(v, moments, gradients, rate, number)
	return v, m, Reshape(Stack([]*Node{mean, weight, right}, 0), 1, columns)
}

// update gives trained variables and moments their next values.
func (t *trace) update(variables, moments, gradients []*Node, rate, number *Node) (v, m []*Node) {
	o := t.net.config.Optimizer
	title, names := o.Title()
	t.mark(title + "/update")
	v = append([]*Node(nil), variables...)
	for k, i := range t.net.layout.trained {
		w, next := o.Update(rate, number, variables[i], gradients[k], moments[k*len(names):(k+1)*len(names)])
		v[i], m = w, append(m, next...)
	}
	return v, m
}

// orderProgram is the order of an epoch's examples: step → order [n]. It is a
// shuffle by the seed and the number of steps done.
func (n *Net) orderProgram(examples int, shuffle bool) (*hlo.Program, error) {
	return n.trace("order", func(t *trace) []*Node {
		step := Parameter(t.g, "step", n.layout.step.shape)
		return []*Node{t.order(step, examples, shuffle)}
	})
}

func (t *trace) order(step *Node, examples int, shuffle bool) *Node {
	index := Iota(t.g, shapes.Make(dtypes.Int32, examples), 0)
	if !shuffle {
		return index
	}
	seed := t.scalar([]uint64{uint64(t.net.config.Seed), 0x6f72646572}) // "order": not the numbers of dropout
	state := Concatenate([]*Node{seed, Reshape(ConvertDType(step, dtypes.Uint64), 1)}, 0)
	_, keys := RandomUniform(state, shapes.Make(dtypes.Float64, examples))
	less := NewClosure(t.g, func(g *Graph) []*Node {
		a, b := Parameter(g, "a", shapes.Make(dtypes.Float64)), Parameter(g, "b", shapes.Make(dtypes.Float64))
		Parameter(g, "i", shapes.Make(dtypes.Int32))
		Parameter(g, "j", shapes.Make(dtypes.Int32))
		return []*Node{LessThan(a, b)}
	})
	return SortFunc(less, 0, true, keys, index)[1]
}
