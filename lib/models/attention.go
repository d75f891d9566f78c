package models

import (
	"cmp"
	"fmt"
	"math"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Attention is multi-head self-attention (Vaswani et al., 2017): each time step of a
// sequence takes from all others, or with Causal from those before it.
type Attention struct {
	Name     string
	Heads    int
	KVHeads  int     // heads of keys and values, each for Heads/KVHeads heads of queries (Ainslie et al., 2023); default: Heads
	HeadSize int     // default: the width of x, divided by Heads
	Causal   bool    // a time step does not see those after it
	Window   int     // a time step sees that many time steps at most, the last of which is itself; needs Causal; 0: all
	RoPE     float64 // base of rotary position embeddings (Su et al., 2021), such as 10000; 0: none
	ALiBi    bool    // scores get smaller with the distance (Press et al., 2022); needs Causal
	Dropout  float64 // of the attention weights
	NoBias   bool
	Init     Init // of the weights; default: Glorot
}

func (l Attention) Title() (name, kind string) { return l.Name, "MultiHeadAttention" }

func (l Attention) check() error {
	err := cmp.Or(least("Heads", l.Heads, 1), usual("KVHeads", l.KVHeads, "Heads"), usual("HeadSize", l.HeadSize, "the width, divided by Heads"),
		usual("Window", l.Window, "all time steps"), share("Dropout", l.Dropout))
	switch {
	case err != nil:
		return err
	case l.KVHeads > 0 && l.Heads%l.KVHeads != 0:
		return fmt.Errorf("KVHeads is %d: want a divisor of %d, its Heads", l.KVHeads, l.Heads)
	case !l.Causal && (l.Window > 0 || l.ALiBi):
		return fmt.Errorf("Window or ALiBi is set and Causal is not: want Causal with them")
	case !(l.RoPE >= 0) || math.IsInf(l.RoPE, 0):
		return fmt.Errorf("RoPE is %g: want a base such as 10000, or 0 for none", l.RoPE)
	}
	return nil
}

// Apply takes x shaped [n length width] and returns the same shape.
func (l Attention) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	width := x.Shape().Dimensions[2]
	size, groups := l.HeadSize, l.KVHeads
	if groups == 0 {
		groups = l.Heads
	}
	if size == 0 {
		if width%l.Heads != 0 {
			panic(fmt.Errorf("got a width of %d: want a multiple of %d, its Heads, or a HeadSize", width, l.Heads))
		}
		size = width / l.Heads
	}
	if l.RoPE > 0 && size%2 != 0 {
		panic(fmt.Errorf("heads have a size of %d: want an even one for RoPE", size))
	}
	heads := func(name string, count int) *Node { // [n length count size]
		y := Dense{Units: count * size, NoBias: l.NoBias, Init: l.Init}.Apply(scope.In("%s", name), x)
		d := y.Shape().Dimensions
		return Reshape(y, d[0], d[1], count, size)
	}
	q, k, v := heads("query", l.Heads), heads("key", groups), heads("value", groups)
	if l.RoPE > 0 {
		q, k = rotated(q, l.RoPE), rotated(k, l.RoPE)
	}
	y := l.attend(scope, q, k, v)
	return Dense{Units: width, NoBias: l.NoBias, Init: l.Init}.Apply(scope.In("output"), y)
}

// attend is softmax(q·kᵀ/√size + mask)·v: q [n length heads size], k and v [n length groups
// size], y [n length heads·size]. The softmax is computed in float32.
func (l Attention) attend(scope *model.Scope, q, k, v *Node) *Node {
	d := q.Shape().Dimensions
	n, length, size, groups := d[0], d[1], d[3], k.Shape().Dimensions[2]
	q = Reshape(q, n, length, groups, l.Heads/groups, size)
	scores := float(Einsum("nqghs,nkgs->nghqk", q, k)) // [n groups heads/groups length length]
	scores = MulScalar(scores, 1/math.Sqrt(float64(size)))
	g := q.Graph()
	if l.Causal {
		square := shapes.Make(dtypes.Int32, length, length)
		distance := Sub(Iota(g, square, 0), Iota(g, square, 1)) // from a query back to a key
		if l.ALiBi {
			scores = Sub(scores, Mul(ExpandLeftToRank(ConvertDType(distance, dtypes.Float32), 5), alibi(g, groups, l.Heads/groups)))
		}
		seen := GreaterOrEqual(distance, ZerosLike(distance))
		if l.Window > 0 {
			seen = LogicalAnd(seen, LessThan(distance, FillScalar(g, square, float64(l.Window))))
		}
		never := FillScalar(g, scores.Shape(), math.Inf(-1)) // each query sees itself, so no row is empty
		scores = Where(BroadcastToDims(ExpandLeftToRank(seen, 5), scores.Shape().Dimensions...), scores, never)
	}
	weights := Softmax(scores, -1)
	weights = Dropout{Rate: l.Dropout}.Apply(scope, weights)
	y := Einsum("nghqk,nkgs->nqghs", ConvertDType(weights, v.DType()), v)
	return Reshape(y, n, length, l.Heads*size)
}

// alibi are the heads' slopes, [1 groups heads/groups 1 1]: 2^(-8·head/heads) for powers of
// two, and for other numbers of heads as ALiBi's authors have it.
func alibi(g *Graph, groups, each int) *Node {
	heads := groups * each
	power := 1 << (math.Ilogb(float64(heads)))
	slope := func(i, of int) float32 { return float32(math.Exp2(-8 * float64(i) / float64(of))) }
	var all []float32
	for i := range heads {
		if i < power {
			all = append(all, slope(i+1, power))
		} else {
			all = append(all, slope(2*(i-power)+1, 2*power))
		}
	}
	return Reshape(Const(g, all), 1, groups, each, 1, 1)
}

// rotated turns pairs of numbers of each head by an angle that grows with the time step, the
// first half of the head with the second, as Llama does: x is [n length heads size].
func rotated(x *Node, base float64) *Node {
	g, d := x.Graph(), x.Shape().Dimensions
	length, half := d[1], d[3]/2
	angles := make([]float64, half)
	for i := range angles {
		angles[i] = math.Pow(base, -float64(i)/float64(half))
	}
	angle := Mul(Iota(g, shapes.Make(dtypes.Float32, length, half), 0), Reshape(ConvertDType(Const(g, angles), dtypes.Float32), 1, half))
	angle = Reshape(angle, 1, length, 1, half)
	cos, sin := Cos(angle), Sin(angle)
	part := func(from int) *Node { return float(SliceAxis(x, 3, AxisRange(from, from+half))) }
	a, b := part(0), part(half)
	y := Concatenate([]*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}, -1)
	return ConvertDType(y, x.DType())
}
