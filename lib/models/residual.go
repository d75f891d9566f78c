package models

import (
	"errors"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"
)

// Residual adds what some layers make of x to x itself, or to what other layers
// make of it (He et al., 2015).
type Residual struct {
	Name string
	Main []Layer // at least one; each with weights has a name of its own
	Skip []Layer // none: x as it is
	Act  Act     // of the sum
}

func (l Residual) Title() (name, kind string) { return l.Name, "Residual" }

// Apply takes any x that the layers take.
func (l Residual) Apply(scope *model.Scope, x *Node) *Node {
	must(l)
	lowering := loweringOf(x.Graph())
	if len(l.Skip) == 0 {
		lowering.Fork(x)
	}
	main, skip := sequence(l.Main, scope, x), sequence(l.Skip, scope, x)
	if !main.Shape().Equal(skip.Shape()) {
		panic(fmt.Errorf("branches return %s and %s: want one shape", main.Shape(), skip.Shape()))
	}
	if len(l.Skip) == 0 {
		return l.Act.of(lowering.Join(x, main))
	}
	return l.Act.of(Add(main, skip))
}

func (l Residual) branches() []branch { return []branch{{"Main", l.Main}, {"Skip", l.Skip}} }
func (l Residual) check() error {
	if len(l.Main) == 0 {
		return errors.New("Main has no layers: want at least one")
	}
	return checkBranches(l)
}
