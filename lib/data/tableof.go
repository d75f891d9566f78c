package data

import (
	"fmt"
	"reflect"
	"time"
)

// TableOf makes a table of a slice of structs or of pointers to them, with a column for each
// exported field: numbers, strings, bools, which are text, and times. The tag data:"name"
// gives a column another name, data:"-" leaves it out. Fields of embedded structs are columns
// too. The fields of a nil pointer are missing values, and so are a nil field and the zero
// time.Time.
func TableOf(rows any) (*Table, error) {
	t := &Table{}
	err := eachField("TableOf", rows, func(name string, rows reflect.Value, f reflect.StructField) error {
		b, err := columnOf(rows, f)
		t.Name = pointedTo(rows.Type().Elem()).Name()
		t.Columns = append(t.Columns, b.Column(name, rows.Len()))
		return err
	})
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return nil, err
	}
	return t, nil
}

// ExamplesOf makes examples of a slice of structs with numbers, bools, and slices or arrays of
// them, which have the same length in all rows, such as pixels and a label. X is the
// field besides the target, or [Inputs] by name if there are several; Y is the target, if it
// is not "". Tags are those of [TableOf].
func ExamplesOf(rows any, target string) (Examples, error) {
	e, in := Examples{}, Inputs{}
	err := eachField("ExamplesOf", rows, func(name string, rows reflect.Value, f reflect.StructField) error {
		a, err := stack(rows, f)
		e.N = rows.Len()
		if name == target {
			e.Y = a.Flat
		} else {
			in[name] = a
		}
		return err
	})
	switch {
	case err != nil:
		return Examples{}, err
	case len(in) == 0 || target != "" && e.Y == nil:
		return Examples{}, fmt.Errorf("data: ExamplesOf a %T: want fields, and one called %q", rows, target)
	case len(in) > 1:
		e.X = in
	default:
		for _, x := range in {
			e.X = x
		}
	}
	return e, nil
}

// eachField calls a function for the fields of a slice of structs, by the names of their tags.
func eachField(what string, rows any, do func(name string, rows reflect.Value, f reflect.StructField) error) error {
	v := reflect.ValueOf(rows)
	if v.Kind() != reflect.Slice || pointedTo(v.Type().Elem()).Kind() != reflect.Struct {
		return fmt.Errorf("data: %s a %T: want a slice of structs", what, rows)
	}
	if v.Len() == 0 {
		return fmt.Errorf("data: %s a %T with no rows: want at least one", what, rows)
	}
	fields := 0
	for _, f := range reflect.VisibleFields(pointedTo(v.Type().Elem())) {
		name, tagged := f.Tag.Lookup("data")
		if !f.IsExported() || name == "-" || f.Anonymous && pointedTo(f.Type).Kind() == reflect.Struct {
			continue
		}
		if !tagged || name == "" {
			name = f.Name
		}
		if err := do(name, v, f); err != nil {
			return fmt.Errorf("data: %s a %T: field %s %w; leave it out with the tag `data:\"-\"`", what, rows, f.Name, err)
		}
		fields++
	}
	if fields == 0 {
		return fmt.Errorf("data: %s a %T: no exported fields: want some with capital letters", what, rows)
	}
	return nil
}

// stack is the values of a field of all rows as one array.
func stack(rows reflect.Value, f reflect.StructField) (a Array, err error) {
	element := f.Type
	nested := func(t reflect.Type) bool { return t.Kind() == reflect.Slice || t.Kind() == reflect.Array }
	for nested(element) || element.Kind() == reflect.Pointer {
		element = element.Elem()
	}
	if k := element.Kind(); k < reflect.Bool || k > reflect.Float64 || k == reflect.Uintptr {
		return a, fmt.Errorf("is a %s: want numbers, bools, or slices of them", f.Type)
	}
	flat := reflect.MakeSlice(reflect.SliceOf(element), 0, rows.Len())
	a.Dims = []int{rows.Len()}
	for i := range rows.Len() {
		var add func(v reflect.Value, depth int) error
		add = func(v reflect.Value, depth int) error {
			for v.Kind() == reflect.Pointer && !v.IsNil() {
				v = v.Elem()
			}
			if !v.IsValid() || v.Kind() == reflect.Pointer {
				return fmt.Errorf("of row %d is nil: want a value", i)
			}
			if !nested(v.Type()) {
				flat = reflect.Append(flat, v)
				return nil
			}
			if depth == len(a.Dims) {
				a.Dims = append(a.Dims, v.Len())
			}
			if v.Len() != a.Dims[depth] || v.Len() == 0 {
				return fmt.Errorf("of row %d has length %d: want %d as in the first row, and at least 1", i, v.Len(), a.Dims[depth])
			}
			for k := range v.Len() {
				if err := add(v.Index(k), depth+1); err != nil {
					return err
				}
			}
			return nil
		}
		v, _ := fieldOf(rows.Index(i), f.Index)
		if err := add(v, 1); err != nil {
			return a, err
		}
	}
	a.Flat = flat.Interface()
	return a, nil
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// columnOf is the column of a field.
func columnOf(rows reflect.Value, f reflect.StructField) (Builder, error) {
	var b Builder
	typ := pointedTo(f.Type)
	isTime, kind := typ == reflect.TypeFor[time.Time](), typ.Kind()
	if !isTime && kind != reflect.String && kind != reflect.Bool && (kind < reflect.Int || kind > reflect.Float64) {
		return b, fmt.Errorf("is a %s: want numbers, strings, bools or times", f.Type)
	}
	for i := range rows.Len() {
		v, there := fieldOf(rows.Index(i), f.Index)
		b.Skip(i)
		switch {
		case !there:
		case isTime:
			b.AddTime(v.Interface().(time.Time))
		case v.CanInt():
			b.AddInteger(v.Int())
		case v.CanUint():
			b.AddUnsigned(v.Uint())
		case v.CanFloat():
			b.AddNumber(v.Float())
		default:
			b.AddText(fmt.Sprint(v.Interface()))
		}
	}
	return b, nil
}

// fieldOf follows pointers to a field, if none of them is nil.
func fieldOf(v reflect.Value, index []int) (reflect.Value, bool) {
	for k := 0; ; k++ {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}, false
			}
			v = v.Elem()
		}
		if k == len(index) {
			return v, true
		}
		v = v.Field(index[k])
	}
}
