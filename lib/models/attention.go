package models

import (
	"cmp"
	"fmt"
	"math"
	"slices"

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
	// Frequencies are the angles by which RoPE turns the pairs of a head at each time step, in
	// place of those of a base. Fewer than HeadSize/2 turn the first part of a head only.
	Frequencies []float64
	ALiBi       bool    // scores get smaller with the distance (Press et al., 2022); needs Causal
	Dropout     float64 // of the attention weights
	Scale       float64 // factor of the scores; default: 1/√HeadSize
	SoftCap     float64 // scores become SoftCap·tanh(scores/SoftCap), as in Gemma 2; 0: they do not
	QKNorm      Layer   // of each head's queries and keys before RoPE, such as RMSNorm{} (Henry et al., 2020); nil: none
	NoBias      bool
	// NoOutputBias leaves out the bias of the output only, as Qwen 2 does.
	NoOutputBias bool
	Init         Init // of the weights; default: Glorot
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
	case l.RoPE > 0 && l.Frequencies != nil:
		return fmt.Errorf("RoPE and Frequencies are set: want one of them")
	case slices.ContainsFunc(l.Frequencies, func(f float64) bool { return !(f >= 0) || math.IsInf(f, 0) }):
		return fmt.Errorf("Frequencies are %g: want numbers of 0 or more", l.Frequencies)
	case !(l.Scale >= 0) || math.IsInf(l.Scale, 0):
		return fmt.Errorf("Scale is %g: want more than 0, or 0 for 1/√HeadSize", l.Scale)
	case l.NoBias && l.NoOutputBias:
		return unused(true, "NoOutputBias", "NoBias")
	case l.QKNorm != nil:
		if err := check(l.QKNorm); err != nil {
			return fmt.Errorf("QKNorm: %w", err)
		}
	}
	return limit("SoftCap", l.SoftCap)
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
	if 2*len(l.Frequencies) > size {
		panic(fmt.Errorf("got %d Frequencies: want at most %d, for heads of a size of %d", len(l.Frequencies), size/2, size))
	}
	heads := func(name string, count int) *Node { // [n length count size]
		y := Dense{Units: count * size, NoBias: l.NoBias, Init: l.Init}.Apply(scope.In("%s", name), x)
		d := y.Shape().Dimensions
		return Reshape(y, d[0], d[1], count, size)
	}
	q, k, v := heads("query", l.Heads), heads("key", groups), heads("value", groups)
	if l.QKNorm != nil {
		q, k = l.QKNorm.Apply(scope.In("query_norm"), q), l.QKNorm.Apply(scope.In("key_norm"), k)
	}
	if f := l.frequencies(size); len(f) > 0 {
		q, k = rotated(q, f), rotated(k, f)
	}
	y := l.attend(scope, q, k, v)
	return Dense{Units: width, NoBias: l.NoBias || l.NoOutputBias, Init: l.Init}.Apply(scope.In("output"), y)
}

// frequencies are RoPE's of heads of a size.
func (l Attention) frequencies(size int) []float64 {
	if l.RoPE == 0 {
		return l.Frequencies
	}
	all := make([]float64, size/2)
	for i := range all {
		all[i] = math.Pow(l.RoPE, -float64(i)/float64(len(all)))
	}
	return all
}

// attend is softmax(q·kᵀ/√size + mask)·v: q [n length heads size], k and v [n length groups
// size], y [n length heads·size]. The softmax is computed in float32.
func (l Attention) attend(scope *model.Scope, q, k, v *Node) *Node {
	d := q.Shape().Dimensions
	n, length, size, groups := d[0], d[1], d[3], k.Shape().Dimensions[2]
	q = Reshape(q, n, length, groups, l.Heads/groups, size)
	scores := float(Einsum("nqghs,nkgs->nghqk", q, k)) // [n groups heads/groups length length]
	scores = softCapped(MulScalar(scores, orDefault(l.Scale, 1/math.Sqrt(float64(size)))), l.SoftCap)
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
	if mask := masks(scope, g); mask != nil { // finite, so that a row of nothing but padding has no NaN
		if !slices.Equal(mask.Shape().Dimensions, []int{n, length}) {
			panic(fmt.Errorf("models.PaddingMask was given %v: want %v, for attention of x", mask.Shape().Dimensions, []int{n, length}))
		}
		scores = Where(BroadcastToDims(Reshape(mask, n, 1, 1, 1, length), scores.Shape().Dimensions...), scores, FillScalar(g, scores.Shape(), -1e30))
	}
	weights := Softmax(scores, -1)
	weights = Dropout{Rate: l.Dropout}.Apply(scope, weights)
	y := Einsum("nghqk,nkgs->nqghs", ConvertDType(weights, v.DType()), v)
	return Reshape(y, n, length, l.Heads*size)
}

// PaddingMask says which time steps of sequences are there and no padding, by numbers other than 0 in
// mask [n length]: attention of layers that are called with the scope from then on, or with one
// inside of it, does not see the others. It is for a Function, which has the mask as an input.
func PaddingMask(scope *model.Scope, mask *Node) {
	if mask.Rank() != 2 {
		panic(fmt.Errorf("models.PaddingMask got an array of rank %d: want [n length]", mask.Rank()))
	}
	scope.SetGraphParam(mask.Graph(), maskParam, NotEqual(mask, ZerosLike(mask)))
}

// maskParam is the parameter of a scope in a graph that holds what PaddingMask was given.
const maskParam = "gaiden_mask"

// masks is what PaddingMask was given, nil if nothing.
func masks(scope *model.Scope, g *Graph) *Node {
	mask, _ := scope.GetGraphParam(g, maskParam)
	node, _ := mask.(*Node)
	return node
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

// rotated turns pairs of numbers of each head by angles that grow with the time step, the
// first half of the head with the second, as Llama does: x is [n length heads size]. With fewer
// frequencies than pairs the end of each head stays as it is.
func rotated(x *Node, frequencies []float64) *Node {
	g, d := x.Graph(), x.Shape().Dimensions
	length, half := d[1], len(frequencies)
	angle := Mul(Iota(g, shapes.Make(dtypes.Float32, length, half), 0), Reshape(ConvertDType(Const(g, frequencies), dtypes.Float32), 1, half))
	angle = Reshape(angle, 1, length, 1, half)
	cos, sin := Cos(angle), Sin(angle)
	part := func(from, to int) *Node { return float(SliceAxis(x, 3, AxisRange(from, to))) }
	a, b := part(0, half), part(half, 2*half)
	parts := []*Node{Sub(Mul(a, cos), Mul(b, sin)), Add(Mul(b, cos), Mul(a, sin))}
	if 2*half < d[3] {
		parts = append(parts, part(2*half, d[3]))
	}
	return ConvertDType(Concatenate(parts, -1), x.DType())
}
