package optim

import (
	"cmp"

	"gaiden/lib/elementwise"
)

// Adagrad follows Duchi, Hazan and Singer, 2011.
type Adagrad struct {
	LearningRate      float64 // default: 0.01
	LearningRateDecay float64 // divides the rate by 1 + decay·(t - 1)
	Epsilon           float64 // default: 1e-10
	WeightDecay       float64 // adds weightDecay·w to the gradient
}

func (o Adagrad) Rate() float64 { return cmp.Or(o.LearningRate, 0.01) }

func (o Adagrad) Rule() *elementwise.Rule {
	g := decayed(o.WeightDecay)
	sum := kept("sum").Add(g.Square())
	pace := rate.Div(t.Add(-1).Mul(o.LearningRateDecay).Add(1))
	size := sum.Sqrt().Add(cmp.Or(o.Epsilon, 1e-10))
	r := &elementwise.Rule{Title: "adagrad", Weight: w.Sub(pace.Mul(g).Div(size))}
	r.Keep("sum", sum)
	return r
}
