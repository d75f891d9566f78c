package models

import (
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/engine/gemm"
)

// Dense is x·weights + biases, on the last axis of x.
type Dense struct {
	Name     string
	Units    int
	Act      Act
	NoBias   bool
	Init     Init // of the weights, [inputs units]; default: Glorot
	BiasInit Init // of the biases, [units]; default: 0

	turned bool // the examples lie along the last axis while it is computed; see narrow
}

// Title names the layer.
func (l Dense) Title() (name, kind string) { return l.Name, "Dense" }

// Apply takes x shaped [… inputs] and returns [… units].
func (l Dense) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if x.Rank() < 2 {
		panic(fmt.Errorf("got an input of rank %d: want 2 or more", x.Rank()))
	}
	g, d := x.Graph(), x.Shape().Dimensions
	in := d[len(d)-1]
	rows := x
	if len(d) > 2 {
		rows = Reshape(x, x.Shape().Size()/in, in)
	}
	w := variable(scope, g, "weights", l.Init, Glorot, in, l.Units)
	var bias *Node
	if !l.NoBias {
		bias = variable(scope, g, "biases", l.BiasInit, Fill(0), l.Units)
	}
	y := l.of(rows, w, bias)
	if len(d) == 2 {
		return y
	}
	return Reshape(y, append(append([]int{}, d[:len(d)-1]...), l.Units)...)
}

// of is the layer on rows [n inputs].
func (l Dense) of(rows, w, bias *Node) *Node {
	if l.turned {
		return l.across(rows, w, bias)
	}
	y := product(rows, w)
	if bias != nil {
		y = biased(y, bias)
	}
	return l.Act.of(y)
}

// product is x·w of matrices, x [rows in] and w [in out].
func product(x, w *Node) *Node {
	if out := w.Shape().Dimensions[1]; !turnsFirst(x, out) && !own(x, out) {
		return MatMul(x, w)
	}
	return derived(MatMul(x, StopGradient(w)), w, func(v *Node) *Node { return weightsOf(x, v) })
}

// weightsOf is xᵀ·v, for x [rows in] and v [rows out]: the gradient of a product's weights.
func weightsOf(x, v *Node) *Node {
	if !turnsFirst(x, v.Shape().Dimensions[1]) {
		return DotGeneral(x, []int{0}, nil, v, []int{0}, nil)
	}
	return MatMul(transposed(x), v)
}

// turnedRows is how many rows of a matrix are transposed as a block.
const turnedRows = 16

// transposed is xᵀ, for x [rows in] of a multiple of turnedRows: within blocks of rows first,
// then the blocks. At once XLA reads column after column. Each number is in another line of
// the cache, and where rows are a power of two long few of these lines fit in it together, so
// that they are gone when the next column wants them: 1,024 rows of 2,048 took 3.7 ms on 2
// cores, and 1.4 so; of 784 0.7 to 1.3, and 0.4.
func transposed(x *Node) *Node {
	rows, in := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	blocks := OptimizationBarrier(TransposeAllAxes(Reshape(x, rows/turnedRows, turnedRows, in), 0, 2, 1)) // [blocks in turnedRows]
	return OptimizationBarrier(Reshape(TransposeAllAxes(blocks, 1, 0, 2), in, rows))
}

// turnsFirst says whether weightsOf turns x [rows in] around before it multiplies. XLA's
// product of matrices as they lie takes a CPU less than one that reads a matrix across, and
// where there is much to multiply by more than turning it costs: of 1,024 rows from 2,048 to
// 2,048 it takes 18.3 ms on 2 cores and the other 22.1, with the turning, at once, 19.9;
// from 1,024 to 256 1.9 and 2.6. Of 512 to 256 it would take 1.31 in place of 1.15, and of
// 100 rows of 1,000 numbers 0.77 in place of 0.62.
func turnsFirst(x *Node, out int) bool {
	rows, in := x.Shape().Dimensions[0], x.Shape().Dimensions[1]
	return onCPU(x.Graph()) && !own(x, out) && rows >= 128 && rows%turnedRows == 0 && (out >= 512 || out >= 128 && in >= 1024)
}

// own says whether x [rows in] times [in out] is package gemm's, which multiplies as fast
// across as along, and its weights' gradient is to be: GoMLX would compute that turned
// around, and turn it back.
func own(x *Node, out int) bool {
	d := x.Shape().Dimensions
	return withProducts(x.Graph()) && (gemm.Worthwhile(d[0], out, d[1]) || withSteps(x.Graph()) && gemm.StepWorthwhile(d[1], out, d[0]))
}

// narrow says whether a CPU computes a net turned: with the examples along the last
// axis, where they fill its vectors. XLA turns nothing around between the layers then.
// Peaks takes 0.65 ms a step on 2 cores so, and 1.09 without. But layers of 8 inputs
// and 8 units are no faster, wider ones slower, and so is a narrow layer behind a wide
// one. An activation of somebody else's might look at more than one element.
func (n Net) narrow() bool {
	if len(n.Input) != 1 {
		return false
	}
	in := n.Input[0]
	for _, layer := range n.Layers {
		l, is := layer.(Dense)
		if !is || min(in, l.Units) > 5 || max(in, l.Units) > 32 || !l.Act.known() {
			return false
		}
		in = l.Units
	}
	return true
}

// across is of, turned.
func (l Dense) across(rows, w, bias *Node) *Node {
	x := Transpose(rows, 0, 1)
	in := x.Shape().Dimensions[0]
	var y *Node
	if in <= 2 { // less than a product is worth
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
	if bias != nil {
		y = Add(y, Reshape(bias, l.Units, 1))
	}
	return Transpose(l.Act.of(y), 0, 1)
}

// Flatten makes each example a vector.
type Flatten struct{ Name string }

// Title names the layer.
func (l Flatten) Title() (name, kind string) { return l.Name, "Flatten" }

// Apply takes x shaped [n …] and returns [n size].
func (Flatten) Apply(_ *model.Scope, x *Node) *Node {
	n := x.Shape().Dimensions[0]
	if x.Rank() == 2 {
		return x
	}
	return Reshape(x, n, x.Shape().Size()/n)
}
