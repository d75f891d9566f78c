package models

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Embedding is a table with a vector for each of Vocab ids, as token ids of a text are.
// Its examples are integers: ids from 0 to Vocab-1. An id outside of that range is an error where
// examples are uploaded. Of one that a net or a training step computes, or takes from a column
// next to numbers, the vector is NaN, which ends a training; while text is generated, it is taken as
// the nearest one.
type Embedding struct {
	Name  string
	Vocab int // how many ids there are
	Units int // length of each vector
	// Scale is a factor of the vectors, such as √Units in Gemma; default: 1.
	Scale float64
	Init  Init // of the table, [vocab units]; default: Normal(0.02), as in GPT-2
	// MaskZero masks the time steps whose id is 0 as padding, as in Keras: see [WithMask].
	MaskZero bool
}

func (l Embedding) Title() (name, kind string) { return l.Name, "Embedding" }

func (l Embedding) check() error {
	return cmp.Or(least("Vocab", l.Vocab, 1), least("Units", l.Units, 1), limit("Scale", l.Scale))
}

// Apply takes ids shaped [n …] and returns [n … units].
func (l Embedding) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	if !x.DType().IsInt() {
		panic(fmt.Errorf("got an input of %s: want integers, which ids are: examples as []int32", x.DType()))
	}
	noteVocab(x, l.Vocab)
	var y *Node
	if _, int8 := adaptation(scope); int8 {
		table, scales := int8Weights(scope, x.Graph(), l.Vocab, l.Units, l.Vocab, 1)
		at := InsertAxes(x, -1)
		y = Mul(ConvertDType(Gather(table, at, false), scales.DType()), Gather(scales, at, false))
		if kind := computes(scope); y.DType() != kind {
			y = ConvertDType(y, kind)
		}
	} else {
		table := variable(scope, x.Graph(), "weights", l.Init, Normal(0.02), l.Vocab, l.Units)
		y = loweringOf(x.Graph()).Lookup(table, x)
	}
	if l.Scale != 0 {
		y = MulScalar(y, l.Scale)
	}
	if !within(x, l.Vocab) {
		y = guarded(x, y, l.Vocab)
	}
	if l.MaskZero && cacheOf(x.Graph()) == nil {
		if x.Rank() != 2 {
			panic(fmt.Errorf("got ids of rank %d with MaskZero: want [n length]", x.Rank()))
		}
		y = WithMask(y, x)
	}
	return y
}

// ClassToken puts a learned vector before the first time step, as BERT's and ViT's class token
// (Dosovitskiy et al., 2021).
type ClassToken struct {
	Name string
	Init Init // of the vector, [units]; default: Normal(0.02)
}

func (l ClassToken) Title() (name, kind string) { return l.Name, "ClassToken" }

// Apply takes x shaped [n length units] and returns [n length+1 units].
func (l ClassToken) Apply(scope *model.Scope, x *Node) *Node {
	sequences(x)
	d := x.Shape().Dimensions
	token := variable(scope, x.Graph(), "weights", l.Init, Normal(0.02), d[2])
	y := Concatenate([]*Node{BroadcastToDims(Reshape(ConvertDType(token, x.DType()), 1, 1, d[2]), d[0], 1, d[2]), x}, 1)
	if mask := MaskOf(x); mask != nil {
		y = WithMask(y, Concatenate([]*Node{Ones(x.Graph(), shapes.Make(dtypes.Int32, d[0], 1)), ConvertDType(mask, dtypes.Int32)}, 1))
	}
	return y
}

// Positions adds a learned vector to each time step of a sequence, as GPT-2 and BERT do
// after an [Embedding].
type Positions struct {
	Name   string
	Length int  // of the longest sequence
	Init   Init // of the table, [length units]; default: Normal(0.02)
}

func (l Positions) Title() (name, kind string) { return l.Name, "Positions" }

func (l Positions) check() error { return least("Length", l.Length, 1) }

// Apply takes x shaped [n length units] and returns the same shape. Sequences may be
// shorter than Length.
func (l Positions) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	sequences(x)
	length, units := x.Shape().Dimensions[1], x.Shape().Dimensions[2]
	cache := cacheOf(x.Graph())
	if cache == nil && length > l.Length {
		panic(fmt.Errorf("got sequences of %d time steps: want at most %d, its Length", length, l.Length))
	}
	table := variable(scope, x.Graph(), "weights", l.Init, Normal(0.02), l.Length, units)
	if cache != nil {
		cache.Length = l.Length
		at := MinScalar(cache.positions(length), float64(l.Length-1)) // of padding it may be more
		return Add(x, Gather(table, InsertAxes(at, -1)))
	}
	return Add(x, ExpandLeftToRank(Slice(table, AxisRange(0, length)), 3))
}

// sequences refuses what is not shaped [n length units].
func sequences(x *Node) {
	if x.Rank() != 3 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length units]", x.Rank()))
	}
}

const vocabParam = "/gaiden/vocab"

// vocabUse is what embeddings know of the numbers of a node.
type vocabUse struct {
	whole  int // the least Vocab of those that take all numbers; 0: none does
	parts  int // the largest of those that take a part, such as a column
	inside int // how many numbers these take
}

// noteVocab notes how many ids an Embedding knows of a node that has the numbers of x, or some of
// them, in other dimensions.
func noteVocab(x *Node, vocab int) {
	size, part := x.Shape().Size(), false
	for slices.Contains([]NodeType{NodeTypeReshape, NodeTypeSlice, NodeTypeTranspose}, x.Type()) {
		part = part || x.Type() == NodeTypeSlice
		x = x.Inputs()[0]
	}
	all, _ := model.GetGraphParam(x.Graph(), vocabParam)
	known, is := all.(map[*Node]vocabUse)
	if !is {
		known = map[*Node]vocabUse{}
		model.SetGraphParam(x.Graph(), vocabParam, known)
	}
	u := known[x]
	switch {
	case part:
		u.parts, u.inside = max(u.parts, vocab), u.inside+size
	case u.whole == 0 || vocab < u.whole:
		u.whole = vocab
	}
	known[x] = u
}

const rangesParam = "/gaiden/ranges of ids"

// GuardIDs has the embeddings of a graph return NaN for ids outside of their range. Of some
// integers it is known that they are 0 or more, and less than a number.
func GuardIDs(g *Graph, known map[*Node]int) {
	all, _ := model.GetGraphParam(g, rangesParam)
	ranges, is := all.(map[*Node]int)
	if !is {
		ranges = map[*Node]int{}
		model.SetGraphParam(g, rangesParam, ranges)
	}
	maps.Copy(ranges, known)
}

// within says whether all ids are known to be in the range of a vocabulary, or nobody asks.
func within(ids *Node, vocab int) bool {
	all, _ := model.GetGraphParam(ids.Graph(), rangesParam)
	ranges, asked := all.(map[*Node]int)
	if !asked {
		return true
	}
	var visit func(x *Node) bool
	visit = func(x *Node) bool {
		if below := ranges[x]; below > 0 {
			return below <= vocab
		}
		switch x.Type() { // others' results are numbers of their first operand
		case NodeTypeConcatenate:
			return !slices.ContainsFunc(x.Inputs(), func(in *Node) bool { return !visit(in) })
		case NodeTypeReshape, NodeTypeTranspose, NodeTypeReverse, NodeTypeSlice, NodeTypeDynamicSlice, NodeTypeGather, NodeTypeBroadcastInDim, NodeTypeIdentity:
			return visit(x.Inputs()[0])
		}
		return false
	}
	return visit(ids)
}

// guarded is y, vectors of some ids, and NaN for ids that are none.
func guarded(ids, y *Node, vocab int) *Node {
	if ids.DType() != dtypes.Int32 {
		ids = ConvertDType(ids, dtypes.Int64)
	}
	is := LogicalAnd(GreaterOrEqual(ids, ZerosLike(ids)), LessThan(ids, Scalar(ids.Graph(), ids.DType(), vocab)))
	return Where(BroadcastToDims(InsertAxes(is, -1), y.Shape().Dimensions...), y, Scalar(y.Graph(), y.DType(), math.NaN()))
}

// VocabOf is how many ids the embeddings know that have taken the numbers of a node as they are; 0:
// not all numbers are ids, as in a table of which one column is a category.
func VocabOf(ids *Node) int {
	all, _ := model.GetGraphParam(ids.Graph(), vocabParam)
	known, _ := all.(map[*Node]vocabUse)
	u := known[ids]
	if u.whole == 0 && u.inside >= ids.Shape().Size() {
		return u.parts
	}
	return u.whole
}
