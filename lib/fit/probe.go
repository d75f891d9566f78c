package fit

import (
	"context"
	"fmt"
	"reflect"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit/result"
	"gaiden/lib/losses"
	"gaiden/lib/session"
)

// explain finds where numbers that are not finite come from at a step: number bad of
// those that begin with example first. It does the steps before it again, and fills in
// the example that has such numbers, or the first layer that has them. Weights have them
// from the step before, whose batch may be at fault: for XLA's CPU compiler the greater of
// NaN and a number is the number, so that max pooling may not hand it on, but the gradient of
// the weights before it does.
func (n *Net) explain(ctx context.Context, e *result.NotFiniteError, s *Set, size int, order *session.Array, first, bad int, state, rate []*session.Array) error {
	flags, err := n.probe(ctx, s, size, order, first, bad, state, rate)
	if err != nil {
		return err
	}
	names := n.model.Names()
	located(e, flags, s.Name, names)
	if e.Part != "weights" || bad == 0 {
		return nil
	}
	if flags, err = n.probe(ctx, s, size, order, first, bad-1, state, rate); err != nil {
		return err
	}
	blameStepBefore(e, flags, s.Name, names)
	return nil
}

// blameStepBefore names the data of the step before one whose weights are not finite, where a
// probe found its numbers to be at fault.
func blameStepBefore(e *result.NotFiniteError, flags []int32, data string, layers []string) {
	before := result.NotFiniteError{}
	if located(&before, flags, data, layers); e.Part == "weights" && before.Data != "" {
		e.Part, e.Layer, e.Data, e.Example = before.Part, "", before.Data, before.Example
	}
}

// probe does some steps again, and runs a probeProgram on the batch after them.
func (n *Net) probe(ctx context.Context, s *Set, size int, order *session.Array, first, steps int, state, rate []*session.Array) ([]int32, error) {
	all := state
	if steps > 0 {
		x := n.stepPrograms(s, n.plainSteps(size, steps))
		if err := x.ready(ctx, nil); err != nil {
			return nil, err
		}
		after, _, err := x.run(copies{state}, s, copies{{order}}, copies{rate}, first, steps)
		if err != nil {
			return nil, err
		}
		all = after[0]
	}
	p, err := n.wait(ctx, n.prepare(fmt.Sprintf("probe/%s/%d/%d", s.key(), s.N, size), func() (*hlo.Program, error) { return n.probeProgram(s, size) }, nil), nil)
	if err != nil {
		return nil, err
	}
	scalars, err := n.integers(0, first+steps*size)
	if err != nil {
		return nil, err
	}
	in := append(append(append([]*session.Array{}, all[:len(n.layout.variables)]...), s.all()...), order)
	out, err := p.Run(session.Call{Inputs: append(in, scalars...)})
	if err != nil {
		return nil, err
	}
	flags := make([]int32, 2+2*len(n.model.Names()))
	err = during(ctx, nil, func() error { return out[0].Values(flags) })
	return flags, err
}

// located reads what a probe has found in a set's batch and in layers of these names.
func located(e *result.NotFiniteError, flags []int32, data string, layers []string) {
	e.Part = "loss"
	for i, wrong := range flags {
		if wrong == 0 {
			continue
		}
		switch i {
		case 0:
			e.Part, e.Data, e.Example = "examples", data, int(wrong)-1
		case len(flags) - 1:
			e.Part, e.Data, e.Example = "targets", data, int(wrong)-1
		default:
			e.Part, e.Layer = []string{"weights", "output"}[(i-1)%2], layers[(i-1)/2]
		}
		break
	}
}

// leavesOut says whether a loss takes no notice of targets without weight.
func leavesOut(l losses.Loss) bool {
	switch l := l.(type) {
	case losses.Visibility:
		return !l.Blind
	case losses.Func:
		return false
	}
	return reflect.TypeOf(l).PkgPath() == reflect.TypeFor[losses.MSE]().PkgPath()
}

// probeProgram says which example holds a number that is not finite, from 1 on; of each
// layer whether its weights, and whether its output, do; and the targets of which
// example, last, since a loss may leave some out: variables, x, y[, v], order, first →
// [2+2·layers] int32, 0 where all is well.
func (n *Net) probeProgram(s *Set, size int) (*hlo.Program, error) {
	return n.trace("probe", func(t *trace) []*Node {
		variables := t.variables()
		sources := t.sources(s)
		order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, s.N))
		first := Parameter(t.g, "first", shapes.Make(dtypes.Int32))
		batch := DynamicSlice(order, []*Node{first}, []int{size})
		b := t.gather(size, s, sources, rows(batch))
		t.set(variables)
		t.store.SetTraining(t.g, true)
		wrong := func(l ...*Node) *Node {
			sum := t.scalar(int32(0))
			for _, x := range l {
				if !x.DType().IsFloat() { // such as ids
					continue
				}
				sum = Max(sum, ReduceAllMax(ConvertDType(LogicalNot(IsFinite(x)), dtypes.Int32)))
			}
			return sum
		}
		example := func(l ...*Node) *Node {
			last := t.scalar(int32(0))
			for _, x := range l {
				if x == nil || !x.DType().IsFloat() {
					continue
				}
				x = ReduceMax(ConvertDType(LogicalNot(IsFinite(Reshape(x, size, -1))), dtypes.Int32), 1)
				last = Max(last, ReduceAllMax(Mul(x, AddScalar(batch, 1))))
			}
			return last
		}
		flags := []*Node{example(n.ordered(b.in)...)}
		names := n.model.Names()
		look := func(i int, x *Node) *Node {
			var weights []*Node
			for k, v := range n.layout.variables {
				if v.shape.DType.IsFloat() && strings.HasPrefix(v.name, names[i]+"/") {
					weights = append(weights, variables[k])
				}
			}
			flags = append(flags, wrong(weights...), wrong(x))
			return x
		}
		if n.config.Step == nil {
			n.model.Build(t.store.RootScope(), t.rounded(b.in), nil, look)
		} else { // only it knows what goes into the layers
			for i := range names {
				look(i, t.scalar(float32(0)))
			}
		}
		if b.v != nil && b.y.DType().IsFloat() && leavesOut(n.lossOf(s)) {
			b.y = losses.Seen(b.y, losses.Spread(b.v, b.y))
		}
		return []*Node{Stack(append(flags, example(b.y, b.v)), 0)}
	})
}
