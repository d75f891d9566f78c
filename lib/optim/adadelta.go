package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// AdaDelta follows Zeiler, 2012, with Keras's and PyTorch's learning rate in
// front.
type AdaDelta struct {
	LearningRate float64 // default: 1, PyTorch's; Keras's is 0.001
	Rho          float64 `range:"fraction"` // default: 0.9, PyTorch's; Keras's is 0.95
	Epsilon      float64 // default: 1e-6; Keras's is 1e-7
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

func (o AdaDelta) Rate() float64 { return cmp.Or(o.LearningRate, 1) }

func (o AdaDelta) Rule() *elementwise.Rule {
	rho, epsilon := cmp.Or(o.Rho, 0.9), cmp.Or(o.Epsilon, 1e-6)
	g, updates := decayed(o.WeightDecay), kept("updates")
	gradients := mean(kept("gradients"), rho, g.Square())
	step := updates.Add(epsilon).Div(gradients.Add(epsilon)).Sqrt().Mul(g)
	r := &elementwise.Rule{Title: "adadelta", Weight: w.Sub(rate.Mul(step))}
	r.Keep("gradients", gradients)
	r.Keep("updates", mean(updates, rho, step.Square()))
	return r
}
