package fit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/data"
	"gaiden/lib/models"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

// What the examples of a data set are, as programs take them.

// titleOf names an input in errors.
func (n *Net) titleOf(i models.Input) string {
	if n.model.Inputs != nil {
		return fmt.Sprintf("input %s of %s", i.Name, n.model.Name)
	}
	return fmt.Sprintf("layer %s of %s", n.model.Names()[0], n.model.Name)
}

// inputs are the net's inputs, whose Vocab is known where an Embedding takes them as they are.
func (n *Net) inputs() []models.Input {
	all := slices.Clone(n.model.AllInputs())
	for i := range all {
		if v := n.vocab[all[i].Name]; v > 0 && (all[i].Vocab == 0 || v < all[i].Vocab) {
			all[i].Vocab = v
		}
	}
	return all
}

// wantInput is what an input's examples may be.
func wantInput(i models.Input) string {
	if i.Integers {
		return "integers, such as []int32"
	}
	return "[]byte, []float32 or []float64"
}

// wantExamples is what Data.X may be.
func (n *Net) wantExamples() string {
	if n.model.Inputs == nil {
		return wantInput(n.model.AllInputs()[0])
	}
	var names []string
	for _, i := range n.model.Inputs {
		names = append(names, fmt.Sprintf("%q", i.Name))
	}
	return fmt.Sprintf("fit.Inputs with %s, the inputs of %s", strings.Join(names, ", "), n.model.Name)
}

// examples is Data.X as a set: of each input []int32, []byte or []float32.
func (n *Net) examples(name string, x any) (*Set, error) {
	given, several := x.(Inputs)
	switch {
	case several && n.model.Inputs == nil:
		return nil, fmt.Errorf("fit: %s: examples are several inputs, %s: want one array, or models.Net{Inputs: …} with these; a data.Encoder with OneHot makes one array of a table",
			name, strings.Join(slices.Sorted(maps.Keys(given)), ", "))
	case !several && n.model.Inputs != nil:
		return nil, fmt.Errorf("fit: %s: examples are a %T: want %s", name, x, n.wantExamples())
	case !several:
		given = Inputs{"x": x}
	}
	s := &Set{Name: name}
	all := n.inputs()
	for in := range given {
		if !slices.ContainsFunc(all, func(i models.Input) bool { return i.Name == in }) {
			return nil, fmt.Errorf("fit: %s: examples have an input %q: want %s", name, in, n.wantExamples())
		}
	}
	for _, i := range all {
		v, is := given[i.Name]
		if !is {
			return nil, fmt.Errorf("fit: %s: examples have no input %q: want %s", name, i.Name, n.wantExamples())
		}
		a, err := n.input(name, i, v)
		if err != nil {
			return nil, err
		}
		count := a.shape.Dimensions[0]
		if s.N != 0 && count != s.N {
			return nil, fmt.Errorf("fit: %s: %d examples of %s but %d of %s: want the same number of all inputs", name, s.N, all[0].Name, count, i.Name)
		}
		s.N = count
		s.size += a.shape.Dimensions[1]
		if !several {
			s.dims = i.Dims
			if nest := nestOf(v); len(nest) > 2 {
				s.dims = nest[1:]
			}
		}
		s.arrays = append(s.arrays, a)
	}
	slices.SortFunc(s.arrays, bySetOrder)
	s.rounding = &seenIntegers{done: true, found: roundedIntegers(name, s.arrays, s.N)}
	for _, a := range s.arrays { // before the arrays are only in the session
		if _, _, err := s.ids(a); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// input is the examples of one input.
func (n *Net) input(name string, i models.Input, x any) (a setArray, err error) {
	a.name = "x"
	what := "examples"
	if n.model.Inputs != nil {
		a.name, what = "x."+i.Name, "examples of input "+i.Name
	}
	flat, dims, err := flatten(name, what, x)
	if err != nil {
		return a, err
	}
	v := reflect.ValueOf(flat)
	kind := reflect.Invalid
	if v.Kind() == reflect.Slice {
		kind = v.Type().Elem().Kind()
	}
	integers, floats := kind >= reflect.Int && kind <= reflect.Uint64, kind == reflect.Float32 || kind == reflect.Float64
	switch {
	case i.Integers && (integers || floats || kind == reflect.Bool):
		a.flat, err = n.ids(name, i, v)
	case i.Integers:
		err = fmt.Errorf("fit: %s: %s are a %T: want %s, for %s", name, what, x, wantInput(i), n.titleOf(i))
	case kind == reflect.Uint8:
		a.flat = v.Bytes()
	case kind == reflect.Float32:
		a.flat = v.Convert(reflect.TypeFor[[]float32]()).Interface()
	case kind == reflect.Float64:
		a.flat, err = float32s(name, what, flat)
	case kind == reflect.Bool:
		numbers := make([]float32, v.Len())
		for k := range numbers {
			numbers[k] = float32(numberAt(v, k))
		}
		a.flat = numbers
	case integers:
		err = fmt.Errorf("fit: %s: %s are a %T: want %s; for ids, Integers set in %s", name, what, x, wantInput(i), n.model.Name)
	default:
		err = fmt.Errorf("fit: %s: %s are a %T: want %s", name, what, x, wantInput(i))
	}
	if err != nil {
		return a, err
	}
	count, size := v.Len(), shapes.Make(dtypes.Float32, i.Dims...).Size()
	takes := fmt.Sprintf("%s takes %v", n.titleOf(i), i.Dims)
	switch {
	case count == 0:
		return a, fmt.Errorf("fit: %s: no %s: want at least one", name, what)
	case len(dims) > 1 && count/dims[0] != size:
		return a, n.shapeError(name, what, fmt.Sprintf("%s of %v", units.Plural(dims[0], "example"), dims[1:]), fmt.Sprintf("%s in each: %s", units.Plural(size, "number"), takes))
	case count%size != 0:
		return a, n.shapeError(name, what, units.Plural(count, "number"), fmt.Sprintf("a multiple of %d: %s", size, takes))
	}
	a.shape = shapes.Make(dtypes.FromGoType(reflect.TypeOf(a.flat).Elem()), count/size, size)
	return a, nil
}

// ids are examples of an input that takes integers. Bytes are numbers from 0 to 255, bools
// 0 and 1.
func (n *Net) ids(name string, i models.Input, v reflect.Value) ([]int32, error) {
	l := make([]int32, v.Len())
	for k := range l {
		id := numberAt(v, k)
		if l[k] = int32(id); float64(l[k]) != id {
			return nil, fmt.Errorf("fit: %s: number %d of the examples is %v: want integers within the range of int32, for %s", name, k, id, n.titleOf(i))
		}
		if i.Vocab > 0 && (id < 0 || id >= float64(i.Vocab)) {
			return nil, fmt.Errorf("fit: %s: number %d of the examples is %v: %s", name, k, id, n.knows(i))
		}
	}
	return l, nil
}

// knows says which ids an input takes.
func (n *Net) knows(i models.Input) string {
	return fmt.Sprintf("%s knows the ids 0 to %d: give it a larger Vocab, or number the ids from 0", n.titleOf(i), i.Vocab-1)
}

// inputName is an array of a net that has no Input of its own: the dimensions of an example, as
// data were uploaded, for later cells.
const inputName = "input"

// recallInput takes the dimensions of an example from the session, where the net has none.
func (n *Net) recallInput() error {
	if n.model.Input != nil || n.model.Inputs != nil {
		return nil
	}
	dims, err := readDims(n.session, n.name+"/"+inputName)
	if err != nil {
		return err
	}
	n.model.Input = dims
	n.inferred = len(dims) > 0
	return nil
}

// inputArray is what recallInput reads.
func (n *Net) inputArray() (s slot, a *session.Array, err error) {
	dims := make([]int32, len(n.model.Input))
	for i, d := range n.model.Input {
		dims[i] = int32(d)
	}
	s = slot{name: inputName, shape: shapes.Make(dtypes.Int32, len(dims))}
	a, err = n.session.Put(dims, s.shape, 0)
	return s, a, err
}

// infer takes the dimensions of an example from nested examples, where the net has none; from
// a set, how many numbers it has.
func (n *Net) infer(x any) error {
	if n.ready || n.model.Input != nil || n.model.Inputs != nil {
		return nil
	}
	if err := n.connect(); err != nil {
		return err
	}
	if err := n.recallInput(); err != nil || n.model.Input != nil {
		return err
	}
	switch x := x.(type) {
	case Inputs:
		return fmt.Errorf("fit: %s: examples have the inputs %s, and the net has neither Input nor Inputs: want models.Net with Inputs of these names, or one array, as data.Encoder makes with OneHot", n.name, strings.Join(slices.Sorted(maps.Keys(x)), ", "))
	case *Set:
		if x == nil || x.shapeOf("x").Rank() != 2 || x.shapeOf("x").DType == dtypes.Int32 {
			return nil
		}
		dims, err := readDims(n.session, "data/"+x.Name+"/"+dimsName)
		if err != nil {
			return err
		}
		if n.model.Input, n.inferred = dims, true; dims == nil {
			n.model.Input = []int{x.size}
		}
	default:
		if _, dims, err := flatten("", "", x); err == nil && len(dims) > 1 {
			n.model.Input, n.inferred = dims[1:], true
		}
	}
	return nil
}

// nestOf is the dimensions of nested slices or arrays that [flatten] takes.
func nestOf(x any) (dims []int) {
	if a, is := x.(data.Array); is {
		return a.Dims
	}
	for v := reflect.ValueOf(x); v.Kind() == reflect.Slice || v.Kind() == reflect.Array; v = v.Index(0) {
		if dims = append(dims, v.Len()); v.Len() == 0 {
			break
		}
	}
	return dims
}

// flatten is nested slices or arrays as one slice, and the dimensions of the nest.
func flatten(name, what string, x any) (flat any, dims []int, err error) {
	if a, is := x.(data.Array); is {
		count := 1
		for _, d := range a.Dims {
			count *= d
		}
		if f := reflect.ValueOf(a.Flat); f.Kind() != reflect.Slice || f.Len() != count {
			return nil, nil, fmt.Errorf("fit: %s: %s are a data.Array of %v in a %T: want a slice of %d numbers", name, what, a.Dims, a.Flat, count)
		}
		return a.Flat, a.Dims, nil
	}
	v := reflect.ValueOf(x)
	nested := func(t reflect.Type) bool { return t.Kind() == reflect.Slice || t.Kind() == reflect.Array }
	if !v.IsValid() || !nested(v.Type()) || v.Kind() == reflect.Slice && !nested(v.Type().Elem()) {
		return x, nil, nil
	}
	element := v.Type()
	for nested(element) {
		element = element.Elem()
	}
	all := reflect.MakeSlice(reflect.SliceOf(element), 0, 0)
	var add func(v reflect.Value, at []int) error
	add = func(v reflect.Value, at []int) error {
		if len(at) == len(dims) {
			dims = append(dims, v.Len())
		} else if d := dims[len(at)]; d != v.Len() {
			return fmt.Errorf("fit: %s: %s: row %v has length %d, and those before it %d: want the same length for all", name, what, at, v.Len(), d)
		}
		for i := range v.Len() {
			switch e := v.Index(i); {
			case !nested(v.Type().Elem()):
				all = reflect.Append(all, e)
			case e.Kind() == reflect.Slice && !nested(e.Type().Elem()) && len(dims) == len(at)+2 && e.Len() == dims[len(at)+1]:
				all = reflect.AppendSlice(all, e.Convert(all.Type()))
			default:
				if err := add(e, append(slices.Clone(at), i)); err != nil {
					return err
				}
			}
		}
		return nil
	}
	if err := add(v, nil); err != nil {
		return nil, nil, err
	}
	return all.Interface(), dims, nil
}
