package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// elements are the types of elements, each with what makes a float of one.
var elements = map[string]func(b []byte) float64{
	"F32": func(b []byte) float64 { return float64(math.Float32frombits(binary.LittleEndian.Uint32(b))) },
	"F64": func(b []byte) float64 { return math.Float64frombits(binary.LittleEndian.Uint64(b)) },
	"BF16": func(b []byte) float64 {
		return float64(math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16))
	},
	"F16":     func(b []byte) float64 { return float64(small(uint32(binary.LittleEndian.Uint16(b)), 5, 10, false)) },
	"F8_E5M2": func(b []byte) float64 { return float64(small(uint32(b[0]), 5, 2, false)) },
	"F8_E4M3": func(b []byte) float64 { return float64(small(uint32(b[0]), 4, 3, true)) },
	"U8":      func(b []byte) float64 { return float64(b[0]) },
	"I8":      func(b []byte) float64 { return float64(int8(b[0])) },
	"U16":     func(b []byte) float64 { return float64(binary.LittleEndian.Uint16(b)) },
	"I16":     func(b []byte) float64 { return float64(int16(binary.LittleEndian.Uint16(b))) },
	"U32":     func(b []byte) float64 { return float64(binary.LittleEndian.Uint32(b)) },
	"I32":     func(b []byte) float64 { return float64(int32(binary.LittleEndian.Uint32(b))) },
	"U64":     func(b []byte) float64 { return float64(binary.LittleEndian.Uint64(b)) },
	"I64":     func(b []byte) float64 { return float64(int64(binary.LittleEndian.Uint64(b))) },
	"BOOL":    func(b []byte) float64 { return float64(b[0]) },
}

// Element returns what makes a float of the first element of some data; nil for an unknown type.
func Element(dtype string) func(b []byte) float64 { return elements[dtype] }

// numbers are the types of numbers that float32 holds, and F64.
var numbers = []string{"BF16", "F16", "F32", "F64", "F8_E4M3", "F8_E5M2", "I16", "I8", "U16", "U8"}

// NumberTypes names the element types that [File.Floats] converts.
func NumberTypes() string { return strings.Join(numbers, ", ") }

// IsNumber says whether the elements are numbers that Floats converts.
func (t Tensor) IsNumber() bool { return slices.Contains(numbers, t.DType) }

// small is a number with a sign, an exponent and a fraction of so many bits. With finite
// there is no infinity, and the one NaN has all bits set, as in F8_E4M3.
func small(b uint32, exponent, fraction int, finite bool) float32 {
	sign := b >> (exponent + fraction) << 31
	e, f := int(b>>fraction)&(1<<exponent-1), b&(1<<fraction-1)
	bias, highest := 1<<(exponent-1)-1, 1<<exponent-1
	var x float64
	switch {
	case e == 0:
		x = math.Ldexp(float64(f), 1-bias-fraction)
	case e == highest && !finite && f == 0:
		x = math.Inf(1)
	case e == highest && (!finite || f == 1<<fraction-1):
		x = math.NaN()
	default:
		x = math.Ldexp(float64(uint32(1)<<fraction|f), e-bias-fraction)
	}
	return math.Float32frombits(math.Float32bits(float32(x)) | sign)
}

// Floats is the data of tensor number i, of any type of floating-point numbers or of integers
// of 8 or 16 bits, as float32. A float64 is rounded; one beyond float32 is an error.
func (f *File) Floats(i int) ([]float32, error) {
	t := f.Tensors[i]
	convert := elements[t.DType]
	if !t.IsNumber() {
		return nil, fmt.Errorf("safetensors: array %.80q is %s: want one of %s", t.Name, t.DType, NumberTypes())
	}
	b := make([]byte, t.Size())
	if err := f.Read(i, b); err != nil {
		return nil, err
	}
	width := int(sizes[t.DType])
	all := make([]float32, len(b)/width)
	if t.DType == "F32" {
		for k := range all {
			all[k] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*k:]))
		}
		return all, nil
	}
	for k := range all {
		x := convert(b[k*width:])
		all[k] = float32(x)
		if math.IsInf(float64(all[k]), 0) && !math.IsInf(x, 0) {
			return nil, fmt.Errorf("safetensors: array %.80q: number %d is %g: want numbers within the range of float32", t.Name, k, x)
		}
	}
	return all, nil
}
