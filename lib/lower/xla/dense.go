package xla

import (
	"slices"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// ExamplesLast says whether all of a net is computed with the examples along the last
// axis: narrow dense layers, whose activations are functions of each element.
func ExamplesLast(t lower.Target, net models.Net) bool {
	var units []int
	for _, layer := range net.Layers {
		l, is := layer.(models.Dense)
		if !is || !slices.ContainsFunc([]models.Act{nil, models.ReLU, Sigmoid, Tanh}, l.Act.Is) {
			return false
		}
		units = append(units, l.Units)
	}
	return len(net.Input) == 1 && !net.Adapted("") && lower.ExamplesLast(t, net.Input[0], units...)
}

// Dense is that of models.Lowering.
func (l Lowering) Dense(x *Node, layers ...models.Linear) (all []*Node) {
	var ws []*Node
	for _, of := range layers {
		ws = append(ws, of.W)
		if l.Options.ExamplesLast {
			all = append(all, across(x, of.W, of.Biases, of.Act))
		}
	}
	if l.Options.ExamplesLast {
		return all
	}
	if all := l.rowLayers(x, layers); all != nil {
		return all
	}
	for i, y := range l.matmuls(x, ws) {
		all = append(all, l.finished(x, y, layers[i]))
	}
	return all
}

// finished is what a dense layer makes of y, x times its weights.
func (l Lowering) finished(x, y *Node, of models.Linear) *Node {
	w, biases, act := of.W, of.Biases, of.Act
	biased := func(y, biases *Node) *Node {
		if biases == nil {
			return applied(act, y)
		}
		return applied(act, l.AddBiases(y, biases))
	}
	if act != nil && !l.Target.CPU() && y.DType().Bits() <= 16 {
		if l.Calls != nil && lower.ActivationKernel(l.Target, y.Shape().Size(), y.DType()) {
			if z := l.Calls.Activate(y, biases, act); z != nil {
				return z
			}
		}
		return l.again(biased, y, biases)
	}
	out := biased(y, biases)
	if l.Multiplies != nil && act == nil {
		l.Multiplies(x, w, biases, out)
	}
	return out
}

// again is f of x and biases, or nil, of which the backward pass computes again what it needs
// from x: a GPU does that faster than it writes and reads it.
func (l Lowering) again(f func(x, biases *Node) *Node, x, biases *Node) *Node {
	wrt := []*Node{x}
	of := func(in []*Node) *Node {
		if biases == nil {
			return f(in[0], nil)
		}
		return f(in[0], in[1])
	}
	if biases != nil {
		wrt = append(wrt, biases)
	}
	stopped := make([]*Node, len(wrt))
	for i, x := range wrt {
		stopped[i] = StopGradient(x)
	}
	return gradient.Define(of(stopped), wrt, func(v *Node) []*Node {
		kept := slices.Clone(wrt)
		if gradient.Again(x.Graph()) {
			return gradient.Of(of, kept, v)
		}
		kept[0] = OptimizationBarriers(x, v)[0]
		all := gradient.Of(of, kept, v)
		if biases != nil { // XLA's kernel that computes one gradient and adds it up for the other is slow
			all[1] = l.columnSums(alone(all[0]))
		}
		return all
	})
}

func applied(act models.Act, y *Node) *Node {
	if act == nil {
		return y
	}
	return act(y)
}

// matmul is x·w, x [rows in] and w [in out].
func (l Lowering) matmul(x, w *Node) *Node {
	d, out := x.Shape().Dimensions, w.Shape().Dimensions[1]
	if !lower.TransposesFirst(l.Target, d[0], d[1], out) {
		return MatMul(x, w)
	}
	// What GoMLX derives for x would be made of a w without gradients: a second one were wrong.
	return gradient.Define(MatMul(StopGradient(x), StopGradient(w)), []*Node{x, w}, func(v *Node) []*Node {
		return []*Node{DotGeneral(v, []int{1}, nil, w, []int{1}, nil), l.weightsOf(x, v)}
	})
}

// weightsOf is xᵀ·v, for x [rows in] and v [rows out]: the gradient of a matmul's weights.
func (l Lowering) weightsOf(x, v *Node) *Node {
	if d := x.Shape().Dimensions; !lower.TransposesFirst(l.Target, d[0], d[1], v.Shape().Dimensions[1]) {
		return DotGeneral(x, []int{0}, nil, v, []int{0}, nil)
	}
	return MatMul(transposed(x), v)
}

// transposed is xᵀ, for x [rows in] of a multiple of lower.TransposeRows: within blocks of rows
// first, then the blocks. XLA's own transposition reads column after column, and where rows
// are a power of two long, a line of the cache is gone when the next column needs it.
func transposed(x *Node) *Node {
	rows, in := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	blocks := OptimizationBarrier(TransposeAllAxes(Reshape(x, rows/lower.TransposeRows, lower.TransposeRows, in), 0, 2, 1)) // [blocks in lower.TransposeRows]
	return OptimizationBarrier(Reshape(TransposeAllAxes(blocks, 1, 0, 2), in, rows))
}

// AddBiases adds biases to y [… channels]. Their gradient is that of columnSums.
func (l Lowering) AddBiases(y, biases *Node) *Node {
	channels := biases.Shape().Dimensions[0]
	rows := y.Shape().Size() / channels
	if l.Shared == nil && lower.BiasParts(l.Target, rows) == 1 {
		return Add(y, ExpandLeftToRank(biases, y.Rank()))
	}
	sum := derived(Add(y, StopGradient(ExpandLeftToRank(biases, y.Rank()))), biases, l.columnSums)
	if l.Shared != nil {
		l.Shared.biased[sum] = biased{y, biases}
	}
	return sum
}

// columnSums are sums over all axes of v but the last: those of the kernel that computed v, or,
// where lower.BiasParts says so, sums of sums.
func (l Lowering) columnSums(v *Node) *Node {
	channels := v.Shape().Dimensions[v.Rank()-1]
	rows := v.Shape().Size() / channels
	parts := lower.BiasParts(l.Target, rows)
	if sums := l.Shared.columnSums(v); sums != nil {
		return ConvertDType(sums, v.DType())
	}
	if parts == 1 {
		return ReduceSum(Reshape(v, rows, channels), 0)
	}
	sums := ReduceSum(float(Reshape(v, parts, rows/parts, channels)), 1)
	return ConvertDType(ReduceSum(alone(sums), 0), v.DType()) // else XLA makes one sum of both
}

// across is a dense layer with the examples along the last axis.
func across(rows, w, biases *Node, act models.Act) *Node {
	x := Transpose(rows, 0, 1)
	in := x.Shape().Dimensions[0]
	var y *Node
	if in <= 2 { // less than a matmul is worth
		for i := range in {
			term := Mul(Transpose(Slice(w, AxisElem(i)), 0, 1), Slice(x, AxisElem(i)))
			if y == nil {
				y = term
			} else {
				y = Add(y, term)
			}
		}
	} else {
		y = DotGeneral(w, []int{0}, nil, x, []int{0}, nil)
	}
	if biases != nil {
		y = Add(y, Reshape(biases, w.Shape().Dimensions[1], 1))
	}
	return Transpose(applied(act, y), 0, 1)
}
