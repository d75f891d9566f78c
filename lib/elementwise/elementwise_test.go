package elementwise

import (
	"math"
	"testing"
)

// TestDiff holds derivatives to differences.
func TestDiff(t *testing.T) {
	x, s := Input("x"), Scalar("s")
	for _, e := range []Expr{
		x.Add(s).Mul(x), s.Sub(x), x.Sub(2), x.Div(s), s.Div(x), x.Square().Div(x.Add(3)), x.Max(s), x.Min(s), x.Neg(),
		x.Sqrt(), x.Mul(0.3).Exp(), x.Expm1(), x.Log(), x.Log1p(), x.Sub(1).Abs(), x.Sign(), x.Tanh(), x.Sigmoid(), x.Erf(),
		x.Greater(s).Where(x.Square(), x), x.LessEqual(s).Where(1, x.Mul(x.Sigmoid())), s.Exp(), Number(2), x.Square().Mul(x.Tanh()).Sqrt(),
	} {
		for _, at := range []float64{0.3, 0.9, 2.2} {
			value := func(e Expr, x float64) float64 {
				return Eval(Float64, map[string]float64{"x": x, "s": 1.5}, e)[0]
			}
			const h = 1e-6
			want := (value(e, at+h) - value(e, at-h)) / (2 * h)
			if got := value(e.Diff(x), at); math.Abs(got-want) > 1e-6*(1+math.Abs(want)) {
				t.Errorf("derivative of %s at %v: got %v, want %v", e, at, got, want)
			}
		}
	}
}

// counted counts operations, and takes constants behind Mul by itself.
type counted struct {
	Ops[float64]
	ops, constants *int
}

func (c counted) Apply(op Op, x ...float64) float64 { *c.ops++; return c.Ops.Apply(op, x...) }
func (c counted) WithNumber(op Op, x, y float64, reversed bool) (float64, bool) {
	if op != Mul {
		return 0, false
	}
	*c.constants++
	return x * y, true
}

func TestEval(t *testing.T) {
	x, s := Input("x"), Scalar("s")
	root := x.Mul(x).Add(s.Exp()).Sqrt()
	var ops, constants int
	got := Eval[float64](counted{Float64, &ops, &constants}, map[string]float64{"x": 3, "s": 0}, root.Mul(2), root.Add(root), Number(7))
	if want := math.Sqrt(10); got[0] != 2*want || got[1] != 2*want || got[2] != 7 {
		t.Errorf("got %v, want twice %v, and 7", got, want)
	}
	if ops != 5 || constants != 1 {
		t.Errorf("%d operations and %d with constants: want 5 and 1, each subexpression once", ops, constants)
	}
	l := Scalars(root, s.Mul(2), s.Exp(), Number(3))
	if len(l) != 2 || l[0].String() != "exp(s)" || l[1].String() != "mul(s, 2)" {
		t.Errorf("Scalars: got %v, want exp(s) and mul(s, 2)", l)
	}
	given := Eval(Float64, map[string]float64{"x": 0, l[0].Key(): 16}, root)
	if given[0] != 4 {
		t.Errorf("with a value for exp(s): got %v, want 4", given)
	}
}

func TestText(t *testing.T) {
	x, s := Input("x"), Scalar("s")
	for _, tt := range []struct {
		e    Expr
		want string
	}{
		{x.Mul(1).Add(0), "x"}, {x.Mul(0).Add(x.Tanh()), "tanh(x)"}, {Number(2).Mul(3), "6"}, {x.Greater(0).Where(x, 0), "where(greater(x, 0), x, 0)"},
		{x.Greater(0).Where(s, s), "s"}, {x.Add(s).Substitute(map[string]Expr{"s": x.Neg()}), "add(x, neg(x))"},
	} {
		if got := tt.e.String(); got != tt.want {
			t.Errorf("got %s, want %s", got, tt.want)
		}
	}
}
