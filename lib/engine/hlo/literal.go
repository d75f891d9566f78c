package hlo

import (
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/dtypes/bfloat16"
	"github.com/gomlx/compute/dtypes/float16"
	"github.com/gomlx/compute/shapes"
)

// maxListed is how many elements a constant may have to be written as a list,
// for people to read; longer ones are written in hexadecimal.
const maxListed = 16

// denseLiteral writes a constant, and returns its shape.
func denseLiteral(flat any, dims []int) (string, shapes.Shape, error) {
	fail := func(format string, args ...any) (string, shapes.Shape, error) {
		return "", shapes.Invalid(), fmt.Errorf("hlo: Constant: "+format, args...)
	}
	r := reflect.ValueOf(flat)
	if !r.IsValid() || r.Kind() != reflect.Slice {
		return fail("got %T, want a slice of numbers or booleans", flat)
	}
	dtype := dtypes.FromGoType(r.Type().Elem())
	if dtype == dtypes.InvalidDType {
		return fail("got %T, want a slice of numbers or booleans", flat)
	}
	size := 1
	for _, d := range dims {
		if d < 0 {
			return fail("got dimensions %v, want none below zero", dims)
		}
		size *= d
	}
	if size != r.Len() {
		return fail("got %d values for dimensions %v, want %d", r.Len(), dims, size)
	}
	shape := shapes.Shape{DType: dtype, Dimensions: slices.Clone(dims)}

	switch {
	case size == 0:
		return "dense<>", shape, nil
	case isSplat(flat, r):
		return "dense<" + string(appendElement(nil, r.Index(0))) + ">", shape, nil
	case size <= maxListed || dtype == dtypes.Bool || dtype.IsComplex():
		text, _ := appendNested([]byte("dense<"), r, 0, dims)
		return string(append(text, '>')), shape, nil
	}
	if r.Type().Elem().Kind() == reflect.Int { // encoding/binary wants to know the width
		wide := make([]int64, size)
		for i := range wide {
			wide[i] = r.Index(i).Int()
		}
		flat = wide
	}
	raw, err := binary.Append(nil, binary.LittleEndian, flat)
	if err != nil {
		return fail("%w", err)
	}
	var text strings.Builder
	text.Grow(2*len(raw) + 11)
	text.WriteString(`dense<"0x`)
	hexer := hex.NewEncoder(&upper{&text})
	if _, err := hexer.Write(raw); err != nil {
		return fail("%w", err)
	}
	text.WriteString(`">`)
	return text.String(), shape, nil
}

// upper writes hexadecimal digits in capitals, as MLIR prints them.
type upper struct{ to *strings.Builder }

func (u *upper) Write(digits []byte) (int, error) {
	for _, c := range digits {
		if c >= 'a' {
			c -= 'a' - 'A'
		}
		u.to.WriteByte(c)
	}
	return len(digits), nil
}

// isSplat reports whether all elements are the same, bit for bit.
func isSplat(flat any, r reflect.Value) bool {
	switch s := flat.(type) {
	case []float32:
		return all(s, func(a, b float32) bool { return math.Float32bits(a) == math.Float32bits(b) })
	case []float64:
		return all(s, func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) })
	case []int32:
		return all(s, func(a, b int32) bool { return a == b })
	case []int64:
		return all(s, func(a, b int64) bool { return a == b })
	case []uint8:
		return all(s, func(a, b uint8) bool { return a == b })
	}
	first := string(appendElement(nil, r.Index(0)))
	for i := 1; i < r.Len(); i++ {
		if string(appendElement(nil, r.Index(i))) != first {
			return false
		}
	}
	return true
}

func all[T any](s []T, same func(a, b T) bool) bool {
	for _, x := range s[1:] {
		if !same(s[0], x) {
			return false
		}
	}
	return true
}

// appendNested appends the elements from next on as nested lists and returns
// how many it took.
func appendNested(b []byte, r reflect.Value, next int, dims []int) ([]byte, int) {
	if len(dims) == 0 {
		return appendElement(b, r.Index(next)), next + 1
	}
	b = append(b, '[')
	for i := range dims[0] {
		if i > 0 {
			b = append(b, ", "...)
		}
		b, next = appendNested(b, r, next, dims[1:])
	}
	return append(b, ']'), next
}

// appendElement appends one element as MLIR reads it.
func appendElement(b []byte, e reflect.Value) []byte {
	switch x := e.Interface().(type) {
	case float16.Float16:
		return appendFloat(b, float64(x.Float32()), 16, uint64(x))
	case bfloat16.BFloat16:
		return appendFloat(b, float64(x.Float32()), 16, uint64(x))
	case float32:
		return appendFloat(b, float64(x), 32, uint64(math.Float32bits(x)))
	}
	switch e.Kind() {
	case reflect.Bool:
		return strconv.AppendBool(b, e.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return strconv.AppendInt(b, e.Int(), 10)
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return strconv.AppendUint(b, e.Uint(), 10)
	case reflect.Float32:
		return appendFloat(b, e.Float(), 32, uint64(math.Float32bits(float32(e.Float()))))
	case reflect.Complex64, reflect.Complex128:
		bits := e.Type().Bits() / 2
		part := func(b []byte, x float64) []byte {
			if bits == 32 {
				return appendFloat(b, x, 32, uint64(math.Float32bits(float32(x))))
			}
			return appendFloat(b, x, 64, math.Float64bits(x))
		}
		b = append(part(append(b, '('), real(e.Complex())), ", "...)
		return append(part(b, imag(e.Complex())), ')')
	}
	return appendFloat(b, e.Float(), 64, math.Float64bits(e.Float()))
}

// appendFloat appends a float of the given width. MLIR reads a decimal as a
// float64 and rounds that, so a decimal is written only where this gives the
// very same bits, and the bits themselves otherwise.
func appendFloat(b []byte, x float64, width int, bits uint64) []byte {
	digits := width
	if width < 32 {
		digits = 32 // every 16-bit float is a float32, and has few digits as one
	}
	text := strconv.FormatFloat(x, 'e', -1, digits)
	back, err := strconv.ParseFloat(text, 64)
	exact := err == nil && back == x && (x != 0 || !math.Signbit(x))
	if width == 32 {
		exact = err == nil && float32(back) == float32(x) && (x != 0 || !math.Signbit(x))
	}
	if !exact || math.IsInf(x, 0) || math.IsNaN(x) {
		return fmt.Appendf(b, "0x%0*X", width/4, bits)
	}
	if plain := strconv.FormatFloat(x, 'f', -1, digits); len(plain) <= 8 {
		if !strings.Contains(plain, ".") {
			plain += ".0"
		}
		return append(b, plain...)
	}
	mantissa, exponent, _ := strings.Cut(text, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return append(b, mantissa+"e"+exponent...)
}

// scalarInteger returns the value of a scalar integer constant, or nil.
func scalarInteger(flat any, dims []int) *int64 {
	r := reflect.ValueOf(flat)
	if len(dims) != 0 || r.Len() != 1 {
		return nil
	}
	var n int64
	switch e := r.Index(0); {
	case e.CanInt():
		n = e.Int()
	case e.CanUint() && e.Uint() <= math.MaxInt64 && dtypes.FromGoType(e.Type()).IsInt():
		n = int64(e.Uint())
	default:
		return nil
	}
	return &n
}

// number is a constant that exists for every element type.
type number int

const (
	zero number = iota
	one
	lowest  // -∞, or the least integer
	highest // +∞, or the greatest integer
	ones    // all bits set
)

// numberLiteral writes n as an element of dtype; "" where dtype has none.
func numberLiteral(n number, dtype dtypes.DType) string {
	bits := dtype.Bits()
	switch {
	case dtype == dtypes.Bool:
		return "dense<" + strconv.FormatBool(n != zero && n != lowest) + ">"
	case dtype.IsComplex() && n <= one:
		return fmt.Sprintf("dense<(%d.0, 0.0)>", n)
	case dtype.IsFloat() && n <= one:
		return fmt.Sprintf("dense<%d.0>", n)
	case dtype.IsFloat() && n <= highest:
		infinity, ok := infinities[dtype]
		if !ok {
			return ""
		}
		if n == lowest {
			infinity |= 1 << (bits - 1)
		}
		return fmt.Sprintf("dense<0x%0*X>", bits/4, infinity)
	case !dtype.IsInt():
		return ""
	case n <= one:
		return fmt.Sprintf("dense<%d>", n)
	case dtype.IsUnsigned() && n == lowest:
		return "dense<0>"
	case dtype.IsUnsigned():
		return fmt.Sprintf("dense<%d>", uint64(math.MaxUint64)>>(64-bits))
	case n == ones:
		return "dense<-1>"
	case n == lowest:
		return fmt.Sprintf("dense<%d>", int64(math.MinInt64)>>(64-bits))
	}
	return fmt.Sprintf("dense<%d>", int64(math.MaxInt64)>>(64-bits))
}

// infinities are the bits of +∞.
var infinities = map[dtypes.DType]uint64{
	dtypes.Float16:  0x7C00,
	dtypes.BFloat16: 0x7F80,
	dtypes.Float32:  0x7F800000,
	dtypes.Float64:  0x7FF0000000000000,
}

// number adds a scalar constant.
func (f *Function) number(op string, n number, dtype dtypes.DType) (*value, error) {
	literal := numberLiteral(n, dtype)
	if literal == "" {
		return nil, fmt.Errorf("hlo: %s: got %s, which has no value to begin with", op, dtype)
	}
	v := f.constant(literal, shapes.Shape{DType: dtype})
	return v, nil
}
