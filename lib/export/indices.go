package export

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/portable"
)

// gather is a Gather along one axis, a GatherND of elements along several, or a Slice where there
// is one window. Indices outside are the nearest inside, as in XLA.
func gather(g *graph) []string {
	dims, at, out := g.dims(g.number(0)), g.dims(g.number(1)), g.dims(g.op.Out[0])
	vector, offsets, collapsed, axes, sizes := g.integer(2), g.ints(3), g.ints(4), g.ints(5), g.dimensions(6)
	x, indices := g.in(0), g.cast(g.in(1), dtypes.Int64)
	if vector == len(at) { // each index is alone
		at = append(at, portable.Dim{B: 1})
		indices = g.reshape(indices, at)
	}
	last := append(append([]int{}, others(len(at), vector)...), vector)
	indices = g.transpose(indices, last) // […, len(axes)]
	rest := permuted(at, last)[:len(at)-1]

	// Indices are kept inside.
	high := make([]portable.Dim, len(axes))
	for i, axis := range axes {
		high[i] = portable.Dim{A: dims[axis].A - sizes[axis].A, B: dims[axis].B - sizes[axis].B}
	}
	indices = g.do("Max", nil, g.do("Min", nil, indices, g.list(high)), g.integers(0))

	whole := true // of all axes that have no index
	for i := range dims {
		whole = whole && (slices.Contains(axes, i) || sizes[i] == dims[i])
	}
	switch {
	case len(rest) == 0:
		ends := g.do("Add", nil, indices, g.list(pick(sizes, axes)))
		y := g.do("Slice", nil, x, indices, ends, g.integers(axes...))
		return one(g.reshape(y, out))
	case !whole || !slices.Equal(slices.Sorted(slices.Values(axes)), slices.Sorted(slices.Values(collapsed))):
		g.fail("of several windows")
	case len(axes) == 1:
		indices = g.reshape(indices, rest)
		x = g.transpose(x, append([]int{axes[0]}, others(len(dims), axes[0])...))
		x = g.do("Gather", map[string]any{"axis": 0}, x, indices)
	default:
		order := slices.Clone(axes)
		for i := range dims {
			if !slices.Contains(axes, i) {
				order = append(order, i)
			}
		}
		x = g.do("GatherND", nil, g.transpose(x, order), indices)
	}
	// Now the axes of the indices come first; offsets says where those of the windows belong.
	order := make([]int, len(out))
	next := 0
	for i := range order {
		if k := slices.Index(offsets, i); k >= 0 {
			order[i] = len(rest) + k
		} else {
			order[i] = next
			next++
		}
	}
	return one(g.transpose(x, order))
}

// others are the axes but one.
func others(rank, axis int) []int {
	l := []int{}
	for i := range rank {
		if i != axis {
			l = append(l, i)
		}
	}
	return l
}

func pick(dims []portable.Dim, axes []int) []portable.Dim {
	l := make([]portable.Dim, len(axes))
	for i, axis := range axes {
		l[i] = dims[axis]
	}
	return l
}

// closure is argument i.
func (g *graph) closure(i int) *portable.Closure {
	c, is := g.op.In[i].(*portable.Closure)
	if !is {
		panic(fmt.Errorf("export: argument %d of %s is a %T", i, g.op.Op, g.op.In[i]))
	}
	return c
}

// body writes a closure whose parameters have names, and returns the names of its results.
func (g *graph) body(c *portable.Closure, params []string) (results []string) {
	op := g.op
	for i, p := range c.Params {
		g.names[p.Out] = params[i]
	}
	g.operations(c.Ops)
	for _, r := range c.Results {
		results = append(results, g.name(r))
	}
	g.op = op
	return results
}

// proto is an inner graph with inputs and outputs.
func (g *graph) proto(inputs, outputs message) (m message) {
	for _, n := range g.nodes {
		m.bytes(1, n)
	}
	m.text(2, g.unique("inner"))
	m = append(m, inputs...)
	return append(m, outputs...)
}

// result is a name of its own for a result of an inner graph.
func (g *graph) result(name string) string { return g.do("Identity", nil, name) }

// loop is a Loop. Its condition is computed before it, and at the end of each turn.
func loop(g *graph) []string {
	cond, body := g.closure(0), g.closure(1)
	state, _ := g.op.In[2].([]any)
	var start []string
	for _, x := range state {
		start = append(start, g.name(g.intsOf([]any{x})[0]))
	}
	again := g.body(cond, start)[0]

	in := g.inner()
	var inputs, outputs message
	params := make([]string, len(body.Params))
	inputs.bytes(11, valueProto(in.unique("turn"), dtypes.Int64, nil))
	inputs.bytes(11, valueProto(in.unique("again"), dtypes.Bool, nil))
	for i, p := range body.Params {
		params[i] = in.unique(fmt.Sprint("state_", p.Out))
		inputs.bytes(11, valueProto(params[i], in.kind(p.Out), in.axes(p.Out)))
	}
	next := in.body(body, params)
	outputs.bytes(12, valueProto(in.result(in.body(cond, next)[0]), dtypes.Bool, nil))
	// the condition comes first among the outputs
	for i, p := range body.Params {
		outputs.bytes(12, valueProto(in.result(next[i]), in.kind(p.Out), in.axes(p.Out)))
	}
	var names []string
	for _, out := range g.op.Out {
		names = append(names, g.unique(fmt.Sprint("loop_", out)))
	}
	g.add("Loop", append([]string{"", again}, start...), names, map[string]any{"body": in.proto(inputs, outputs)})
	return names
}

// branch is an If.
func branch(g *graph) []string {
	var names []string
	for _, out := range g.op.Out {
		names = append(names, g.unique(fmt.Sprint("if_", out)))
	}
	attributes := map[string]any{}
	for i, name := range []string{1: "then_branch", 2: "else_branch"} {
		if name == "" {
			continue
		}
		in := g.inner()
		var outputs message
		for k, result := range in.body(g.closure(i), nil) {
			outputs.bytes(12, valueProto(in.result(result), g.kind(g.op.Out[k]), g.axes(g.op.Out[k])))
		}
		attributes[name] = in.proto(nil, outputs)
	}
	g.add("If", []string{g.in(0)}, names, attributes)
	return names
}

// sort is a TopK of all elements, where the first array alone decides; others follow it.
func sort(g *graph) []string {
	c, axis := g.closure(0), g.integer(1)
	l, _ := g.op.In[3].([]any)
	inputs := g.intsOf(l)
	if axis < 0 {
		axis += len(g.dims(inputs[0]))
	}
	largest := 0
	switch ops := c.Ops; {
	case len(ops) != 1 || !slices.Equal(c.Results, ops[0].Out) || len(ops[0].In) != 2 || !slices.Equal(g.intsOf(any(ops[0].In)), []int{c.Params[0].Out, c.Params[1].Out}):
		g.fail("by this comparison")
	case ops[0].Op == "GreaterThan":
		largest = 1
	case ops[0].Op != "LessThan":
		g.fail("by this comparison")
	}
	length := g.list(g.dims(inputs[0])[axis : axis+1])
	values, order := g.unique("sorted"), g.unique("order")
	g.add("TopK", []string{g.name(inputs[0]), length}, []string{values, order}, map[string]any{"axis": axis, "largest": largest, "sorted": 1})
	names := []string{values}
	for _, x := range inputs[1:] {
		names = append(names, g.do("GatherElements", map[string]any{"axis": axis}, g.name(x), order))
	}
	return names
}
