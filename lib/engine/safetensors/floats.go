package safetensors

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
)

// floats are the types of floating-point numbers, each with what makes float32 of one.
var floats = map[string]func(b []byte) float32{
	"F32":     func(b []byte) float32 { return math.Float32frombits(binary.LittleEndian.Uint32(b)) },
	"F64":     func(b []byte) float32 { return float32(math.Float64frombits(binary.LittleEndian.Uint64(b))) },
	"BF16":    func(b []byte) float32 { return math.Float32frombits(uint32(binary.LittleEndian.Uint16(b)) << 16) },
	"F16":     func(b []byte) float32 { return small(uint32(binary.LittleEndian.Uint16(b)), 5, 10, false) },
	"F8_E5M2": func(b []byte) float32 { return small(uint32(b[0]), 5, 2, false) },
	"F8_E4M3": func(b []byte) float32 { return small(uint32(b[0]), 4, 3, true) },
}

// FloatTypes names the element types that [File.Floats] converts.
func FloatTypes() string {
	var l []string
	for name := range floats {
		l = append(l, name)
	}
	slices.Sort(l)
	return strings.Join(l, ", ")
}

// IsFloat says whether the elements are floating-point numbers that Floats converts.
func (t Tensor) IsFloat() bool { return floats[t.DType] != nil }

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

// Floats is the data of tensor number i, of any type of floating-point numbers, as
// float32. A float64 is rounded; one beyond float32 is an error.
func (f *File) Floats(i int) ([]float32, error) {
	t := f.Tensors[i]
	convert := floats[t.DType]
	if convert == nil {
		return nil, fmt.Errorf("safetensors: array %.80q is %s: want one of %s", t.Name, t.DType, FloatTypes())
	}
	b := make([]byte, t.Size())
	if err := f.Read(i, b); err != nil {
		return nil, err
	}
	width := int(sizes[t.DType])
	all := make([]float32, len(b)/width)
	for k := range all {
		all[k] = convert(b[k*width:])
		if t.DType == "F64" && math.IsInf(float64(all[k]), 0) {
			if x := math.Float64frombits(binary.LittleEndian.Uint64(b[8*k:])); !math.IsInf(x, 0) {
				return nil, fmt.Errorf("safetensors: array %.80q: number %d is %g: want numbers within the range of float32", t.Name, k, x)
			}
		}
	}
	return all, nil
}
