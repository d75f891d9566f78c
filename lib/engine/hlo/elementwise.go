package hlo

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

// Abs returns |x|, element by element; for complex x, its real length.
func (f *Function) Abs(x compute.Value) (compute.Value, error) {
	return f.numeric(compute.OpTypeAbs, "stablehlo.abs", x)
}

// Sign returns -1, 0 or +1 (for floats -0 and NaN too), element by element.
func (f *Function) Sign(x compute.Value) (compute.Value, error) {
	return f.numeric(compute.OpTypeSign, "stablehlo.sign", x)
}

// numeric is Abs or Sign, which StableHLO has for signed numbers only.
func (f *Function) numeric(t compute.OpType, text string, x compute.Value) (compute.Value, error) {
	in, err := f.operands(t.String(), x)
	if err != nil {
		return nil, err
	}
	shape, err := infer(t.String(), func() (shapes.Shape, error) { return shapeinference.UnaryOp(t, in[0].shape) })
	if err != nil {
		return nil, err
	}
	if shape.DType.IsUnsigned() {
		if t == compute.OpTypeAbs {
			return in[0], nil
		}
		return f.Min(in[0], f.constant(numberLiteral(one, shape.DType), shapes.Shape{DType: shape.DType}))
	}
	s := &statement{op: text, in: in, cost: elementwiseCost(shape, false)}
	if shape.DType.IsComplex() && t == compute.OpTypeAbs {
		s.form = formPlain
		shape.DType = shape.DType.RealDType()
	}
	return f.one(s, shape), nil
}

// Real returns the real part of x; x itself if it is real.
func (f *Function) Real(x compute.Value) (compute.Value, error) { return f.part("Real", x) }

// Imag returns the imaginary part of x; zeros if it is real.
func (f *Function) Imag(x compute.Value) (compute.Value, error) { return f.part("Imag", x) }

func (f *Function) part(op string, x compute.Value) (compute.Value, error) {
	in, err := f.operands(op, x)
	if err != nil {
		return nil, err
	}
	shape := in[0].shape.Clone()
	switch {
	case !shape.DType.IsComplex() && !shape.DType.IsFloat():
		return nil, fmt.Errorf("hlo: %s: got %s, want complex or float numbers", op, shape)
	case !shape.DType.IsComplex() && op == "Real":
		return in[0], nil
	case !shape.DType.IsComplex():
		return f.constant(numberLiteral(zero, shape.DType), shape), nil
	}
	shape.DType = shape.DType.RealDType()
	text := map[string]string{"Real": "stablehlo.real", "Imag": "stablehlo.imag"}[op]
	return f.one(&statement{op: text, form: formPlain, in: in, cost: movementCost(in[0].shape, shape)}, shape), nil
}

// Conj returns the complex conjugate of x.
func (f *Function) Conj(x compute.Value) (compute.Value, error) {
	in, err := f.operands("Conj", x)
	if err != nil {
		return nil, err
	}
	if !in[0].shape.DType.IsComplex() {
		return nil, fmt.Errorf("hlo: Conj: got %s, want complex numbers", in[0].shape)
	}
	re, err := f.Real(x)
	if err != nil {
		return nil, err
	}
	im, err := f.Imag(x)
	if err != nil {
		return nil, err
	}
	minus, err := f.Neg(im)
	if err != nil {
		return nil, err
	}
	return f.Complex(re, minus)
}

// Complex returns lhs + i·rhs. Either may be a scalar.
func (f *Function) Complex(lhs, rhs compute.Value) (compute.Value, error) {
	in, err := f.operands("Complex", lhs, rhs)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Complex", func() (shapes.Shape, error) {
		return shapeinference.BinaryOp(compute.OpTypeAdd, in[0].shape, in[1].shape)
	})
	if err != nil {
		return nil, err
	}
	in[0], in[1] = f.spread(in[0], shape.Dimensions), f.spread(in[1], shape.Dimensions)
	out := shapes.Shape{Dimensions: shape.Dimensions}
	switch shape.DType {
	case dtypes.Float32:
		out.DType = dtypes.Complex64
	case dtypes.Float64:
		out.DType = dtypes.Complex128
	default:
		return nil, fmt.Errorf("hlo: Complex: got %s, want Float32 or Float64", shape)
	}
	return f.one(&statement{op: "stablehlo.complex", form: formGeneric, in: in, cost: movementCost(in[0].shape, out)}, out), nil
}

// IsFinite reports, element by element, whether x is neither infinite nor NaN.
func (f *Function) IsFinite(x compute.Value) (compute.Value, error) {
	in, err := f.operands("IsFinite", x)
	if err != nil {
		return nil, err
	}
	shape := in[0].shape.Clone()
	if !shape.DType.IsFloat() {
		return nil, fmt.Errorf("hlo: IsFinite: got %s, want floats", shape)
	}
	shape.DType = dtypes.Bool
	return f.one(&statement{op: "stablehlo.is_finite", form: formPlain, in: in, cost: elementwiseCost(shape, false)}, shape), nil
}

// IsNaN reports, element by element, whether x is NaN.
func (f *Function) IsNaN(x compute.Value) (compute.Value, error) { return f.NotEqual(x, x) }

// Clamp returns x held between lo and hi, each of which is a scalar or has
// the shape of x.
func (f *Function) Clamp(lo, x, hi compute.Value) (compute.Value, error) {
	in, err := f.operands("Clamp", lo, x, hi)
	if err != nil {
		return nil, err
	}
	shape := in[1].shape
	for _, bound := range []*value{in[0], in[2]} {
		if b := bound.shape; b.DType != shape.DType || !b.IsScalar() && !b.EqualDimensions(shape) {
			return nil, fmt.Errorf("hlo: Clamp: got a bound %s for %s, want a scalar or the same shape", b, shape)
		}
	}
	return f.one(&statement{op: "stablehlo.clamp", form: formGeneric, in: in, cost: elementwiseCost(shape, false)}, shape), nil
}

// Where returns onTrue or onFalse, element by element, as condition says.
// Each may be a scalar.
func (f *Function) Where(condition, onTrue, onFalse compute.Value) (compute.Value, error) {
	in, err := f.operands("Where", condition, onTrue, onFalse)
	if err != nil {
		return nil, err
	}
	shape, err := infer("Where", func() (shapes.Shape, error) {
		return shapeinference.Where(in[0].shape, in[1].shape, in[2].shape)
	})
	if err != nil {
		return nil, err
	}
	in[1], in[2] = f.spread(in[1], shape.Dimensions), f.spread(in[2], shape.Dimensions)
	return f.one(&statement{op: "stablehlo.select", form: formGeneric, in: in, cost: elementwiseCost(shape, false)}, shape), nil
}

// Identity returns x.
func (f *Function) Identity(x compute.Value) (compute.Value, error) {
	in, err := f.operands("Identity", x)
	if err != nil {
		return nil, err
	}
	return in[0], nil
}

// Converted says that y is x in another type: what converts x to that type gets y.
func (f *Function) Converted(x, y compute.Value) error {
	in, err := f.operands("Converted", x, y)
	if err != nil {
		return err
	}
	if !slices.Equal(in[0].shape.Dimensions, in[1].shape.Dimensions) {
		return fmt.Errorf("hlo: Converted: got %s and %s, want one set of dimensions", in[0].shape, in[1].shape)
	}
	if f.builder.converted == nil {
		f.builder.converted = map[*value]*value{}
	}
	f.builder.converted[in[0]] = in[1]
	return nil
}

// ConvertDType converts the elements of x.
func (f *Function) ConvertDType(x compute.Value, dtype dtypes.DType) (compute.Value, error) {
	in, err := f.operands("ConvertDType", x)
	if err != nil {
		return nil, err
	}
	shape := in[0].shape.Clone()
	if shape.DType == dtype {
		return in[0], nil
	}
	if known := f.builder.converted[in[0]]; known != nil && known.shape.DType == dtype {
		return f.adopt("ConvertDType", known)
	}
	shape.DType = dtype
	if err := writable("ConvertDType", shape); err != nil {
		return nil, err
	}
	return f.convert(in[0], dtype), nil
}

func (f *Function) convert(x *value, dtype dtypes.DType) *value {
	shape := shapes.Shape{DType: dtype, Dimensions: x.shape.Dimensions}
	return f.one(&statement{op: "stablehlo.convert", form: formPlain, in: []*value{x}, cost: movementCost(x.shape, shape)}, shape)
}
