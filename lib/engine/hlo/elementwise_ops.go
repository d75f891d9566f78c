package hlo

import "github.com/gomlx/compute"

// The methods below work element by element. Those of one operand return its
// shape. Those of two take operands of one element type and broadcast: a scalar
// to any shape, an axis of length 1 to any length.

// BitCount counts the bits set in each integer.
func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, x)
}

// BitwiseNot inverts the bits of each integer.
func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, x)
}

// Ceil rounds up.
func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, x)
}

// Clz counts the leading zeros of each integer.
func (f *Function) Clz(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeClz, x) }

// Cos returns the cosine.
func (f *Function) Cos(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeCos, x) }

// Erf returns the error function.
func (f *Function) Erf(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeErf, x) }

// Exp returns the exponential.
func (f *Function) Exp(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeExp, x) }

// Expm1 returns exp(x)-1.
func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, x)
}

// Floor rounds down.
func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, x)
}

// Log returns the natural logarithm.
func (f *Function) Log(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeLog, x) }

// Log1p returns log(1+x).
func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, x)
}

// LogicalNot inverts booleans.
func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, x)
}

// Logistic returns 1/(1+exp(-x)).
func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, x)
}

// Neg returns -x.
func (f *Function) Neg(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeNeg, x) }

// Round rounds to the nearest integer, halves to even.
func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, x)
}

// Rsqrt returns 1/√x.
func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, x)
}

// Sin returns the sine.
func (f *Function) Sin(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeSin, x) }

// Sqrt returns the square root.
func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, x)
}

// Tanh returns the hyperbolic tangent.
func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, x)
}

// Add returns lhs + rhs.
func (f *Function) Add(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAdd, lhs, rhs)
}

// Atan2 returns the angle of the point (rhs, lhs).
func (f *Function) Atan2(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, lhs, rhs)
}

// BitwiseAnd returns lhs & rhs.
func (f *Function) BitwiseAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, lhs, rhs)
}

// BitwiseOr returns lhs | rhs.
func (f *Function) BitwiseOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, lhs, rhs)
}

// BitwiseXor returns lhs ^ rhs.
func (f *Function) BitwiseXor(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, lhs, rhs)
}

// Div returns lhs / rhs.
func (f *Function) Div(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, lhs, rhs)
}

// LogicalAnd returns lhs && rhs.
func (f *Function) LogicalAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, lhs, rhs)
}

// LogicalOr returns lhs || rhs.
func (f *Function) LogicalOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, lhs, rhs)
}

// LogicalXor returns lhs != rhs.
func (f *Function) LogicalXor(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalXor, lhs, rhs)
}

// Max returns the greater; NaN if either is.
func (f *Function) Max(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMax, lhs, rhs)
}

// Min returns the lesser; NaN if either is.
func (f *Function) Min(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMin, lhs, rhs)
}

// Mul returns lhs · rhs.
func (f *Function) Mul(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, lhs, rhs)
}

// Pow returns lhs to the power rhs.
func (f *Function) Pow(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, lhs, rhs)
}

// Rem returns the remainder, with the sign of lhs.
func (f *Function) Rem(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, lhs, rhs)
}

// ShiftLeft returns lhs << rhs.
func (f *Function) ShiftLeft(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, lhs, rhs)
}

// ShiftRightArithmetic returns lhs >> rhs, keeping the sign.
func (f *Function) ShiftRightArithmetic(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, lhs, rhs)
}

// ShiftRightLogical returns lhs >> rhs, filling with zeros.
func (f *Function) ShiftRightLogical(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, lhs, rhs)
}

// Sub returns lhs - rhs.
func (f *Function) Sub(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, lhs, rhs)
}

// Equal reports whether lhs == rhs.
func (f *Function) Equal(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, lhs, rhs)
}

// EqualTotalOrder is Equal in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) EqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqualTotalOrder, lhs, rhs)
}

// NotEqual reports whether lhs != rhs.
func (f *Function) NotEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, lhs, rhs)
}

// NotEqualTotalOrder is NotEqual in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) NotEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqualTotalOrder, lhs, rhs)
}

// GreaterThan reports whether lhs > rhs.
func (f *Function) GreaterThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, lhs, rhs)
}

// GreaterThanTotalOrder is GreaterThan in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) GreaterThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThanTotalOrder, lhs, rhs)
}

// GreaterOrEqual reports whether lhs >= rhs.
func (f *Function) GreaterOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, lhs, rhs)
}

// GreaterOrEqualTotalOrder is GreaterOrEqual in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) GreaterOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqualTotalOrder, lhs, rhs)
}

// LessThan reports whether lhs < rhs.
func (f *Function) LessThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, lhs, rhs)
}

// LessThanTotalOrder is LessThan in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) LessThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThanTotalOrder, lhs, rhs)
}

// LessOrEqual reports whether lhs <= rhs.
func (f *Function) LessOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, lhs, rhs)
}

// LessOrEqualTotalOrder is LessOrEqual in the order -NaN < -∞ < … < -0 < +0 < … < +∞ < NaN.
func (f *Function) LessOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqualTotalOrder, lhs, rhs)
}
