package ptx

import (
	"math"
	"math/bits"
)

// pair writes an instruction of two operands of v's kind.
func (v Value) pair(name string, x any) Value {
	w := v.b.value(v.kind, x)
	if v.fixed { // assemblers want a register first
		v = v.b.Var(v)
	}
	return v.b.op(v.kind, name, v, w)
}

func (v Value) want(k kind, what string) {
	if v.kind != k {
		v.b.refuse("%s of %s, want one of %s", what, kinds[v.kind], kinds[k])
	}
}

// arithmetic is pair for numbers.
func (v Value) arithmetic(name string, x any) Value {
	v.any(name, word, float)
	return v.pair(name+"."+number[v.kind], x)
}

// bitwise is pair for bits and conditions.
func (v Value) bitwise(name string, x any) Value {
	v.any(name, word, condition)
	return v.pair(name+"."+suffix[v.kind], x)
}

// Add is v + x.
func (v Value) Add(x any) Value { return v.arithmetic("add", x) }

// Sub is v - x.
func (v Value) Sub(x any) Value { return v.arithmetic("sub", x) }

// Mul is v·x; of integers the low 32 bits.
func (v Value) Mul(x any) Value {
	if v.kind == word {
		return v.pair("mul.lo.u32", x)
	}
	v.want(float, "Mul")
	return v.pair("mul.f32", x)
}

// FMA is v·x + y, rounded once.
func (v Value) FMA(x, y any) Value {
	v.want(float, "FMA")
	if v.fixed {
		v = v.b.Var(v)
	}
	return v.b.op(float, "fma.rn.f32", v, v.b.value(float, x), v.b.value(float, y))
}

// Min and Max are the smaller and the larger one; of a NaN and a number the number.
func (v Value) Min(x any) Value { return v.arithmetic("min", x) }

// Max is the larger one.
func (v Value) Max(x any) Value { return v.arithmetic("max", x) }

// And, Or and Xor are of the bits, or of conditions.
func (v Value) And(x any) Value { return v.bitwise("and", x) }

// Or is of the bits, or of conditions.
func (v Value) Or(x any) Value { return v.bitwise("or", x) }

// Xor is of the bits, or of conditions.
func (v Value) Xor(x any) Value { return v.bitwise("xor", x) }

// Not is a condition's opposite.
func (v Value) Not() Value {
	v.want(condition, "Not")
	return v.b.op(condition, "not.pred", v)
}

// Div is v/n, without the rest, of v below 2³¹: a product and a shift (Granlund and
// Montgomery, Division by Invariant Integers using Multiplication, 1994). Assemblers make
// twenty instructions of PTX's own division by a constant.
func (v Value) Div(n int) Value {
	v.want(word, "Div")
	if n < 1 || n > math.MaxInt32 {
		v.b.refuse("division by %d, want 1 or more, and 32 bits", n)
	}
	log := bits.Len(uint(n - 1)) // 2 to its power is n at least
	if 1<<log == n {
		return v.Shr(log)
	}
	return v.pair("mul.hi.u32", int((uint64(1)<<(31+log))/uint64(n)+1)).Shr(log - 1)
}

// Rem is the rest of v/n, of v below 2³¹.
func (v Value) Rem(n int) Value {
	q := v.Div(n)
	if n&(n-1) == 0 {
		return v.And(n - 1)
	}
	return v.Sub(q.Mul(n))
}

// Shl is v·2ⁿ.
func (v Value) Shl(n int) Value {
	v.want(word, "Shl")
	return v.b.op(word, "shl.b32", v, v.b.U32(n))
}

// Shr is v/2ⁿ.
func (v Value) Shr(n int) Value {
	v.want(word, "Shr")
	return v.b.op(word, "shr.u32", v, v.b.U32(n))
}

// compare is a condition.
func (v Value) compare(how string, x any) Value {
	v.any("comparison", word, float)
	w := v.b.value(v.kind, x)
	if v.fixed {
		v = v.b.Var(v)
	}
	return v.b.op(condition, "setp."+how+"."+number[v.kind], v, w)
}

// Less is v < x.
func (v Value) Less(x any) Value { return v.compare("lt", x) }

// Greater is v > x.
func (v Value) Greater(x any) Value { return v.compare("gt", x) }

// Equal is v = x.
func (v Value) Equal(x any) Value { return v.compare("eq", x) }

// Select is x where the condition v holds, and y where it does not.
func (v Value) Select(x, y any) Value {
	v.want(condition, "Select")
	w, is := x.(Value)
	if !is {
		if w, is = y.(Value); !is {
			v.b.refuse("got two Go numbers, want a Value")
		}
	}
	w.any("Select", word, float)
	return v.b.op(w.kind, "selp."+suffix[w.kind], v.b.value(w.kind, x), v.b.value(w.kind, y), v)
}

// Float is the float32 that v's bits are.
func (v Value) Float() Value { return v.as(float, word) }

// Bits is the integer that a float32's bits are.
func (v Value) Bits() Value { return v.as(word, float) }

func (v Value) as(to, from kind) Value {
	if v.kind != to {
		v.want(from, "bits")
	}
	v.kind = to
	return v
}

// ToFloat is an integer as a float32.
func (v Value) ToFloat() Value {
	v.want(word, "ToFloat")
	return v.b.op(float, "cvt.rn.f32.u32", v)
}

// Rounded is a float32 that its first ten digits after the point, which is what a
// product reads of a factor, tell as well as can be. A NaN stays one.
func (v Value) Rounded() Value {
	const half = 0x1000
	return v.b.op(word, "min.s32", v.Bits(), v.b.U32(0x7FFFFFFF-half)).Add(half).Float()
}

// Rsqrt, Reciprocal, Exp2 and Log2 have an error in the last two bits; results
// and operands below 2⁻¹²⁶ are 0.
func (v Value) Rsqrt() Value { return v.near("rsqrt") }

// Reciprocal is 1/v.
func (v Value) Reciprocal() Value { return v.near("rcp") }

// Exp2 is 2 to the power of v.
func (v Value) Exp2() Value { return v.near("ex2") }

// Log2 is the logarithm to the base 2.
func (v Value) Log2() Value { return v.near("lg2") }

func (v Value) near(name string) Value {
	v.want(float, name)
	return v.b.op(float, name+".approx.ftz.f32", v)
}
