package resident

import (
	"cmp"

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
// rule. The formulas are those of package kernels.
func (w *writer) weight(weight ptx.Value, moments []ptx.Value, g ptx.Value) ptx.Value {
	switch r := w.m.rule().(type) {
	case kernels.SGD:
		return w.sgd(r, weight, moments, decay(g, weight, r.WeightDecay))
	case kernels.AdaDelta:
		return w.adaDelta(r, weight, moments[0], moments[1], decay(g, weight, r.WeightDecay))
	case kernels.Adam:
		return w.adam(r, weight, moments[0], moments[1], decay(g, weight, r.WeightDecay))
	}
	return weight // Fits says no
}

func decay(g, weight ptx.Value, rate float64) ptx.Value {
	if rate == 0 {
		return g
	}
	return weight.FMA(rate, g)
}

// adam is m/(√v + ε) with what is the same for all in pace and epsilon (Kingma and Ba,
// 2014).
func (w *writer) adam(r kernels.Adam, weight, m, v, g ptx.Value) ptx.Value {
	beta1, beta2 := cmp.Or(r.Beta1, 0.9), cmp.Or(r.Beta2, 0.999)
	w.Set(m, m.FMA(beta1, g.Mul(1-beta1)))
	w.Set(v, v.FMA(beta2, g.Mul(g).Mul(1-beta2)))
	return root(v).Add(w.epsilon).Reciprocal().FMA(m.Mul(w.pace).Mul(-1), weight)
}

// sgd has one moment, the velocity, or none.
func (w *writer) sgd(r kernels.SGD, weight ptx.Value, moments []ptx.Value, g ptx.Value) ptx.Value {
	if len(moments) > 0 {
		v := moments[0]
		w.Set(v, v.FMA(r.Momentum, g))
		if r.Nesterov {
			g = v.FMA(r.Momentum, g)
		} else {
			g = v
		}
	}
	return g.FMA(w.pace.Mul(-1), weight)
}

// adaDelta keeps the means of squares of gradients and of updates (Zeiler, 2012).
func (w *writer) adaDelta(r kernels.AdaDelta, weight, gradients, updates, g ptx.Value) ptx.Value {
	rho, epsilon := cmp.Or(r.Rho, 0.9), cmp.Or(r.Epsilon, 1e-6)
	w.Set(gradients, gradients.FMA(rho, g.Mul(g).Mul(1-rho)))
	update := root(updates.Add(epsilon).Mul(gradients.Add(epsilon).Reciprocal())).Mul(g)
	w.Set(updates, updates.FMA(rho, update.Mul(update).Mul(1-rho)))
	return update.FMA(w.pace.Mul(-1), weight)
}

// root is √x, and 0 of 0.
func root(x ptx.Value) ptx.Value { return x.Mul(x.Max(1e-37).Rsqrt()) }
