package models

import (
	"fmt"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
)

// masked are the masks of a graph's nodes.
const masked = "/gaiden/masks"

// WithMask is x, sequences [n length …], with a mask that says which time steps are there and no
// padding, by numbers other than 0 or booleans [n length]. It travels with x from layer to layer,
// as in Keras: recurrent layers leave padding out and return 0 for it, attention does not look at
// it, [LastStep] and global pools take the time steps that are there, Conv1D takes zeros for the
// others, pools and norms over time steps count those that are there, and losses.CTC ends with
// them. Operations between two layers lose the mask: WithMask(y, MaskOf(x)) gives it to their
// result. A layer of your own that changes the length, or a Conv2D, has to give its result a mask.
//
//	Function: func(scope *model.Scope, in models.Inputs) *Node {
//		return models.WithLengths(in["sound"], in["lengths"])
//	},
//	Layers: []models.Layer{models.Bidirectional{Layer: models.GRU{Units: 64}}, models.Dense{Name: "letters", Units: 29}}
func WithMask(x, mask *Node) *Node {
	if x.Rank() < 2 || mask.Rank() != 2 || !slices.Equal(mask.Shape().Dimensions, x.Shape().Dimensions[:2]) {
		panic(fmt.Errorf("models.WithMask of %s by %s: want [n length …] and [n length]", x.Shape(), mask.Shape()))
	}
	if mask.DType() != dtypes.Bool {
		mask = NotEqual(mask, ZerosLike(mask))
	}
	x = IdentityWithCustomGradient(x, func(_, v *Node) *Node { return v }) // another node, with a mask of its own
	all, _ := model.GetGraphParam(x.Graph(), masked)
	known, _ := all.(map[*Node]*Node)
	if known == nil {
		known = map[*Node]*Node{}
		model.SetGraphParam(x.Graph(), masked, known)
	}
	known[x] = StopGradient(mask)
	return x
}

// WithLengths is WithMask by how many time steps of each example are there, [n].
func WithLengths(x, lengths *Node) *Node {
	if x.Rank() < 2 || lengths.Rank() != 1 || lengths.Shape().Dimensions[0] != x.Shape().Dimensions[0] {
		panic(fmt.Errorf("models.WithLengths of %s by %s: want [n length …] and [n]", x.Shape(), lengths.Shape()))
	}
	d := x.Shape().Dimensions
	step := Iota(x.Graph(), shapes.Make(dtypes.Int32, d[0], d[1]), 1)
	return WithMask(x, LessThan(step, BroadcastToDims(InsertAxes(ConvertDType(lengths, dtypes.Int32), -1), d[0], d[1])))
}

// MaskOf is the mask of x, booleans [n length]; nil: it has none.
func MaskOf(x *Node) *Node {
	all, _ := model.GetGraphParam(x.Graph(), masked)
	known, _ := all.(map[*Node]*Node)
	return known[x]
}

// Masked says whether something in a graph has a mask.
func Masked(g *Graph) bool {
	all, _ := model.GetGraphParam(g, masked)
	known, _ := all.(map[*Node]*Node)
	return len(known) > 0
}

// HandMask is y, which a layer has made of x, with the mask of x, if that is still one of y.
func HandMask(x, y *Node) *Node {
	mask := MaskOf(x)
	if mask == nil || x == y || MaskOf(y) != nil || y.Rank() < min(3, x.Rank()) || !slices.Equal(mask.Shape().Dimensions, y.Shape().Dimensions[:2]) {
		return y
	}
	return WithMask(y, mask)
}

// keepsMask panics where a layer has made sequences of another length of x, which has a mask:
// those after it would take padding for data.
func keepsMask(x, y *Node) {
	if mask := MaskOf(x); mask != nil && y.Rank() > 2 && MaskOf(y) == nil {
		panic(fmt.Errorf("the layer makes %s of sequences with a mask of %v: want a mask of its result, too: models.WithMask(y, …) in a layer of your own, all true where no time step is padding", y.Shape(), mask.Shape().Dimensions))
	}
}

// Masking masks the time steps all of whose numbers are Value, as Keras's layer does.
type Masking struct {
	Name  string
	Value float64
}

func (l Masking) Title() (name, kind string) { return l.Name, "Masking" }

// Apply takes x shaped [n length …] and returns it.
func (l Masking) Apply(_ *model.Scope, x *Node) *Node {
	if x.Rank() < 3 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length …]", x.Rank()))
	}
	d := x.Shape().Dimensions
	other := ConvertDType(NotEqual(x, FillScalar(x.Graph(), x.Shape(), l.Value)), dtypes.Float32)
	return WithMask(x, ReduceMax(Reshape(other, d[0], d[1], x.Shape().Size()/d[0]/d[1]), -1))
}

// zeroed is x with 0 for padding.
func zeroed(x, mask *Node) *Node {
	if mask == nil {
		return x
	}
	for mask.Rank() < x.Rank() {
		mask = InsertAxes(mask, -1)
	}
	return Where(BroadcastToDims(mask, x.Shape().Dimensions...), x, ZerosLike(x))
}

// unpadded runs a recurrent layer over the time steps of x that are there: they come first, and
// what the layer gives for padding, after them, becomes 0.
func unpadded(x *Node, run func(x *Node) *Node) *Node {
	mask := MaskOf(x)
	if mask == nil || cacheOf(x.Graph()) != nil {
		return run(x)
	}
	g, steps := x.Graph(), mask.Shape().Clone()
	steps.DType = dtypes.Int32
	step := Iota(g, steps, 1)
	// sorted is the order of the time steps by their keys.
	sorted := func(keys *Node) *Node {
		less := NewClosure(g, func(g *Graph) []*Node {
			a, b := Parameter(g, "a", shapes.Make(dtypes.Int32)), Parameter(g, "b", shapes.Make(dtypes.Int32))
			Parameter(g, "i", shapes.Make(dtypes.Int32))
			Parameter(g, "j", shapes.Make(dtypes.Int32))
			return []*Node{LessThan(a, b)}
		})
		return SortFunc(less, 1, true, keys, step)[1]
	}
	order := sorted(OneMinus(ConvertDType(mask, dtypes.Int32)))
	back := sorted(order)
	return zeroed(inOrder(run(inOrder(x, order, back)), back, order), mask)
}

// inOrder is x with its time steps in an order [n length], of which back is the inverse.
func inOrder(x, order, back *Node) *Node {
	d := order.Shape().Dimensions
	take := func(x, order *Node) *Node {
		return Gather(x, Stack([]*Node{Iota(x.Graph(), order.Shape(), 0), order}, -1))
	}
	if x.Shape().Dimensions[0] != d[0] || x.Shape().Dimensions[1] != d[1] {
		panic(fmt.Errorf("the layer makes %s of sequences with a mask of %v: want something for each time step", x.Shape(), d))
	}
	return gradient.Define(take(StopGradient(x), order), []*Node{x}, func(v *Node) []*Node { return []*Node{take(v, back)} })
}
