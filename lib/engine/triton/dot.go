package triton

import (
	"math"

	"github.com/gomlx/compute/dtypes"
)

// Rounding is how float32 factors of a product become TF32 (10 bits of
// mantissa).
type Rounding int

const (
	// Nearest rounds, as XLA's own products do: two more instructions for each
	// factor.
	Nearest Rounding = iota
	// Exact does not use TF32: products in float32, several times slower.
	Exact
)

// Dot is sum + x·y for tiles [m k] and [k n], or [s m k] and [s k n]. The
// factors are float32, bfloat16 or float16; sum is float32 [m n] or [s m n].
// m and k are at least 16, n 8.
func (b *Block) Dot(x, y, sum Value, rounding Rounding) Value {
	x.use("Dot")
	y.use("Dot")
	sum.use("Dot")
	d, e, s := x.typ.Dims, y.typ.Dims, sum.typ.Dims
	n := len(d)
	if n < 2 || n > 3 || len(e) != n || len(s) != n {
		b.refuse("Dot", "got tiles of %v, %v and %v, want three of rank 2 or three of rank 3", d, e, s)
	}
	if d[n-1] != e[n-2] || d[n-2] != s[n-2] || e[n-1] != s[n-1] || n == 3 && (d[0] != e[0] || d[0] != s[0]) {
		b.refuse("Dot", "got tiles of %v, %v and %v, want [m k], [k n] and [m n]", d, e, s)
	}
	if d[n-1] < 16 || d[n-2] < 16 || e[n-1] < 8 {
		b.refuse("Dot", "got tiles of %v and %v, want sides of 16 or more, the last of 8; cover the rest with a mask", d, e)
	}
	if !x.typ.isFloat() || x.typ.DType != y.typ.DType || sum.typ.DType != dtypes.Float32 || sum.typ.Pointer {
		b.refuse("Dot", "got %s, %s and %s, want two of one floating point type, and float32", x.typ, y.typ, sum.typ)
	}
	precision, attributes := "tf32", ""
	switch {
	case rounding == Exact && x.typ.DType == dtypes.Float32:
		precision = "ieee"
	case x.typ.DType != dtypes.Float32:
	default:
		attributes = " {tf32_arguments_rounded}" // XLA then adds no rounding of its own
		x, y = x.nearest(), y.nearest()
	}
	return b.op(sum.typ, "tt.dot %s, %s, %s, inputPrecision = %s%s : %s * %s -> %s", x.name, y.name, sum.name, precision, attributes, x.typ, y.typ, sum.typ)
}

// nearest adds half of what the tensor cores drop of a float32, its last 13
// bits. XLA's way, an instruction with a test for NaN, costs half as much again.
// Infinities stay what they are, and so do NaN: the one that arithmetic makes is the
// largest integer, and would become -0, were it not made a smaller one first.
func (v Value) nearest() Value {
	const half = 1 << 12
	bits := v.b.op(v.typ.of(dtypes.Int32), "tt.bitcast %s : %s -> %s", v.name, v.typ, v.typ.of(dtypes.Int32))
	bits = bits.Min(math.MaxInt32 - half).Add(half)
	return v.b.op(v.typ, "tt.bitcast %s : %s -> %s", bits.name, bits.typ, v.typ)
}
