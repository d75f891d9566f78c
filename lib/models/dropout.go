package models

import (
	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Dropout zeroes elements at random while the net is trained, and scales the
// others so that the mean stays (Srivastava et al., 2014). Otherwise it does
// nothing.
type Dropout struct {
	Name string
	Rate float64 // of elements that are zeroed: 0 or more, and less than 1
}

func (l Dropout) Title() (name, kind string) { return l.Name, "Dropout" }

// Apply takes any x.
func (l Dropout) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	g := x.Graph()
	if l.Rate == 0 || !scope.IsTraining(g) {
		return x
	}
	random := scope.RandomUniform(g, shapes.Make(dtypes.Float32, x.Shape().Dimensions...))
	keep := GreaterOrEqual(random, Scalar(g, dtypes.Float32, l.Rate))
	return Where(keep, MulScalar(x, 1/(1-l.Rate)), ZerosLike(x))
}
