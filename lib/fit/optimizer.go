package fit

import (
	"math"

	. "github.com/gomlx/gomlx/core/graph"
)

// Optimizer changes weights by their gradients. The ones here follow PyTorch to
// the letter. GoMLX has optimizers too; they keep counters and learning rates
// as variables, each a kernel of its own in every step, so these stand in. A setting
// of 0 is its default.
type Optimizer interface {
	// Title names the optimizer, and the arrays it keeps for each weight.
	Title() (name string, moments []string)
	// Rate is the learning rate.
	Rate() float64
	// Update returns a weight and its arrays after a step. rate is the learning
	// rate, t the number of the step from 1, both float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}

// SGD is gradient descent, with Momentum if that is not 0:
// v ← momentum·v + g, w ← w - rate·v.
type SGD struct {
	LearningRate float64 // default: 0.01
	Momentum     float64
	Nesterov     bool
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

// Title is sgd, or momentum with its velocity.
func (o SGD) Title() (name string, moments []string) {
	if o.Momentum == 0 {
		return "sgd", nil
	}
	return "momentum", []string{"v"}
}

// Rate is the learning rate.
func (o SGD) Rate() float64 { return or(o.LearningRate, 0.01) }

// Update is one step.
func (o SGD) Update(rate, _, w, g *Node, moments []*Node) (*Node, []*Node) {
	g = decay(g, w, o.WeightDecay)
	if o.Momentum == 0 {
		return Sub(w, Mul(rate, g)), nil
	}
	v := Add(MulScalar(moments[0], o.Momentum), g)
	if o.Nesterov {
		g = Add(g, MulScalar(v, o.Momentum))
	} else {
		g = v
	}
	return Sub(w, Mul(rate, g)), []*Node{v}
}

// Adam follows Kingma and Ba, 2014.
type Adam struct {
	LearningRate float64 // default: 0.001
	Beta1        float64 // default: 0.9
	Beta2        float64 // default: 0.999
	Epsilon      float64 // default: 1e-8
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

// Title is adam with its two moments.
func (o Adam) Title() (name string, moments []string) { return "adam", []string{"m", "v"} }

// Rate is the learning rate.
func (o Adam) Rate() float64 { return or(o.LearningRate, 0.001) }

// Update is one step. Everything that is the same for all elements is one
// scalar, which XLA computes inside the kernel.
func (o Adam) Update(rate, t, w, g *Node, moments []*Node) (*Node, []*Node) {
	beta1, beta2 := or(o.Beta1, 0.9), or(o.Beta2, 0.999)
	g = decay(g, w, o.WeightDecay)
	m := Add(MulScalar(moments[0], beta1), MulScalar(g, 1-beta1))
	v := Add(MulScalar(moments[1], beta2), MulScalar(Square(g), 1-beta2))
	correct1, correct2 := o.corrections(t)
	size := AddScalar(Mul(Sqrt(v), Rsqrt(correct2)), or(o.Epsilon, 1e-8))
	return Sub(w, Div(Mul(Div(rate, correct1), m), size)), []*Node{m, v}
}

// corrections are 1 - beta^t of both moments, which begin at 0.
func (o Adam) corrections(t *Node) (first, second *Node) {
	of := func(beta float64) *Node { return Neg(Expm1(MulScalar(t, math.Log(beta)))) }
	return of(or(o.Beta1, 0.9)), of(or(o.Beta2, 0.999))
}

// AdaDelta follows Zeiler, 2012, with Keras's and PyTorch's learning rate in
// front.
type AdaDelta struct {
	LearningRate float64 // default: 1, PyTorch's; Keras's is 0.001
	Rho          float64 // default: 0.9, PyTorch's; Keras's is 0.95
	Epsilon      float64 // default: 1e-6; Keras's is 1e-7
	WeightDecay  float64 // adds weightDecay·w to the gradient
}

// Title is adadelta with its means of squared gradients and updates.
func (o AdaDelta) Title() (name string, moments []string) {
	return "adadelta", []string{"gradients", "updates"}
}

// Rate is the learning rate.
func (o AdaDelta) Rate() float64 { return or(o.LearningRate, 1) }

// Update is one step.
func (o AdaDelta) Update(rate, _, w, g *Node, moments []*Node) (*Node, []*Node) {
	rho, epsilon := or(o.Rho, 0.9), or(o.Epsilon, 1e-6)
	g = decay(g, w, o.WeightDecay)
	gradients := Add(MulScalar(moments[0], rho), MulScalar(Square(g), 1-rho))
	update := Mul(Sqrt(Div(AddScalar(moments[1], epsilon), AddScalar(gradients, epsilon))), g)
	updates := Add(MulScalar(moments[1], rho), MulScalar(Square(update), 1-rho))
	return Sub(w, Mul(rate, update)), []*Node{gradients, updates}
}

func or(value, otherwise float64) float64 {
	if value == 0 {
		return otherwise
	}
	return value
}

func decay(g, w *Node, rate float64) *Node {
	if rate == 0 {
		return g
	}
	return Add(g, MulScalar(w, rate))
}
