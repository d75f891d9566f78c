package fit

import (
	"fmt"
	"path"

	"github.com/gomlx/compute"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/elementwise/gomlx"
	"gaiden/lib/engine/hlo"
)

// On a CPU that has package gemm's products, the gradient of a matrix is computed by the call
// that changes the matrix by it, and never written: see hlo.Function.Step. XLA writes it, and
// then reads it for each of the arrays that Adam keeps.

// nativeRules are the steps that package gemm has. Their scalars are the numbers of its hyperparameters,
// rate k1 l1 k2 l2 scale least; the others are those of ownKnobs.
var nativeRules = func() []*elementwise.Rule {
	w, g, m, v := elementwise.Weight, elementwise.Gradient, elementwise.Input("m"), elementwise.Input("v")
	param := func(i int) elementwise.Expr { return elementwise.Scalar(fmt.Sprint(i)) }
	velocity := m.Mul(param(1)).Add(g)
	mean := m.Mul(param(1)).Add(g.Mul(param(2)))
	square := v.Mul(param(3)).Add(g.Square().Mul(param(4)))
	return []*elementwise.Rule{
		{Weight: w.Sub(param(0).Mul(g))},
		{Weight: w.Sub(param(0).Mul(velocity)), Kept: []string{"m"}, Next: []elementwise.Expr{velocity}},
		{Weight: w.Sub(param(0).Mul(mean)), Kept: []string{"m"}, Next: []elementwise.Expr{mean}},
		{Weight: w.Sub(param(0).Mul(mean).Div(square.Sqrt().Add(param(6)))), Kept: []string{"m", "v"}, Next: []elementwise.Expr{mean, square}},
	}
}()

// nativeHyperparams are package gemm's for a step of the net's optimizer, seven scalars; nil if it
// does not have that step.
func (n *Net) nativeHyperparams() []elementwise.Expr {
	r := ruleOf(n.config.Optimizer)
	if r == nil {
		return nil
	}
	for _, form := range nativeRules {
		found, is := r.Match(form)
		if !is {
			continue
		}
		params := make([]elementwise.Expr, 7)
		for i, usual := range []float64{0, 0, 1, 0, 0, 1, 0} {
			if params[i], is = found[fmt.Sprint(i)]; !is {
				params[i] = elementwise.Number(usual)
			}
		}
		return params
	}
	return nil
}

// factorize finds, of each gradient that is to be computed where the weight changes, the two
// matrices that it is the product of.
func (t *trace) factorize(gradients []*Node, factors [][]*Node) {
	for i, g := range gradients {
		t.w.builder.ReplaceNext(func(_ *hlo.Function, operands []compute.Value) ([]compute.Value, error) {
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

// barrier are gradients and factors that are all there before one of them is.
func barrier(gradients []*Node, factors [][]*Node) []*Node {
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

// hyperparams are the optimizer's for a step, as one vector.
func (t *trace) hyperparams(rate, number *Node) *Node {
	l := elementwise.Eval(gomlx.Ops, gomlx.Scalars(rate, number), t.net.nativeHyperparams()...)
	for i, k := range l {
		l[i] = Reshape(k, 1)
	}
	return Concatenate(l, 0)
}

// nativeUpdate changes variable v, a weight, and the optimizer's arrays of it: in place if the program
// may, and in a loop, whose state is its own. operands are the gradient's factors, the hyperparameters,
// and the arrays. It counts as its layer's backward pass, since most of it is the gradient.
func (t *trace) nativeUpdate(v slot, inPlace bool, operands []*Node) []*Node {
	title, _ := t.net.config.Optimizer.Title()
	t.mark(path.Dir(v.name) + "/backward")
	defer t.mark(title + "/update")
	t.w.builder.ReplaceNext(func(f *hlo.Function, in []compute.Value) ([]compute.Value, error) {
		return f.Step(inPlace || f.Parent() != nil, in[0], in[1], in[2], in[3:]...)
	})
	return OptimizationBarriers(operands...)
}
