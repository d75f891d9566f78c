package export

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/portable"
	"gaiden/lib/portable/record"
)

// opset is the version of ONNX's operators that files are written for: onnxruntime 1.12 and
// later read it.
const opset, irVersion = 17, 8

// batch is the name of the axis of examples.
const batch = "batch"

// ONNX is a program as an ONNX file: each operation as one or several of ONNX's. The first axis
// of inputs and output is of any length, unless the program is for one example.
func ONNX(p *portable.Program, weights []any) (file []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			e, is := r.(*noFormError)
			if !is {
				panic(r)
			}
			file, err = nil, e
		}
	}()
	g := &graph{p: p, names: map[int]string{}, narrow: map[int]narrow{}, taken: map[string]int{}, constants: map[string]string{}, initializers: &[]message{}}
	for i, n := range [2]int{5, 7} {
		if p.Batch > 0 {
			n = p.Batch
		}
		if g.shapes[i], err = record.Shapes(p, n); err != nil {
			return nil, err
		}
	}
	var graphProto, inputs message
	size := 0
	for i, a := range p.Inputs {
		inputs.bytes(11, valueProto(g.named(i, a.Name), g.kind(i), g.axes(i)))
	}
	for i, w := range p.Weights {
		number := len(p.Inputs) + i
		data := dtypes.UnsafeByteSliceFromAny(weights[i])
		if size += len(data); size > 2_000_000_000 {
			return nil, fmt.Errorf("the weights have more than 2 GB, which an ONNX file cannot hold: want a Go module, Export to a directory")
		}
		g.initialize(tensorProto(g.named(number, w.Name), g.kind(number), w.Dims, data))
	}
	g.operations(p.Ops)
	output := g.unique("output")
	g.add("Identity", []string{g.name(p.Result)}, []string{output}, nil)
	for _, n := range g.nodes {
		graphProto.bytes(1, n)
	}
	graphProto.text(2, p.Net)
	for _, t := range *g.initializers {
		graphProto.bytes(5, t)
	}
	graphProto = append(graphProto, inputs...)
	graphProto.bytes(12, valueProto(output, dtypes.Float32, g.axes(p.Result)))

	var version, model message
	version.text(1, "")
	version.integer(2, opset)
	model.integer(1, irVersion)
	model.text(2, "Gaiden")
	model.bytes(7, graphProto)
	model.bytes(8, version)
	return model, nil
}

// noFormError says that an operation has no form in ONNX.
type noFormError struct{ layer, op, why string }

func (e *noFormError) Error() string {
	where := ""
	if e.layer != "" {
		where = "layer " + e.layer + ": "
	}
	return fmt.Sprintf("%s%s has no form in ONNX%s: want a net without it, or a Go module, Export to a directory", where, e.op, e.why)
}

// graph is an ONNX graph, or the body of a loop, that is being written.
type graph struct {
	p            *portable.Program
	shapes       [2]map[int]shapes.Shape // of values, for two numbers of examples
	names        map[int]string          // of values, as ONNX has them
	taken        map[string]int          // how often a name was wanted again
	constants    map[string]string       // names of initializers, by their contents
	initializers *[]message
	length       string // name of [n], the number of examples; "": not made yet
	nodes        []message
	narrow       map[int]narrow // values that are repeated along axes, before that
	inside       bool           // it is the body of a loop or a branch
	op           portable.Op    // that is being written
}

// inner is a graph inside of g, which sees its values.
func (g *graph) inner() *graph {
	g.batch() // once, for all
	in := *g
	in.nodes, in.inside = nil, true
	return &in
}

func (g *graph) fail(why string) {
	if why != "" {
		why = " " + why
	}
	panic(&noFormError{g.op.Layer, g.op.Op, why})
}

func (g *graph) initialize(t message) { *g.initializers = append(*g.initializers, t) }

// unique is a name that is not taken yet.
func (g *graph) unique(name string) string {
	free := name
	for {
		if _, is := g.taken[free]; !is {
			g.taken[free] = 0
			return free
		}
		g.taken[name]++
		free = fmt.Sprint(name, "_", g.taken[name])
	}
}

// named gives value number a name.
func (g *graph) named(number int, name string) string {
	g.names[number] = g.unique(name)
	return g.names[number]
}

// name is that of a value.
func (g *graph) name(number int) string {
	if name, is := g.names[number]; is {
		return name
	}
	x, is := g.narrow[number]
	if !is {
		panic(fmt.Errorf("export: value %d has no name yet", number))
	}
	name := x.name
	if dims := g.dims(number); x.rank < len(dims) || !slices.Equal(x.dims, dims) {
		name = g.do("Expand", nil, x.name, g.list(dims))
	}
	if !g.inside { // names of an inner graph cannot be seen outside
		g.names[number] = name
	}
	return name
}

// narrow is a value that is to be repeated along the axes where its dimensions are 1.
type narrow struct {
	name string
	dims []portable.Dim
	rank int // of the array: its axes are the last ones
}

// operands are the names of arguments of an operation on elements. They may be narrow where ONNX
// repeats them by itself, because others are as wide as the result.
func (g *graph) operands(args ...int) []string {
	out := g.dims(g.op.Out[0])
	names, all := make([]string, len(args)), make([]narrow, len(args))
	covered, whole := make([]bool, len(out)), false
	for i, arg := range args {
		number := g.number(arg)
		x, is := g.narrow[number]
		if !is {
			x = narrow{dims: g.dims(number), rank: len(g.dims(number))}
		}
		all[i] = x
		whole = whole || x.rank == len(out)
		for axis := range x.dims {
			at := axis + len(out) - len(x.dims)
			covered[at] = covered[at] || x.dims[axis] == out[at]
		}
	}
	for i, arg := range args {
		if names[i] = all[i].name; names[i] == "" || !whole || slices.Contains(covered, false) {
			names[i] = g.in(arg)
		}
	}
	return names
}

func (g *graph) kind(number int) dtypes.DType { return g.shapes[0][number].DType }

// dims are the dimensions of a value.
func (g *graph) dims(number int) []portable.Dim {
	a, b := g.shapes[0][number].Dimensions, g.shapes[1][number].Dimensions
	l := make([]portable.Dim, len(a))
	for i := range a {
		k := (b[i] - a[i]) / 2 // 7 − 5
		l[i] = portable.Dim{A: k, B: a[i] - 5*k}
	}
	return l
}

// axes are dimensions as valueProto takes them.
func (g *graph) axes(number int) (l []any) {
	for _, d := range g.dims(number) {
		switch d {
		case portable.Dim{A: 1}:
			l = append(l, batch)
		default:
			if d.A != 0 {
				l = append(l, d.String())
			} else {
				l = append(l, d.B)
			}
		}
	}
	return l
}

// add adds a node.
func (g *graph) add(op string, in, out []string, attributes map[string]any) {
	var m message
	for _, name := range in {
		m.text(1, name)
	}
	for _, name := range out {
		m.text(2, name)
	}
	m.text(3, g.unique(strings.TrimPrefix(g.op.Layer+"/"+op, "/")))
	m.text(4, op)
	for _, key := range slices.Sorted(maps.Keys(attributes)) {
		m.bytes(5, attribute(key, attributes[key]))
	}
	g.nodes = append(g.nodes, m)
}

// do adds a node with one result, whose name it returns.
func (g *graph) do(op string, attributes map[string]any, in ...string) string {
	out := g.unique(strings.TrimPrefix(g.op.Layer+"/"+strings.ToLower(op), "/"))
	g.add(op, in, []string{out}, attributes)
	return out
}

// constant is the name of an array.
func (g *graph) constant(kind dtypes.DType, dims []int, data []byte) string {
	key := fmt.Sprint(kind, dims, string(data))
	if name, is := g.constants[key]; is {
		return name
	}
	name := g.unique(fmt.Sprint("constant_", len(g.constants)))
	g.constants[key] = name
	g.initialize(tensorProto(name, kind, dims, data))
	return name
}

// integers is the name of a list of int64.
func (g *graph) integers(l ...int) string {
	var b []byte
	for _, i := range l {
		b = binary.LittleEndian.AppendUint64(b, uint64(i))
	}
	return g.constant(dtypes.Int64, []int{len(l)}, b)
}

// scalar is the name of a number of a type.
func (g *graph) scalar(kind dtypes.DType, x float64) string {
	flat, err := portable.Scalar(kind, x)
	if err != nil {
		g.fail(fmt.Sprint("for ", kind))
	}
	return g.constant(kind, nil, flat)
}

// batch is the name of [n], the number of examples.
func (g *graph) batch() string {
	if g.length == "" {
		op := g.op
		g.op = portable.Op{}
		if g.p.Batch > 0 {
			g.length = g.integers(g.p.Batch)
		} else {
			g.length = g.do("Slice", nil, g.do("Shape", nil, g.name(0)), g.integers(0), g.integers(1), g.integers(0))
		}
		g.op = op
	}
	return g.length
}

// list is the name of a list of dimensions.
func (g *graph) list(dims []portable.Dim) string {
	fixed := true
	l := make([]int, len(dims))
	for i, d := range dims {
		l[i], fixed = d.B, fixed && d.A == 0
	}
	if fixed {
		return g.integers(l...)
	}
	parts := make([]string, len(dims))
	for i, d := range dims {
		if d.A == 0 {
			parts[i] = g.integers(d.B)
			continue
		}
		parts[i] = g.batch()
		if d.A != 1 {
			parts[i] = g.do("Mul", nil, parts[i], g.integers(d.A))
		}
		if d.B != 0 {
			parts[i] = g.do("Add", nil, parts[i], g.integers(d.B))
		}
	}
	if len(parts) == 1 {
		return parts[0]
	}
	return g.do("Concat", map[string]any{"axis": 0}, parts...)
}

// reshape is x with other dimensions.
func (g *graph) reshape(x string, dims []portable.Dim) string {
	moving, zero := 0, false
	l := make([]int, len(dims))
	for i, d := range dims {
		if l[i] = d.B; d.A != 0 {
			moving, l[i] = moving+1, -1
		}
		zero = zero || d == portable.Dim{}
	}
	if zero {
		g.fail("for arrays without elements")
	}
	if moving <= 1 {
		return g.do("Reshape", nil, x, g.integers(l...))
	}
	return g.do("Reshape", nil, x, g.list(dims))
}

// transpose is x with its axes in another order.
func (g *graph) transpose(x string, order []int) string {
	if slices.IsSorted(order) {
		return x
	}
	return g.do("Transpose", map[string]any{"perm": order}, x)
}

func (g *graph) cast(x string, kind dtypes.DType) string {
	if elements[kind] == 0 {
		g.fail(fmt.Sprint("for ", kind))
	}
	return g.do("Cast", map[string]any{"to": int(elements[kind])}, x)
}

// operations writes operations.
func (g *graph) operations(ops []portable.Op) {
	for _, op := range ops {
		g.op = op
		if op.Op == "Constant" {
			text, _ := op.In[2].(string)
			data, err := base64.StdEncoding.DecodeString(text)
			if err != nil {
				panic(err) // record has written it
			}
			number := op.Out[0]
			g.names[number] = g.constant(g.kind(number), g.shapes[0][number].Dimensions, data)
			continue
		}
		write, is := operators[op.Op]
		if !is {
			g.fail("")
		}
		if elements[g.kind(op.Out[0])] == 0 {
			g.fail(fmt.Sprint("for ", g.kind(op.Out[0])))
		}
		for i, name := range write(g) {
			if name != "" { // else it is narrow
				g.names[op.Out[i]] = name
			}
		}
	}
}
