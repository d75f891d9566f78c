package fit

import (
	"path"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
)

// On a CPU that has package gemm's products, the gradient of a matrix is computed by the call
// that changes the matrix by it, and never written: see hlo.Function.Step. XLA writes it, and
// then reads it for each of the arrays that Adam keeps.

// knobbed is an optimizer whose step package gemm has.
type knobbed interface {
	// own says whether package gemm has it as it is set.
	own() bool
	// knobs are package gemm's for a step, seven scalars.
	knobs(rate, t *Node) []*Node
}

func (o SGD) own() bool  { return !o.Nesterov && o.WeightDecay == 0 }
func (o Adam) own() bool { return o.WeightDecay == 0 }

func (o SGD) knobs(rate, _ *Node) []*Node {
	g := rate.Graph()
	of := func(x float64) *Node { return Const(g, float32(x)) }
	return []*Node{rate, of(o.Momentum), of(1), of(0), of(0), of(0), of(0)}
}

func (o Adam) knobs(rate, t *Node) []*Node {
	g := rate.Graph()
	of := func(x float64) *Node { return Const(g, float32(x)) }
	beta1, beta2 := or(o.Beta1, 0.9), or(o.Beta2, 0.999)
	correct1, correct2 := o.corrections(t)
	return []*Node{Div(rate, correct1), of(beta1), of(1 - beta1), of(beta2), of(1 - beta2), Rsqrt(correct2), of(or(o.Epsilon, 1e-8))}
}

// knobbed is the net's optimizer if package gemm has its steps, or nil.
func (n *Net) knobbed() knobbed {
	if o, is := n.config.Optimizer.(knobbed); is && o.own() {
		return o
	}
	return nil
}

// factor finds, of each gradient that is to be computed where the weight changes, the two
// matrices that it is the product of.
func (t *trace) factor(gradients []*Node, factors [][]*Node) {
	for i, g := range gradients {
		t.w.builder.Divert(func(_ *hlo.Function, operands []compute.Value) ([]compute.Value, error) {
			x, y, is := hlo.Factors(operands[0])
			if !is {
				return operands, nil
			}
			return []compute.Value{x, y}, nil
		})
		if xy := OptimizationBarriers(g); len(xy) == 2 {
			factors[i] = xy
		}
	}
}

// together are gradients and factors that are all there before one of them is.
func together(gradients []*Node, factors [][]*Node) []*Node {
	var l []*Node
	for i, g := range gradients {
		if factors[i] == nil {
			l = append(l, g)
		} else {
			l = append(l, factors[i]...)
		}
	}
	l = OptimizationBarriers(l...)
	now := make([]*Node, len(gradients))
	for i := range gradients {
		if factors[i] == nil {
			now[i], l = l[0], l[1:]
		} else {
			factors[i], l = l[:2:2], l[2:]
		}
	}
	return now
}

// knobs are the optimizer's for a step, as one vector.
func (t *trace) knobs(rate, number *Node) *Node {
	l := t.net.knobbed().knobs(rate, number)
	for i, k := range l {
		l[i] = Reshape(k, 1)
	}
	return Concatenate(l, 0)
}

// step changes variable v, a weight, and the optimizer's arrays of it: in place if the program
// may, and in a loop, whose state is its own. operands are the gradient's factors, the knobs,
// and the arrays. It counts as its layer's way back, which most of it is.
func (t *trace) step(v slot, inPlace bool, operands []*Node) []*Node {
	title, _ := t.net.config.Optimizer.Title()
	t.mark(path.Dir(v.name) + "/backward")
	defer t.mark(title + "/update")
	t.w.builder.Divert(func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
		return f.Step(inPlace || f.Parent() != nil, in[0], in[1], in[2], in[3:]...)
	})
	return OptimizationBarriers(operands...)
}
