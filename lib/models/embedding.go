package models

import (
	"cmp"
	"fmt"
	"path"
	"slices"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Embedding is a table with a vector for each of Vocab ids, as token ids of a text are.
// Its examples are integers: ids from 0 to Vocab-1. In a program an id outside of that range
// is taken as the nearest one.
type Embedding struct {
	Name  string
	Vocab int // how many ids there are
	Units int // length of each vector
	// Scale is a factor of the vectors, such as √Units in Gemma; default: 1.
	Scale float64
	Init  Init // of the table, [vocab units]; default: Normal(0.02), as in GPT-2
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
	table := variable(scope, x.Graph(), "weights", l.Init, Normal(0.02), l.Vocab, l.Units)
	y := Gather(table, InsertAxes(x, -1), false)
	if l.Scale != 0 {
		y = MulScalar(y, l.Scale)
	}
	return y
}

// Unembedding is the product of x with the table of an [Embedding], for logits of a head whose
// weights are tied to it (Press and Wolf, 2017).
type Unembedding struct {
	Name string
	Of   string // the embedding's name; it stands before this layer in the net
	Bias bool   // adds biases [vocab]
}

func (l Unembedding) Title() (name, kind string) { return l.Name, "Unembedding" }

func (l Unembedding) check() error {
	if l.Of == "" {
		return fmt.Errorf("Of is empty: want the name of an Embedding before it")
	}
	return nil
}

// Apply takes x shaped [… units] and returns [… vocab].
func (l Unembedding) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	width := lastAxis(x)
	table := l.table(scope)
	if table == nil {
		panic(fmt.Errorf("there is no %s/weights: want the name of an Embedding before it in Of", l.Of))
	}
	if d := table.Shape().Dimensions; len(d) != 2 || d[1] != width {
		panic(fmt.Errorf("%s/weights are %v: want [vocab %d]", l.Of, d, width))
	}
	d := x.Shape().Dimensions
	y := Einsum("nu,vu->nv", Reshape(x, x.Shape().Size()/width, width), ConvertDType(table.NodeValue(x.Graph()), x.DType()))
	vocab := y.Shape().Dimensions[1]
	if l.Bias {
		y = loweringOf(x.Graph()).AddBiases(y, ConvertDType(variable(scope, x.Graph(), "biases", nil, Fill(0), vocab), y.DType()))
	}
	return Reshape(y, append(slices.Clone(d[:len(d)-1]), vocab)...)
}

// table is the embedding's variable, of the scope that is the nearest around this layer.
func (l Unembedding) table(scope *model.Scope) *model.Variable {
	for at := scope.Scope(); ; at = path.Dir(at) {
		if v := scope.Store().GetVariable(path.Join(at, l.Of, "weights")); v != nil || at == "/" {
			return v
		}
	}
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
	return Concatenate([]*Node{BroadcastToDims(Reshape(ConvertDType(token, x.DType()), 1, 1, d[2]), d[0], 1, d[2]), x}, 1)
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
	if length > l.Length {
		panic(fmt.Errorf("got sequences of %d time steps: want at most %d, its Length", length, l.Length))
	}
	table := variable(scope, x.Graph(), "weights", l.Init, Normal(0.02), l.Length, units)
	return Add(x, ExpandLeftToRank(Slice(table, AxisRange(0, length)), 3))
}

// sequences refuses what is not shaped [n length units].
func sequences(x *Node) {
	if x.Rank() != 3 {
		panic(fmt.Errorf("got an input of rank %d: want sequences shaped [n length units]", x.Rank()))
	}
}
