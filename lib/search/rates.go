package search

import (
	"cmp"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"slices"

	"gaiden/lib/engine/interrupt"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/optim"
)

// RangeTest finds a learning rate: it trains a copy of a net while the rate grows with each
// step (Smith, 2017). The zero value has the defaults.
type RangeTest struct {
	From, To float64 // rates of the first and last step; default: 1e-7 and 10
	Steps    int     // default: 100
	Batch    int     // as of fit.Train
}

// RateCurve is the loss at each learning rate.
type RateCurve struct {
	Rates, Losses []float64
	Smooth        []float64 // the losses, smoothed
	// Suggestion is a tenth of the rate at which the smoothed loss is the smallest: a rate
	// with which it still falls fast. NaN where it never fell, or the test was stopped.
	Suggestion float64
	Stopped    bool // before the end of the test, as by Stop
}

// Run does the test. It ends early when the loss becomes four times as large as the smallest,
// or is not a number. Schedules of the optimizer are left out. The net stays as it is.
func (r RangeTest) Run(net *fit.Net, data *fit.Set) (*RateCurve, error) {
	r.From = cmp.Or(r.From, 1e-7)
	r.To = cmp.Or(r.To, 10)
	r.Steps = cmp.Or(r.Steps, 100)
	if !(r.From > 0 && r.From < r.To && r.To <= math.MaxFloat32) || r.Steps < 2 {
		return nil, fmt.Errorf("search: range test from %g to %g in %d steps: want more than 0, growing, in 2 steps or more", r.From, r.To, r.Steps)
	}
	s, err := net.Session()
	if err != nil {
		return nil, err
	}
	weights, err := net.Weights()
	if err != nil {
		return nil, err
	}
	config := net.Config()
	config.Session, config.Metrics = s, nil
	if config.Optimizer != nil {
		config.Optimizer = unscheduled(config.Optimizer)
	}
	clone := fit.New(net.Name()+"-"+rand.Text()[:8], net.Model(), config)
	if ctx := net.Context(); ctx != interrupt.Context() {
		clone = clone.WithContext(ctx)
	}
	defer clone.Reset()
	if len(weights) > 0 {
		if err := clone.SetWeights(weights); err != nil {
			return nil, err
		}
	}
	c := &RateCurve{Suggestion: math.NaN()}
	rate := func(step int) float64 {
		return r.From * math.Pow(r.To/r.From, float64(step)/float64(r.Steps-1))
	}
	const beta = 0.9 // of the exponential mean
	mean, best := 0.0, math.Inf(1)
	diverged := false
	_, err = clone.Fit(data, fit.Train{Steps: r.Steps, Batch: r.Batch, LearningRate: rate(0), Quiet: true, OnStep: func(at *fit.Control) error {
		loss := float64(at.History.Losses[at.Step-1])
		mean = beta*mean + (1-beta)*loss
		smooth := mean / (1 - math.Pow(beta, float64(at.Step)))
		c.Rates, c.Losses, c.Smooth = append(c.Rates, rate(at.Step-1)), append(c.Losses, loss), append(c.Smooth, smooth)
		best = min(best, smooth)
		if at.Step > 1 && smooth > 4*best && best > 0 {
			diverged = true
			at.Stop("the loss diverges")
		}
		at.LearningRate = rate(at.Step)
		return nil
	}})
	if wrong := (*result.NotFiniteError)(nil); errors.As(err, &wrong) && len(c.Rates) > 0 {
		err, diverged = nil, true // the rate is too large, as the curve shows
	}
	if c.Stopped = len(c.Rates) < r.Steps && !diverged; c.Stopped {
		return c, err
	}
	first := len(c.Smooth) / 10 // before, the mean is of few steps
	least := first
	for i := first; i < len(c.Smooth); i++ {
		if c.Smooth[i] < c.Smooth[least] {
			least = i
		}
	}
	if least > first {
		c.Suggestion = c.Rates[least] / 10
	}
	return c, err
}

// unscheduled is an optimizer without the schedules in it, which would change the rates.
func unscheduled(o optim.Optimizer) optim.Optimizer {
	switch o := o.(type) {
	case optim.Scheduled:
		return unscheduled(o.Optimizer)
	case optim.Clipped:
		o.Optimizer = unscheduled(o.Optimizer)
		return o
	case optim.EMA:
		return unscheduled(o.Optimizer) // nobody looks at the averages
	case optim.SWA:
		return unscheduled(o.Optimizer)
	case optim.Groups:
		o.Optimizer, o.Groups = unscheduled(o.Optimizer), slices.Clone(o.Groups)
		for i, g := range o.Groups {
			o.Groups[i].Optimizer = unscheduled(g.Optimizer)
		}
		return o
	}
	return o
}

// String says what the test found.
func (c *RateCurve) String() string {
	if len(c.Rates) == 0 {
		return "range test: no steps"
	}
	text := fmt.Sprintf("range test: %d rates from %.3g to %.3g", len(c.Rates), c.Rates[0], c.Rates[len(c.Rates)-1])
	switch {
	case c.Stopped:
		return text + "; stopped before its end"
	case math.IsNaN(c.Suggestion):
		return text + "; the loss never fell"
	}
	return text + fmt.Sprintf("; suggested learning rate %.2g", c.Suggestion)
}
