// Package activations lists activations, each written once as an element-wise expression,
// from which package models has its functions, and the GPU kernels both ways through a layer.
//
//	y := gomlx.Apply(activations.SiLU.Expr(), x)
package activations

import (
	"math"
	"strings"

	"gaiden/lib/elementwise"
)

// Activation is a function of each element. The zero value is the identity.
type Activation int

// The activations; their settings are PyTorch's defaults.
const (
	Identity  Activation = iota
	ReLU                 // max(x, 0); its slope at 0 is 0, and NaN stays NaN
	Sigmoid              // 1/(1 + exp(-x))
	Tanh                 // the hyperbolic tangent
	SiLU                 // x · sigmoid(x), also called swish
	ELU                  // x, or exp(x) - 1 below 0
	LeakyReLU            // x, or x/100 below 0
	Softplus             // log(1 + exp(x)), and x above 20
	Hardswish            // x · min(max(x + 3, 0), 6)/6
	GELU                 // x · (1 + erf(x/√2))/2
	GELUTanh             // GELU by its approximation with tanh
)

// Inputs of what is behind an activation: its result, and the gradient of that.
var (
	result   = elementwise.Input("y")
	gradient = elementwise.Input("g")
)

// table has a line for each activation: its expression of elementwise.X, and, of those that
// never fall, the gradient of x as one of y and g.
var table = [...]struct {
	name string
	of   func(x elementwise.Expr) elementwise.Expr
	back func(y, g elementwise.Expr) elementwise.Expr
}{
	Identity: {"Identity",
		func(x elementwise.Expr) elementwise.Expr { return x },
		func(_, g elementwise.Expr) elementwise.Expr { return g }},
	ReLU: {"ReLU",
		func(x elementwise.Expr) elementwise.Expr { return x.LessEqual(0).Where(0, x) },
		func(y, g elementwise.Expr) elementwise.Expr { return y.Greater(0).Where(g, 0) }},
	Sigmoid: {"Sigmoid", elementwise.Expr.Sigmoid,
		func(y, g elementwise.Expr) elementwise.Expr { return g.Mul(y.Mul(one.Sub(y))) }},
	Tanh: {"Tanh", elementwise.Expr.Tanh,
		func(y, g elementwise.Expr) elementwise.Expr { return g.Mul(one.Sub(y.Square())) }},
	SiLU: {name: "SiLU",
		of: func(x elementwise.Expr) elementwise.Expr { return x.Mul(x.Sigmoid()) }},
	ELU: {"ELU",
		func(x elementwise.Expr) elementwise.Expr { // exp(x) - 1 as tanh(x/2)·(exp(x) + 1): GoMLX has no gradient of expm1
			below := x.Greater(0).Where(0, x)
			return x.Greater(0).Where(x, below.Mul(0.5).Tanh().Mul(below.Exp().Add(1)))
		},
		func(y, g elementwise.Expr) elementwise.Expr { return y.Greater(0).Where(g, g.Mul(y.Add(1))) }},
	LeakyReLU: {"LeakyReLU",
		func(x elementwise.Expr) elementwise.Expr { return x.Greater(0).Where(x, x.Mul(0.01)) },
		func(y, g elementwise.Expr) elementwise.Expr { return y.Greater(0).Where(g, g.Mul(0.01)) }},
	Softplus: {"Softplus",
		func(x elementwise.Expr) elementwise.Expr {
			return x.Greater(20).Where(x, x.Greater(20).Where(20, x).Exp().Log1p())
		},
		func(y, g elementwise.Expr) elementwise.Expr { return g.Mul(y.Neg().Expm1().Neg()) }},
	GELU: {name: "GELU",
		of: func(x elementwise.Expr) elementwise.Expr {
			return x.Mul(0.5).Mul(x.Mul(math.Sqrt(0.5)).Erf().Add(1))
		}},
	GELUTanh: {name: "GELUTanh",
		of: func(x elementwise.Expr) elementwise.Expr {
			z := x.Mul(x.Square().Mul(0.044715).Add(1)).Mul(2 * math.Sqrt(2/math.Pi))
			return x.Mul(z.Sigmoid()) // (1 + tanh(z/2))/2 is sigmoid(z), which is faster
		}},
	Hardswish: {name: "Hardswish",
		of: func(x elementwise.Expr) elementwise.Expr {
			return x.LessEqual(-3).Where(0, elementwise.Number(3).Greater(x).Where(x.Mul(x.Add(3)).Div(6), x))
		}},
}

var one = elementwise.Number(1)

// All are the activations.
func All() (l []Activation) {
	for a := range table {
		l = append(l, Activation(a))
	}
	return l
}

// Named finds an activation by its name in package models.
func Named(name string) (a Activation, known bool) {
	for a, row := range table {
		if row.name == name {
			return Activation(a), true
		}
	}
	return 0, false
}

// Name is the name of its function in package models.
func (a Activation) Name() string { return table[a].name }

// String is the name in small letters, as kernels have it in theirs.
func (a Activation) String() string { return strings.ToLower(a.Name()) }

// Expr is the activation of elementwise.X.
func (a Activation) Expr() elementwise.Expr { return table[a].of(elementwise.X) }

// FromResult says whether the gradient can be computed from the result alone: so it is of
// functions that do not fall. Of those the largest result is that of the largest x.
func (a Activation) FromResult() bool { return table[a].back != nil }

// Apply computes the activation with the operations of a target.
func Apply[V any](ops elementwise.Ops[V], a Activation, x V) V {
	if a == Identity {
		return x
	}
	return elementwise.Eval(ops, map[string]V{elementwise.X.Key(): x}, a.Expr())[0]
}

// Back takes a gradient through an activation whose result was y; see FromResult.
func Back[V any](ops elementwise.Ops[V], a Activation, g, y V) V {
	if a == Identity {
		return g
	}
	e := table[a].back(result, gradient)
	return elementwise.Eval(ops, map[string]V{result.Key(): y, gradient.Key(): g}, e)[0]
}

// BackFrom takes a gradient through an activation of x.
func BackFrom[V any](ops elementwise.Ops[V], a Activation, g, x V) V {
	if a.FromResult() {
		return Back(ops, a, g, Apply(ops, a, x))
	}
	e := gradient.Mul(a.Expr().Diff(elementwise.X))
	return elementwise.Eval(ops, map[string]V{elementwise.X.Key(): x, gradient.Key(): g}, e)[0]
}
