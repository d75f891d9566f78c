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
	v := reflect.ValueOf(rows)
	var row reflect.Type
	if v.Kind() == reflect.Slice {
		row = v.Type().Elem()
	}
	for row != nil && row.Kind() == reflect.Pointer {
		row = row.Elem()
	}
	if row == nil || row.Kind() != reflect.Struct {
		return nil, fmt.Errorf("data: TableOf a %T: want a slice of structs", rows)
	}
	if v.Len() == 0 {
		return nil, fmt.Errorf("data: TableOf a %T with no rows: want at least one", rows)
	}
	t := &Table{Name: row.Name()}
	for _, f := range reflect.VisibleFields(row) {
		name, tagged := f.Tag.Lookup("data")
		if !f.IsExported() || name == "-" || f.Anonymous && pointedTo(f.Type).Kind() == reflect.Struct {
			continue
		}
		if !tagged || name == "" {
			name = f.Name
		}
		c, err := columnOf(v, f)
		if err != nil {
			return nil, fmt.Errorf("data: TableOf a %T: field %s %w; leave it out with the tag `data:\"-\"`", rows, f.Name, err)
		}
		c.Name = name
		t.Columns = append(t.Columns, c)
	}
	if len(t.Columns) == 0 {
		return nil, fmt.Errorf("data: TableOf a %T: no exported fields: want some with capital letters", rows)
	}
	return t, t.check()
}

func pointedTo(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

// columnOf is the column of a field.
func columnOf(rows reflect.Value, f reflect.StructField) (c Column, err error) {
	typ := pointedTo(f.Type)
	for i := range rows.Len() {
		v, there := fieldOf(rows.Index(i), f.Index)
		switch kind := typ.Kind(); {
		case typ == reflect.TypeFor[time.Time]():
			x := time.Time{}
			if there {
				x = v.Interface().(time.Time)
			}
			c.Times = append(c.Times, x)
		case kind == reflect.String || kind == reflect.Bool:
			x := ""
			if there {
				x = fmt.Sprint(v.Interface())
			}
			c.Text = append(c.Text, x)
		case v.IsValid() && (v.CanInt() || v.CanUint() || v.CanFloat()), !there && kind >= reflect.Int && kind <= reflect.Float64:
			x := missing
			if there {
				x = v.Convert(reflect.TypeFor[float64]()).Float()
			}
			if there && v.CanInt() && int64(x) != v.Int() || there && v.CanUint() && uint64(x) != v.Uint() {
				return c, fmt.Errorf("of row %d is %v: want an integer that a float64 has exactly, or a string", i, v.Interface())
			}
			c.Numbers = append(c.Numbers, x)
		default:
			return c, fmt.Errorf("is a %s: want numbers, strings, bools or times", f.Type)
		}
	}
	return c, nil
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
