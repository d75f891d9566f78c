package xla

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
)

// Cells is the recurrent cell that a program's lowering writes at the moment.
type Cells struct{ now *cell }

// cell is one call of a recurrent cell, and its dense layers in the order of the calls. Their
// matmuls are kept for the backward pass, and the gradients of their weights are one matmul
// each over all time steps, after the loop.
type cell struct {
	weights  []*Node // variables that the cell reads
	products []*Node // x·w of the dense layers; on the backward pass, those that were kept
	factors  []factor
	backward bool
	calls    int
}

// factor is what the gradient of a dense layer's weights is made of: xᵀ·v. v is nil where
// nothing depends on the layer.
type factor struct{ x, w, biases, v *Node }

// within writes a cell.
func (c *Cells) within(now *cell, write func()) {
	if c != nil {
		outer := c.now
		c.now = now
		defer func() { c.now = outer }()
	}
	write()
}

// of is the cell that is written, if a layer's weights are variables of it.
func (c *Cells) of(w, biases *Node) *cell {
	if c == nil || c.now == nil || c.now.variable(w) < 0 || biases != nil && c.now.variable(biases) < 0 {
		return nil
	}
	return c.now
}

// variable is the number of the variable that w is, perhaps in another float type; -1: none.
func (c *cell) variable(w *Node) int {
	if w.Type() == NodeTypeConvertDType {
		w = w.Inputs()[0]
	}
	return slices.Index(c.weights, w)
}

// dense is x·w + biases.
func (c *cell) dense(x, w, biases *Node) *Node {
	with := func(y *Node) *Node {
		if biases == nil {
			return y
		}
		return Add(y, ExpandLeftToRank(biases, 2))
	}
	if !c.backward {
		y := MatMul(x, w)
		c.products = append(c.products, y)
		return with(y)
	}
	i := c.calls
	c.calls++
	c.factors = append(c.factors, factor{x, w, biases, nil})
	wrt := []*Node{x, w}
	if biases != nil {
		wrt = append(wrt, biases)
	}
	return gradient.Define(StopGradient(with(c.products[i])), wrt, func(v *Node) []*Node {
		c.factors[i].v = v
		return append([]*Node{MatMul(v, Transpose(w, 0, 1))}, make([]*Node, len(wrt)-1)...)
	})
}
