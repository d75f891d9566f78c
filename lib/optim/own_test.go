package optim_test

import (
	"strings"
	"testing"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/gobackend"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
	"gaiden/lib/optim"
)

// own embeds an optimizer, and does other steps.
type own struct{ optim.SGD }

func (own) Update(_, _, weight, _ *Node, moments []*Node) (*Node, []*Node) {
	return AddScalar(weight, 7), moments
}

// halving is one with a rule.
type halving struct{ without bool }

func (halving) Rate() float64 { return 1 }
func (o halving) Rule() *elementwise.Rule {
	if o.without {
		return nil
	}
	return &elementwise.Rule{Title: "halving", Weight: elementwise.Weight.Mul(0.5)}
}

// mistaken has an Update that is not that of optim.Stepper, which would be left out.
type mistaken struct{ optim.SGD }

func (mistaken) Update(weight, _ *Node) *Node { return weight }

// nameless has no Title.
type nameless struct{ halving }

func (nameless) Update(_, _, weight, _ *Node, moments []*Node) (*Node, []*Node) {
	return weight, moments
}

// growing is a schedule of your own.
type growing func() float64

func (f growing) Factor(t elementwise.Expr) elementwise.Expr { return t.Mul(f()) }
func (growing) Check() error                                 { return nil }

// TestOwn holds that the steps of an optimizer of your own are its Update's within a wrapper,
// too, and not those of the optimizer that it embeds, and what is known of such steps.
func TestOwn(t *testing.T) {
	engine, err := gobackend.New("")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []optim.Optimizer{own{}, &own{}, optim.EMA{Optimizer: own{}}, optim.SWA{Optimizer: &own{}}, optim.Scheduled{own{}, optim.Warmup{Steps: 2}}, optim.Clipped{own{}, 1, 0},
		optim.Groups{Optimizer: own{}}, optim.Groups{Optimizer: optim.Adam{}, Groups: []optim.Group{{Names: []string{"w"}, Optimizer: optim.EMA{Optimizer: own{}}}}}} {
		if optim.RuleOf(o) != nil || optim.Bounded(o) {
			t.Errorf("%#v: got rule %v, bounded %t, want none, and not", o, optim.RuleOf(o), optim.Bounded(o))
		}
		got := MustExecOnce(engine, func(g *Graph) *Node {
			one := Scalar(g, dtypes.Float32, 1)
			w, _ := optim.Update(optim.For(o, "w", one.Shape()), one, one, Const(g, []float32{3}), Const(g, []float32{1}), []*Node{Const(g, []float32{0})})
			return w
		}).Value().([]float32)
		if got[0] != 10 {
			t.Errorf("%#v: got a weight of %v after a step, want 10", o, got)
		}
	}
	for _, tt := range []struct {
		o    optim.Optimizer
		want bool
	}{
		{optim.Adam{}, true}, {optim.EMA{Optimizer: optim.Scheduled{optim.Clipped{optim.SGD{}, 1, 0}, optim.OneCycle{10}}}, true}, {optim.Groups{Optimizer: optim.Muon{}, Groups: []optim.Group{{Rate: 100, Optimizer: optim.Adam{}}}}, true},
		{optim.Scheduled{optim.Adam{}, optim.Exponential{0.9}}, true}, {optim.Scheduled{optim.Adam{}, optim.Exponential{1.1}}, false}, {optim.Scheduled{optim.Adam{}, optim.StepDecay{Every: 1, By: 10}}, false},
		{optim.Scheduled{optim.Adam{}, growing(nil)}, false}, {optim.Groups{Optimizer: optim.SGD{}, Groups: []optim.Group{{Rate: 1e20}}}, false},
		{optim.Groups{Optimizer: optim.SGD{LearningRate: 1e-20}, Groups: []optim.Group{{Optimizer: optim.SGD{LearningRate: 1}}}}, false},
	} {
		if got := optim.Bounded(tt.o); got != tt.want {
			t.Errorf("%#v: got bounded %t, want %t", tt.o, got, tt.want)
		}
	}
	for _, tt := range []struct {
		o    optim.Optimizer
		want string
	}{
		{struct{ optim.Clipped }{optim.Clipped{optim.SGD{}, 1, 0}}, "embeds an optimizer that wraps another one"}, {optim.Clipped{&optim.Adam{}, 1, 0}, "without &"},
		{mistaken{}, "Update of optim_test.mistaken"}, {halving{without: true}, "has no steps"}, {nameless{halving{without: true}}, "has no name"},
		{own{}, ""}, {halving{}, ""}, {optim.EMA{Optimizer: halving{}}, ""}, {nameless{}, ""},
	} {
		if err := optim.Check(tt.o); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%#v: got %v, want %q", tt.o, err, tt.want)
		}
	}
}
