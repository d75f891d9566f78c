package gaidenkeep

import (
	"reflect"
	"strconv"
	"time"
	"unicode/utf8"
)

// previewLimit is how many bytes of a value lists show.
const previewLimit = 60

// preview appends a value's beginning, without calling any of its methods.
func preview(b []byte, v reflect.Value, depth int) []byte {
	if len(b) > previewLimit || depth > 4 {
		return cut(append(b, "…"...))
	}
	if v.Type() == timeType && v.CanAddr() {
		return v.Addr().Interface().(*time.Time).AppendFormat(b, "2006-01-02 15:04:05")
	}
	switch v.Kind() {
	case reflect.Bool:
		b = strconv.AppendBool(b, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		b = strconv.AppendInt(b, v.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		b = strconv.AppendUint(b, v.Uint(), 10)
	case reflect.Float32, reflect.Float64:
		b = strconv.AppendFloat(b, v.Float(), 'g', 6, 64)
	case reflect.Complex64, reflect.Complex128:
		b = append(b, strconv.FormatComplex(v.Complex(), 'g', 6, 128)...)
	case reflect.String:
		s := v.String()
		b = strconv.AppendQuote(b, s[:min(len(s), previewLimit)])
	case reflect.Slice, reflect.Map:
		if v.IsNil() {
			return append(b, "nil"...)
		}
		if v.Kind() == reflect.Map {
			return strconv.AppendInt(append(b, "len "...), int64(v.Len()), 10)
		}
		fallthrough
	case reflect.Array:
		if v.Len() > 6 {
			b = append(strconv.AppendInt(append(b, "len "...), int64(v.Len()), 10), ' ')
		}
		b = append(b, '[')
		for i := range min(v.Len(), 6) {
			if i > 0 {
				b = append(b, ' ')
			}
			b = preview(b, v.Index(i), depth+1)
		}
		if v.Len() > 6 {
			b = append(b, " …"...)
		}
		b = append(b, ']')
	case reflect.Struct:
		b = append(b, '{')
		for i := range v.NumField() {
			if i > 0 {
				b = append(b, ' ')
			}
			b = append(b, v.Type().Field(i).Name+":"...)
			b = preview(b, v.Field(i), depth+1)
		}
		b = append(b, '}')
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return append(b, "nil"...)
		}
		if v.Kind() == reflect.Pointer {
			b = append(b, '&')
		}
		b = preview(b, v.Elem(), depth+1)
	default:
		b = append(b, v.Type().String()...)
	}
	return cut(b)
}

// cut shortens b to what a list shows.
func cut(b []byte) []byte {
	if len(b) <= previewLimit {
		return b
	}
	n := previewLimit - len("…")
	for !utf8.RuneStart(b[n]) {
		n--
	}
	return append(b[:n:n], "…"...)
}
