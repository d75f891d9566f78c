package triton

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/gomlx/compute/dtypes"
)

// largestTile is how many elements Triton lets a tile have.
const largestTile = 1 << 20

// Type is what a Value is.
type Type struct {
	DType   dtypes.DType // of an element, or of what the pointers point to
	Pointer bool
	Dims    []int // nil for a scalar
}

// String is the type as Triton IR has it.
func (t Type) String() string {
	s := element(t.DType)
	if t.Pointer {
		s = "!tt.ptr<" + memory(t.DType) + ">"
	}
	if t.Dims == nil {
		return s
	}
	var b strings.Builder
	b.WriteString("tensor<")
	for _, d := range t.Dims {
		b.WriteString(strconv.Itoa(d))
		b.WriteByte('x')
	}
	b.WriteString(s)
	b.WriteByte('>')
	return b.String()
}

func (t Type) equal(u Type) bool {
	return t.DType == u.DType && t.Pointer == u.Pointer && slices.Equal(t.Dims, u.Dims)
}

// of is a type of the same dimensions with other elements.
func (t Type) of(d dtypes.DType) Type { return Type{DType: d, Dims: t.Dims} }

func (t Type) isFloat() bool { return !t.Pointer && t.DType.IsFloat() }
func (t Type) isInt() bool   { return !t.Pointer && t.DType.IsInt() }
func (t Type) isBool() bool  { return !t.Pointer && t.DType == dtypes.Bool }

// element is a type of registers.
func element(d dtypes.DType) string {
	switch d {
	case dtypes.Bool:
		return "i1"
	case dtypes.Uint8:
		return "i8"
	case dtypes.Int32:
		return "i32"
	case dtypes.Int64:
		return "i64"
	case dtypes.Float32:
		return "f32"
	case dtypes.BFloat16:
		return "bf16"
	case dtypes.Float16:
		return "f16"
	}
	return ""
}

// memory is a type as arrays hold it: XLA keeps a byte for a bool.
func memory(d dtypes.DType) string {
	if d == dtypes.Bool {
		return "i8"
	}
	return element(d)
}

// literal writes a number as a constant of an element type. ok is false when
// the type cannot hold it.
func literal(d dtypes.DType, v float64) (text string, ok bool) {
	switch {
	case d == dtypes.Bool:
		return strconv.FormatBool(v != 0), v == 0 || v == 1
	case d.IsInt():
		return strconv.FormatInt(int64(v), 10), v == math.Trunc(v) && (d == dtypes.Int64 && math.Abs(v) <= 1<<53 || v >= math.MinInt32 && v <= math.MaxInt32)
	case !d.IsFloat():
		return "", false
	case math.IsNaN(v):
		return notFinite[d][0], true
	case math.IsInf(v, 1):
		return notFinite[d][1], true
	case math.IsInf(v, -1):
		return notFinite[d][2], true
	}
	if math.Abs(v) > math.MaxFloat32 {
		return "", false
	}
	s := strconv.FormatFloat(v, 'e', -1, 32)
	mantissa, exponent, _ := strings.Cut(s, "e")
	if !strings.Contains(mantissa, ".") {
		mantissa += ".0"
	}
	return mantissa + "e" + exponent, true
}

// notFinite are the bits of NaN and of the infinities, which have no other
// text.
var notFinite = map[dtypes.DType][3]string{
	dtypes.Float32:  {"0x7FC00000", "0x7F800000", "0xFF800000"},
	dtypes.BFloat16: {"0x7FC0", "0x7F80", "0xFF80"},
	dtypes.Float16:  {"0x7E00", "0x7C00", "0xFC00"},
}

// isPowerOfTwo holds for 1, 2, 4, ….
func isPowerOfTwo(n int) bool { return n > 0 && n&(n-1) == 0 }

// Blocks is how many blocks of the given size cover n elements.
func Blocks(n, size int) int { return (n + size - 1) / size }

// Cover is the smallest power of two that is at least n and least.
func Cover(n, least int) int {
	p := 1
	for p < n || p < least {
		p *= 2
	}
	return p
}
