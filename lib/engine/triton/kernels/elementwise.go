package kernels

import (
	"fmt"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise"
	"gaiden/lib/engine/triton"
)

// Rule is an optimizer's step; nil is none. The learning rate and the number of the step
// are inputs of the kernels that use one.
type Rule = *elementwise.Rule

// Act is an activation; see package activations. The kernels take those whose
// gradient can be computed from their results.
type Act = activations.Activation

// Activations that are often named.
const (
	Identity = activations.Identity
	ReLU     = activations.ReLU
	Sigmoid  = activations.Sigmoid
	Tanh     = activations.Tanh
)

// ruleStep is a rule's step with tiles of float32: the weights and moments after it.
func ruleStep(r Rule, rate, t triton.Value, state []triton.Value, g triton.Value) []triton.Value {
	scalars := map[string]triton.Value{elementwise.Rate.Key(): rate, elementwise.Time.Key(): t}
	return elementwise.Step[triton.Value](tileOps{}, r, scalars, state, g)
}

// activate applies an activation to float32.
func activate(a Act, x triton.Value) triton.Value {
	return activations.Apply[triton.Value](tileOps{}, a, x)
}

// backward takes a gradient, float32, through an activation whose result was y.
func backward(a Act, g, y triton.Value) triton.Value {
	return activations.Back[triton.Value](tileOps{}, a, g, y)
}

// tileOps are the operations on tiles of float32.
type tileOps struct{}

// Constant is a tile like y.
func (tileOps) Constant(x float64, y triton.Value) triton.Value { return y.Like(x) }

// WithNumber leaves constants to triton's methods.
func (o tileOps) WithNumber(op elementwise.Op, x triton.Value, y float64, reversed bool) (z triton.Value, ok bool) {
	if reversed {
		switch op {
		case elementwise.Sub:
			return x.Neg().Add(y), true
		case elementwise.Greater:
			return x.Less(y), true
		case elementwise.LessEqual:
			return x.GreaterEqual(y), true
		case elementwise.Div:
			return z, false
		}
	}
	return o.apply(op, x, y), true
}

// Apply computes an operation.
func (o tileOps) Apply(op elementwise.Op, x ...triton.Value) triton.Value {
	switch op {
	case elementwise.Neg:
		return x[0].Neg()
	case elementwise.Sqrt:
		return x[0].Sqrt()
	case elementwise.Exp:
		return x[0].Exp()
	case elementwise.Expm1:
		return x[0].Expm1()
	case elementwise.Log:
		return x[0].Log()
	case elementwise.Log1p:
		return x[0].Log1p()
	case elementwise.Abs:
		return x[0].Abs()
	case elementwise.Sign:
		return x[0].Greater(0).Select(1, x[0].Less(0).Select(-1, x[0]))
	case elementwise.Tanh:
		return x[0].Tanh()
	case elementwise.Sigmoid:
		return x[0].Sigmoid()
	case elementwise.Erf:
		return x[0].Erf()
	case elementwise.Where:
		return x[0].Select(x[1], x[2])
	}
	return o.apply(op, x[0], x[1])
}

// apply is an operation with a Value or a number.
func (tileOps) apply(op elementwise.Op, x triton.Value, y any) triton.Value {
	switch op {
	case elementwise.Add:
		return x.Add(y)
	case elementwise.Sub:
		return x.Sub(y)
	case elementwise.Mul:
		return x.Mul(y)
	case elementwise.Div:
		return x.Div(y)
	case elementwise.Max:
		return x.Max(y)
	case elementwise.Min:
		return x.Min(y)
	case elementwise.Greater:
		return x.Greater(y)
	case elementwise.LessEqual:
		return x.LessEqual(y)
	}
	panic(fmt.Errorf("kernels: no operation %s", op))
}
