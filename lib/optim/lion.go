package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// Lion follows Chen et al., 2023: each weight takes a step of the same size, by the sign of
// an average. Rates are a third to a tenth of AdamW's, and weight decay as much larger.
type Lion struct {
	LearningRate float64 // default: 0.0001
	Beta1        float64 `range:"fraction"` // default: 0.9
	Beta2        float64 `range:"fraction"` // default: 0.99
	WeightDecay  float64 // takes rate·weightDecay·w from the weight
}

func (o Lion) Rate() float64 { return cmp.Or(o.LearningRate, 1e-4) }

func (o Lion) Rule() *elementwise.Rule {
	beta1, beta2 := cmp.Or(o.Beta1, 0.9), cmp.Or(o.Beta2, 0.99)
	m := kept("m")
	step := mean(m, beta1, g).Sign().Add(w.Mul(o.WeightDecay))
	r := &elementwise.Rule{Title: "lion", Weight: w.Sub(rate.Mul(step))}
	r.Keep("m", mean(m, beta2, g))
	return r
}
