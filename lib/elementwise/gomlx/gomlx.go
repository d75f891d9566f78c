// Package gomlx computes the expressions of package elementwise with GoMLX's operations.
//
//	y := gomlx.Apply(activations.SiLU.Expr(), x)
package gomlx

import (
	"fmt"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
)

// Ops are GoMLX's.
var Ops elementwise.Ops[*Node] = ops{}

// Apply computes an expression of the one input [elementwise.X]; of x in 16 bits in float32, as
// PyTorch does, since rounding each constant and each step costs more than the last digit.
func Apply(e elementwise.Expr, x *Node) *Node {
	if d := x.DType(); d == dtypes.BFloat16 || d == dtypes.Float16 {
		return ConvertDType(Apply(e, ConvertDType(x, dtypes.Float32)), d)
	}
	return elementwise.Eval(Ops, map[string]*Node{elementwise.X.Key(): x}, e)[0]
}

// Update is a step of a rule: state is a weight and its moments, before and after it. rate
// and t, the number of the step from 1, are float32 scalars.
func Update(r *elementwise.Rule, rate, t *Node, state []*Node, gradient *Node) []*Node {
	return elementwise.Step(Ops, r, Scalars(rate, t), state, gradient)
}

// Scalars are the values of a rule's scalar inputs.
func Scalars(rate, t *Node) map[string]*Node {
	return map[string]*Node{elementwise.Rate.Key(): rate, elementwise.Time.Key(): t}
}

type ops struct{}

// Constant has y's shape.
func (ops) Constant(x float64, y *Node) *Node {
	return BroadcastToShape(Scalar(y.Graph(), y.DType(), x), y.Shape())
}

// WithNumber leaves constants scalars.
func (o ops) WithNumber(op elementwise.Op, x *Node, y float64, reversed bool) (*Node, bool) {
	switch {
	case op == elementwise.Add:
		return AddScalar(x, y), true
	case op == elementwise.Mul:
		return MulScalar(x, y), true
	case reversed:
		return o.Apply(op, Scalar(x.Graph(), x.DType(), y), x), true
	}
	return o.Apply(op, x, Scalar(x.Graph(), x.DType(), y)), true
}

func (ops) Apply(op elementwise.Op, x ...*Node) *Node {
	switch op {
	case elementwise.Add:
		return Add(x[0], x[1])
	case elementwise.Sub:
		return Sub(x[0], x[1])
	case elementwise.Mul:
		return Mul(x[0], x[1])
	case elementwise.Div:
		return Div(x[0], x[1])
	case elementwise.Max:
		return Max(x[0], x[1])
	case elementwise.Min:
		return Min(x[0], x[1])
	case elementwise.Greater:
		return GreaterThan(x[0], x[1])
	case elementwise.LessEqual:
		return LessOrEqual(x[0], x[1])
	case elementwise.Neg:
		return Neg(x[0])
	case elementwise.Sqrt:
		return Sqrt(x[0])
	case elementwise.Exp:
		return Exp(x[0])
	case elementwise.Expm1:
		return Expm1(x[0])
	case elementwise.Log:
		return Log(x[0])
	case elementwise.Log1p:
		return Log1p(x[0])
	case elementwise.Abs:
		return Abs(x[0])
	case elementwise.Sign:
		return Sign(x[0])
	case elementwise.Tanh:
		return Tanh(x[0])
	case elementwise.Sigmoid:
		return Sigmoid(x[0])
	case elementwise.Erf:
		return Erf(x[0])
	case elementwise.Cos:
		return Cos(x[0])
	case elementwise.Floor:
		return Floor(x[0])
	case elementwise.Where:
		return Where(x[0], x[1], x[2])
	}
	panic(fmt.Errorf("gomlx: no operation %s", op))
}
