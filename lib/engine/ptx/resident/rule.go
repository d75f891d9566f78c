package resident

import (
	"fmt"

	"gaiden/lib/elementwise"
	"gaiden/lib/engine/ptx"
	"gaiden/lib/engine/triton/kernels"
)

// element is number i of each kind of moments.
func element(m moments, i int) (l []ptx.Value) {
	for _, moments := range m {
		l = append(l, moments[i])
	}
	return l
}

// follow takes a step with one weight.
func (w *writer) follow(s state, g ptx.Value) { w.Set(s[0], w.weight(s[0], s[1:], g)) }

// weight changes moments by a gradient, and returns what the weight is after a step of the
// rule.
func (w *writer) weight(weight ptx.Value, moments []ptx.Value, g ptx.Value) ptx.Value {
	scalars := map[string]ptx.Value{}
	for i, e := range w.m.Rule.Scalars() {
		scalars[e.Key()] = w.scales[i]
	}
	next := elementwise.Step[ptx.Value](ops{w.Block}, w.m.Rule, scalars, append([]ptx.Value{weight}, moments...), g)
	for i, x := range moments {
		w.Set(x, next[1+i])
	}
	return next[0]
}

// takes says whether there are instructions for a rule, and room for its state.
func takes(r kernels.Rule) bool {
	return r != nil && r.Moments() <= 2 && len(r.Scalars()) <= 2 &&
		elementwise.Only([]elementwise.Op{elementwise.Add, elementwise.Sub, elementwise.Mul, elementwise.Div, elementwise.Sqrt}, r)
}

// ops are a rule's operations.
type ops struct{ *ptx.Block }

func (o ops) Constant(x float64, _ ptx.Value) ptx.Value { return o.Var(x) }

func (o ops) WithNumber(op elementwise.Op, x ptx.Value, y float64, reversed bool) (z ptx.Value, ok bool) {
	switch {
	case op == elementwise.Add:
		return x.Add(y), true
	case op == elementwise.Mul:
		return x.Mul(y), true
	}
	return z, false
}

func (o ops) Apply(op elementwise.Op, x ...ptx.Value) ptx.Value {
	switch op {
	case elementwise.Add:
		return x[0].Add(x[1])
	case elementwise.Sub:
		return x[0].Sub(x[1])
	case elementwise.Mul:
		return x[0].Mul(x[1])
	case elementwise.Div:
		return x[0].Mul(x[1].Reciprocal())
	case elementwise.Sqrt: // 0 of 0
		return x[0].Mul(x[0].Max(1e-37).Rsqrt())
	}
	panic(fmt.Errorf("resident: no operation %s", op))
}
