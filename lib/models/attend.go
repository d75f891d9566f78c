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

// Attending says which keys a query sees in [Lowering.Attend], and how the dot products
// of queries and keys become weights of values. The zero value is softmax(q·kᵀ/√size)·v over all
// keys (Vaswani et al., 2017). A query that sees no key gets zeros.
type Attending struct {
	Scale   float64 // of the dot products; default: 1/√size
	SoftCap float64 // scores are SoftCap·tanh(score/SoftCap), as in Gemma 2; 0: they have no limit
	Causal  bool    // a query does not see keys after its own position
	Window  int     // a query sees no keys at a distance of Window or more; 0: at any
	ALiBi   bool    // scores get smaller with the distance (Press et al., 2022)
	// Offset is the position of the first query among the keys, int32, a scalar or [n]: how
	// many keys a cache had before; nil: 0.
	Offset *Node
	// Lengths is how many keys of each example there are, int32 [n]: those after them are
	// padding; nil: all.
	Lengths *Node
	// QuerySegments [n length] and KeySegments [n keys] are the numbers, int32, of the texts
	// that were packed into one sequence: a query sees keys of its own only; nil: all.
	QuerySegments, KeySegments *Node
	// Dropout is the share of weights that are zeroed while Scope's net is trained. Scope
	// draws the random numbers.
	Dropout float64
	Scope   *model.Scope
}

// Attend is attention with all scores in memory, in GoMLX's own operations: q [n length heads
// size], k and v [n keys groups size], y [n length heads size]. Scores and weights are
// float32.
func Attend(q, k, v *Node, a Attending) *Node {
	weights := a.weights(q, k, v)
	if a.Dropout > 0 {
		weights = Dropout{Rate: a.Dropout}.Apply(a.Scope, weights)
	}
	y := Einsum("nghqk,nkgs->nqghs", ConvertDType(weights, v.DType()), v)
	return Reshape(y, q.Shape().Dimensions...)
}

// weights are those of the values, before dropout: [n groups heads/groups length keys].
func (a Attending) weights(q, k, v *Node) *Node {
	a.Check(q, k, v)
	d, keys, groups := q.Shape().Dimensions, k.Shape().Dimensions[1], k.Shape().Dimensions[2]
	n, length, heads, size := d[0], d[1], d[2], d[3]
	g := q.Graph()
	q = Reshape(q, n, length, groups, heads/groups, size)
	scores := MulScalar(float(Einsum("nqghs,nkgs->nghqk", q, k)), a.ScaleOf(size)) // [n groups heads/groups length keys]
	square := shapes.Make(dtypes.Int32, length, keys)
	part := ScoreTile{Query: Iota(g, square, 0), Key: Iota(g, square, 1), HeadAxis: 2}
	if a.QuerySegments != nil {
		part.QuerySegments, part.KeySegments = Reshape(a.QuerySegments, n, 1, 1, length, 1), Reshape(a.KeySegments, n, 1, 1, 1, keys)
	}
	scores, seen := a.Scores(scores, part)
	switch {
	case seen == nil:
		return Softmax(scores, -1)
	case a.Sees(length, keys):
		return Softmax(Where(seen, scores, FillScalar(g, scores.Shape(), math.Inf(-1))), -1)
	}
	// With -∞ only, a row would be NaN.
	weights := Softmax(Where(seen, scores, FillScalar(g, scores.Shape(), -math.MaxFloat32)), -1)
	return Where(seen, weights, ZerosLike(weights))
}

// ScaleOf is Scale, or its default for heads of a size.
func (a Attending) ScaleOf(size int) float64 { return cmp.Or(a.Scale, 1/math.Sqrt(float64(size))) }

// Sees says whether each of so many queries is known to see a key.
func (a Attending) Sees(length, keys int) bool {
	return a.Offset == nil && a.Lengths == nil && a.QuerySegments == nil && (length <= keys || !a.Causal && a.Window == 0)
}

func (a Attending) check() error {
	err := cmp.Or(usual("Window", a.Window, "all keys"), share("Dropout", a.Dropout))
	for name, x := range map[string]float64{"Scale": a.Scale, "SoftCap": a.SoftCap} {
		if !(x >= 0) || math.IsInf(x, 0) {
			err = fmt.Errorf("%s is %g: want more than 0, or 0 for its default", name, x)
		}
	}
	return err
}

// Check panics where settings are senseless, or the shapes do not fit.
func (a Attending) Check(q, k, v *Node) {
	must(a)
	d, e := q.Shape().Dimensions, k.Shape().Dimensions
	if q.Rank() != 4 || k.Rank() != 4 || !v.Shape().Equal(k.Shape()) || d[0] != e[0] || d[3] != e[3] || d[2]%e[2] != 0 {
		panic(fmt.Errorf("attention of queries %s, keys %s and values %s: want [n length heads size] and twice [n keys groups size], with heads a multiple of groups", q.Shape(), k.Shape(), v.Shape()))
	}
	fits := func(name string, x *Node, dims ...int) {
		if x != nil && !x.Shape().Equal(shapes.Make(dtypes.Int32, dims...)) {
			panic(fmt.Errorf("attention: %s is %s: want %s", name, x.Shape(), shapes.Make(dtypes.Int32, dims...)))
		}
	}
	if a.Offset != nil && a.Offset.Rank() > 0 {
		fits("Offset", a.Offset, d[0])
	} else {
		fits("Offset", a.Offset)
	}
	fits("Lengths", a.Lengths, d[0])
	fits("QuerySegments", a.QuerySegments, d[0], d[1])
	fits("KeySegments", a.KeySegments, d[0], e[1])
	if (a.QuerySegments == nil) != (a.KeySegments == nil) {
		panic(fmt.Errorf("attention: one of QuerySegments and KeySegments is nil: want both or none"))
	}
}

// ScoreTile is some of the queries and keys, for [Attending.Scores].
type ScoreTile struct {
	Query, Key                 *Node // their numbers, int32, which broadcast to the dot products
	QuerySegments, KeySegments *Node // of rank 5, which broadcast to the dot products; nil: none
	HeadAxis                   int   // of the dot products' heads/groups
}

// Scores are what the softmax takes of scaled dot products of some queries and keys, float32 [n
// groups …]: the other axes are heads/groups, queries and keys in any order. seen says which
// keys a query sees, of the same shape; nil: all.
func (a Attending) Scores(products *Node, p ScoreTile) (scores, seen *Node) {
	g, d := products.Graph(), products.Shape().Dimensions
	scores = products
	if a.SoftCap > 0 {
		scores = MulScalar(Tanh(DivScalar(scores, a.SoftCap)), a.SoftCap)
	}
	if a.Causal || a.Window > 0 || a.ALiBi {
		at := p.Query
		if o := a.Offset; o != nil {
			at = Add(ExpandLeftToRank(at, 5), Reshape(o, o.Shape().Size(), 1, 1, 1, 1))
		}
		rank := max(at.Rank(), p.Key.Rank())
		distance := Sub(ExpandLeftToRank(at, rank), ExpandLeftToRank(p.Key, rank)) // from a query back to a key
		if a.ALiBi {
			far := distance
			if !a.Causal {
				far = Abs(far)
			}
			slopes := []int{1, d[1], 1, 1, 1}
			slopes[p.HeadAxis] = d[p.HeadAxis]
			scores = Sub(scores, Mul(ExpandLeftToRank(ConvertDType(far, dtypes.Float32), 5), Reshape(alibi(g, d[1]*d[p.HeadAxis]), slopes...)))
		}
		if a.Causal {
			seen = GreaterOrEqual(distance, ZerosLike(distance))
		}
		if a.Window > 0 {
			width := FillScalar(g, distance.Shape(), float64(a.Window))
			seen = both(seen, LessThan(distance, width))
			if !a.Causal {
				seen = both(seen, LessThan(Neg(distance), width))
			}
		}
	}
	if a.Lengths != nil {
		there := LessThan(ExpandLeftToRank(p.Key, 5), Reshape(a.Lengths, d[0], 1, 1, 1, 1))
		seen = both(seen, there)
	}
	if p.QuerySegments != nil {
		seen = both(seen, Equal(p.QuerySegments, p.KeySegments))
	}
	if seen != nil {
		seen = BroadcastToDims(ExpandLeftToRank(seen, 5), d...)
	}
	return scores, seen
}

func both(a, b *Node) *Node {
	if a == nil {
		return b
	}
	rank := max(a.Rank(), b.Rank())
	return LogicalAnd(ExpandLeftToRank(a, rank), ExpandLeftToRank(b, rank))
}

// alibi are the heads' slopes: 2^(-8·head/heads) for powers of two, and for other numbers of
// heads as ALiBi's authors have it.
func alibi(g *Graph, heads int) *Node {
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
	return Const(g, all)
}
