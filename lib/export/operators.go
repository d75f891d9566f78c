package export

import (
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"

	"gaiden/lib/portable"
)

// operators are the forms of operations in ONNX: each writes the operation of g.op, and returns
// the names of its results.
var operators map[string]func(g *graph) []string

func init() { // some of them write others
	operators = map[string]func(g *graph) []string{
		"Expm1":     func(g *graph) []string { return one(g.do("Sub", nil, g.do("Exp", nil, g.in(0)), g.like(1))) },
		"Log1p":     func(g *graph) []string { return one(g.do("Log", nil, g.do("Add", nil, g.in(0), g.like(1)))) },
		"Rsqrt":     func(g *graph) []string { return one(g.do("Reciprocal", nil, g.do("Sqrt", nil, g.in(0)))) },
		"IsFinite":  isFinite,
		"NotEqual":  func(g *graph) []string { return one(g.do("Not", nil, g.do("Equal", nil, g.operands(0, 1)...))) },
		"Rem":       func(g *graph) []string { return one(g.do("Mod", map[string]any{"fmod": 1}, g.operands(0, 1)...)) },
		"ArgMinMax": argMinMax, "BroadcastInDim": broadcast, "Concatenate": concatenate, "ConvGeneral": convolve,
		"ConvertDType": func(g *graph) []string { return one(g.cast(g.in(0), g.kind(g.op.Out[0]))) },
		"DotGeneral":   dot, "Gather": gather, "If": branch, "Iota": iota_, "Pad": pad, "ReduceWindow": reduceWindow,
		"Reshape": func(g *graph) []string { return one(g.reshape(g.in(0), g.dims(g.op.Out[0]))) },
		"Reverse": reverse, "Slice": slice, "Sort": sort,
		"Transpose": func(g *graph) []string { return one(g.transpose(g.in(0), g.ints(1))) },
		"Where":     func(g *graph) []string { return one(g.do("Where", nil, g.operands(0, 1, 2)...)) },
		"While":     loop,
	}
	for ours, theirs := range map[string]string{"Abs": "Abs", "Ceil": "Ceil", "Cos": "Cos", "Erf": "Erf", "Exp": "Exp", "Floor": "Floor",
		"IsNaN": "IsNaN", "Log": "Log", "Logistic": "Sigmoid", "LogicalNot": "Not", "Neg": "Neg", "Round": "Round", "Sign": "Sign", "Sin": "Sin",
		"Sqrt": "Sqrt", "Tanh": "Tanh"} {
		operators[ours] = func(g *graph) []string { return one(g.do(theirs, nil, g.in(0))) }
	}
	for ours, theirs := range map[string]string{"Add": "Add", "Div": "Div", "Equal": "Equal", "GreaterOrEqual": "GreaterOrEqual",
		"GreaterThan": "Greater", "LessOrEqual": "LessOrEqual", "LessThan": "Less", "LogicalAnd": "And", "LogicalOr": "Or", "LogicalXor": "Xor",
		"Max": "Max", "Min": "Min", "Mul": "Mul", "Pow": "Pow", "Sub": "Sub"} {
		operators[ours] = func(g *graph) []string { return one(g.do(theirs, nil, g.operands(0, 1)...)) }
	}
	for ours, theirs := range map[string]string{"ReduceSum": "ReduceSum", "ReduceMax": "ReduceMax", "ReduceMin": "ReduceMin",
		"ReduceProduct": "ReduceProd", "ReduceLogicalAnd": "ReduceMin", "ReduceLogicalOr": "ReduceMax"} {
		operators[ours] = func(g *graph) []string { return reduce(g, theirs) }
	}
}

func one(name string) []string { return []string{name} }

// number is argument i, the number of a value.
func (g *graph) number(i int) int {
	d, err := portable.ParseDim(g.op.In[i])
	if err != nil {
		panic(err) // record has written it
	}
	return d.B
}

// in is the name of argument i, a value.
func (g *graph) in(i int) string { return g.name(g.number(i)) }

// like is a number of the type of the first argument.
func (g *graph) like(x float64) string { return g.scalar(g.kind(g.number(0)), x) }

// dimensions is argument i, a list of dimensions.
func (g *graph) dimensions(i int) []portable.Dim { return dimensionsOf(g.op.In[i]) }

func dimensionsOf(x any) []portable.Dim {
	l, _ := x.([]any) // nil where it is empty
	all := make([]portable.Dim, len(l))
	for i, x := range l {
		d, err := portable.ParseDim(x)
		if err != nil {
			panic(err) // record has written it
		}
		all[i] = d
	}
	return all
}

// ints is argument i, a list of integers that do not depend on the number of examples.
func (g *graph) ints(i int) []int { return g.intsOf(g.op.In[i]) }

func (g *graph) intsOf(x any) []int {
	all := []int{}
	for _, d := range dimensionsOf(x) {
		if d.A != 0 {
			g.fail("where it depends on the number of examples")
		}
		all = append(all, d.B)
	}
	return all
}

// integer is argument i.
func (g *graph) integer(i int) int { return g.intsOf([]any{g.op.In[i]})[0] }

// field is a field of argument i, a struct.
func (g *graph) field(i int, name string) any {
	m, _ := g.op.In[i].(map[string]any)
	return m[name]
}

// pairs is argument i, a list of pairs; of zeros where there is none.
func (g *graph) pairs(i, rank int) [][2]int {
	all := make([][2]int, rank)
	l, _ := g.op.In[i].([]any)
	for k, x := range l {
		p := g.intsOf(x)
		all[k] = [2]int{p[0], p[1]}
	}
	return all
}

// filled is argument i, a list of integers; of ones where there is none.
func (g *graph) filled(i, rank int) []int {
	if l := g.ints(i); len(l) > 0 {
		return l
	}
	l := make([]int, rank)
	for k := range l {
		l[k] = 1
	}
	return l
}

func isFinite(g *graph) []string {
	x := g.in(0)
	return one(g.do("Not", nil, g.do("Or", nil, g.do("IsNaN", nil, x), g.do("IsInf", nil, x))))
}

func argMinMax(g *graph) []string {
	op := "ArgMax"
	if g.op.In[3] == true {
		op = "ArgMin"
	}
	return one(g.cast(g.do(op, map[string]any{"axis": g.integer(1), "keepdims": 0}, g.in(0)), g.kind(g.op.Out[0])))
}

// broadcast gives x axes of length 1, and notes that it is repeated along them.
func broadcast(g *graph) []string {
	to, from, axes := g.dims(g.op.Out[0]), g.dims(g.number(0)), g.ints(2)
	x := narrow{g.in(0), make([]portable.Dim, len(to)), len(from)}
	for i := range x.dims {
		x.dims[i] = portable.Dim{B: 1}
	}
	last := true // its axes are the last ones
	for i, axis := range axes {
		x.dims[axis] = from[i]
		last = last && axis == len(to)-len(from)+i
	}
	if !last {
		x.name, x.rank = g.reshape(x.name, x.dims), len(to)
	}
	g.narrow[g.op.Out[0]] = x
	return one("")
}

func concatenate(g *graph) []string {
	l, _ := g.op.In[1].([]any)
	var names []string
	for _, x := range l {
		names = append(names, g.name(g.intsOf([]any{x})[0]))
	}
	return one(g.do("Concat", map[string]any{"axis": g.integer(0)}, names...))
}

// dot is a MatMul of matrices where the axes are in its order, and else an Einsum.
func dot(g *graph) []string {
	lhs, rhs := g.number(0), g.number(3)
	contracted, batches := [2][]int{g.ints(1), g.ints(4)}, [2][]int{g.ints(2), g.ints(5)}
	ranks := [2]int{len(g.dims(lhs)), len(g.dims(rhs))}
	k := len(batches[0])
	first := make([]int, k)
	for i := range first {
		first[i] = i
	}
	if len(contracted[0]) == 1 && slices.Equal(batches[0], first) && slices.Equal(batches[1], first) && ranks[1] == k+2 &&
		contracted[0][0] == ranks[0]-1 && (k == 0 && ranks[0] >= 2 || ranks[0] == k+2) {
		y := g.in(3)
		if contracted[1][0] == k+1 {
			y = g.transpose(y, append(first, k+1, k))
		}
		return one(g.do("MatMul", nil, g.in(0), y))
	}
	next := byte('a')
	letters := [2][]byte{make([]byte, ranks[0]), make([]byte, ranks[1])}
	var out []byte
	pair := func(axes [2][]int, kept bool) {
		for i := range axes[0] {
			letters[0][axes[0][i]], letters[1][axes[1][i]] = next, next
			if kept {
				out = append(out, next)
			}
			next++
		}
	}
	pair(batches, true)
	pair(contracted, false)
	for _, l := range letters {
		for i := range l {
			if l[i] == 0 {
				l[i] = next
				out = append(out, next)
				next++
			}
		}
	}
	return one(g.do("Einsum", map[string]any{"equation": string(letters[0]) + "," + string(letters[1]) + "->" + string(out)}, g.in(0), g.in(3)))
}

// reduce joins the elements of some axes.
func reduce(g *graph, op string) []string {
	x, axes := g.in(0), g.ints(1)
	if len(axes) == 0 {
		for i := range g.dims(g.number(0)) {
			axes = append(axes, i)
		}
	}
	if len(axes) == 0 {
		return one(x)
	}
	logical := g.kind(g.number(0)) == dtypes.Bool
	if logical {
		x = g.cast(x, dtypes.Int32)
	}
	if op == "ReduceSum" { // in opset 17 the others have attributes
		x = g.do(op, map[string]any{"keepdims": 0}, x, g.integers(axes...))
	} else {
		x = g.do(op, map[string]any{"keepdims": 0, "axes": axes}, x)
	}
	if logical {
		x = g.cast(x, dtypes.Bool)
	}
	return one(x)
}

func slice(g *graph) []string {
	starts, limits, strides := g.dimensions(1), g.dimensions(2), g.filled(3, len(g.dims(g.number(0))))
	from := g.dims(g.number(0))
	var axes, steps []int
	var begin, end []portable.Dim
	for i := range from {
		if starts[i] == (portable.Dim{}) && limits[i] == from[i] && strides[i] == 1 {
			continue
		}
		axes, steps, begin, end = append(axes, i), append(steps, strides[i]), append(begin, starts[i]), append(end, limits[i])
	}
	if len(axes) == 0 {
		return one(g.in(0))
	}
	return one(g.do("Slice", nil, g.in(0), g.list(begin), g.list(end), g.integers(axes...), g.integers(steps...)))
}

func reverse(g *graph) []string {
	axes := g.ints(1)
	if len(axes) == 0 {
		return one(g.in(0))
	}
	back, end := make([]int, len(axes)), make([]int, len(axes))
	for i := range axes {
		back[i], end[i] = -1, math.MinInt64
	}
	return one(g.do("Slice", nil, g.in(0), g.integers(back...), g.integers(end...), g.integers(axes...), g.integers(back...)))
}

// pad writes x among copies of a number.
func pad(g *graph) []string {
	rank := len(g.dims(g.number(0)))
	before, after := make([]portable.Dim, rank), make([]portable.Dim, rank)
	x, dims := g.in(0), g.dims(g.number(0))
	l, _ := g.op.In[2].([]any)
	for i, a := range l {
		m, _ := a.(map[string]any)
		value := func(name string) portable.Dim {
			if m[name] == nil {
				return portable.Dim{}
			}
			return dimensionsOf([]any{m[name]})[0]
		}
		before[i], after[i] = value("Start"), value("End")
		if inside := value("Interior"); inside != (portable.Dim{}) {
			x, dims = g.spread(x, dims, i, inside.B+1, g.in(1))
		}
	}
	return one(g.do("Pad", map[string]any{"mode": "constant"}, x, g.list(append(before, after...)), g.in(1)))
}

// spread puts copies of a number between the elements along an axis, so that they are step apart.
func (g *graph) spread(x string, dims []portable.Dim, axis, step int, number string) (string, []portable.Dim) {
	if step == 1 {
		return x, dims
	}
	wide := slices.Insert(slices.Clone(dims), axis+1, portable.Dim{B: 1})
	x = g.reshape(x, wide)
	pads := make([]int, 2*len(wide))
	pads[len(wide)+axis+1] = step - 1
	x = g.do("Pad", map[string]any{"mode": "constant"}, x, g.integers(pads...), number)
	dims = slices.Clone(dims)
	dims[axis] = portable.Dim{A: dims[axis].A * step, B: dims[axis].B * step}
	x = g.reshape(x, dims)
	dims[axis].B -= step - 1
	return g.do("Slice", nil, x, g.integers(0), g.list(dims[axis:axis+1]), g.integers(axis)), dims
}

// iota_ counts along an axis.
func iota_(g *graph) []string {
	to, kind := g.dims(g.op.Out[0]), g.kind(g.op.Out[0])
	axis := g.integer(1)
	limit := g.do("Squeeze", nil, g.list(to[axis:axis+1]), g.integers(0))
	x := g.do("Range", nil, g.scalar(dtypes.Int64, 0), limit, g.scalar(dtypes.Int64, 1))
	wide := make([]portable.Dim, len(to))
	for i := range wide {
		wide[i] = portable.Dim{B: 1}
	}
	wide[axis] = to[axis]
	return one(g.do("Expand", nil, g.cast(g.reshape(x, wide), kind), g.list(to)))
}
