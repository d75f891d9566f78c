package optim

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"gaiden/lib/elementwise"
)

// Schedule changes the learning rate with the number of steps, inside the programs:
//
//	optim.Scheduled{Optimizer: optim.AdamW{LearningRate: 1e-3}, Schedule: optim.WarmupCosine{Warmup: 100, Steps: 5000}}
//
// The number of the step is the net's: it continues from cell to cell, until the net is reset, or
// gets an optimizer of another kind.
type Schedule interface {
	// Factor is what the learning rate is multiplied by in step t, from 1.
	Factor(t elementwise.Expr) elementwise.Expr
	// Check says which setting means nothing.
	Check() error
}

// Scheduled is an optimizer whose learning rate follows a schedule.
type Scheduled struct {
	Optimizer Optimizer
	Schedule  Schedule
}

// Rate is the learning rate before the schedule.
func (o Scheduled) Rate() float64 { return o.Optimizer.Rate() }

// Rule is the optimizer's, with rate·factor for rate. Its name stays, so a run can continue
// with another schedule.
func (o Scheduled) Rule() *elementwise.Rule { return ratedRule(o.Optimizer, o.factorOfRate()) }

func (o Scheduled) inner() Optimizer               { return o.Optimizer }
func (o Scheduled) with(inner Optimizer) Optimizer { return Scheduled{inner, o.Schedule} }
func (o Scheduled) factorOfRate() elementwise.Expr { return o.Schedule.Factor(t) }

// rated is a wrapper that multiplies the learning rate.
type rated interface{ factorOfRate() elementwise.Expr }

// ratedRule is an optimizer's rule with rate·factor for rate.
func ratedRule(o Optimizer, factor elementwise.Expr) *elementwise.Rule {
	inner := RuleOf(o)
	if inner == nil {
		return nil
	}
	r := *inner
	by := map[string]elementwise.Expr{rate.Key(): rate.Mul(factor)}
	r.Weight = r.Weight.Substitute(by)
	r.Next = append([]elementwise.Expr{}, r.Next...)
	for i, e := range r.Next {
		r.Next[i] = e.Substitute(by)
	}
	return &r
}

func (o Scheduled) check() error {
	switch {
	case o.Optimizer == nil:
		return errors.New("Optimizer of optim.Scheduled is nil: want one, such as optim.AdamW{}")
	case o.Schedule == nil:
		return errors.New("Schedule of optim.Scheduled is nil: want one, such as optim.Warmup{Steps: 100}")
	}
	if err := o.Schedule.Check(); err != nil {
		return err
	}
	return Check(o.Optimizer)
}

// WarmupCosine rises linearly to 1 in Warmup steps, and falls along half a cosine to End at
// step Steps (Loshchilov and Hutter, 2016), where it stays.
type WarmupCosine struct {
	Warmup, Steps int
	End           float64
}

// Factor is at most 1.
func (s WarmupCosine) Factor(t elementwise.Expr) elementwise.Expr {
	return warm(t, s.Warmup, cosine(part(t, s.Warmup, s.Steps), 1, s.End))
}

// Check says which setting means nothing.
func (s WarmupCosine) Check() error { return warmup("WarmupCosine", s.Warmup, s.Steps, s.End) }

// WarmupLinear rises linearly to 1 in Warmup steps, and falls linearly to End at step Steps,
// where it stays.
type WarmupLinear struct {
	Warmup, Steps int
	End           float64
}

// Factor is at most 1.
func (s WarmupLinear) Factor(t elementwise.Expr) elementwise.Expr {
	return warm(t, s.Warmup, part(t, s.Warmup, s.Steps).Mul(s.End-1).Add(1))
}

// Check says which setting means nothing.
func (s WarmupLinear) Check() error { return warmup("WarmupLinear", s.Warmup, s.Steps, s.End) }

// Warmup rises linearly to 1 in so many steps, and stays there.
type Warmup struct{ Steps int }

// Factor is at most 1.
func (s Warmup) Factor(t elementwise.Expr) elementwise.Expr {
	return warm(t, s.Steps, elementwise.Number(1))
}

// Check says which setting means nothing.
func (s Warmup) Check() error { return steps("Warmup", "Steps", s.Steps) }

// OneCycle rises from 1/25 to 1 in the first 30 % of Steps, and falls to 1/250,000, each along
// half a cosine (Smith and Topin, 2018, with PyTorch's defaults).
type OneCycle struct{ Steps int }

// Factor is at most 1.
func (s OneCycle) Factor(t elementwise.Expr) elementwise.Expr {
	peak := 0.3*float64(s.Steps) - 1
	step := t.Sub(1) // PyTorch counts from 0
	up := cosine(step.Div(peak), 1.0/25, 1)
	down := cosine(step.Sub(peak).Div(float64(s.Steps)-1-peak).Min(1), 1, 1.0/250_000)
	return step.LessEqual(peak).Where(up, down)
}

// Check says which setting means nothing.
func (s OneCycle) Check() error {
	if s.Steps < 4 {
		return fmt.Errorf("Steps of OneCycle is %d: want 4 or more", s.Steps)
	}
	return nil
}

// StepDecay multiplies the learning rate by By after each Every steps: PyTorch's StepLR.
type StepDecay struct {
	Every int
	By    float64 // default: 0.1
}

// Factor is By to the number of times that there were Every steps.
func (s StepDecay) Factor(t elementwise.Expr) elementwise.Expr {
	return t.Sub(1).Div(float64(s.Every)).Add(1e-4 / float64(s.Every)).Floor().Mul(math.Log(cmp.Or(s.By, 0.1))).Exp()
}

// Check says which setting means nothing.
func (s StepDecay) Check() error {
	if by := cmp.Or(s.By, 0.1); !(by > 0) || math.IsInf(by, 0) {
		return fmt.Errorf("By of StepDecay is %g: want more than 0", s.By)
	}
	return steps("StepDecay", "Every", s.Every)
}

// Exponential multiplies the learning rate by By after each step.
type Exponential struct{ By float64 }

// Factor is By^(t-1).
func (s Exponential) Factor(t elementwise.Expr) elementwise.Expr {
	return t.Sub(1).Mul(math.Log(s.By)).Exp()
}

// Check says which setting means nothing.
func (s Exponential) Check() error {
	if !(s.By > 0) || math.IsInf(s.By, 0) {
		return fmt.Errorf("By of Exponential is %g: want more than 0, such as 0.999", s.By)
	}
	return nil
}

// warm is t/warmup up to there, and then what follows.
func warm(t elementwise.Expr, warmup int, then elementwise.Expr) elementwise.Expr {
	if warmup == 0 {
		return then
	}
	return t.LessEqual(warmup).Where(t.Div(float64(warmup)), then)
}

// part is 0 at a step, 1 at a later one and after it, and in between in proportion.
func part(t elementwise.Expr, from, to int) elementwise.Expr {
	return t.Sub(from).Div(float64(to - from)).Min(1)
}

// cosine goes from one number to another along half a cosine, as x goes from 0 to 1.
func cosine(x elementwise.Expr, from, to float64) elementwise.Expr {
	return x.Mul(math.Pi).Cos().Mul((from - to) / 2).Add((from + to) / 2)
}

func steps(schedule, name string, got int) error {
	if got >= 1 {
		return nil
	}
	return fmt.Errorf("%s of %s is %d: want 1 or more", name, schedule, got)
}

func warmup(schedule string, warmup, all int, end float64) error {
	switch {
	case warmup < 0:
		return fmt.Errorf("Warmup of %s is %d: want 0 or more", schedule, warmup)
	case all <= warmup:
		return fmt.Errorf("Steps of %s is %d: want more than its Warmup of %d, because it counts these too", schedule, all, warmup)
	case !(end >= 0 && end <= 1):
		return fmt.Errorf("End of %s is %g: want 0 to 1", schedule, end)
	}
	return nil
}
