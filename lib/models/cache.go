package models

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Cache is what layers keep of the time steps that sequences had before: keys and values of
// an [Attention], states of recurrent layers, the end of what a causal [Conv1D] has seen.
// While a graph has one, a net takes the next time steps of n sequences, x [n length …], in
// place of whole sequences. Keys have slots: all sequences of a batch put theirs into the same
// ones, so a slot may hold nothing for a sequence that was shorter than others.
type Cache struct {
	CachePlace
	Count *Node // how many time steps there are, int32 [n]; those after them are padding
	// Old is an array as it was before these time steps; the first time, it is zeros.
	Old func(name string, shape shapes.Shape) *Node

	Names  []string // of the arrays, as the layers ask for them
	New    []*Node  // the arrays after these time steps
	Slots  []bool   // the array has slots, on axis 2
	Length int      // of the longest sequence that the net takes; 0: any
}

// CachePlace says where the time steps are that a net takes next.
type CachePlace struct {
	Position *Node // of the first time step, int32 [n]
	Slot     *Node // of the first time step, an int32 scalar
	At       *Node // position of the key in each slot, these time steps included, int32 [n slots]; -1: none
}

const cacheParam = "/gaiden/cache"

// SetCache lets the layers that are built in a graph from now on use a cache; nil: none.
func SetCache(g *Graph, c *Cache) { model.SetGraphParam(g, cacheParam, c) }

func cacheOf(g *Graph) *Cache {
	x, _ := model.GetGraphParam(g, cacheParam)
	c, _ := x.(*Cache)
	return c
}

// name is that of an array of a layer. One that is applied several times has as many.
func (c *Cache) name(scope *model.Scope, what string) string {
	name := strings.TrimPrefix(scope.Scope()+"/"+what, "/")
	for again := 2; slices.Contains(c.Names, name); again++ {
		name = fmt.Sprintf("%s/%s.%d", strings.TrimPrefix(scope.Scope(), "/"), what, again)
	}
	return name
}

// put is an array after the time steps.
func (c *Cache) put(name string, x *Node) *Node {
	c.Names, c.New, c.Slots = append(c.Names, name), append(c.New, x), append(c.Slots, false)
	return x
}

// positions are those of the time steps, int32 [n length].
func (c *Cache) positions(length int) *Node {
	n := c.Position.Shape().Dimensions[0]
	return Add(Iota(c.Position.Graph(), shapes.Make(dtypes.Int32, n, length), 1), BroadcastToDims(InsertAxes(c.Position, -1), n, length))
}

// from is a stretch of each sequence of x [n length …], from a number of its own on: [n width …].
func from(x, start *Node, width int) *Node {
	n := x.Shape().Dimensions[0]
	index := shapes.Make(dtypes.Int32, n, width)
	g := x.Graph()
	at := Add(Iota(g, index, 1), BroadcastToDims(InsertAxes(start, -1), n, width))
	return Gather(x, Stack([]*Node{Iota(g, index, 0), at}, 2))
}

// last is the last time step of each sequence of x [n length …] that is no padding, [n …].
func (c *Cache) last(x *Node) *Node {
	d := x.Shape().Dimensions
	if d[1] > 1 {
		x = from(x, Max(AddScalar(c.Count, -1), ZerosLike(c.Count)), 1)
	}
	return Reshape(x, append([]int{d[0]}, d[2:]...)...)
}

// after is a state [n …] after the time steps, of those after each of them, [n length …].
func (c *Cache) after(all, before *Node) *Node {
	d := all.Shape().Dimensions
	if d[1] > 1 {
		return Reshape(from(Concatenate([]*Node{InsertAxes(before, 1), all}, 1), c.Count, 1), before.Shape().Dimensions...)
	}
	there := Reshape(GreaterThan(c.Count, ZerosLike(c.Count)), append([]int{d[0]}, ones(len(d)-2)...)...)
	return Where(BroadcastToDims(there, before.Shape().Dimensions...), Reshape(all, before.Shape().Dimensions...), before)
}

func ones(n int) []int {
	l := make([]int, n)
	for i := range l {
		l[i] = 1
	}
	return l
}

// attend is attention of queries q [n length heads size] on the keys in the cache, with k and v
// [n length groups size] put there first.
func (c *Cache) attend(scope *model.Scope, q, k, v *Node, a Attending) *Node {
	if a.Offset != nil || a.Lengths != nil || a.QuerySegments != nil {
		panic(errors.New("attention with Offset, Lengths or segments of its own has no cache"))
	}
	d, groups, slots := q.Shape().Dimensions, k.Shape().Dimensions[2], c.At.Shape().Dimensions[1]
	n, length, heads, size := d[0], d[1], d[2], d[3]
	old := func(what string, x *Node) (name string, all *Node) { // [n groups slots size]
		name = c.name(scope, what)
		return name, c.Old(name, shapes.Make(x.DType(), n, groups, slots, size))
	}
	if length == 1 {
		nameOfKeys, keys := old("keys", k)
		nameOfValues, values := old("values", v)
		if y, keys, values := loweringOf(q.Graph()).AttendCached(q, k, v, keys, values, c.CachePlace, a); y != nil {
			c.put(nameOfKeys, keys)
			c.put(nameOfValues, values)
			c.Slots[len(c.Slots)-2], c.Slots[len(c.Slots)-1] = true, true
			return y
		}
	}
	zero := ZerosLike(c.Slot)
	put := func(what string, x *Node) *Node {
		name, old := old(what, x)
		x = DynamicUpdateSlice(old, OptimizationBarriers(TransposeAllAxes(x, 0, 2, 1, 3))[0], []*Node{zero, zero, c.Slot, zero})
		// By itself: else XLA would do it once more where it is read, and copy the whole array for that.
		return c.put(name, OptimizationBarriers(x)[0])
	}
	k, v = put("keys", k), put("values", v)
	c.Slots[len(c.Slots)-2], c.Slots[len(c.Slots)-1] = true, true
	q = Reshape(TransposeAllAxes(q, 0, 2, 1, 3), n, groups, heads/groups*length, size)
	scores := MulScalar(float(Einsum("ngqs,ngks->ngqk", q, k)), a.ScaleOf(size))
	scores = Reshape(scores, n, groups, heads/groups, length, slots)
	part := ScoreTile{Query: Reshape(c.positions(length), n, 1, 1, length, 1), Key: Reshape(c.At, n, 1, 1, 1, slots), HeadAxis: 2}
	a.Causal = true
	scores, seen := a.Scores(scores, part)
	there := GreaterOrEqual(part.Key, ZerosLike(part.Key))
	seen = LogicalAnd(seen, BroadcastToDims(there, scores.Shape().Dimensions...))
	// Padding may see nothing. Its rows are finite, for its values stay in the cache, with weight 0.
	weights := Softmax(Where(seen, scores, FillScalar(q.Graph(), scores.Shape(), -math.MaxFloat32)), -1)
	weights = Reshape(ConvertDType(weights, v.DType()), n, groups, heads/groups*length, slots)
	y := Reshape(Einsum("ngqk,ngks->ngqs", weights, v), n, heads, length, size)
	return TransposeAllAxes(y, 0, 2, 1, 3)
}

// continued is x [n length …] behind so many time steps before it.
func (c *Cache) continued(scope *model.Scope, x *Node, before int) *Node {
	if before == 0 {
		return x
	}
	d := x.Shape().Clone()
	d.Dimensions[1] = before
	name := c.name(scope, "before")
	x = Concatenate([]*Node{c.Old(name, d), x}, 1)
	c.put(name, from(x, c.Count, before))
	return x
}

// state takes a layer's states as they were, from what they begin with, and after puts what
// they are after each time step, [n length …], in their place.
func (c *Cache) state(scope *model.Scope, start []*Node) (old []*Node, after func(all []*Node)) {
	name := func(i int) string { return fmt.Sprint("state", i) }
	for i, s := range start {
		old = append(old, c.Old(c.name(scope, name(i)), s.Shape()))
	}
	return old, func(all []*Node) {
		for i, s := range old {
			c.put(c.name(scope, name(i)), c.after(all[i], s))
		}
	}
}

// scan is overTime from the states in the cache: x is [n length …].
func (c *Cache) scan(scope *model.Scope, x *Node, start []*Node, cell Cell) *Node {
	d := x.Shape().Dimensions
	old, after := c.state(scope, start)
	if d[1] == 1 {
		next, y := cell(old, Reshape(x, append([]int{d[0]}, d[2:]...)...))
		for i, s := range next {
			next[i] = InsertAxes(s, 1)
		}
		after(next)
		return InsertAxes(y, 1)
	}
	var made []*Node // by the cell, which returns its states too
	joined := timeFirst(loweringOf(x.Graph()).Scan(func(state []*Node, x *Node) ([]*Node, *Node) {
		next, y := cell(state, x)
		made = append([]*Node{y}, next...)
		var parts []*Node
		for _, s := range made {
			parts = append(parts, float(Reshape(s, d[0], s.Shape().Size()/d[0])))
		}
		return next, Concatenate(parts, 1)
	}, old, timeFirst(x), nil, false))
	var all []*Node
	at := 0
	for _, s := range made {
		width := s.Shape().Size() / d[0]
		part := SliceAxis(joined, 2, AxisRange(at, at+width))
		all = append(all, ConvertDType(Reshape(part, append([]int{d[0], d[1]}, s.Shape().Dimensions[1:]...)...), s.DType()))
		at += width
	}
	after(all[1:])
	return all[0]
}

// Stepwise says whether a net can be computed with a [Cache], time step by time step. unsure: it
// has a Function, or other layers of which only a trial tells.
func (n Net) Stepwise() (unsure bool, err error) {
	n = n.Listed()
	for i, name := range n.Names() {
		u, err := stepwise(n.Layers[i])
		if err != nil {
			return false, fmt.Errorf("layer %s %w", name, err)
		}
		unsure = unsure || u
	}
	return unsure, nil
}

func stepwise(layer Layer) (unsure bool, err error) {
	causal := func(yes bool, set string) error {
		if yes {
			return nil
		}
		return fmt.Errorf("sees time steps that come later: want %s", set)
	}
	switch l := layer.(type) {
	case Activation, BatchNorm, Dense, Dropout, Embedding, FeedForward, GRU, LSTM, LastStep, LayerNorm, Positions, RMSNorm, RNN, Scan, Tied:
		return false, nil
	case Bidirectional, Flatten, GroupNorm:
		_, kind := layer.Title()
		return false, fmt.Errorf("is a %s, which takes whole sequences", kind)
	case Attention:
		return false, causal(l.Causal, "Causal")
	case TransformerBlock:
		return false, causal(l.Causal, "Causal")
	case Conv1D:
		return false, causal(l.Stride <= 1 && (l.Causal || l.Kernel == 1), "Causal, and no Stride")
	case container:
		for _, b := range l.branches() {
			for _, inner := range b.layers {
				u, err := stepwise(inner)
				if err != nil {
					return false, err
				}
				unsure = unsure || u
			}
		}
		return unsure, nil
	}
	return true, nil
}
