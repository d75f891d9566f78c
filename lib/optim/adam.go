package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// Adam follows Kingma and Ba, 2014.
type Adam struct {
	LearningRate float64 // default: 0.001
	Beta1        float64 `range:"fraction"` // default: 0.9
	Beta2        float64 `range:"fraction"` // default: 0.999
	Epsilon      float64 // default: 1e-8
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

func (o Adam) Rate() float64 { return cmp.Or(o.LearningRate, 0.001) }

func (o Adam) Rule() *elementwise.Rule {
	return adam("adam", o.Beta1, o.Beta2, o.Epsilon, decayed(o.WeightDecay), w)
}

// adam is the step from a weight w by a gradient g. m/(√v/scale + ε), scale = √(1 - beta2^t),
// is written with one division for each element, and everything else in scalars.
func adam(title string, beta1, beta2, epsilon float64, g, w elementwise.Expr) *elementwise.Rule {
	beta1, beta2, epsilon = cmp.Or(beta1, 0.9), cmp.Or(beta2, 0.999), cmp.Or(epsilon, 1e-8)
	m := mean(kept("m"), beta1, g)
	v := mean(kept("v"), beta2, g.Square())
	pace, scale := rate.Div(power(beta1).Neg()), power(beta2).Neg().Sqrt()
	size := v.Sqrt().Add(scale.Mul(epsilon))
	r := &elementwise.Rule{Title: title, Weight: w.Sub(pace.Mul(scale).Mul(m).Div(size))}
	r.Keep("m", m)
	r.Keep("v", v)
	return r
}
