// Package optim has optimizers. Formulas and defaults are PyTorch's (Lion's are the
// paper's). A setting of 0 is its default.
//
//	config := fit.Config{Optimizer: optim.RMSprop{Momentum: 0.9}}
//
// Some optimizers wrap another one, and can be combined: [Scheduled] changes the learning
// rate, [Clipped] clips the gradients, [EMA] and [SWA] average the weights, and [Groups]
// gives variables settings by their names:
//
//	optim.Groups{Optimizer: optim.AdamW{}, Groups: []optim.Group{
//		{Names: []string{"body/*"}, Frozen: true},
//		{Names: []string{"*/biases", "*/scale"}, NoDecay: true},
//	}}
//
// A new optimizer is a type with a method Rule, and a line in [All]. Rule returns the step
// as element-wise expressions, from which GoMLX's operations, the GPU kernels and the CPU's
// own step are generated.
package optim

import (
	"fmt"
	"math"
	"reflect"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/elementwise/gomlx"
)

// Optimizer changes weights by their gradients.
type Optimizer interface {
	// Title names the optimizer, and the arrays it keeps for each weight.
	Title() (name string, moments []string)
	// Rate is the learning rate.
	Rate() float64
	// Update returns a weight and its arrays after a step. rate is the learning
	// rate, t the number of the step from 1, both float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
	// Rule is the step as expressions; nil: it is not the same one for each number of all
	// variables.
	Rule() *elementwise.Rule
}

// All are the optimizers, and SGD with its velocity.
func All() []Optimizer {
	return []Optimizer{SGD{}, SGD{Momentum: 0.9}, Adam{}, AdamW{}, AdaDelta{}, Adagrad{}, Lion{}, NAdam{}, RMSprop{}}
}

// Kinds are the types that the description of a training can name: the optimizers of [All],
// those around another one, and the schedules.
func Kinds() []any {
	l := []any{Muon{}, Scheduled{}, Clipped{}, Groups{}, EMA{}, SWA{}, Exponential{}, OneCycle{}, StepDecay{}, Warmup{}, WarmupCosine{}, WarmupLinear{}}
	for _, o := range All() {
		l = append(l, o)
	}
	return l
}

// choosing is an optimizer that treats variables differently.
type choosing interface {
	choose(variable string, shape shapes.Shape) Optimizer
}

// For is the optimizer of a variable, which has a name such as conv/weights; nil: the
// variable is frozen.
func For(o Optimizer, variable string, shape shapes.Shape) Optimizer {
	if c, is := o.(choosing); is {
		return c.choose(variable, shape)
	}
	return o
}

// around is [For] of an optimizer that is inside of another one.
func around(o Optimizer, variable string, shape shapes.Shape, with func(Optimizer) Optimizer) Optimizer {
	if o = For(o, variable, shape); o == nil {
		return nil
	}
	return with(o)
}

// Check says which setting of an optimizer is out of its range, where it would only do
// harm, or has no use. The ranges are PyTorch's, but for a Momentum or Rho of 1, with
// which nothing is ever forgotten. Of a type that is not of this package it checks the
// learning rate.
func Check(o interface {
	Title() (name string, moments []string)
	Rate() float64
}) error {
	if c, is := o.(interface{ check() error }); is {
		return c.check()
	}
	name, _ := o.Title()
	wrong := func(setting string, x float64, fraction bool) error {
		if x >= 0 && x <= math.MaxFloat32 && !(fraction && x >= 1) { // not of a NaN
			return nil
		}
		want := "0 or more"
		if fraction {
			want = "0 or more, and less than 1"
		}
		return fmt.Errorf("%s of %s is %g: want %s", setting, name, x, want)
	}
	if err := wrong("LearningRate", o.Rate(), false); err != nil {
		return err
	}
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != reflect.TypeFor[Adam]().PkgPath() {
		return nil
	}
	for i := range v.NumField() {
		if f := v.Type().Field(i); f.Type.Kind() == reflect.Float64 {
			if err := wrong(f.Name, v.Field(i).Float(), f.Tag.Get("range") == "fraction"); err != nil {
				return err
			}
		}
	}
	if s, is := o.(SGD); is && s.Nesterov && s.Momentum == 0 {
		return fmt.Errorf("Nesterov of sgd is set, and Momentum is 0: want a Momentum, such as 0.9, or Nesterov left out")
	}
	return nil
}

// The inputs of the rules.
var (
	w, g    = elementwise.Weight, elementwise.Gradient
	rate, t = elementwise.Rate, elementwise.Time
)

// kept is a moment before the step.
func kept(name string) elementwise.Expr { return elementwise.Input(name) }

// decayed is the gradient with weight decay, as the L2 norm's gradient.
func decayed(by float64) elementwise.Expr { return g.Add(w.Mul(by)) }

// mean is a moving average: share·old + (1 - share)·x.
func mean(old elementwise.Expr, share float64, x elementwise.Expr) elementwise.Expr {
	return old.Mul(share).Add(x.Mul(1 - share))
}

// power is base^t, less 1, for scalar t.
func power(base float64) elementwise.Expr { return t.Mul(math.Log(base)).Expm1() }

func update(o Optimizer, rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node) {
	state := append([]*Node{weight}, moments...)
	state = gomlx.Update(o.Rule(), rate, t, state, gradient)
	return state[0], state[1:]
}

func title(o Optimizer) (name string, moments []string) {
	r := o.Rule()
	return r.Title, r.Kept
}
