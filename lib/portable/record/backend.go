package record

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"reflect"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/notimplemented"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/portable"
)

// backend records the calls of one builder. Shapes are those that package hlo infers.
type backend struct {
	notimplemented.Backend
	builder *builder
}

func newBackend() *backend { return &backend{} }

func (b *backend) Name() string                       { return "record" }
func (b *backend) String() string                     { return "record" }
func (b *backend) Description() string                { return "records operations" }
func (b *backend) Capabilities() compute.Capabilities { return hlo.Capabilities() }

func (b *backend) Builder(name string) compute.Builder {
	b.builder = &builder{Builder: hlo.NewBuilder(nil, name, nil)}
	b.builder.main = &function{Function: refusing, b: b.builder, to: b.builder.Builder.Main()}
	return b.builder
}

var refusing = notimplemented.Function{ErrFn: func(op compute.OpType) error { return unsupported(op.String()) }}

type builder struct {
	*hlo.Builder
	main  *function
	next  int    // number of the next value
	layer string // that operations are of
}

func (b *builder) Main() compute.Function { return b.main }

func (b *builder) NewFunction(string) (compute.Function, error) { return nil, unsupported("Call") }

func (b *builder) OpShape(v compute.Value) (shapes.Shape, error) { return b.Builder.OpShape(bare(v)) }

func (b *builder) Compile() (compute.Executable, error) { return nil, nil }

// value is a value of a function that is being recorded.
type value struct {
	number int
	home   *function
	to     compute.Value // hlo's
	op     string        // the method that made it; "" for a parameter
	in     []any         // its arguments
	index  int           // which of its results
}

// bare is hlo's value.
func bare(v compute.Value) compute.Value {
	if ours, is := v.(*value); is {
		return ours.to
	}
	return v
}

func bares(l []compute.Value) []compute.Value {
	all := make([]compute.Value, len(l))
	for i, v := range l {
		all[i] = bare(v)
	}
	return all
}

// function records one function or closure.
type function struct {
	notimplemented.Function
	b       *builder
	parent  *function
	to      compute.Function
	params  []portable.Param
	ops     []portable.Op
	results []int
	ended   bool
	adopted map[*value]*value // results of closures that have ended, made once more here
}

func (f *function) Name() string             { return f.to.Name() }
func (f *function) Builder() compute.Builder { return f.b }
func (f *function) Parent() compute.Function {
	if f.parent == nil {
		return nil
	}
	return f.parent
}
func (f *function) Shape(v compute.Value) (shapes.Shape, error) { return f.b.OpShape(v) }

func (f *function) Closure() (compute.Function, error) {
	c, err := f.to.Closure()
	return &function{Function: refusing, b: f.b, parent: f, to: c}, err
}

func (f *function) Parameter(name string, shape shapes.Shape, sharding *compute.ShardingSpec) (compute.Value, error) {
	v, err := f.to.Parameter(name, shape, sharding)
	if err != nil {
		return nil, err
	}
	dims, _ := encode(shape.Dimensions).([]any)
	f.params = append(f.params, portable.Param{Out: f.b.next, Type: shape.DType.String(), Dims: dims})
	return f.made(v), nil
}

func (f *function) made(v compute.Value) *value {
	f.b.next++
	return &value{number: f.b.next - 1, home: f, to: v}
}

// Constant belongs to main, because GoMLX remembers those of a closure for the whole graph. One of
// equal elements is a number that is repeated: then its dimensions may depend on the number of
// examples.
func (f *function) Constant(flat any, dims ...int) (compute.Value, error) {
	main := f.b.main
	if v := reflect.ValueOf(flat); v.Kind() == reflect.Slice && v.Len() > 1 && len(dims) > 0 && equal(flat) {
		one, err := f.Constant(v.Slice(0, 1).Interface())
		if err != nil {
			return nil, err
		}
		return main.BroadcastInDim(one, shapes.Make(dtypes.FromGoType(v.Type().Elem()), dims...), nil)
	}
	v, err := main.to.Constant(flat, dims...)
	if err != nil {
		return nil, err
	}
	shape, err := f.b.Builder.OpShape(v)
	if err != nil {
		return nil, err
	}
	if k := reflect.ValueOf(flat).Kind(); k != reflect.Slice {
		return nil, fmt.Errorf("record: Constant: got a %s, want a slice", k)
	}
	c := main.made(v)
	data := base64.StdEncoding.EncodeToString(dtypes.UnsafeByteSliceFromAny(flat))
	main.ops = append(main.ops, portable.Op{Op: "Constant", In: []any{shape.DType.String(), encode(append([]int{}, dims...)), data}, Out: []int{c.number}})
	return c, nil
}

// equal says whether the elements of a slice are the same, bit by bit.
func equal(flat any) bool {
	b := dtypes.UnsafeByteSliceFromAny(flat)
	size := len(b) / reflect.ValueOf(flat).Len()
	return bytes.Equal(b[size:], b[:len(b)-size])
}

func (f *function) Return(outputs []compute.Value, shardings []*compute.ShardingSpec) error {
	f.ins(outputs)
	for _, v := range outputs {
		if ours, is := v.(*value); is {
			f.results = append(f.results, ours.number)
		}
	}
	f.ended = true
	return f.to.Return(bares(outputs), shardings)
}

// in is what stands for v in f. The result of a closure that has ended is made once more, as hlo
// has it, too.
func (f *function) in(v compute.Value) compute.Value {
	ours, is := v.(*value)
	if !is || !ours.home.ended || ours.op == "" {
		return v
	}
	if a := f.adopted[ours]; a != nil {
		return a
	}
	l, err := callMethod(f, ours.op, ours.in)
	if err != nil {
		panic(err) // a graph is being built: record makes it an error
	}
	made := l[ours.index]
	if f.adopted == nil {
		f.adopted = map[*value]*value{}
	}
	f.adopted[ours] = made.(*value)
	return made
}

func (f *function) ins(l []compute.Value) {
	for i, v := range l {
		l[i] = f.in(v)
	}
}

// one makes a call that has one result.
func (f *function) one(op string, args ...any) (compute.Value, error) {
	l, err := f.call(op, args)
	if err != nil {
		return nil, err
	}
	return l[0], nil
}

// call makes a call of hlo's function, a method by its name, and notes it with its results.
// The arguments of a variadic method end with a slice.
func (f *function) call(op string, args []any) ([]compute.Value, error) {
	note := portable.Op{Op: op, Layer: f.b.layer}
	passed := make([]any, len(args))
	for i, a := range args {
		switch x := a.(type) {
		case *value:
			args[i] = f.in(x)
			passed[i] = bare(args[i])
		case []compute.Value:
			x = slices.Clone(x)
			f.ins(x)
			args[i], passed[i] = x, bares(x)
		case *function:
			passed[i] = x.to
		default:
			passed[i] = a
		}
		note.In = append(note.In, encode(args[i]))
	}
	l, err := callMethod(f.to, op, passed)
	if err != nil {
		return nil, err
	}
	results := make([]compute.Value, len(l))
	for i, v := range l {
		ours := f.made(v)
		ours.op, ours.in, ours.index = op, args, i
		results[i], note.Out = ours, append(note.Out, ours.number)
	}
	f.ops = append(f.ops, note)
	return results, nil
}

// callMethod calls a method that returns a value or several, and an error.
func callMethod(f compute.Function, op string, args []any) ([]compute.Value, error) {
	m := reflect.ValueOf(f).MethodByName(op)
	in := make([]reflect.Value, len(args))
	for i, a := range args {
		if in[i] = reflect.ValueOf(a); a == nil {
			in[i] = reflect.Zero(m.Type().In(i))
		}
	}
	call := m.Call
	if m.Type().IsVariadic() {
		call = m.CallSlice
	}
	out := call(in)
	if err, _ := out[1].Interface().(error); err != nil {
		return nil, err
	}
	if l, several := out[0].Interface().([]compute.Value); several {
		return l, nil
	}
	return []compute.Value{out[0].Interface()}, nil
}

// ref is the number of a value, among arguments.
type ref int

// encode is an argument as portable.Op has it.
func encode(x any) any {
	switch x := x.(type) {
	case nil:
		return nil
	case *value:
		return ref(x.number)
	case *function:
		return &portable.Closure{Params: x.params, Ops: x.ops, Results: x.results}
	case dtypes.DType:
		return x.String()
	case shapes.Shape:
		return map[string]any{"DType": x.DType.String(), "Dimensions": encode(x.Dimensions)}
	}
	v := reflect.ValueOf(x)
	switch {
	case v.Kind() == reflect.Slice && v.IsNil():
		return nil
	case v.CanInt():
		return int(v.Int())
	case v.CanFloat():
		return v.Float()
	case v.Kind() == reflect.Bool:
		return v.Bool()
	case v.Kind() == reflect.Slice || v.Kind() == reflect.Array:
		l := []any{}
		for i := range v.Len() {
			l = append(l, encode(v.Index(i).Interface()))
		}
		return l
	case v.Kind() == reflect.Struct:
		fields := map[string]any{}
		for i := range v.NumField() {
			if !v.Field(i).IsZero() {
				fields[v.Type().Field(i).Name] = encode(v.Field(i).Interface())
			}
		}
		return fields
	}
	panic(fmt.Errorf("record: an argument is a %T", x))
}
