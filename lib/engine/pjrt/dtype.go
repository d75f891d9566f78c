package pjrt

import "fmt"

// DType is the type of an array's elements, by its number in the PJRT C API
// (PJRT_Buffer_Type).
type DType uint8

// The element types that can be uploaded. Types of less than a byte and the
// 8-bit floats exist inside programs only.
const (
	Bool       DType = 1 + iota // one byte, 0 or 1
	Int8                        // two's complement
	Int16                       // little endian, as all that follow
	Int32                       //
	Int64                       //
	Uint8                       //
	Uint16                      //
	Uint32                      //
	Uint64                      //
	Float16                     // IEEE half
	Float32                     //
	Float64                     //
	BFloat16                    // the upper half of a float32
	Complex64                   // two float32
	Complex128                  // two float64
)

var dtypes = [...]struct {
	name, hlo string
	size      int
}{{"invalid", "?", 0}, {"bool", "i1", 1}, {"int8", "i8", 1}, {"int16", "i16", 2}, {"int32", "i32", 4}, {"int64", "i64", 8}, {"uint8", "ui8", 1},
	{"uint16", "ui16", 2}, {"uint32", "ui32", 4}, {"uint64", "ui64", 8}, {"float16", "f16", 2}, {"float32", "f32", 4}, {"float64", "f64", 8},
	{"bfloat16", "bf16", 2}, {"complex64", "complex<f32>", 8}, {"complex128", "complex<f64>", 16}}

// Size is the size of one element in bytes, 0 for a type that cannot be
// uploaded.
func (t DType) Size() int {
	if int(t) < len(dtypes) {
		return dtypes[t].size
	}
	return 0
}

// String is the name as in Go: float32, bfloat16.
func (t DType) String() string {
	if int(t) < len(dtypes) {
		return dtypes[t].name
	}
	return fmt.Sprintf("dtype %d", uint8(t))
}

// Shape is the type and the dimensions of an array.
type Shape struct {
	DType DType
	Dims  []int // none for a scalar
}

// String writes the shape as StableHLO does: tensor<2x3xf32>.
func (s Shape) String() string {
	b := []byte("tensor<")
	for _, d := range s.Dims {
		b = fmt.Appendf(b, "%dx", d)
	}
	if int(s.DType) < len(dtypes) {
		return string(append(b, dtypes[s.DType].hlo+">"...))
	}
	return string(append(b, s.DType.String()+">"...))
}

// maxRank is the most dimensions an uploaded array may have.
const maxRank = 32

// bytes is the size of an array in bytes, or why there can be no such array.
func (s Shape) bytes() (int, error) {
	n := s.DType.Size()
	if n == 0 {
		return 0, fmt.Errorf("element type %s cannot be uploaded; use bool to complex128", s.DType)
	}
	if len(s.Dims) > maxRank {
		return 0, fmt.Errorf("got %d dimensions, want at most %d", len(s.Dims), maxRank)
	}
	empty := false
	for _, d := range s.Dims {
		switch {
		case d < 0:
			return 0, fmt.Errorf("shape %s has a negative dimension", s)
		case d == 0:
			empty = true
		case n > maxBytes/d:
			return 0, fmt.Errorf("shape %s is larger than any memory", s)
		default:
			n *= d
		}
	}
	if empty {
		return 0, nil
	}
	return n, nil
}

const maxBytes = 1 << 46
