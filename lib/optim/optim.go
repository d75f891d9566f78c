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
// An optimizer is its rule: the step as element-wise expressions, from which GoMLX's operations,
// the GPU kernels and the CPU's own step are generated. One of your own has a Rule, too, or is a
// [Stepper], with steps in GoMLX's operations. A new one of this package is a type with a Rule,
// and a line in [All].
package optim

import (
	"cmp"
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/elementwise/gomlx"
)

// Optimizer changes weights by their gradients.
type Optimizer interface {
	// Rate is the learning rate.
	Rate() float64
	// Rule is the step as expressions; nil: it is not the same one for each number of all
	// variables.
	Rule() *elementwise.Rule
}

// Stepper is an optimizer whose steps are those of Update, whatever its Rule is. Its name, and
// those of the arrays that it keeps for each weight, are its Rule's, such as that of an optimizer
// that it embeds, or those of a method Title() (name string, moments []string).
type Stepper interface {
	Optimizer
	// Update returns a weight and its arrays after a step. rate is the learning
	// rate, t the number of the step from 1, both float32 scalars.
	Update(rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node)
}

// wrapper is an optimizer around another one.
type wrapper interface {
	Optimizer
	inner() Optimizer
	with(inner Optimizer) Optimizer // the same around another one
}

// All are the optimizers, and SGD with its velocity.
func All() []Optimizer {
	return []Optimizer{SGD{}, SGD{Momentum: 0.9}, Adam{}, AdamW{}, AdaDelta{}, Adagrad{}, Lion{}, NAdam{}, RMSprop{}}
}

// RuleOf is an optimizer's step as expressions, from which kernels are made; nil if it has none.
func RuleOf(o Optimizer) *elementwise.Rule {
	if _, is := o.(Stepper); is {
		return nil
	}
	return o.Rule()
}

// Title names an optimizer, and the arrays it keeps for each weight.
func Title(o Optimizer) (name string, moments []string) {
	if own, is := o.(interface {
		Title() (name string, moments []string)
	}); is {
		return own.Title()
	}
	if r := o.Rule(); r != nil {
		return r.Title, r.Kept
	}
	w, is := o.(wrapper)
	if !is {
		return "", nil // refused by Check
	}
	name, moments = Title(w.inner())
	if _, is := o.(averaging); is {
		moments = append(slices.Clip(moments), Average)
	}
	return name, moments
}

// Update returns a weight and its arrays after a step of an optimizer. rate is the learning
// rate, t the number of the step from 1, both float32 scalars.
func Update(o Optimizer, rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node) {
	if own, is := o.(Stepper); is {
		return own.Update(rate, t, weight, gradient, moments)
	}
	if r := o.Rule(); r != nil {
		return ruled(r, rate, t, weight, gradient, moments)
	}
	inner := o.(wrapper).inner()
	switch o := o.(type) {
	case averaging:
		return updateAverage(inner, o.share(), rate, t, weight, gradient, moments)
	case rated:
		rate = elementwise.Eval(gomlx.Ops, gomlx.Scalars(rate, t), elementwise.Rate.Mul(o.factorOfRate()))[0]
	}
	return Update(inner, rate, t, weight, gradient, moments)
}

func ruled(r *elementwise.Rule, rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node) {
	state := gomlx.Update(r, rate, t, append([]*Node{weight}, moments...), gradient)
	return state[0], state[1:]
}

// ClipGradients are all gradients of a step as an optimizer, or one inside it, wants them: see
// [Clipper].
func ClipGradients(o Optimizer, gradients []*Node) []*Node {
	if c, is := o.(Clipper); is {
		return c.Clip(gradients)
	}
	if w, is := o.(wrapper); is {
		return ClipGradients(w.inner(), gradients)
	}
	return gradients
}

// here is the path of this package.
var here = reflect.TypeFor[Adam]().PkgPath()

func isOurs(o any) bool { return typeOf(o).PkgPath() == here }

// typeOf is the type of o, or of what it points to.
func typeOf(o any) reflect.Type {
	t := reflect.TypeOf(o)
	if t.Kind() == reflect.Pointer {
		return t.Elem()
	}
	return t
}

// mostRate is what learning rates may be multiplied by in a [Bounded] optimizer.
const mostRate = 1e6

// Bounded says whether steps of gradients that are far from infinite leave finite weights,
// whatever they are: there is no optimizer or schedule of another package, and nothing that
// multiplies the learning rate without limit.
func Bounded(o any) bool { return bounded(reflect.ValueOf(o)) }

func bounded(v reflect.Value) bool {
	if path := v.Type().PkgPath(); path != "" && path != here {
		return false
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return v.IsNil() || bounded(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if !bounded(v.Index(i)) {
				return false
			}
		}
	case reflect.Struct:
		switch o := v.Interface().(type) {
		case Exponential:
			return o.By <= 1
		case StepDecay:
			return o.By <= 1
		case Groups:
			for _, g := range o.Groups {
				if g.Rate > mostRate || g.Optimizer != nil && cmp.Or(g.Rate, 1)*proportion(g.Optimizer, o.Optimizer) > mostRate {
					return false
				}
			}
		}
		for i := range v.NumField() {
			if !bounded(v.Field(i)) {
				return false
			}
		}
	}
	return true
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
	switch o := o.(type) {
	case choosing:
		return o.choose(variable, shape)
	case wrapper:
		return around(o.inner(), variable, shape, o.with)
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
func Check(o Optimizer) error {
	if t := reflect.TypeOf(o); t.Kind() == reflect.Pointer && isOurs(o) {
		return fmt.Errorf("got an optimizer that is a %s: want %s{…}, without &", t, t.Elem())
	}
	_, chooses := o.(choosing)
	_, wraps := o.(wrapper)
	if (chooses || wraps) && !isOurs(o) {
		return fmt.Errorf("%T embeds an optimizer that wraps another one, and would be left out of the steps: want the wrapper around it, such as optim.Clipped{Optimizer: %[1]T{}}", o)
	}
	if c, is := o.(interface{ check() error }); is {
		return c.check()
	}
	_, updates := o.(Stepper)
	_, has := reflect.TypeOf(o).MethodByName("Update")
	name, _ := Title(o)
	switch {
	case has && !updates:
		return fmt.Errorf("Update of %T does not have the parameters and results of optim.Stepper", o)
	case !updates && o.Rule() == nil:
		return fmt.Errorf("%T has no steps: want a Rule that is not nil, or the methods of optim.Stepper", o)
	case name == "":
		return fmt.Errorf("%T has no name: want a Title of its Rule, or a method Title", o)
	}
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
	if v.Kind() != reflect.Struct || v.Type().PkgPath() != here {
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
