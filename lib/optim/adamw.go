package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// AdamW is Adam with weight decay apart from the gradient (Loshchilov and Hutter, 2017).
// Without weight decay it is Adam.
type AdamW struct {
	LearningRate float64 // default: 0.001
	Beta1        float64 `range:"fraction"` // default: 0.9
	Beta2        float64 `range:"fraction"` // default: 0.999
	Epsilon      float64 // default: 1e-8
	WeightDecay  float64 // default: 0.01: takes rate·weightDecay·w from the weight
}

func (o AdamW) Rate() float64 { return cmp.Or(o.LearningRate, 0.001) }

func (o AdamW) Rule() *elementwise.Rule {
	kept := elementwise.Number(1).Sub(rate.Mul(cmp.Or(o.WeightDecay, 0.01)))
	return adam("adamw", o.Beta1, o.Beta2, o.Epsilon, g, w.Mul(kept))
}
