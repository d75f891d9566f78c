// Package record writes the forward pass of a net as a portable.Program: it builds the net on a
// backend that notes each call. Layers are written in GoMLX's own operations, recurrent ones time
// step by time step, and a net's own function is recorded as it is:
//
//	p, err := record.Net(net, variables)
//
// The net is built for three numbers of examples. What differs between the records is a dimension
// that depends on the number, and is written so. A net whose operations are not the same for all
// numbers is recorded for one example, and then runs example by example.
//
// An operation that GoMLX's pure-Go backend does not have, such as FFT, is an error that names it.
package record

import (
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/models"
	"gaiden/lib/portable"
)

// Variable is one of a net's variables.
type Variable struct {
	Name      string // in the file of weights
	Path      string // in GoMLX's store
	From      string // in the session
	Shape     shapes.Shape
	Trainable bool
}

// sizes are the numbers of examples that a net is built for.
var sizes = [3]int{5, 7, 11}

// Net records a net. Weights of the program are those variables that it uses.
func Net(net models.Net, variables []Variable) (*portable.Program, error) {
	var all [3]*portable.Program
	for i, n := range sizes {
		p, err := record(net, variables, n)
		if err != nil {
			return nil, err
		}
		all[i] = p
	}
	ops, same := joined([3]any{all[0].Ops, all[1].Ops, all[2].Ops})
	if !same {
		p, err := record(net, variables, 1)
		if err == nil {
			p.Batch = 1
		}
		return p, err
	}
	all[0].Ops = ops.([]portable.Op)
	return all[0], nil
}

// record builds the net for n examples.
func record(net models.Net, variables []Variable, n int) (p *portable.Program, err error) {
	defer func() {
		if r := recover(); r != nil {
			var is bool
			if err, is = r.(error); !is {
				err = fmt.Errorf("%v", r)
			}
			var l *models.LayerError
			if errors.As(err, &l) {
				err = l
			}
		}
	}()
	b := newBackend()
	g, store := NewGraph(b, net.Name), model.NewStore()
	model.SetStore(g, store)
	p = &portable.Program{Format: portable.Format, Net: net.Name}
	in := net.Batch(n, func(name string, shape shapes.Shape) *Node { return Parameter(g, name, shape) })
	for _, i := range net.AllInputs() {
		p.Inputs = append(p.Inputs, portable.Array{Name: i.Name, Type: i.Batch(n).DType.String(), Dims: i.Dims, Vocab: i.Vocab})
	}
	for _, v := range variables {
		store.VariableWithShape(v.Path, v.Shape, Zeros).SetTrainable(v.Trainable).NodeValue(g)
		p.Weights = append(p.Weights, portable.Array{Name: v.Name, Type: v.Shape.DType.String(), Dims: v.Shape.Dimensions, From: v.From})
	}
	store.SetTraining(g, false)
	y := net.Build(store.RootScope(), in, func(label string) { b.builder.layer, _, _ = strings.Cut(label, "/") }, nil)
	b.builder.layer = ""
	if y.DType() != dtypes.Float32 {
		y = ConvertDType(y, dtypes.Float32)
	}
	if d := y.Shape().Dimensions; len(d) == 0 || d[0] != n {
		return nil, fmt.Errorf("the net returns %v for %d examples: want a first axis of that length", d, n)
	}
	p.Output = portable.Array{Name: "output", Type: dtypes.Float32.String(), Dims: y.Shape().Dimensions[1:]}
	if err := g.Compile(y); err != nil {
		return nil, err
	}
	main := b.builder.main
	if extra := len(main.params) - len(p.Inputs) - len(p.Weights); extra > 0 {
		return nil, fmt.Errorf("%d of its variables are made only when it predicts: want variables that are there when it trains, too", extra)
	}
	p.Ops, p.Result = main.ops, main.results[0]
	prune(p)
	return p, nil
}

// Shapes are the shapes of a program's values, by their numbers, for n examples.
func Shapes(p *portable.Program, n int) (map[int]shapes.Shape, error) {
	b := newBackend().Builder(p.Net)
	values, err := p.Build(b, n)
	if err != nil {
		return nil, err
	}
	all := map[int]shapes.Shape{}
	for number, v := range values {
		if all[number], err = b.OpShape(v); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// prune removes operations and weights that the result does not depend on.
func prune(p *portable.Program) {
	used := map[int]bool{p.Result: true}
	var note func(ops []portable.Op) []portable.Op
	var look func(x any)
	look = func(x any) {
		switch x := x.(type) {
		case ref:
			used[int(x)] = true
		case []any:
			for _, y := range x {
				look(y)
			}
		case *portable.Closure:
			for _, r := range x.Results {
				used[r] = true
			}
			x.Ops = note(x.Ops)
		}
	}
	note = func(ops []portable.Op) (kept []portable.Op) {
		for i := len(ops) - 1; i >= 0; i-- {
			for _, out := range ops[i].Out {
				if used[out] {
					look(any(ops[i].In))
					kept = append(kept, ops[i])
					break
				}
			}
		}
		for i, j := 0, len(kept)-1; i < j; i, j = i+1, j-1 {
			kept[i], kept[j] = kept[j], kept[i]
		}
		return kept
	}
	p.Ops = note(p.Ops)

	// Values are numbered without gaps, as the inputs and the weights that are left come first.
	numbers := map[int]int{}
	give := func(old int) { numbers[old] = len(numbers) }
	for i := range p.Inputs {
		give(i)
	}
	var kept []portable.Array
	for i, w := range p.Weights {
		if old := len(p.Inputs) + i; used[old] {
			give(old)
			kept = append(kept, w)
		}
	}
	p.Weights = kept
	renumber(p.Ops, give, numbers)
	p.Result = numbers[p.Result]
}

// renumber gives values their numbers; what is referred to has its own already.
func renumber(ops []portable.Op, give func(old int), numbers map[int]int) {
	var put func(x any) any
	list := func(l []int) {
		for i, old := range l {
			if _, is := numbers[old]; !is {
				give(old)
			}
			l[i] = numbers[old]
		}
	}
	put = func(x any) any {
		switch x := x.(type) {
		case ref:
			return numbers[int(x)]
		case []any:
			for i := range x {
				x[i] = put(x[i])
			}
		case *portable.Closure:
			for i := range x.Params {
				give(x.Params[i].Out)
				x.Params[i].Out = numbers[x.Params[i].Out]
			}
			renumber(x.Ops, give, numbers)
			list(x.Results)
		}
		return x
	}
	for _, op := range ops {
		for i := range op.In {
			op.In[i] = put(op.In[i])
		}
		list(op.Out)
	}
}

// joined is three records as one, with integers that grow with the number of examples as
// portable.Dim has them; not same where they differ in another way.
func joined(x [3]any) (y any, same bool) {
	if i, is := x[0].(int); is {
		j, is1 := x[1].(int)
		k, is2 := x[2].(int)
		if !is1 || !is2 {
			return nil, false
		}
		a := (j - i) / (sizes[1] - sizes[0])
		d := portable.Dim{A: a, B: i - a*sizes[0]}
		if d.At(sizes[1]) != j || d.At(sizes[2]) != k {
			return nil, false
		}
		if d.A == 0 {
			return i, true
		}
		return d.String(), true
	}
	v := [3]reflect.Value{reflect.ValueOf(x[0]), reflect.ValueOf(x[1]), reflect.ValueOf(x[2])}
	if !v[0].IsValid() || !v[1].IsValid() || !v[2].IsValid() {
		return nil, !v[0].IsValid() && !v[1].IsValid() && !v[2].IsValid()
	}
	if v[0].Type() != v[1].Type() || v[0].Type() != v[2].Type() {
		return nil, false
	}
	each := func(of func(v reflect.Value) reflect.Value, set func(reflect.Value)) bool {
		y, same := joined([3]any{of(v[0]).Interface(), of(v[1]).Interface(), of(v[2]).Interface()})
		if same && y != nil {
			set(reflect.ValueOf(y))
		}
		return same
	}
	made := reflect.New(v[0].Type()).Elem()
	switch v[0].Kind() {
	case reflect.Slice:
		if v[0].Len() != v[1].Len() || v[0].Len() != v[2].Len() {
			return nil, false
		}
		made.Set(reflect.MakeSlice(v[0].Type(), v[0].Len(), v[0].Len()))
		for i := range v[0].Len() {
			if !each(func(v reflect.Value) reflect.Value { return v.Index(i) }, made.Index(i).Set) {
				return nil, false
			}
		}
	case reflect.Struct:
		for i := range v[0].NumField() {
			if !each(func(v reflect.Value) reflect.Value { return v.Field(i) }, made.Field(i).Set) {
				return nil, false
			}
		}
	case reflect.Pointer:
		made.Set(reflect.New(v[0].Type().Elem()))
		return made.Interface(), each(reflect.Value.Elem, made.Elem().Set)
	case reflect.Map:
		made.Set(reflect.MakeMap(v[0].Type()))
		for _, key := range v[0].MapKeys() {
			if !v[1].MapIndex(key).IsValid() || !v[2].MapIndex(key).IsValid() ||
				!each(func(v reflect.Value) reflect.Value { return v.MapIndex(key) }, func(y reflect.Value) { made.SetMapIndex(key, y) }) {
				return nil, false
			}
		}
	default:
		return x[0], x[0] == x[1] && x[0] == x[2]
	}
	return made.Interface(), true
}

// unsupported is the error of an operation that has no portable form. GoMLX falls back on others
// where it can.
type unsupported string

func (op unsupported) Error() string {
	return fmt.Sprintf("record: %s has no portable form, because GoMLX's pure-Go backend does not have it: want a net without it", string(op))
}

func (unsupported) Unwrap() error { return compute.ErrNotImplemented }
