package portable

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
)

var (
	valueType    = reflect.TypeFor[compute.Value]()
	functionType = reflect.TypeFor[compute.Function]()
	typeType     = reflect.TypeFor[dtypes.DType]()
	errorType    = reflect.TypeFor[error]()
	operations   = reflect.TypeFor[compute.StandardOps]()
)

// replayer makes the calls of a program for n examples.
type replayer struct {
	n      int
	values map[int]compute.Value
}

// compile compiles the program for n examples.
func (p *Program) compile(backend compute.Backend, n int) (compute.Executable, error) {
	b := backend.Builder(p.Net)
	_, err := p.Build(b, n)
	if err == nil {
		var e compute.Executable
		if e, err = b.Compile(); err == nil {
			return e, nil
		}
	}
	return nil, fmt.Errorf("portable: net %s for %d examples on backend %s: %w", p.Net, n, backend.Name(), err)
}

// Build makes the calls of the program for n examples. It returns all values by their numbers.
func (p *Program) Build(b compute.Builder, n int) (values map[int]compute.Value, err error) {
	defer func() {
		if r := recover(); r != nil { // reflect's, where an argument has another type
			err = fmt.Errorf("program.json: %v", r)
		}
	}()
	main := b.Main()
	r := &replayer{n, map[int]compute.Value{}}
	number := 0
	parameter := func(a Array, dims ...int) {
		if err == nil {
			r.values[number], err = main.Parameter(fmt.Sprint("p", number), shapes.Make(typeOf(a), dims...), nil)
			number++
		}
	}
	for _, a := range p.Inputs {
		parameter(a, append([]int{n}, a.Dims...)...)
	}
	for _, a := range p.Weights {
		parameter(a, a.Dims...)
	}
	if err == nil {
		err = r.run(main, p.Ops)
	}
	if err == nil {
		err = main.Return([]compute.Value{r.value(p.Result)}, nil)
	}
	return r.values, err
}

// typeOf is the element type of an array, whose name ParseProgram has checked.
func typeOf(a Array) dtypes.DType {
	t, err := dtypes.DTypeString(a.Type)
	if err != nil {
		panic(err)
	}
	return t
}

func (r *replayer) run(f compute.Function, ops []Op) error {
	for i, op := range ops {
		results, err := r.call(f, op)
		if err == nil && len(results) != len(op.Out) {
			err = fmt.Errorf("got %d results: want %d", len(results), len(op.Out))
		}
		if err != nil {
			return fmt.Errorf("operation %d, %s of layer %q: %w", i, op.Op, op.Layer, err)
		}
		for k, number := range op.Out {
			r.values[number] = results[k]
		}
	}
	return nil
}

// call makes one call.
func (r *replayer) call(f compute.Function, op Op) ([]compute.Value, error) {
	if op.Op == "Constant" {
		v, err := r.constant(f, op)
		return []compute.Value{v}, err
	}
	if _, is := operations.MethodByName(op.Op); !is && op.Op != "While" && op.Op != "If" && op.Op != "Sort" {
		return nil, fmt.Errorf("there is no such operation")
	}
	m := reflect.ValueOf(f).MethodByName(op.Op)
	t := m.Type()
	if len(op.In) != t.NumIn() {
		return nil, fmt.Errorf("got %d arguments: want %d", len(op.In), t.NumIn())
	}
	in := make([]reflect.Value, t.NumIn())
	for i := range in {
		in[i] = reflect.New(t.In(i)).Elem()
		if err := r.decode(f, op.In[i], in[i]); err != nil {
			return nil, fmt.Errorf("argument %d: %w", i, err)
		}
	}
	call := m.Call
	if t.IsVariadic() {
		call = m.CallSlice
	}
	var results []compute.Value
	for _, out := range call(in) {
		switch x := out.Interface().(type) {
		case error:
			return nil, x
		case []compute.Value:
			results = append(results, x...)
		default:
			if out.Type() != errorType {
				results = append(results, x)
			}
		}
	}
	return results, nil
}

// value is a value by its number. It panics where there is none, which compile makes an error.
func (r *replayer) value(number int) compute.Value {
	v, is := r.values[number]
	if !is {
		panic(fmt.Errorf("there is no value %d yet", number))
	}
	return v
}

// decode sets an argument to what x says.
func (r *replayer) decode(f compute.Function, x any, to reflect.Value) error {
	switch t := to.Type(); {
	case x == nil:
	case t == functionType:
		c, err := r.closure(f, x)
		if err == nil {
			to.Set(reflect.ValueOf(c))
		}
		return err
	case t == typeType:
		kind, err := dtypes.DTypeString(fmt.Sprint(x))
		to.Set(reflect.ValueOf(kind))
		return err
	case t == valueType:
		d, err := ParseDim(x)
		if err == nil {
			to.Set(reflect.ValueOf(r.value(d.B)))
		}
		return err
	case to.CanInt():
		d, err := ParseDim(x)
		to.SetInt(int64(d.At(r.n)))
		return err
	case to.CanFloat():
		to.SetFloat(x.(float64))
	case t.Kind() == reflect.Bool:
		to.SetBool(x.(bool))
	case t.Kind() == reflect.Slice, t.Kind() == reflect.Array:
		l := x.([]any)
		if t.Kind() == reflect.Slice {
			to.Set(reflect.MakeSlice(t, len(l), len(l)))
		}
		for i := range l {
			if err := r.decode(f, l[i], to.Index(i)); err != nil {
				return err
			}
		}
	case t.Kind() == reflect.Struct:
		for name, field := range x.(map[string]any) {
			if err := r.decode(f, field, to.FieldByName(name)); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	default:
		return fmt.Errorf("want a %s", t)
	}
	return nil
}

// closure builds a closure of f.
func (r *replayer) closure(f compute.Function, x any) (compute.Function, error) {
	c, is := x.(*Closure)
	if !is { // as JSON has it
		b, err := json.Marshal(x)
		c = &Closure{}
		if err == nil {
			err = json.Unmarshal(b, c)
		}
		if err != nil {
			return nil, err
		}
	}
	inner, err := f.Closure()
	if err != nil {
		return nil, err
	}
	for _, p := range c.Params {
		kind, err := dtypes.DTypeString(p.Type)
		if err != nil {
			return nil, err
		}
		dims := make([]int, len(p.Dims))
		for i, x := range p.Dims {
			d, err := ParseDim(x)
			if err != nil {
				return nil, err
			}
			dims[i] = d.At(r.n)
		}
		if r.values[p.Out], err = inner.Parameter(fmt.Sprint("p", p.Out), shapes.Make(kind, dims...), nil); err != nil {
			return nil, err
		}
	}
	if err := r.run(inner, c.Ops); err != nil {
		return nil, err
	}
	var results []compute.Value
	for _, number := range c.Results {
		results = append(results, r.value(number))
	}
	return inner, inner.Return(results, nil)
}

// constant makes a constant: its type, its dimensions, its elements.
func (r *replayer) constant(f compute.Function, op Op) (compute.Value, error) {
	var kind dtypes.DType
	var dims []int
	if len(op.In) != 3 {
		return nil, fmt.Errorf("got %d arguments: want 3", len(op.In))
	}
	if err := r.decode(f, op.In[0], reflect.ValueOf(&kind).Elem()); err != nil {
		return nil, err
	}
	if err := r.decode(f, op.In[1], reflect.ValueOf(&dims).Elem()); err != nil {
		return nil, err
	}
	text, _ := op.In[2].(string)
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	shape := shapes.Make(kind, dims...)
	flat := dtypes.MakeAnySlice(kind, shape.Size())
	if to := dtypes.UnsafeByteSliceFromAny(flat); copy(to, data) != len(to) || len(data) != len(to) {
		return nil, fmt.Errorf("got %d bytes for %s: want %d", len(data), shape, len(to))
	}
	return f.Constant(flat, dims...)
}
