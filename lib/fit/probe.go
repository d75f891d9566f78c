package fit

import (
	"context"
	"fmt"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
)

// probe says which layer of the net is the first that has weights or returns
// numbers that are not finite, at a step: number bad of those that begin with
// example first. It does the steps before it again.
func (n *Net) probe(ctx context.Context, s *Set, size int, order *session.Array, first, bad int, state, rate []*session.Array) (layer, part string, err error) {
	all := state
	if bad > 0 {
		steps := n.steps(s, n.once(size, bad))
		if err = steps.ready(ctx, nil); err != nil {
			return "", "", err
		}
		after, _, err := steps.do(copies{state}, s, copies{{order}}, copies{rate}, first, bad)
		if err != nil {
			return "", "", err
		}
		all = after[0]
	}
	key := fmt.Sprintf("probe/%s/%d/%d", s.key(), s.N, size)
	p, err := n.wait(ctx, key, n.prepare(key, func() (*hlo.Program, error) { return n.probeProgram(s, size) }, nil), nil)
	if err != nil {
		return "", "", err
	}
	scalars, err := n.integers(0, first+bad*size)
	if err != nil {
		return "", "", err
	}
	in := append(append(append([]*session.Array{}, all[:len(n.layout.variables)]...), s.arrays()...), order)
	out, err := p.Run(session.Call{Inputs: append(in, scalars...)})
	if err != nil {
		return "", "", err
	}
	names := n.model.Names()
	flags := make([]int32, 2*len(names))
	if err := during(ctx, nil, func() error { return out[0].Values(flags) }); err != nil {
		return "", "", err
	}
	for i, wrong := range flags {
		if wrong != 0 {
			return names[i/2], []string{"weights", "output"}[i%2], nil
		}
	}
	return "", "loss", nil
}

// probeProgram says of each layer whether its weights, and whether its output,
// hold a number that is not finite: variables, x, y[, v], order, first →
// [2·layers] int32.
func (n *Net) probeProgram(s *Set, size int) (*hlo.Program, error) {
	return n.trace("probe", func(t *trace) []*Node {
		variables := t.variables()
		sources := t.sources(s)
		order := Parameter(t.g, "order", shapes.Make(dtypes.Int32, s.N))
		first := Parameter(t.g, "first", shapes.Make(dtypes.Int32))
		b := t.take(size, sources, rows(DynamicSlice(order, []*Node{first}, []int{size})))
		t.set(variables)
		t.store.SetTraining(t.g, true)
		wrong := func(l ...*Node) *Node {
			sum := t.scalar(int32(0))
			for _, x := range l {
				sum = Max(sum, ReduceAllMax(ConvertDType(LogicalNot(IsFinite(x)), dtypes.Int32)))
			}
			return sum
		}
		var flags []*Node
		x := b.x
		if n.config.BF16 {
			x = ConvertDType(x, dtypes.BFloat16)
		}
		scope := t.store.RootScope()
		for i, name := range n.model.Names() {
			var weights []*Node
			for k, v := range n.layout.variables {
				if v.shape.DType.IsFloat() && (len(v.name) > len(name) && v.name[:len(name)+1] == name+"/") {
					weights = append(weights, variables[k])
				}
			}
			x = n.model.Layer(i, name, scope, x, nil)
			flags = append(flags, wrong(weights...), wrong(x))
		}
		return []*Node{Stack(flags, 0)}
	})
}
