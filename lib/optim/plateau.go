package optim

import (
	"cmp"
	"fmt"
	"math"
)

// ReduceOnPlateau lowers the learning rate where a result has not become better for some
// epochs, as Keras' ReduceLROnPlateau does:
//
//	fit.Train{Epochs: 50, Validation: test, ReduceOnPlateau: optim.ReduceOnPlateau{Patience: 3}}
//
// A schedule multiplies the rate that it leaves.
type ReduceOnPlateau struct {
	Patience int     // epochs without a better result; 0: the rate stays
	Factor   float64 // of the rate; default: 0.1
	MinDelta float64 // what is less better than this does not count; default: 1e-4
	Cooldown int     // epochs after a change that do not count
	MinRate  float64 // the rate is never lower
}

// Check says which setting means nothing.
func (p ReduceOnPlateau) Check() error {
	switch {
	case p.Patience < 0 || p.Cooldown < 0:
		return fmt.Errorf("ReduceOnPlateau has Patience %d and Cooldown %d: want 0 epochs or more", p.Patience, p.Cooldown)
	case p.Patience == 0 && p != (ReduceOnPlateau{}):
		return fmt.Errorf("ReduceOnPlateau has no Patience: want after how many epochs the rate is reduced")
	case !(p.Factor >= 0 && p.Factor < 1):
		return fmt.Errorf("ReduceOnPlateau.Factor is %g: want more than 0 and less than 1, or 0 for 0.1", p.Factor)
	case !(p.MinDelta >= 0 && p.MinRate >= 0) || math.IsInf(p.MinDelta, 0) || math.IsInf(p.MinRate, 0):
		return fmt.Errorf("ReduceOnPlateau has MinDelta %g and MinRate %g: want 0 or more", p.MinDelta, p.MinRate)
	}
	return nil
}

// Defaults is p with its defaults filled in.
func (p ReduceOnPlateau) Defaults() ReduceOnPlateau {
	p.Factor = cmp.Or(p.Factor, 0.1)
	p.MinDelta = cmp.Or(p.MinDelta, 1e-4)
	return p
}

// Plateau is what ReduceOnPlateau has seen; the zero value is nothing.
type Plateau struct {
	seen           bool
	best           float64
	wait, cooldown int
}

// Next is the rate after an epoch with a result, of which a smaller one is better.
func (s *Plateau) Next(p ReduceOnPlateau, result, rate float64) float64 {
	if p = p.Defaults(); p.Patience == 0 {
		return rate
	}
	if s.cooldown > 0 {
		s.cooldown--
		s.wait = 0
	}
	switch {
	case !math.IsNaN(result) && (!s.seen || result < s.best-p.MinDelta):
		s.best, s.wait, s.seen = result, 0, true
	case s.cooldown == 0:
		if s.wait++; s.wait >= p.Patience && rate > p.MinRate {
			s.cooldown, s.wait = p.Cooldown, 0
			return max(rate*p.Factor, p.MinRate)
		}
	}
	return rate
}
