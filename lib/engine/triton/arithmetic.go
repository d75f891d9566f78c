package triton

import (
	"math"

	"github.com/gomlx/compute/dtypes"
)

// binary writes an op of two numbers; an empty name has none of that kind.
func (v Value) binary(op, float, integer, boolean string, y any) Value {
	x, w := v.join(op, y)
	name := ""
	switch {
	case x.typ.isFloat():
		name = float
	case x.typ.isBool():
		name = boolean
	case x.typ.isInt() && x.typ.DType != dtypes.Uint8:
		name = integer
	}
	if name == "" {
		v.b.refuse(op, "got %s, want another type; change it with To", x.typ)
	}
	return v.b.op(x.typ, "%s %s, %s : %s", name, x.name, w.name, x.typ)
}

// Add is v + y.
func (v Value) Add(y any) Value { return v.binary("Add", "arith.addf", "arith.addi", "", y) }

// Sub is v - y.
func (v Value) Sub(y any) Value { return v.binary("Sub", "arith.subf", "arith.subi", "", y) }

// Mul is v · y.
func (v Value) Mul(y any) Value {
	if n, is := y.(int); is && n == 1 {
		return v.use("Mul")
	}
	return v.binary("Mul", "arith.mulf", "arith.muli", "", y)
}

// MulAdd is v · y + z, rounded once, of floating point numbers.
func (v Value) MulAdd(y, z any) Value {
	x, w := v.join("MulAdd", y)
	if !x.typ.isFloat() {
		v.b.refuse("MulAdd", "got %s, want floating point numbers; change them with To", x.typ)
	}
	x, u := x.join("MulAdd", z)
	w = w.stretch("MulAdd", x.typ.Dims)
	return v.b.op(x.typ, "math.fma %s, %s, %s : %s", x.name, w.name, u.name, x.typ)
}

// Div is v / y; of integers, rounded towards zero.
func (v Value) Div(y any) Value { return v.binary("Div", "arith.divf", "arith.divsi", "", y) }

// Rem is the remainder of v / y, of integers.
func (v Value) Rem(y any) Value { return v.binary("Rem", "", "arith.remsi", "", y) }

// Max is the larger; a NaN wins.
func (v Value) Max(y any) Value { return v.binary("Max", "arith.maximumf", "arith.maxsi", "", y) }

// Min is the smaller; a NaN wins.
func (v Value) Min(y any) Value { return v.binary("Min", "arith.minimumf", "arith.minsi", "", y) }

// And holds where both hold; of integers, bit by bit.
func (v Value) And(y any) Value { return v.binary("And", "", "arith.andi", "arith.andi", y) }

// Or holds where one holds; of integers, bit by bit.
func (v Value) Or(y any) Value { return v.binary("Or", "", "arith.ori", "arith.ori", y) }

// Not holds where v does not, of bools.
func (v Value) Not() Value {
	v.use("Not")
	if !v.typ.isBool() {
		v.b.refuse("Not", "got %s, want bools", v.typ)
	}
	return v.binary("Not", "", "", "arith.xori", 1)
}

// Neg is -v.
func (v Value) Neg() Value {
	v.use("Neg")
	zero := 0.0
	if v.typ.isFloat() {
		zero = math.Copysign(0, -1) // -0 - 0 is -0; Triton has no arith.negf
	}
	return v.b.operand("Neg", zero, v.typ).Sub(v)
}

// compare gives bools; a comparison with NaN is false, but NotEqual's true.
func (v Value) compare(op, float, integer string, y any) Value {
	x, w := v.join(op, y)
	name := ""
	switch {
	case x.typ.isFloat():
		name = "arith.cmpf " + float
	case x.typ.isInt() && x.typ.DType != dtypes.Uint8:
		name = "arith.cmpi " + integer
	default:
		v.b.refuse(op, "got %s, want numbers", x.typ)
	}
	return v.b.op(x.typ.of(dtypes.Bool), "%s, %s, %s : %s", name, x.name, w.name, x.typ)
}

// Less is v < y.
func (v Value) Less(y any) Value { return v.compare("Less", "olt", "slt", y) }

// LessEqual is v ≤ y.
func (v Value) LessEqual(y any) Value { return v.compare("LessEqual", "ole", "sle", y) }

// Greater is v > y.
func (v Value) Greater(y any) Value { return v.compare("Greater", "ogt", "sgt", y) }

// GreaterEqual is v ≥ y.
func (v Value) GreaterEqual(y any) Value { return v.compare("GreaterEqual", "oge", "sge", y) }

// Equal is v = y.
func (v Value) Equal(y any) Value { return v.compare("Equal", "oeq", "eq", y) }

// NotEqual is v ≠ y.
func (v Value) NotEqual(y any) Value { return v.compare("NotEqual", "une", "ne", y) }

// Select is yes where v holds, and no elsewhere. One of them is a Value.
func (v Value) Select(yes, no any) Value {
	v.use("Select")
	if !v.typ.isBool() {
		v.b.refuse("Select", "got %s, want bools to choose by", v.typ)
	}
	like, is := yes.(Value)
	if !is {
		if like, is = no.(Value); !is {
			v.b.refuse("Select", "got two numbers to choose from, want a Value at least; see Block.Full")
		}
	}
	x, y := v.b.operand("Select", yes, like.typ).join("Select", no)
	dims := v.b.common("Select", v.typ.Dims, x.typ.Dims)
	c, x, y := v.stretch("Select", dims), x.stretch("Select", dims), y.stretch("Select", dims)
	return v.b.op(x.typ, "arith.select %s, %s, %s : %s, %s", c.name, x.name, y.name, c.typ, x.typ)
}

// float writes a function of floating point numbers.
func (v Value) float(op, name string) Value {
	v.use(op)
	if !v.typ.isFloat() {
		v.b.refuse(op, "got %s, want floating point numbers; change them with To", v.typ)
	}
	return v.b.op(v.typ, "%s %s : %s", name, v.name, v.typ)
}

// Exp is the exponential function, to about 2 units in the last place.
func (v Value) Exp() Value { return v.single("Exp").float("Exp", "math.exp") }

// Log is the natural logarithm.
func (v Value) Log() Value { return v.single("Log").float("Log", "math.log") }

// Sqrt is the square root.
func (v Value) Sqrt() Value { return v.single("Sqrt").float("Sqrt", "math.sqrt") }

// Abs is the absolute value.
func (v Value) Abs() Value { return v.float("Abs", "math.absf") }

// Tanh is the hyperbolic tangent.
func (v Value) Tanh() Value { return v.library("Tanh", "__nv_tanhf") }

// Erf is the error function.
func (v Value) Erf() Value { return v.library("Erf", "__nv_erff") }

// Expm1 is exp(v) - 1, exact for small v.
func (v Value) Expm1() Value { return v.library("Expm1", "__nv_expm1f") }

// Log1p is log(1 + v), exact for small v.
func (v Value) Log1p() Value { return v.library("Log1p", "__nv_log1pf") }

// Exp2 is 2 to the power of v, to 2 units in the last place: one instruction.
// What would be under 1.2e-38 is 0.
func (v Value) Exp2() Value { return v.instruction("Exp2", "ex2.approx.ftz.f32") }

// Reciprocal is 1/v, to 1 unit in the last place: one instruction. What would be
// under 1.2e-38 is 0.
func (v Value) Reciprocal() Value { return v.instruction("Reciprocal", "rcp.approx.ftz.f32") }

// Sigmoid is 1/(1 + exp(-v)), in four instructions: those of Exp and Div for
// numbers beyond 1e38 would change nothing here.
func (v Value) Sigmoid() Value {
	return v.single("Sigmoid").Mul(-math.Log2E).Exp2().Add(1).Reciprocal()
}

// single refuses everything but float32, which is what these are computed in.
func (v Value) single(op string) Value {
	v.use(op)
	if v.typ.Pointer || v.typ.DType != dtypes.Float32 {
		v.b.refuse(op, "got %s, want float32; change it with To", v.typ)
	}
	return v
}

// library calls a function of libdevice, which XLA links.
func (v Value) library(op, symbol string) Value {
	v.single(op)
	return v.b.op(v.typ, `tt.extern_elementwise %s {libname = "libdevice", libpath = "", pure = true, symbol = "%s"} : (%s) -> %s`, v.name, symbol, v.typ, v.typ)
}

// instruction is one of the GPU's assembly, of one float32.
func (v Value) instruction(op, name string) Value {
	v.single(op)
	return v.b.op(v.typ, `tt.elementwise_inline_asm "%s $0, $1;" {constraints = "=f,f", packed_element = 1 : i32, pure = true} %s : %s -> %s`, name, v.name, v.typ, v.typ)
}

// To changes the type of elements. Floats become integers by dropping what
// stands behind the point; bools become 0 and 1; uint8 is made of the last byte
// of an int32.
func (v Value) To(d dtypes.DType) Value {
	v.use("To")
	from, to := v.typ, v.typ.of(d)
	if from.DType == d && !from.Pointer {
		return v
	}
	if from.Pointer || element(d) == "" || d == dtypes.Uint8 && from.DType != dtypes.Int32 {
		v.b.refuse("To", "got %s to %s, want bool, int32, int64, float32, bfloat16, float16, or int32 to uint8", from, d)
	}
	name := ""
	switch {
	case from.isFloat() && to.isFloat():
		switch {
		case from.DType.Size() < d.Size():
			name = "arith.extf"
		case from.DType.Size() > d.Size():
			name = "arith.truncf"
		default:
			return v.To(dtypes.Float32).To(d)
		}
	case from.isFloat() && to.isInt():
		name = "arith.fptosi"
	case to.isBool():
		return v.NotEqual(0)
	case to.isFloat() && (from.isBool() || from.DType == dtypes.Uint8):
		name = "arith.uitofp"
	case to.isFloat():
		name = "arith.sitofp"
	case from.isBool() || from.DType == dtypes.Uint8:
		name = "arith.extui"
	case d == dtypes.Int64:
		name = "arith.extsi"
	default:
		name = "arith.trunci"
	}
	return v.b.op(to, "%s %s : %s to %s", name, v.name, from, to)
}
