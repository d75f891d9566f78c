package optim

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
)

// Muon makes the momentum of each matrix orthogonal, by some steps of a Newton-Schulz
// iteration (Jordan et al., 2024); what is not a matrix has Others. Embeddings and the last
// layer usually do better with AdamW, too:
//
//	optim.Groups{Optimizer: optim.Muon{}, Groups: []optim.Group{
//		{Names: []string{"tokens/*", "head/*"}, Optimizer: optim.AdamW{}},
//	}}
//
// Its formulas and defaults are those of PyTorch's Muon. Its steps run on XLA's kernels, in
// float32.
type Muon struct {
	LearningRate float64   // default: 0.001
	Momentum     float64   `range:"fraction"` // default: 0.95
	Plain        bool      // the momentum as it is, not Nesterov's
	WeightDecay  float64   // default: 0.1: takes rate·weightDecay·w from the weight
	Steps        int       // of the iteration; default: 5
	Others       Optimizer // of vectors, kernels of convolutions, …; default: AdamW{}
}

// Rate is the learning rate of the matrices; that of Others is in proportion to it.
func (o Muon) Rate() float64 { return cmp.Or(o.LearningRate, 0.001) }

func (o Muon) decay() float64  { return cmp.Or(o.WeightDecay, 0.1) }
func (o AdamW) decay() float64 { return cmp.Or(o.WeightDecay, 0.01) }

// Title names the optimizer of matrices and its moment.
func (o Muon) Title() (name string, moments []string) { return "muon", []string{"m"} }

// Update is one step of a matrix.
func (o Muon) Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node) {
	d, momentum := weight.Shape().Dimensions, cmp.Or(o.Momentum, 0.95)
	m := Add(MulScalar(moments[0], momentum), MulScalar(gradient, 1-momentum))
	x := m
	if !o.Plain {
		x = Add(MulScalar(gradient, 1-momentum), MulScalar(m, momentum))
	}
	by := MulScalar(rate, math.Sqrt(max(1, float64(d[1])/float64(d[0])))) // d is [in out], PyTorch's [out in]
	kept := OneMinus(MulScalar(rate, o.decay()))
	return Sub(Mul(weight, kept), Mul(o.orthogonal(x), by)), []*Node{m}
}

// orthogonal is about the nearest matrix whose singular values are all 1.
func (o Muon) orthogonal(x *Node) *Node {
	const a, b, c = 3.4445, -4.775, 2.0315
	d := x.Shape().Dimensions
	wide := d[0] <= d[1]
	product := func(x *Node) *Node { // of the smaller size
		if wide {
			return Einsum("ik,jk->ij", x, x)
		}
		return Einsum("ki,kj->ij", x, x)
	}
	steps := cmp.Or(o.Steps, 5)
	x = Div(x, Max(Sqrt(ReduceAllSum(Square(x))), Scalar(x.Graph(), dtypes.Float32, 1e-7)))
	for range steps {
		p := product(x)
		q := Add(MulScalar(p, b), MulScalar(Einsum("ij,jk->ik", p, p), c))
		if wide {
			x = Add(MulScalar(x, a), Einsum("ij,jk->ik", q, x))
		} else {
			x = Add(MulScalar(x, a), Einsum("ij,jk->ik", x, q))
		}
	}
	return x
}

// Rule is none: a matrix is changed as a whole.
func (o Muon) Rule() *elementwise.Rule { return nil }

// orthogonal is Muon of a variable that is a matrix.
type orthogonal struct{ Muon }

func (o orthogonal) choose(string, shapes.Shape) Optimizer { return o }

func (o Muon) choose(variable string, shape shapes.Shape) Optimizer {
	if shape.Rank() == 2 {
		return orthogonal{o}
	}
	var others Optimizer = AdamW{}
	if o.Others != nil {
		others = o.Others
	}
	return around(others, variable, shape, func(inner Optimizer) Optimizer { return scaled{inner, proportion(others, o)} })
}

func (o Muon) check() error {
	wrong := func(x float64) bool { return !(x >= 0) || math.IsInf(x, 0) }
	switch {
	case wrong(o.LearningRate):
		return fmt.Errorf("LearningRate of muon is %g: want 0 or more", o.LearningRate)
	case wrong(o.Momentum) || o.Momentum >= 1:
		return fmt.Errorf("Momentum of muon is %g: want 0 or more, and less than 1", o.Momentum)
	case wrong(o.WeightDecay):
		return fmt.Errorf("WeightDecay of muon is %g: want 0 or more", o.WeightDecay)
	case o.Steps < 0 || o.Steps > 20:
		return fmt.Errorf("Steps of muon are %d: want 1 to 20, or 0 for 5", o.Steps)
	}
	if o.Others == nil {
		return nil
	}
	return Check(o.Others)
}
