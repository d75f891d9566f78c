package models

import (
	"fmt"
	"math"
	"reflect"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/ml/model"

	"gaiden/lib/activations"
	"gaiden/lib/elementwise/gomlx"
)

// Act is an activation: a function of each element, such as ReLU, or GoMLX's
// graph.Sigmoid, graph.Tanh and graph.Softplus. nil is the identity. Those of [Acts] have GPU kernels.
type Act func(x *graph.Node) *graph.Node

// Acts are the activations of package activations, by their names there.
var Acts = map[string]Act{
	"ReLU": ReLU, "Sigmoid": graph.Sigmoid, "Tanh": graph.Tanh,
	"SiLU": SiLU, "ELU": ELU, "LeakyReLU": LeakyReLU, "Softplus": graph.Softplus, "Hardswish": Hardswish, "GELU": GELU, "GELUTanh": GELUTanh,
}

// ReLU is max(x, 0). Its gradient at 0 is 0, as in PyTorch; NaN stays NaN.
func ReLU(x *graph.Node) *graph.Node { return gomlx.Apply(activations.ReLU.Expr(), x) }

// SiLU is x · sigmoid(x), also called swish.
func SiLU(x *graph.Node) *graph.Node { return gomlx.Apply(activations.SiLU.Expr(), x) }

// ELU is x, or exp(x) - 1 below 0.
func ELU(x *graph.Node) *graph.Node { return gomlx.Apply(activations.ELU.Expr(), x) }

// LeakyReLU is x, or x/100 below 0.
func LeakyReLU(x *graph.Node) *graph.Node { return gomlx.Apply(activations.LeakyReLU.Expr(), x) }

// GELU is x · (1 + erf(x/√2))/2.
func GELU(x *graph.Node) *graph.Node { return gomlx.Apply(activations.GELU.Expr(), x) }

// GELUTanh is GELU by its approximation with tanh.
func GELUTanh(x *graph.Node) *graph.Node { return gomlx.Apply(activations.GELUTanh.Expr(), x) }

// Hardswish is x · min(max(x + 3, 0), 6)/6.
func Hardswish(x *graph.Node) *graph.Node { return gomlx.Apply(activations.Hardswish.Expr(), x) }

// String is its name, if it is one of Acts.
func (a Act) String() string {
	switch found, known := a.Activation(); {
	case a == nil:
		return "none"
	case known:
		return found.Name()
	}
	return "a function"
}

func (a Act) of(x *graph.Node) *graph.Node {
	if a == nil {
		return x
	}
	return a(x)
}

// Is says whether both are one function, or both nil.
func (a Act) Is(b Act) bool { return reflect.ValueOf(a).Pointer() == reflect.ValueOf(b).Pointer() }

// Activation finds the activation that a function is.
func (a Act) Activation() (found activations.Activation, known bool) {
	if a == nil {
		return activations.Identity, true
	}
	for name, b := range Acts {
		if a.Is(b) {
			return activations.Named(name)
		}
	}
	return activations.Identity, false
}

// Activation is an activation as a layer of its own.
type Activation struct {
	Name string
	Act  Act
}

func (l Activation) Title() (name, kind string) { return l.Name, "Activation" }

// Apply takes any x.
func (l Activation) Apply(_ *model.Scope, x *graph.Node) *graph.Node { return l.Act.of(x) }

// PReLU is x where it is more than 0, and x times a weight of its channel elsewhere (He et al.,
// 2015).
type PReLU struct {
	Name   string
	Shared bool // one weight for all channels
	Init   Init // of the weights; default: 0.25
}

func (l PReLU) Title() (name, kind string) { return l.Name, "PReLU" }

// Apply takes any x of rank 2 or more.
func (l PReLU) Apply(scope *model.Scope, x *graph.Node) *graph.Node {
	n := lastAxis(x)
	if l.Shared {
		n = 1
	}
	slope := graph.ExpandLeftToRank(variable(scope, x.Graph(), "weights", l.Init, Fill(0.25), n), x.Rank())
	return graph.Where(graph.GreaterThan(x, graph.ZerosLike(x)), x, graph.Mul(x, slope)) // at 0 the slope is the weight, as in PyTorch
}

// SoftCap makes x limit·tanh(x/limit), which is within ±Limit, as Gemma 2 does with its logits.
type SoftCap struct {
	Name  string
	Limit float64
}

func (l SoftCap) Title() (name, kind string) { return l.Name, "SoftCap" }

func (l SoftCap) check() error {
	if l.Limit == 0 {
		return fmt.Errorf("Limit is 0: want more")
	}
	return limit("Limit", l.Limit)
}

// Apply takes any x.
func (l SoftCap) Apply(_ *model.Scope, x *graph.Node) *graph.Node {
	must(l)
	return softCapped(x, l.Limit)
}

// softCapped is x where there is no limit.
func softCapped(x *graph.Node, limit float64) *graph.Node {
	if limit == 0 {
		return x
	}
	return graph.MulScalar(graph.Tanh(graph.MulScalar(x, 1/limit)), limit)
}

// limit refuses a number below 0, or none.
func limit(name string, got float64) error {
	if !(got >= 0) || math.IsInf(got, 0) {
		return fmt.Errorf("%s is %g: want more than 0, or 0 for none", name, got)
	}
	return nil
}
