package optim

import (
	"cmp"
	"fmt"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/elementwise"
)

// EMA keeps an exponential moving average of the weights (Polyak and Juditsky, 1992), which
// Evaluate and Predict use in their place:
//
//	optim.EMA{Optimizer: optim.AdamW{}, Decay: 0.999}
//
// The averages are arrays of the session, such as net/adamw/average/conv/weights. As in
// PyTorch the average after the first step is the weights; running means of batch norms are
// those of the training.
type EMA struct {
	Optimizer Optimizer
	Decay     float64 `range:"fraction"` // how much of the average stays in a step; default: 0.999
}

// SWA keeps the mean of the weights after some of the steps (Izmailov et al., 2018), which
// Evaluate and Predict use in their place, as with [EMA].
type SWA struct {
	Optimizer Optimizer
	Start     int // the first step whose weights count; until then the weights are used; default: 1
	Every     int // steps between those that count, such as those of an epoch; default: 1
}

// Average is the name of the array that averaged weights are kept in.
const Average = "average"

// Averages says whether an optimizer keeps averages of the weights.
func Averages(o Optimizer) bool {
	_, moments := Title(o)
	return len(moments) > 0 && moments[len(moments)-1] == Average
}

// averaging is a wrapper that keeps an average of the weights, of which a share stays in a step.
type averaging interface{ share() elementwise.Expr }

func (o EMA) share() elementwise.Expr {
	return t.Sub(1).Min(1).Mul(cmp.Or(o.Decay, 0.999)) // 0 in the first step
}

func (o SWA) share() elementwise.Expr {
	every := float64(max(1, o.Every))
	after := t.Sub(float64(max(1, o.Start)))
	counted := after.Div(every).Add(0.5 / every).Floor() // 0.5: a quotient that is rounded down is no step before
	since := after.Sub(counted.Mul(every)).Max(0).Min(1) // 0 in a step that counts
	started := after.Max(0).Min(1)
	return started.Mul(since.Max(elementwise.Number(1).Sub(elementwise.Number(1).Div(counted.Max(0).Add(1)))))
}

// averaged is a rule that also keeps an average.
func averaged(o Optimizer, share elementwise.Expr) *elementwise.Rule {
	inner := RuleOf(o)
	if inner == nil {
		return nil
	}
	r := *inner
	r.Kept, r.Next = append([]string{}, r.Kept...), append([]elementwise.Expr{}, r.Next...)
	r.Keep(Average, averageOf(share, r.Weight))
	return &r
}

func averageOf(share, weight elementwise.Expr) elementwise.Expr {
	return kept(Average).Mul(share).Add(weight.Mul(elementwise.Number(1).Sub(share)))
}

// updateAverage is a step of an optimizer and of its average.
func updateAverage(o Optimizer, share elementwise.Expr, rate, t, weight, gradient *Node, moments []*Node) (*Node, []*Node) {
	last := len(moments) - 1
	w, next := Update(o, rate, t, weight, gradient, moments[:last])
	rule := &elementwise.Rule{Title: Average, Weight: elementwise.Weight}
	rule.Keep(Average, averageOf(share, elementwise.Weight))
	_, average := ruled(rule, rate, t, w, gradient, moments[last:])
	return w, append(next[:last:last], average...)
}

// Rate is the optimizer's.
func (o EMA) Rate() float64 { return o.Optimizer.Rate() }

// Rule is the optimizer's, with the average.
func (o EMA) Rule() *elementwise.Rule { return averaged(o.Optimizer, o.share()) }

func (o EMA) inner() Optimizer               { return o.Optimizer }
func (o EMA) with(inner Optimizer) Optimizer { return EMA{inner, o.Decay} }

func (o EMA) check() error {
	if !(o.Decay >= 0 && o.Decay < 1) {
		return fmt.Errorf("Decay of optim.EMA is %g: want 0 or more, and less than 1", o.Decay)
	}
	return checkAveraged("EMA", o.Optimizer)
}

// Rate is the optimizer's.
func (o SWA) Rate() float64 { return o.Optimizer.Rate() }

// Rule is the optimizer's, with the average.
func (o SWA) Rule() *elementwise.Rule { return averaged(o.Optimizer, o.share()) }

func (o SWA) inner() Optimizer               { return o.Optimizer }
func (o SWA) with(inner Optimizer) Optimizer { return SWA{inner, o.Start, o.Every} }

func (o SWA) check() error {
	if o.Start < 0 || o.Every < 0 {
		return fmt.Errorf("Start %d, Every %d of optim.SWA: want 1 or more of each, or 0 for 1", o.Start, o.Every)
	}
	return checkAveraged("SWA", o.Optimizer)
}

func checkAveraged(name string, o Optimizer) error {
	if o == nil {
		return fmt.Errorf("Optimizer of optim.%s is nil: want one, such as optim.AdamW{}", name)
	}
	if Averages(o) {
		return fmt.Errorf("Optimizer of optim.%s keeps an average already: want one of EMA and SWA", name)
	}
	return Check(o)
}
