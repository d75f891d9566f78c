package elementwise

import (
	"fmt"
	"math"
)

// Diff is the derivative of e by an input. That of Max and Min at a tie is of the second
// operand, and of Abs at 0 it is 0.
func (e Expr) Diff(by Expr) Expr {
	n := e.n
	switch {
	case n.op == number:
		return Number(0)
	case n.op == input:
		if n.key == by.n.key {
			return Number(1)
		}
		return Number(0)
	}
	x := n.args[0]
	var y, dy Expr
	dx := x.Diff(by)
	if len(n.args) == 2 {
		y = n.args[1]
		dy = y.Diff(by)
	}
	switch n.op {
	case Add:
		return dx.Add(dy)
	case Sub:
		if dx.is(0) && !dy.is(0) {
			return dy.Neg()
		}
		return dx.Sub(dy)
	case Mul:
		return dx.Mul(y).Add(x.Mul(dy))
	case Div:
		if dy.is(0) {
			return dx.Div(y)
		}
		return dx.Sub(e.Mul(dy)).Div(y)
	case Max:
		return x.Greater(y).Where(dx, dy)
	case Min:
		return x.Greater(y).Where(dy, dx)
	case Where:
		return x.Where(n.args[1].Diff(by), n.args[2].Diff(by))
	case Neg:
		return dx.Mul(-1)
	case Sqrt:
		return dx.Mul(0.5).Div(e)
	case Exp:
		return dx.Mul(e)
	case Expm1:
		return dx.Mul(x.Exp())
	case Log:
		return dx.Div(x)
	case Log1p:
		return dx.Div(x.Add(1))
	case Abs:
		return dx.Mul(x.Sign())
	case Sign, Floor, Greater, LessEqual:
		return Number(0)
	case Tanh:
		return dx.Mul(Number(1).Sub(e.Square()))
	case Sigmoid:
		return dx.Mul(e.Mul(Number(1).Sub(e)))
	case Erf:
		return dx.Mul(x.Square().Neg().Exp().Mul(2 / math.Sqrt(math.Pi)))
	case Cos:
		return dx.Mul(x.Add(math.Pi / 2).Cos())
	}
	panic(fmt.Errorf("elementwise: no derivative of %s", n.op))
}
