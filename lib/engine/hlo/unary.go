package hlo

import (
	"github.com/gomlx/compute"
	"github.com/gomlx/compute/shapeinference"
	"github.com/gomlx/compute/shapes"
)

// elementwise is an op that works on each element apart.
type elementwise struct {
	text           string
	transcendental bool // counted apart, as XLA does
}

var unaryOps = map[compute.OpType]elementwise{
	compute.OpTypeBitCount:   {text: "stablehlo.popcnt"},
	compute.OpTypeBitwiseNot: {text: "stablehlo.not"},
	compute.OpTypeCeil:       {text: "stablehlo.ceil"},
	compute.OpTypeClz:        {text: "stablehlo.count_leading_zeros"},
	compute.OpTypeCos:        {"stablehlo.cosine", true},
	compute.OpTypeErf:        {"chlo.erf", true},
	compute.OpTypeExp:        {"stablehlo.exponential", true},
	compute.OpTypeExpm1:      {"stablehlo.exponential_minus_one", true},
	compute.OpTypeFloor:      {text: "stablehlo.floor"},
	compute.OpTypeLog:        {"stablehlo.log", true},
	compute.OpTypeLog1p:      {"stablehlo.log_plus_one", true},
	compute.OpTypeLogicalNot: {text: "stablehlo.not"},
	compute.OpTypeLogistic:   {"stablehlo.logistic", true},
	compute.OpTypeNeg:        {text: "stablehlo.negate"},
	compute.OpTypeRound:      {text: "stablehlo.round_nearest_even"},
	compute.OpTypeRsqrt:      {"stablehlo.rsqrt", true},
	compute.OpTypeSin:        {"stablehlo.sine", true},
	compute.OpTypeSqrt:       {"stablehlo.sqrt", true},
	compute.OpTypeTanh:       {"stablehlo.tanh", true},
}

func (f *Function) unary(t compute.OpType, x compute.Value) (compute.Value, error) {
	in, err := f.operands(t.String(), x)
	if err != nil {
		return nil, err
	}
	shape, err := infer(t.String(), func() (shapes.Shape, error) { return shapeinference.UnaryOp(t, in[0].shape) })
	if err != nil {
		return nil, err
	}
	op := unaryOps[t]
	s := &statement{op: op.text, in: in, cost: elementwiseCost(shape, op.transcendental)}
	if op.text == "chlo.erf" {
		s.form = formGeneric // the short form is StableHLO's own
	}
	return f.one(s, shape), nil
}

// The operations of compute.Function on each element; they return the shape of x.

func (f *Function) BitCount(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitCount, x)
}
func (f *Function) BitwiseNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeBitwiseNot, x)
}
func (f *Function) Ceil(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeCeil, x)
}
func (f *Function) Clz(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeClz, x) }
func (f *Function) Cos(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeCos, x) }
func (f *Function) Erf(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeErf, x) }
func (f *Function) Exp(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeExp, x) }
func (f *Function) Expm1(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeExpm1, x)
}
func (f *Function) Floor(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeFloor, x)
}
func (f *Function) Log(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeLog, x) }
func (f *Function) Log1p(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLog1p, x)
}
func (f *Function) LogicalNot(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogicalNot, x)
}
func (f *Function) Logistic(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeLogistic, x)
}
func (f *Function) Neg(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeNeg, x) }

// Round rounds to the nearest integer, halves to even.
func (f *Function) Round(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRound, x)
}
func (f *Function) Rsqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeRsqrt, x)
}
func (f *Function) Sin(x compute.Value) (compute.Value, error) { return f.unary(compute.OpTypeSin, x) }
func (f *Function) Sqrt(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeSqrt, x)
}
func (f *Function) Tanh(x compute.Value) (compute.Value, error) {
	return f.unary(compute.OpTypeTanh, x)
}
