package hlo

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

// While runs body on the state as long as cond of the state is true, and
// returns the last state. Both closures take the state; body returns it.
func (f *Function) While(cond, body compute.Function, state ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands("While", state...)
	if err != nil {
		return nil, err
	}
	if len(in) == 0 {
		return nil, fmt.Errorf("hlo: While: got no state, want at least one value")
	}
	types := shapesOf(in)
	c, err := f.region("While", "condition", cond, types, []shapes.Shape{{DType: dtypes.Bool}})
	if err != nil {
		return nil, err
	}
	b, err := f.region("While", "body", body, types, types)
	if err != nil {
		return nil, err
	}
	return values(f.add(&statement{op: "stablehlo.while", form: formGeneric, in: in, regions: []*Function{c, b}}, types...)), nil
}

// If runs onTrue or onFalse, closures without parameters whose results are
// alike, as pred says, a boolean scalar. It returns the results.
func (f *Function) If(pred compute.Value, onTrue, onFalse compute.Function) ([]compute.Value, error) {
	in, err := f.operands("If", pred)
	if err != nil {
		return nil, err
	}
	if p := in[0].shape; p.DType != dtypes.Bool || !p.IsScalar() {
		return nil, fmt.Errorf("hlo: If: got condition %s, want a scalar Bool", p)
	}
	t, err := f.region("If", "true branch", onTrue, nil, nil)
	if err != nil {
		return nil, err
	}
	types := shapesOf(t.outputs)
	e, err := f.region("If", "false branch", onFalse, nil, types)
	if err != nil {
		return nil, err
	}
	return values(f.add(&statement{op: "stablehlo.if", form: formGeneric, in: in, regions: []*Function{t, e}}, types...)), nil
}

// Sort sorts the inputs, all of the same dimensions, together along axis (a
// negative one counts from the end). The comparator takes two scalars of each
// input, (a0, b0, a1, b1, …), and reports whether the a's come first. That is
// the order of StableHLO and of GoMLX's SortFunc; the comment of
// compute.Function has another one, which nobody follows.
func (f *Function) Sort(comparator compute.Function, axis int, isStable bool, inputs ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands("Sort", inputs...)
	if err != nil {
		return nil, err
	}
	if len(in) == 0 {
		return nil, fmt.Errorf("hlo: Sort: got no inputs, want at least one")
	}
	first := in[0].shape
	if axis < 0 {
		axis += first.Rank()
	}
	if err := checkAxes("Sort", first, []int{axis}); err != nil {
		return nil, err
	}
	var pairs []shapes.Shape
	for _, v := range in {
		if !slices.Equal(v.shape.Dimensions, first.Dimensions) {
			return nil, fmt.Errorf("hlo: Sort: got inputs %v, want one set of dimensions", shapesOf(in))
		}
		scalar := shapes.Shape{DType: v.shape.DType}
		pairs = append(pairs, scalar, scalar)
	}
	c, err := f.region("Sort", "comparator", comparator, pairs, []shapes.Shape{{DType: dtypes.Bool}})
	if err != nil {
		return nil, err
	}
	if len(c.captures) > 0 {
		return nil, fmt.Errorf("hlo: Sort: the comparator uses values of %s; it may use its parameters and constants only", c.captures[0].called())
	}
	return values(f.add(&statement{
		op: "stablehlo.sort", form: formGeneric, in: in, regions: []*Function{c},
		attrs: "dimension = " + strconv.Itoa(axis) + " : i64, is_stable = " + strconv.FormatBool(isStable),
		cost:  sortCost(shapesOf(in)),
	}, shapesOf(in)...)), nil
}

// Call runs target, a function of NewFunction that has returned, on inputs.
func (f *Function) Call(target compute.Function, inputs ...compute.Value) ([]compute.Value, error) {
	in, err := f.operands("Call", inputs...)
	if err != nil {
		return nil, err
	}
	t, ok := target.(*Function)
	switch {
	case !ok || t == nil || t.builder != f.builder:
		return nil, fmt.Errorf("hlo: Call: got %T, want a function of the same builder", target)
	case t.name == "" || t.name == compute.MainName:
		return nil, fmt.Errorf("hlo: Call: got %s, want a function made by NewFunction", t.called())
	case !t.returned:
		return nil, fmt.Errorf("hlo: Call: %s has not returned; call Return first", t.called())
	case !equalShapes(shapesOf(in), shapesOf(t.params)):
		return nil, fmt.Errorf("hlo: Call: %s got %v, want %v", t.called(), shapesOf(in), shapesOf(t.params))
	}
	return values(f.add(&statement{form: formCall, in: in, callee: t}, shapesOf(t.outputs)...)), nil
}

// AllReduce joins each operand over the replicas of each group, in which
// replicas are numbered from 0; no groups mean all replicas. Every replica of
// a group gets the result. Operands of one type go in one operation.
func (f *Function) AllReduce(operands []compute.Value, kind compute.ReduceOpType, groups [][]int) ([]compute.Value, error) {
	in, err := f.operands("AllReduce", operands...)
	if err != nil {
		return nil, err
	}
	r, ok := kinds[kind]
	if !ok {
		return nil, fmt.Errorf("hlo: AllReduce: got reduction %s, want Sum, Product, Max or Min", kind)
	}
	text, err := replicaGroups(groups, max(1, f.builder.replicas))
	if err != nil {
		return nil, err
	}
	results := make([]compute.Value, len(in))
	for i, v := range in {
		if results[i] != nil {
			continue
		}
		var same []*value
		var places []int
		var cost Cost
		for j, w := range in {
			if w.shape.DType == v.shape.DType {
				same, places = append(same, w), append(places, j)
				cost = cost.plus(elementwiseCost(w.shape, false))
			}
		}
		out := f.add(&statement{
			op: "stablehlo.all_reduce", form: formGeneric, in: same, attrs: "replica_groups = " + text,
			body: r.body(v.shape.DType), cost: cost,
		}, shapesOf(same)...)
		for k, j := range places {
			results[j] = out[k]
		}
	}
	return results, nil
}

// replicaGroups checks groups, and writes them as a constant matrix.
func replicaGroups(groups [][]int, replicas int) (string, error) {
	if len(groups) == 0 {
		every := make([]int, replicas)
		for i := range every {
			every[i] = i
		}
		groups = [][]int{every}
	}
	seen := map[int]bool{}
	text := "dense<["
	for i, g := range groups {
		if len(g) == 0 || len(g) != len(groups[0]) {
			return "", fmt.Errorf("hlo: AllReduce: got replica groups %v, want groups of one length", groups)
		}
		for _, n := range g {
			if n < 0 || n >= replicas || seen[n] {
				return "", fmt.Errorf("hlo: AllReduce: got replica %d in groups %v, want each of 0 to %d at most once; "+
					"DistributedSPMD says how many there are", n, groups, replicas-1)
			}
			seen[n] = true
		}
		if i > 0 {
			text += ", "
		}
		text += list(g)
	}
	return fmt.Sprintf("%s]> : tensor<%dx%dxi64>", text, len(groups), len(groups[0])), nil
}
