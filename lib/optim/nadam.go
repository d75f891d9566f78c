package optim

import (
	"cmp"
	"math"

	"gaiden/lib/elementwise"
)

// NAdam follows Dozat, 2016: Adam with Nesterov's momentum, whose share grows by
// beta1·(1 - 0.96^(t·MomentumDecay)/2).
type NAdam struct {
	LearningRate  float64 // default: 0.002
	Beta1         float64 `range:"fraction"` // default: 0.9
	Beta2         float64 `range:"fraction"` // default: 0.999
	Epsilon       float64 // default: 1e-8
	MomentumDecay float64 // default: 0.004
	WeightDecay   float64 // adds weightDecay·w to the gradient
}

func (o NAdam) Rate() float64 { return cmp.Or(o.LearningRate, 0.002) }

func (o NAdam) Rule() *elementwise.Rule {
	beta1, beta2, epsilon, psi := cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.999), cmp.Or(o.Epsilon, 1e-8), cmp.Or(o.MomentumDecay, 0.004)
	g := decayed(o.WeightDecay)
	m := mean(kept("m"), beta1, g)
	v := mean(kept("v"), beta2, g.Square())
	q := psi * math.Log(0.96) // 0.96^(t·psi) is exp(q·t)
	now, next := share(beta1, q, t), share(beta1, q, t.Add(1))
	product := shares(beta1, q)
	scale := power(beta2).Neg().Sqrt()
	size := v.Sqrt().Add(scale.Mul(epsilon))
	one := elementwise.Number(1)
	ofGradient := rate.Mul(scale).Mul(one.Sub(now)).Div(one.Sub(product))
	ofMoment := rate.Mul(scale).Mul(next).Div(one.Sub(product.Mul(next)))
	r := &elementwise.Rule{Title: "nadam", Weight: w.Sub(ofGradient.Mul(g).Add(ofMoment.Mul(m)).Div(size))}
	r.Keep("m", m)
	r.Keep("v", v)
	return r
}

// share is the momentum's in step number t.
func share(beta1, q float64, t elementwise.Expr) elementwise.Expr {
	return t.Mul(q).Exp().Mul(-0.5).Add(1).Mul(beta1)
}

// shares is the product of the shares up to step t. The logarithm of 1 - z/2 is the sum of
// -(z/2)^k/k, which added up over the steps' z = exp(q·i) are geometric series. Each is
// exp(k·q·t) - 1 with a factor, and that comes from the one before it without cancellation.
func shares(beta1, q float64) elementwise.Expr {
	u := t.Mul(q).Expm1()
	e, sum := u, t.Mul(math.Log(beta1))
	for k := 1; k <= 24; k++ {
		x := float64(k)
		sum = sum.Add(e.Mul(-math.Pow(0.5, x) / x * math.Exp(x*q) / math.Expm1(x*q)))
		e = e.Mul(u.Add(1)).Add(u)
	}
	return sum.Exp()
}
