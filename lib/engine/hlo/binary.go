package hlo

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

var binaryOps = map[compute.OpType]elementwise{
	compute.OpTypeAdd:                  {text: "stablehlo.add"},
	compute.OpTypeAtan2:                {"stablehlo.atan2", true},
	compute.OpTypeBitwiseAnd:           {text: "stablehlo.and"},
	compute.OpTypeBitwiseOr:            {text: "stablehlo.or"},
	compute.OpTypeBitwiseXor:           {text: "stablehlo.xor"},
	compute.OpTypeDiv:                  {text: "stablehlo.divide"},
	compute.OpTypeLogicalAnd:           {text: "stablehlo.and"},
	compute.OpTypeLogicalOr:            {text: "stablehlo.or"},
	compute.OpTypeLogicalXor:           {text: "stablehlo.xor"},
	compute.OpTypeMax:                  {text: "stablehlo.maximum"},
	compute.OpTypeMin:                  {text: "stablehlo.minimum"},
	compute.OpTypeMul:                  {text: "stablehlo.multiply"},
	compute.OpTypePow:                  {"stablehlo.power", true},
	compute.OpTypeRem:                  {text: "stablehlo.remainder"},
	compute.OpTypeShiftLeft:            {text: "stablehlo.shift_left"},
	compute.OpTypeShiftRightArithmetic: {text: "stablehlo.shift_right_arithmetic"},
	compute.OpTypeShiftRightLogical:    {text: "stablehlo.shift_right_logical"},
	compute.OpTypeSub:                  {text: "stablehlo.subtract"},
}

// comparison is a direction, and whether it orders all floats (-NaN first,
// NaN last).
type comparison struct {
	direction string
	total     bool
}

var comparisons = map[compute.OpType]comparison{
	compute.OpTypeEqual:                    {"EQ", false},
	compute.OpTypeNotEqual:                 {"NE", false},
	compute.OpTypeGreaterThan:              {"GT", false},
	compute.OpTypeGreaterOrEqual:           {"GE", false},
	compute.OpTypeLessThan:                 {"LT", false},
	compute.OpTypeLessOrEqual:              {"LE", false},
	compute.OpTypeEqualTotalOrder:          {"EQ", true},
	compute.OpTypeNotEqualTotalOrder:       {"NE", true},
	compute.OpTypeGreaterThanTotalOrder:    {"GT", true},
	compute.OpTypeGreaterOrEqualTotalOrder: {"GE", true},
	compute.OpTypeLessThanTotalOrder:       {"LT", true},
	compute.OpTypeLessOrEqualTotalOrder:    {"LE", true},
}

func (f *Function) binary(t compute.OpType, lhs, rhs compute.Value) (compute.Value, error) {
	in, err := f.operands(t.String(), lhs, rhs)
	if err != nil {
		return nil, err
	}
	shape, err := infer(t.String(), func() (shapes.Shape, error) {
		return shapeinference.BinaryOp(t, in[0].shape, in[1].shape)
	})
	if err != nil {
		return nil, err
	}
	op := binaryOps[t]
	in[0], in[1] = f.spread(in[0], shape.Dimensions), f.spread(in[1], shape.Dimensions)
	return f.one(&statement{op: op.text, in: in, cost: elementwiseCost(shape, op.transcendental)}, shape), nil
}

func (f *Function) compare(t compute.OpType, lhs, rhs compute.Value) (compute.Value, error) {
	in, err := f.operands(t.String(), lhs, rhs)
	if err != nil {
		return nil, err
	}
	shape, err := infer(t.String(), func() (shapes.Shape, error) {
		// GoMLX's inference has no rule for NotEqualTotalOrder; they are all alike.
		return shapeinference.ComparisonOp(compute.OpTypeEqual, in[0].shape, in[1].shape)
	})
	if err != nil {
		return nil, err
	}
	c := comparisons[t]
	in[0], in[1] = f.spread(in[0], shape.Dimensions), f.spread(in[1], shape.Dimensions)
	return f.one(compareStatement(c.direction, compareType(in[0].shape.DType, c.total), in, shape), shape), nil
}

func compareStatement(direction, compareType string, in []*value, shape shapes.Shape) *statement {
	return &statement{
		op: "stablehlo.compare " + direction + ",", form: formPlain, in: in, attrs: ", " + compareType,
		cost: elementwiseCost(shape, false),
	}
}

func compareType(dtype dtypes.DType, total bool) string {
	switch {
	case dtype.IsComplex():
		return "FLOAT"
	case dtype.IsFloat() && total:
		return "TOTALORDER"
	case dtype.IsFloat():
		return "FLOAT"
	case dtype.IsUnsigned() || dtype == dtypes.Bool:
		return "UNSIGNED"
	}
	return "SIGNED"
}

// spread broadcasts x to dims, of which it has the rank unless it is a scalar.
func (f *Function) spread(x *value, dims []int) *value {
	axes := make([]int, x.shape.Rank())
	same := len(axes) == len(dims)
	for i := range axes {
		axes[i] = i
		same = same && x.shape.Dimensions[i] == dims[i]
	}
	if same {
		return x
	}
	return f.broadcast(x, shapes.Shape{DType: x.shape.DType, Dimensions: dims}, axes)
}

// broadcast is BroadcastInDim with its arguments known to be right.
func (f *Function) broadcast(x *value, shape shapes.Shape, axes []int) *value {
	if x.isConstant() && x.shape.IsScalar() {
		return f.constant(x.literal, shape)
	}
	return f.one(&statement{
		op: "stablehlo.broadcast_in_dim", form: formPlain, in: []*value{x}, attrs: ", dims = " + list(axes),
		cost: movementCost(x.shape, shape),
	}, shape)
}

// The operations of compute.Function on each element of two operands of one element
// type, which broadcast: a scalar to any shape, an axis of length 1 to any length.

func (f *Function) Add(lhs, rhs compute.Value) (compute.Value, error) {
	in, err := f.operands("Add", lhs, rhs)
	if err != nil {
		return nil, err
	}
	if sum, err := f.addFramed(in[0], in[1]); sum != nil || err != nil {
		return sum, err
	}
	return f.binary(compute.OpTypeAdd, lhs, rhs)
}
func (f *Function) Atan2(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeAtan2, lhs, rhs)
}
func (f *Function) BitwiseAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseAnd, lhs, rhs)
}
func (f *Function) BitwiseOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseOr, lhs, rhs)
}
func (f *Function) BitwiseXor(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeBitwiseXor, lhs, rhs)
}
func (f *Function) Div(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeDiv, lhs, rhs)
}
func (f *Function) LogicalAnd(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalAnd, lhs, rhs)
}
func (f *Function) LogicalOr(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeLogicalOr, lhs, rhs)
}
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
func (f *Function) Mul(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeMul, lhs, rhs)
}
func (f *Function) Pow(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypePow, lhs, rhs)
}

// Rem returns the remainder, with the sign of lhs.
func (f *Function) Rem(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeRem, lhs, rhs)
}
func (f *Function) ShiftLeft(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftLeft, lhs, rhs)
}
func (f *Function) ShiftRightArithmetic(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightArithmetic, lhs, rhs)
}
func (f *Function) ShiftRightLogical(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeShiftRightLogical, lhs, rhs)
}
func (f *Function) Sub(lhs, rhs compute.Value) (compute.Value, error) {
	return f.binary(compute.OpTypeSub, lhs, rhs)
}
func (f *Function) Equal(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqual, lhs, rhs)
}
func (f *Function) EqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeEqualTotalOrder, lhs, rhs)
}
func (f *Function) NotEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqual, lhs, rhs)
}
func (f *Function) NotEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeNotEqualTotalOrder, lhs, rhs)
}
func (f *Function) GreaterThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThan, lhs, rhs)
}
func (f *Function) GreaterThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterThanTotalOrder, lhs, rhs)
}
func (f *Function) GreaterOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqual, lhs, rhs)
}
func (f *Function) GreaterOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeGreaterOrEqualTotalOrder, lhs, rhs)
}
func (f *Function) LessThan(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThan, lhs, rhs)
}
func (f *Function) LessThanTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessThanTotalOrder, lhs, rhs)
}
func (f *Function) LessOrEqual(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqual, lhs, rhs)
}
func (f *Function) LessOrEqualTotalOrder(lhs, rhs compute.Value) (compute.Value, error) {
	return f.compare(compute.OpTypeLessOrEqualTotalOrder, lhs, rhs)
}
