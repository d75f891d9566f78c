package pjrt

import (
	"fmt"
	"maps"
	"math"
	"slices"
)

// namedValue is PJRT_NamedValue: an option or an attribute.
type namedValue struct {
	head
	name, nameLen uintptr
	kind          int32
	_             int32
	value         uint64 // the value, or the address of text or numbers
	n             uintptr
}

const namedValueSize = 56

// named puts options into C memory. Values are string, bool, int, int64,
// []int64, float32 or float64; the C API keeps floats in 32 bits.
func (a *arena) named(options map[string]any) (values, n uintptr, err error) {
	if len(options) == 0 {
		return 0, 0, nil
	}
	l := makeN[namedValue](a, len(options))
	for i, name := range slices.Sorted(maps.Keys(options)) {
		x := namedValue{head: head{namedValueSize, 0}, name: a.bytes([]byte(name)), nameLen: uintptr(len(name)), n: 1}
		switch v := options[name].(type) {
		case string:
			x.kind, x.value, x.n = 0, uint64(a.bytes([]byte(v))), uintptr(len(v))
		case int:
			x.kind, x.value = 1, uint64(v)
		case int64:
			x.kind, x.value = 1, uint64(v)
		case []int64:
			c := makeN[int64](a, len(v))
			copy(c, v)
			x.kind, x.n = 2, uintptr(len(v))
			if len(v) > 0 {
				x.value = uint64(address(&c[0]))
			}
		case float32:
			x.kind, x.value = 3, uint64(math.Float32bits(v))
		case float64:
			x.kind, x.value = 3, uint64(math.Float32bits(float32(v)))
		case bool:
			x.kind = 4
			if v {
				x.value = 1
			}
		default:
			return 0, 0, fmt.Errorf("option %q: got a %T, want a string, bool, int, int64, []int64 or float64", name, v)
		}
		l[i] = x
	}
	return address(&l[0]), uintptr(len(l)), nil
}

// readNamed copies attributes to Go: string, int64, []int64, float64 or bool.
// A value of a kind that is not known is left out.
func readNamed(values, n uintptr) map[string]any {
	m := map[string]any{}
	for range n {
		v := at[namedValue](values)
		name := text(v.name, v.nameLen)
		switch v.kind {
		case 0:
			m[name] = text(uintptr(v.value), v.n)
		case 1:
			m[name] = int64(v.value)
		case 2:
			m[name] = append([]int64{}, array[int64](uintptr(v.value), v.n)...)
		case 3:
			m[name] = float64(math.Float32frombits(uint32(v.value)))
		case 4:
			m[name] = v.value&255 != 0
		}
		// Newer plugins may have longer values: each says its own size.
		values += max(namedValueSize, (v.size+7)&^7)
	}
	return m
}
