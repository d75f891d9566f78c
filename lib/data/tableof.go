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
		b, err := columnOf(v, f)
		if err != nil {
			return nil, fmt.Errorf("data: TableOf a %T: field %s %w; leave it out with the tag `data:\"-\"`", rows, f.Name, err)
		}
		t.Columns = append(t.Columns, b.Column(name, v.Len()))
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
