package xla

import (
	"math"

	"github.com/gomlx/compute"
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/gradient"
	"gaiden/lib/lower"
	"gaiden/lib/models"
)

// Attend is attention, in the form that package lower chooses.
func (l Lowering) Attend(q, k, v *Node, a models.Attending) *Node {
	a.Check(q, k, v)
	d, e := q.Shape().Dimensions, k.Shape().Dimensions
	shape := lower.Attention{N: d[0], Queries: d[1], Keys: e[1], Heads: d[2], Groups: e[2], Size: d[3], Window: a.Window, DType: q.DType(), Causal: a.Causal,
		Masked: a.SoftCap > 0 || a.ALiBi || a.Offset != nil || a.QuerySegments != nil || a.Dropout > 0 || a.Causal && d[1] != e[1] || a.Lengths != nil && a.Window > 0}
	if l.Attends != nil {
		l.Attends(shape)
	}
	c := shape.Choose(l.Target, l.Options)
	if c.Form != lower.BlockwiseAttention && (c.Form != lower.CuDNNAttention || l.Calls == nil) {
		return models.Attend(q, k, v, a)
	}
	if a.Dropout > 0 && a.Scope.IsTraining(q.Graph()) { // models.Attend would draw other numbers
		return newBlockwise(q, k, v, a, c).attend()
	}
	return gradient.Lowered([]*Node{q, k, v}, func(in []*Node) *Node {
		if c.Form == lower.BlockwiseAttention {
			return newBlockwise(in[0], in[1], in[2], a, c).attend()
		}
		return l.flash(in[0], in[1], in[2], a)
	}, func(in []*Node) *Node {
		return models.Attend(in[0], in[1], in[2], a)
	})
}

// flash is attention by cuDNN.
func (l Lowering) flash(q, k, v *Node, a models.Attending) *Node {
	f := Flash{a.ScaleOf(q.Shape().Dimensions[3]), a.Causal, a.Window}
	if keys := k.Shape().Dimensions[1]; f.Window >= keys {
		f.Window = 0
	}
	var lengths []*Node
	seen := func(x *Node) *Node { return x }
	if a.Lengths != nil { // cuDNN wants a key for each example, and reads no more than there are
		there := ClipScalar(a.Lengths, 1, float64(k.Shape().Dimensions[1]))
		lengths = []*Node{AddScalar(ZerosLike(a.Lengths), float64(q.Shape().Dimensions[1])), there}
		some := GreaterThan(a.Lengths, ZerosLike(a.Lengths))
		seen = func(x *Node) *Node { // without what examples of no keys have
			d := x.Shape().Dimensions
			return Where(BroadcastToDims(Reshape(some, d[0], 1, 1, 1), d...), x, ZerosLike(x))
		}
	}
	y, statistics := l.Calls.Attention(f, q, k, v, lengths...)
	return gradient.Define(seen(y), []*Node{q, k, v}, func(dy *Node) []*Node {
		return l.Calls.AttentionGradient(f, q, k, v, statistics, seen(dy), y, lengths...)
	})
}

// blockwise is attention by blocks of queries and keys (Rabe & Staats, 2021; Dao, 2023,
// "FlashAttention-2"): a loop over blocks of queries holds one over the blocks of keys that
// they see, with a softmax whose maximum and sum are corrected from block to block. The
// backward pass computes the weights again. No array has both a length of all queries and one
// of all keys, and the text does not grow with either.
//
// A block's scores are [n groups keys heads/groups queries]: a CPU reduces the axis of keys
// with all its lanes, as it is not the last one.
type blockwise struct {
	models.Attending
	wrt     []*Node // q, k, v, which have gradients
	q, k, v *Node   // float32, [blocks n groups heads/groups queries size], [blocks n groups keys size]

	n, groups, each, size             int
	queries, keys                     int // how many there are
	wide, tall                        int // queries and keys of a block
	queryBlocks, keyBlocks            int
	zero, one                         *Node
	querySegments, keySegments, state *Node // [blocks …]; nil: none. state is of random numbers
}

func newBlockwise(q, k, v *Node, a models.Attending, c lower.AttentionChoice) *blockwise {
	d, e := q.Shape().Dimensions, k.Shape().Dimensions
	g := q.Graph()
	b := &blockwise{Attending: a, wrt: []*Node{q, k, v}, n: d[0], groups: e[2], each: d[2] / e[2], size: d[3], queries: d[1], keys: e[1],
		wide: min(c.Queries, d[1]), tall: min(c.Keys, e[1]), zero: Const(g, int32(0)), one: Const(g, int32(1))}
	b.queryBlocks, b.keyBlocks = (b.queries+b.wide-1)/b.wide, (b.keys+b.tall-1)/b.tall
	b.q, b.k, b.v = b.queryBlocksOf(q), b.keyBlocksOf(k), b.keyBlocksOf(v)
	if a.QuerySegments != nil {
		b.querySegments = TransposeAllAxes(Reshape(padded(a.QuerySegments, b.wide), b.n, b.queryBlocks, b.wide), 1, 0, 2)
		b.keySegments = TransposeAllAxes(Reshape(padded(a.KeySegments, b.tall), b.n, b.keyBlocks, b.tall), 1, 0, 2)
	}
	if a.Dropout > 0 && a.Scope.IsTraining(g) {
		b.state = randomState(a.Scope, g)
	}
	// GoMLX makes each scalar constant once in a graph, and one made inside a loop is out of
	// sight after it: those of Scores are made here.
	b.scores(Zeros(g, shapes.Make(dtypes.Float32, b.block()...)), b.zero, b.zero)
	if b.state != nil {
		b.kept(b.zero, b.zero)
	}
	return b
}

// padded is x with zeros after it on axis 1, up to a multiple.
func padded(x *Node, multiple int) *Node {
	lack := (multiple - x.Shape().Dimensions[1]%multiple) % multiple
	if lack == 0 {
		return x
	}
	pads := make([]compute.PadAxis, x.Rank())
	pads[1].End = lack
	return Pad(x, ScalarZero(x.Graph(), x.DType()), pads...)
}

// randomState is a state for random numbers of its own, one of those of a net's generator.
func randomState(scope *model.Scope, g *Graph) *Node {
	v := scope.Store().GetVariable("/" + model.RNGStateVariableName)
	next, own := RNGStateSplit(v.NodeValue(g))
	v.SetNodeValue(next)
	return StopGradient(own)
}

func (b *blockwise) queryBlocksOf(x *Node) *Node { // [n length heads size]
	x = Reshape(padded(float(StopGradient(x)), b.wide), b.n, b.queryBlocks, b.wide, b.groups, b.each, b.size)
	return alone(TransposeAllAxes(x, 1, 0, 3, 4, 2, 5))
}

func (b *blockwise) keyBlocksOf(x *Node) *Node { // [n keys groups size]
	x = Reshape(padded(float(StopGradient(x)), b.tall), b.n, b.keyBlocks, b.tall, b.groups, b.size)
	return alone(TransposeAllAxes(x, 1, 0, 3, 2, 4))
}

// block are the dimensions of a block's scores.
func (b *blockwise) block() []int { return []int{b.n, b.groups, b.tall, b.each, b.wide} }

// scores are those of scaled dot products of block i of the queries and j of the keys.
func (b *blockwise) scores(products, i, j *Node) *Node {
	g := products.Graph()
	numbers := func(block *Node, count int) *Node {
		return Add(Iota(g, shapes.Make(dtypes.Int32, count), 0), Mul(block, Const(g, int32(count))))
	}
	query, key := numbers(i, b.wide), Reshape(numbers(j, b.tall), b.tall, 1, 1)
	p := models.ScoreTile{Query: query, Key: key, HeadAxis: 3}
	if b.querySegments != nil {
		p.QuerySegments = Reshape(partAt(b.querySegments, i, b.zero), b.n, 1, 1, 1, b.wide)
		p.KeySegments = Reshape(partAt(b.keySegments, j, b.zero), b.n, 1, b.tall, 1, 1)
	}
	scores, seen := b.Scores(products, p)
	if b.keys%b.tall != 0 {
		there := BroadcastToDims(ExpandLeftToRank(LessThan(key, Const(g, int32(b.keys))), 5), b.block()...)
		if seen == nil {
			seen = there
		} else {
			seen = LogicalAnd(seen, there)
		}
	}
	if seen == nil {
		return scores
	}
	return Where(seen, scores, BroadcastToDims(Const(g, float32(math.Inf(-1))), b.block()...))
}

// kept are the factors of weights by dropout, in block i of the queries and j of the keys.
func (b *blockwise) kept(i, j *Node) *Node {
	g := i.Graph()
	number := ConvertDType(Add(Mul(i, Const(g, int32(b.keyBlocks))), j), dtypes.Uint64)
	add := Mul(Reshape(number, 1), Const(g, []uint64{0, 1 << 32, 0})) // 2³² numbers for each block
	_, random := RandomUniform(Add(b.state, add), shapes.Make(dtypes.Float32, b.block()...))
	keep := GreaterOrEqual(random, BroadcastToDims(Const(g, float32(b.Dropout)), b.block()...))
	return Mul(ConvertDType(keep, dtypes.Float32), Const(g, float32(1/(1-b.Dropout))))
}

// seenKeys are the first block of keys that block i of the queries sees some of, and the one
// after the last.
func (b *blockwise) seenKeys(i *Node) (from, to *Node) {
	g := i.Graph()
	number := func(n int) *Node { return Const(g, int32(n)) }
	from, to = b.zero, number(b.keyBlocks)
	if b.Lengths != nil {
		most := ReduceAllMax(b.Lengths)
		to = Min(to, Div(Add(most, number(b.tall-1)), number(b.tall)))
	}
	first := Mul(i, number(b.wide)) // position of the block's first query
	last := Add(first, number(b.wide-1))
	if b.Offset != nil {
		first, last = Add(first, ReduceAllMin(b.Offset)), Add(last, ReduceAllMax(b.Offset))
	}
	if b.Window > 0 {
		from = Div(Max(Sub(first, number(b.Window-1)), b.zero), number(b.tall))
		if !b.Causal {
			last = Add(last, number(b.Window-1))
		}
	}
	if b.Causal || b.Window > 0 {
		to = Min(to, Add(Div(Max(last, number(-1)), number(b.tall)), b.one))
	}
	return from, to
}

// products are those of queries [n groups heads/groups queries size] and keys [n groups keys
// size], or of what has such shapes: as scores.
func (b *blockwise) products(queries, keys *Node) *Node {
	return DotGeneral(keys, []int{3}, []int{0, 1}, queries, []int{4}, []int{0, 1})
}

func (b *blockwise) scaled(products *Node) *Node {
	return Mul(products, number(products, b.ScaleOf(b.size)))
}

// overKeys is the axis of keys in a block's scores.
const overKeys = 2

// attend is the result [n length heads size], which has gradients.
func (b *blockwise) attend() *Node {
	g := b.q.Graph()
	row := shapes.Make(dtypes.Float32, b.n, b.groups, b.each, b.wide)
	many := func(s shapes.Shape) *Node {
		return Zeros(g, shapes.Make(dtypes.Float32, append([]int{b.queryBlocks}, s.Dimensions...)...))
	}
	some := shapes.Make(dtypes.Float32, append(row.Clone().Dimensions, b.size)...)
	never := BroadcastToDims(Const(g, float32(math.Inf(-1))), row.Dimensions...)
	none, empty, full := Zeros(g, row), Zeros(g, some), Const(g, float32(1))
	out := loop(b.zero, Const(g, int32(b.queryBlocks)), b.one, []*Node{many(some), many(row)}, func(i *Node, s []*Node) []*Node {
		q := partAt(b.q, i, b.zero)
		from, to := b.seenKeys(i)
		end := loop(from, to, b.one, []*Node{never, none, empty}, func(j *Node, s []*Node) []*Node {
			scores := alone(b.scores(b.scaled(b.products(q, partAt(b.k, j, b.zero))), i, j))
			most := Max(s[0], ReduceMax(scores, overKeys))
			level := Where(Equal(most, never), none, most) // rows that have seen nothing yet
			weights := Exp(Sub(scores, InsertAxes(level, overKeys)))
			correct := Exp(Sub(s[0], level))
			sum := Add(Mul(s[1], correct), ReduceSum(weights, overKeys))
			if b.state != nil {
				weights = Mul(weights, b.kept(i, j))
			}
			more := DotGeneral(weights, []int{overKeys}, []int{0, 1}, partAt(b.v, j, b.zero), []int{2}, []int{0, 1})
			return []*Node{most, sum, Add(Mul(s[2], InsertAxes(correct, -1)), more)}
		})
		sum := Where(Equal(end[1], none), BroadcastToDims(full, row.Dimensions...), end[1])
		level := Where(Equal(end[1], none), none, end[0])
		return []*Node{withPart(s[0], Div(end[2], InsertAxes(sum, -1)), i, b.zero), withPart(s[1], Add(level, Log(sum)), i, b.zero)}
	})
	y := b.joined(out[0], b.queries, b.groups*b.each)
	if t := b.wrt[2].DType(); y.DType() != t {
		y = ConvertDType(y, t)
	}
	return gradient.Define(y, b.wrt, func(v *Node) []*Node {
		return gradient.Once(b.back(out[0], out[1], v), append(b.wrt, v), "attention in blocks with dropout")
	})
}

// joined are blocks [blocks n groups … rows size] as [n rows heads size].
func (b *blockwise) joined(blocks *Node, rows, heads int) *Node {
	d := blocks.Shape().Dimensions
	if blocks.Rank() == 6 {
		blocks = TransposeAllAxes(blocks, 1, 0, 4, 2, 3, 5)
	} else {
		blocks = TransposeAllAxes(blocks, 1, 0, 3, 2, 4)
	}
	x := Reshape(blocks, b.n, d[0]*d[len(d)-2], heads, b.size)
	return Slice(x, AxisRange(), AxisRange(0, rows))
}

// back are the gradients of queries, keys and values by that of the result. logs are the
// logarithms of the sums by which weights were divided.
func (b *blockwise) back(y, logs, gradient *Node) []*Node {
	g := b.q.Graph()
	v := b.queryBlocksOf(gradient)
	delta := ReduceSum(Mul(v, y), -1) // [blocks n groups heads/groups queries]
	block := func(rows *Node) *Node { return InsertAxes(rows, overKeys) }
	end := loop(b.zero, Const(g, int32(b.queryBlocks)), b.one, []*Node{ZerosLike(b.q), ZerosLike(b.k), ZerosLike(b.v)}, func(i *Node, s []*Node) []*Node {
		q, v, log, delta := partAt(b.q, i, b.zero), partAt(v, i, b.zero), partAt(logs, i, b.zero), partAt(delta, i, b.zero)
		from, to := b.seenKeys(i)
		state := []*Node{ZerosLike(q), s[1], s[2]}
		end := loop(from, to, b.one, state, func(j *Node, s []*Node) []*Node {
			k := partAt(b.k, j, b.zero)
			products := b.scaled(b.products(q, k))
			weights := alone(Exp(Sub(b.scores(products, i, j), block(log))))
			dropped, arrived := weights, b.products(v, partAt(b.v, j, b.zero))
			if b.state != nil {
				kept := b.kept(i, j)
				dropped, arrived = Mul(weights, kept), Mul(arrived, kept)
			}
			slope := b.scaled(Mul(weights, Sub(arrived, block(delta))))
			if b.SoftCap > 0 {
				slope = Mul(slope, Sub(number(slope, 1), Square(Tanh(Div(products, number(slope, b.SoftCap))))))
			}
			slope = alone(slope)
			toValues := DotGeneral(dropped, []int{3, 4}, []int{0, 1}, v, []int{2, 3}, []int{0, 1}) // [n groups keys size]
			toKeys := DotGeneral(slope, []int{3, 4}, []int{0, 1}, q, []int{2, 3}, []int{0, 1})
			toQueries := DotGeneral(slope, []int{overKeys}, []int{0, 1}, k, []int{2}, []int{0, 1}) // [n groups heads/groups queries size]
			add := func(all, more *Node) *Node {
				return withPart(all, alone(Add(partAt(all, j, b.zero), more)), j, b.zero)
			}
			return []*Node{Add(s[0], toQueries), add(s[1], toKeys), add(s[2], toValues)}
		})
		return []*Node{withPart(s[0], end[0], i, b.zero), end[1], end[2]}
	})
	heads := b.groups * b.each
	return []*Node{b.joined(end[0], b.queries, heads), b.joined(end[1], b.keys, b.groups), b.joined(end[2], b.keys, b.groups)}
}
