package kernels

import (
	"math"

	"gaiden/lib/engine/triton"
)

// Rule is an optimizer: what becomes of a tile of weights, given its gradient.
// The learning rate and the number of the step are inputs of the kernels that
// use one. The rules here are those of package fit, in the same formulas.
type Rule interface {
	// Name is a word for the kernel's name.
	Name() string
	// Moments is how many arrays like the weights the rule keeps.
	Moments() int
	// Step returns the weights and moments after a step. All are float32; rate
	// and t, the number of the step from 1, are scalars.
	Step(rate, t, w, g triton.Value, moments []triton.Value) (triton.Value, []triton.Value)
}

// SGD is gradient descent, with Momentum if that is not 0:
// v ← momentum·v + g, w ← w - rate·v.
type SGD struct {
	Momentum    float64
	Nesterov    bool
	WeightDecay float64 // adds weightDecay·w to the gradient
}

// Name is sgd, or momentum.
func (r SGD) Name() string {
	if r.Momentum == 0 {
		return "sgd"
	}
	return "momentum"
}

// Moments is 0, or 1 for the velocity.
func (r SGD) Moments() int {
	if r.Momentum == 0 {
		return 0
	}
	return 1
}

// Step is one step.
func (r SGD) Step(rate, _, w, g triton.Value, moments []triton.Value) (triton.Value, []triton.Value) {
	g = decay(g, w, r.WeightDecay)
	if r.Momentum == 0 {
		return w.Sub(rate.Mul(g)), nil
	}
	v := moments[0].Mul(r.Momentum).Add(g)
	if r.Nesterov {
		g = g.Add(v.Mul(r.Momentum))
	} else {
		g = v
	}
	return w.Sub(rate.Mul(g)), []triton.Value{v}
}

// Adam follows Kingma and Ba, 2014.
type Adam struct {
	Beta1       float64 // default: 0.9
	Beta2       float64 // default: 0.999
	Epsilon     float64 // default: 1e-8
	WeightDecay float64 // adds weightDecay·w to the gradient
}

// Name is adam.
func (Adam) Name() string { return "adam" }

// Moments are the means of the gradient and of its square.
func (Adam) Moments() int { return 2 }

// Step is one step. What is the same for all elements is one scalar.
func (r Adam) Step(rate, t, w, g triton.Value, moments []triton.Value) (triton.Value, []triton.Value) {
	beta1, beta2 := or(r.Beta1, 0.9), or(r.Beta2, 0.999)
	correct1 := t.Mul(math.Log(beta1)).Expm1().Neg() // 1 - beta1^t
	correct2 := t.Mul(math.Log(beta2)).Expm1().Neg()
	pace, scale := rate.Div(correct1), correct2.Sqrt()
	g = decay(g, w, r.WeightDecay)
	m := moments[0].Mul(beta1).Add(g.Mul(1 - beta1))
	v := moments[1].Mul(beta2).Add(g.Mul(g).Mul(1 - beta2))
	// m/(√v/scale + ε), with one division for each element
	size := v.Sqrt().Add(scale.Mul(or(r.Epsilon, 1e-8)))
	return w.Sub(pace.Mul(scale).Mul(m).Div(size)), []triton.Value{m, v}
}

// AdaDelta follows Zeiler, 2012, with a learning rate in front.
type AdaDelta struct {
	Rho         float64 // default: 0.9
	Epsilon     float64 // default: 1e-6
	WeightDecay float64 // adds weightDecay·w to the gradient
}

// Name is adadelta.
func (AdaDelta) Name() string { return "adadelta" }

// Moments are the means of squared gradients and of squared updates.
func (AdaDelta) Moments() int { return 2 }

// Step is one step.
func (r AdaDelta) Step(rate, _, w, g triton.Value, moments []triton.Value) (triton.Value, []triton.Value) {
	rho, epsilon := or(r.Rho, 0.9), or(r.Epsilon, 1e-6)
	g = decay(g, w, r.WeightDecay)
	gradients := moments[0].Mul(rho).Add(g.Mul(g).Mul(1 - rho))
	update := moments[1].Add(epsilon).Div(gradients.Add(epsilon)).Sqrt().Mul(g)
	updates := moments[1].Mul(rho).Add(update.Mul(update).Mul(1 - rho))
	return w.Sub(rate.Mul(update)), []triton.Value{gradients, updates}
}

func or(value, otherwise float64) float64 {
	if value == 0 {
		return otherwise
	}
	return value
}

func decay(g, w triton.Value, rate float64) triton.Value {
	if rate == 0 {
		return g
	}
	return g.Add(w.Mul(rate))
}
