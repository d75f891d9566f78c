package models

import (
	"errors"
	"fmt"
	"path"

	"github.com/gomlx/compute/dtypes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Tied is the last layer of a language model that has the table of an [Embedding] for its
// weights (Press & Wolf, 2017), as in GPT-2:
//
//	models.Embedding{Name: "tokens", Vocab: 50257, Units: 768},
//	…
//	models.Tied{Of: "tokens"}
type Tied struct {
	Name   string
	Of     string // name of an Embedding before it in the same list of layers
	Biases bool   // adds biases [vocab], which begin with zeros
}

func (l Tied) Title() (name, kind string) { return l.Name, "Tied" }

func (l Tied) check() error {
	if l.Of == "" {
		return errors.New(`Of is "": want the name of an Embedding`)
	}
	return nil
}

// Apply takes x shaped [… units] and returns logits [… vocab].
func (l Tied) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	g := x.Graph()
	at := path.Join(path.Dir(scope.Scope()), l.Of, "weights")
	v := scope.Store().GetVariable(at)
	if v == nil || v.Shape().Rank() != 2 {
		panic(fmt.Errorf("found no table %s: want Of to be the name of an Embedding before it in the same list of layers, got %q", at, l.Of))
	}
	if units := v.Shape().Dimensions[1]; lastAxis(x) != units {
		panic(fmt.Errorf("got vectors of %d: want %d, the Units of %s", lastAxis(x), units, l.Of))
	}
	d := x.Shape().Dimensions
	var biases *Node
	vocab := v.Shape().Dimensions[0]
	if l.Biases {
		biases = variable(scope, g, "biases", nil, Fill(0), vocab)
	}
	rows := Reshape(x, x.Shape().Size()/lastAxis(x), lastAxis(x))
	table := Transpose(v.NodeValue(g), 0, 1)
	var y *Node
	if v.DType() == dtypes.Int8 {
		scales := scope.Store().GetVariable(path.Join(path.Dir(at), "scales")).NodeValue(g)
		y = Mul(MatMul(rows, ConvertDType(table, rows.DType())), ConvertDType(Transpose(scales, 0, 1), rows.DType()))
		if biases != nil {
			y = loweringOf(g).AddBiases(y, biases)
		}
	} else {
		y = loweringOf(g).Dense(rows, Linear{W: table, Biases: biases})[0]
	}
	return Reshape(y, append(append([]int{}, d[:len(d)-1]...), vocab)...)
}
