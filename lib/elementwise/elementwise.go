// Package elementwise writes functions of single numbers once, as expressions, for
// everything that computes them: the steps of optimizers and activations.
//
//	x := elementwise.X
//	silu := x.Mul(x.Sigmoid())
//	slope := silu.Diff(x)
//	y := elementwise.Eval(elementwise.Float64, map[string]float64{"x": 1}, silu, slope)
//
// [Eval] computes expressions with the operations of a target: float64 here, GoMLX's in
// package gomlx, those of GPU kernels in the packages that write them. A subexpression
// that occurs several times is computed once.
//
// It has no reductions: what depends on more than one element of an array is no
// element-wise function.
package elementwise

import (
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"strconv"
	"strings"
)

// Op is an operation of an expression.
type Op int

// The operations. Their names are those of [Expr]'s methods.
const (
	number Op = iota
	input
	Add
	Sub
	Mul
	Div
	Max
	Min
	Greater
	LessEqual
	Neg
	Sqrt
	Exp
	Expm1
	Log
	Log1p
	Abs
	Sign
	Tanh
	Sigmoid
	Erf
	Cos
	Floor
	Where
)

var names = [...]string{"number", "input", "add", "sub", "mul", "div", "max", "min", "greater", "lessEqual",
	"neg", "sqrt", "exp", "expm1", "log", "log1p", "abs", "sign", "tanh", "sigmoid", "erf", "cos", "floor", "where"}

// String is the operation's name.
func (o Op) String() string { return names[o] }

// Expr is an expression. Two are the same if their keys are.
type Expr struct{ n *node }

type node struct {
	op     Op
	args   []Expr
	key    string
	number float64
	scalar bool // the same for all elements
}

// Input is a number for each element.
func Input(name string) Expr { return Expr{&node{op: input, key: name}} }

// Scalar is a number that is the same for all elements.
func Scalar(name string) Expr { return Expr{&node{op: input, key: name, scalar: true}} }

// Number is a constant.
func Number(x float64) Expr {
	return Expr{&node{op: number, number: x, key: strconv.FormatFloat(x, 'g', -1, 64), scalar: true}}
}

// String writes the expression as calls: mul(x, sigmoid(x)).
func (e Expr) String() string {
	if len(e.n.args) == 0 {
		return e.n.key
	}
	var l []string
	for _, a := range e.n.args {
		l = append(l, a.String())
	}
	return e.n.op.String() + "(" + strings.Join(l, ", ") + ")"
}

// Key is an input's name, and of other expressions a short text that tells them apart.
func (e Expr) Key() string { return e.n.key }

// Number is e's value if it is a constant.
func (e Expr) Number() (x float64, is bool) { return e.n.number, e.n.op == number }

// is says whether e is the constant x.
func (e Expr) is(x float64) bool { return e.n.op == number && e.n.number == x }

// of makes an expression of an Expr or a Go number.
func of(x any) Expr {
	switch x := x.(type) {
	case Expr:
		if x.n == nil {
			panic(fmt.Errorf("elementwise: got the zero Expr, want one that Input, Scalar or Number made"))
		}
		return x
	case float64:
		return Number(x)
	case int:
		return Number(float64(x))
	}
	panic(fmt.Errorf("elementwise: got a %T, want an Expr, a float64 or an int", x))
}

// apply makes an expression; one of constants is a constant.
func apply(op Op, operands ...any) Expr {
	n := &node{op: op, scalar: true}
	hash := fnv.New64a()
	var values []float64
	for _, o := range operands {
		a := of(o)
		n.args = append(n.args, a)
		hash.Write([]byte(a.n.key + ","))
		n.scalar = n.scalar && a.n.scalar
		if x, is := a.Number(); is {
			values = append(values, x)
		}
	}
	if len(values) == len(operands) {
		return Number(Float64.Apply(op, values...))
	}
	n.key = fmt.Sprintf("%s#%x", op, hash.Sum64())
	return Expr{n}
}

// Add is e + y. Operands called any are an Expr, a float64 or an int.
func (e Expr) Add(y any) Expr {
	switch z := of(y); {
	case z.is(0):
		return e
	case e.is(0):
		return z
	}
	return apply(Add, e, y)
}

// Sub is e - y.
func (e Expr) Sub(y any) Expr {
	if of(y).is(0) {
		return e
	}
	return apply(Sub, e, y)
}

// Mul is e · y; 0 · y is 0, whatever y is.
func (e Expr) Mul(y any) Expr {
	switch z := of(y); {
	case z.is(1) || e.is(0):
		return e
	case e.is(1) || z.is(0):
		return z
	}
	return apply(Mul, e, y)
}

// Div is e / y.
func (e Expr) Div(y any) Expr {
	if of(y).is(1) || e.is(0) {
		return e
	}
	return apply(Div, e, y)
}

// Max is the larger, or NaN.
func (e Expr) Max(y any) Expr { return apply(Max, e, y) }

// Min is the smaller, or NaN.
func (e Expr) Min(y any) Expr { return apply(Min, e, y) }

// Greater is the condition e > y, for Where.
func (e Expr) Greater(y any) Expr { return apply(Greater, e, y) }

// LessEqual is the condition e ≤ y, for Where.
func (e Expr) LessEqual(y any) Expr { return apply(LessEqual, e, y) }

// Where is yes where condition e holds, and no elsewhere.
func (e Expr) Where(yes, no any) Expr {
	if y := of(yes); y.n.key == of(no).n.key {
		return y
	}
	return apply(Where, e, yes, no)
}

// Square is e².
func (e Expr) Square() Expr { return e.Mul(e) }

// Neg is -e.
func (e Expr) Neg() Expr { return apply(Neg, e) }

// Sqrt is the square root.
func (e Expr) Sqrt() Expr { return apply(Sqrt, e) }

// Exp is the exponential function.
func (e Expr) Exp() Expr { return apply(Exp, e) }

// Expm1 is exp(e) - 1, exact for small e.
func (e Expr) Expm1() Expr { return apply(Expm1, e) }

// Log is the natural logarithm.
func (e Expr) Log() Expr { return apply(Log, e) }

// Log1p is log(1 + e), exact for small e.
func (e Expr) Log1p() Expr { return apply(Log1p, e) }

// Abs is the absolute value.
func (e Expr) Abs() Expr { return apply(Abs, e) }

// Sign is 1, 0 or -1, or NaN.
func (e Expr) Sign() Expr { return apply(Sign, e) }

// Tanh is the hyperbolic tangent.
func (e Expr) Tanh() Expr { return apply(Tanh, e) }

// Sigmoid is 1/(1 + exp(-e)).
func (e Expr) Sigmoid() Expr { return apply(Sigmoid, e) }

// Erf is the error function.
func (e Expr) Erf() Expr { return apply(Erf, e) }

// Cos is the cosine. Kernels have it for scalars only.
func (e Expr) Cos() Expr { return apply(Cos, e) }

// Floor is the greatest integer that is not larger. Kernels have it for scalars only.
func (e Expr) Floor() Expr { return apply(Floor, e) }

// Substitute is e with other inputs: each that by has a value for becomes that.
func (e Expr) Substitute(by map[string]Expr) Expr {
	switch e.n.op {
	case number:
		return e
	case input:
		if x, is := by[e.n.key]; is {
			return x
		}
		return e
	}
	args := make([]any, len(e.n.args))
	for i, a := range e.n.args {
		args[i] = a.Substitute(by)
	}
	return apply(e.n.op, args...)
}

// Scalars are the largest subexpressions that depend on scalar inputs only, and are no
// constants: what can be computed once for all elements.
func Scalars(exprs ...Expr) (l []Expr) {
	seen := map[string]bool{}
	var walk func(e Expr)
	walk = func(e Expr) {
		if seen[e.n.key] || e.n.op == number {
			return
		}
		seen[e.n.key] = true
		if e.n.scalar {
			l = append(l, e)
			return
		}
		for _, a := range e.n.args {
			walk(a)
		}
	}
	for _, e := range exprs {
		walk(e)
	}
	return l
}

// Ops are the operations of a target, whose numbers are Vs.
type Ops[V any] interface {
	// Constant is a number for an operation that has y as another operand.
	Constant(x float64, y V) V
	// Apply computes an operation. The conditions of Where are results of Greater and
	// LessEqual.
	Apply(op Op, operands ...V) V
}

// Numbers are Ops that take a constant as the second operand of Add, Mul and the like
// in a way of their own.
type Numbers[V any] interface {
	// WithNumber computes an operation whose operands are x and the constant y, in
	// this order, or the other if reversed; ok is false if Apply is to do so.
	WithNumber(op Op, x V, y float64, reversed bool) (z V, ok bool)
}

// Eval computes expressions. values are those of the inputs by their names, or of any
// other subexpression by its Key.
func Eval[V any](ops Ops[V], values map[string]V, exprs ...Expr) []V {
	done := map[string]V{}
	maps.Copy(done, values)
	with, _ := ops.(Numbers[V])
	var eval func(e Expr) V
	eval = func(e Expr) V {
		if v, is := done[e.n.key]; is {
			return v
		}
		if e.n.op == input {
			panic(fmt.Errorf("elementwise: no value for input %s", e.n.key))
		}
		v, ok := *new(V), false
		if a := e.n.args; with != nil && len(a) == 2 {
			if y, is := a[1].Number(); is {
				v, ok = with.WithNumber(e.n.op, eval(a[0]), y, false)
			} else if x, is := a[0].Number(); is {
				v, ok = with.WithNumber(e.n.op, eval(a[1]), x, true)
			}
		}
		if !ok {
			operands := make([]V, len(e.n.args))
			var like V // an operand that is no constant, the last
			for i, a := range e.n.args {
				if a.n.op != number {
					operands[i] = eval(a)
					like = operands[i]
				}
			}
			for i, a := range e.n.args {
				if x, is := a.Number(); is {
					operands[i] = ops.Constant(x, like)
				}
			}
			v = ops.Apply(e.n.op, operands...)
		}
		done[e.n.key] = v
		return v
	}
	l := make([]V, len(exprs))
	for i, e := range exprs {
		if x, is := e.Number(); is {
			var like V
			for _, v := range values {
				like = v
				break
			}
			l[i] = ops.Constant(x, like)
			continue
		}
		l[i] = eval(e)
	}
	return l
}

// Float64 computes in float64; conditions are 1 and 0.
var Float64 Ops[float64] = float64s{}

type float64s struct{}

func (float64s) Constant(x, _ float64) float64 { return x }

func (float64s) Apply(op Op, x ...float64) float64 {
	yes := func(c bool) float64 {
		if c {
			return 1
		}
		return 0
	}
	switch op {
	case Add:
		return x[0] + x[1]
	case Sub:
		return x[0] - x[1]
	case Mul:
		return x[0] * x[1]
	case Div:
		return x[0] / x[1]
	case Max:
		return max(x[0], x[1])
	case Min:
		return min(x[0], x[1])
	case Greater:
		return yes(x[0] > x[1])
	case LessEqual:
		return yes(x[0] <= x[1])
	case Neg:
		return -x[0]
	case Sqrt:
		return math.Sqrt(x[0])
	case Exp:
		return math.Exp(x[0])
	case Expm1:
		return math.Expm1(x[0])
	case Log:
		return math.Log(x[0])
	case Log1p:
		return math.Log1p(x[0])
	case Abs:
		return math.Abs(x[0])
	case Sign:
		if x[0] > 0 {
			return 1
		} else if x[0] < 0 {
			return -1
		}
		return x[0]
	case Tanh:
		return math.Tanh(x[0])
	case Sigmoid:
		return 1 / (1 + math.Exp(-x[0]))
	case Erf:
		return math.Erf(x[0])
	case Cos:
		return math.Cos(x[0])
	case Floor:
		return math.Floor(x[0])
	case Where:
		if x[0] != 0 {
			return x[1]
		}
		return x[2]
	}
	panic(fmt.Errorf("elementwise: no operation %d", op))
}
