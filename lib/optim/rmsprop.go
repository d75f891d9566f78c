package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// RMSprop follows Hinton's lecture, 2012, as PyTorch has it: with Momentum if that is not
// 0, and, Centered, with an estimate of the gradient's variance.
type RMSprop struct {
	LearningRate float64 // default: 0.01
	Alpha        float64 `range:"fraction"` // default: 0.99: the share of the old average
	Epsilon      float64 // default: 1e-8
	Momentum     float64 `range:"fraction"`
	Centered     bool
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

func (o RMSprop) Rate() float64 { return cmp.Or(o.LearningRate, 0.01) }

func (o RMSprop) Rule() *elementwise.Rule {
	alpha := cmp.Or(o.Alpha, 0.99)
	g := decayed(o.WeightDecay)
	r := &elementwise.Rule{Title: "rmsprop"}
	square := mean(kept("square"), alpha, g.Square())
	r.Keep("square", square)
	if o.Centered {
		gradient := mean(kept("gradient mean"), alpha, g)
		r.Keep("gradient mean", gradient)
		square = square.Sub(gradient.Square())
	}
	step := g.Div(square.Sqrt().Add(cmp.Or(o.Epsilon, 1e-8)))
	if o.Momentum != 0 {
		step = kept("v").Mul(o.Momentum).Add(step)
		r.Keep("v", step)
	}
	r.Weight = w.Sub(rate.Mul(step))
	return r
}
