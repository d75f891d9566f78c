package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// SGD is gradient descent, with Momentum if that is not 0:
// v ← momentum·v + g, w ← w - rate·v.
type SGD struct {
	LearningRate float64 // default: 0.01
	Momentum     float64 `range:"fraction"`
	Nesterov     bool
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

func (o SGD) Rate() float64 { return cmp.Or(o.LearningRate, 0.01) }

func (o SGD) Rule() *elementwise.Rule {
	g := decayed(o.WeightDecay)
	if o.Momentum == 0 {
		return &elementwise.Rule{Title: "sgd", Weight: w.Sub(rate.Mul(g))}
	}
	v := kept("v").Mul(o.Momentum).Add(g)
	if o.Nesterov {
		g = g.Add(v.Mul(o.Momentum))
	} else {
		g = v
	}
	r := &elementwise.Rule{Title: "momentum", Weight: w.Sub(rate.Mul(g))}
	r.Keep("v", v)
	return r
}
