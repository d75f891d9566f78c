package fit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"runtime"
	"slices"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/fit/result"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// What is decided while a net is trained: which weights were the best, whether the rate is
// reduced, and what the user's own functions want.

// control is the state of that.
type control struct {
	learningRate float64
	plateau      optim.Plateau
	best         []*session.Array // bestSlots after the best epoch
}

// goal is which result a training is to make better.
type goal struct {
	monitor  string // loss, accuracy or a metric
	maximize bool
	best     float64 // result of an epoch
	since    int     // epochs without a better one
}

func newGoal(monitor string, maximize bool) goal {
	g := goal{monitor: monitor, maximize: maximize, best: math.Inf(1)}
	if monitor == "" {
		g.monitor = "loss"
	}
	if maximize {
		g.best = math.Inf(-1)
	}
	return g
}

// of is the result of the last epoch: its validation's, if there is one.
func (g goal) of(e Epoch) (result float64, what string) {
	if e.Validation != nil {
		return e.Validation.Metric(g.monitor), g.monitor + " of the validation"
	}
	return e.Train.Metric(g.monitor), g.monitor
}

// better says whether a result is better than another one.
func (g goal) better(a, b float64) bool {
	if g.maximize {
		return a > b
	}
	return a < b
}

// judge notes a result, and says whether it is the best.
func (g *goal) judge(result float64) bool {
	if g.better(result, g.best) {
		g.best, g.since = result, 0
		return true
	}
	g.since++
	return false
}

// enough says why no more epochs are wanted after one with this result; "" if they are.
func (g *goal) enough(e Epoch, threshold float64, patience int) string {
	v, what := g.of(e)
	words := [2]string{"below", "smaller"}
	if g.maximize {
		words = [2]string{"above", "larger"}
	}
	switch {
	case threshold != 0 && g.better(v, threshold):
		return fmt.Sprintf("%s %.6g is %s the threshold %g after epoch %d", what, v, words[0], threshold, e.Number)
	case patience > 0 && g.since >= patience:
		return notBetter(what, v, g.best, g.since, words[1])
	}
	return ""
}

// notBetter says for how many epochs a result has not become better than the best, and that
// it is no number where it is none.
func notBetter(what string, v, best float64, epochs int, better string) string {
	switch number := !math.IsNaN(v) && !math.IsInf(v, 0); {
	case math.IsInf(best, 0):
		return fmt.Sprintf("%s is %v, and was no finite number for %d epochs", what, v, epochs)
	case !number:
		return fmt.Sprintf("%s is %v, and has not become %s than %.6g for %d epochs", what, v, better, best, epochs)
	}
	return fmt.Sprintf("%s has not become %s than %.6g for %d epochs", what, better, best, epochs)
}

// watched says whether something is decided after each epoch.
func (t Train) watched() bool {
	return t.Validation != nil || t.Threshold != 0 || t.Patience != 0 || t.KeepBest || t.ReduceOnPlateau.Patience > 0 || t.OnEpoch != nil || t.OnStep != nil
}

// interval is after how many steps OnStep is called; 0: never.
func (t Train) interval() int {
	if t.OnStep == nil {
		return 0
	}
	return max(1, t.StepInterval)
}

// decide does after an epoch what is to be done for its result.
func (r *run) decide() error {
	v, _ := r.goal.of(r.epoch)
	best := r.goal.judge(v)
	if best && r.KeepBest {
		if err := r.keepBest(); err != nil {
			return err
		}
	}
	if r.goal.maximize {
		v = -v
	}
	old := r.learningRate
	if rate := r.plateau.Next(r.ReduceOnPlateau, v, old); rate != old {
		r.note(fmt.Sprintf("learning rate reduced from %.4g to %.4g after epoch %d", old, rate, r.epoch.Number))
		if err := r.setRate(rate); err != nil {
			return err
		}
	}
	return r.call("OnEpoch", r.OnEpoch)
}

// keepBest keeps the variables that the net has now. They are the arrays themselves: what
// trains on writes others.
func (r *run) keepBest() error {
	if err := r.bindState(); err != nil {
		return err
	}
	best, err := r.net.state(r.net.bestSlots())
	if err != nil {
		return err
	}
	free(r.control.best...)
	r.control.best, r.history.Best = best, r.epoch.Number
	return nil
}

// restoreBest gives the net its best variables.
func (r *run) restoreBest() error {
	if r.control.best == nil {
		return nil
	}
	defer free(r.control.best...)
	return r.net.bind(r.net.bestSlots(), r.control.best)
}

// bestSlots are what KeepBest keeps: the variables, and averages of them that Evaluate uses.
func (n *Net) bestSlots() []slot {
	all := slices.Clone(n.layout.variables)
	for i, s := range n.usedSlots() {
		if s.name != n.layout.variables[i].name {
			all = append(all, s)
		}
	}
	return all
}

// setRate is the learning rate of the next steps, of which none is requested yet.
func (r *run) setRate(rate float64) error {
	all := make(copies, r.devices)
	for d := range all {
		a, err := r.net.session.Put([]float32{float32(rate)}, shapes.Make(dtypes.Float32), d)
		if err != nil {
			return err
		}
		all[d] = []*session.Array{a}
	}
	r.deviceState.rate.free()
	r.deviceState.rate, r.learningRate = all, rate
	return nil
}

// call calls a user's function between two steps. Meanwhile the net can be used.
func (r *run) call(name string, f func(*result.Control) error) (err error) {
	if f == nil {
		return nil
	}
	if err := r.bindState(); err != nil {
		return err
	}
	c := &result.Control{Epoch: r.epoch, Step: r.history.Steps, LearningRate: r.learningRate, History: r.history}
	c.Epoch.Train.Metrics = r.measured.values(r.sums)
	err = r.outside(name, f, c)
	if err != nil {
		return err
	}
	if rate := c.LearningRate; rate != r.learningRate {
		if !(rate > 0 && rate <= math.MaxFloat32) {
			return r.callbackError(name, f, fmt.Errorf("it sets a learning rate of %g: want more than 0", rate))
		}
		if err := r.setRate(rate); err != nil {
			return err
		}
	}
	if why := c.Stopped(); why != "" && r.history.Stopped == "" {
		r.history.Stopped = why
		return errStopped
	}
	return nil
}

// errStopped ends a run that a callback has stopped.
var errStopped = errors.New("fit: stopped by a callback")

// outside calls f while the net's lock is free.
func (r *run) outside(name string, f func(*result.Control) error, c *result.Control) (err error) {
	n := r.net
	n.hold = calling
	n.mu.Unlock()
	defer func() {
		n.mu.Lock()
		n.hold = locked
	}()
	defer func() {
		if p := recover(); p != nil {
			err = r.callbackError(name, f, result.Panicked(p))
		}
	}()
	if err = f(c); err != nil {
		err = r.callbackError(name, f, err)
	}
	return err
}

// callbackError is what ended a training in a user's function.
func (r *run) callbackError(name string, f func(*result.Control) error, err error) error {
	pc := reflect.ValueOf(f).Pointer()
	file, line := runtime.FuncForPC(pc).FileLine(pc)
	return fmt.Errorf("fit: %s: %s (%s:%d) after step %d of epoch %d: %w", r.net.name, name, file, line, r.step, r.epoch.Number, err)
}

// epochSteps is how many steps an epoch of a set has.
func (t Train) epochSteps(data *Set) int {
	n := data.N / t.Batch
	if data.N%t.Batch > 0 && !t.DropLast {
		n++
	}
	return n
}

// lastSteps is how many steps the last epoch has.
func (t Train) lastSteps(data *Set) int {
	each := t.epochSteps(data)
	if t.Steps == 0 || data.stream != nil {
		return each
	}
	return t.Steps - (t.Epochs-1)*each
}

// stopped says whether a run has ended since a callback wanted it.
func (r *run) stopped(err error) error {
	if errors.Is(err, errStopped) {
		return nil
	}
	return err
}

// ended binds what a run leaves: the state, or the best variables.
func (r *run) ended(ctx context.Context, err error) error {
	bound := r.bindState()
	if bound == nil {
		bound = r.restoreBest()
	}
	var wrong *result.NotFiniteError
	if errors.As(err, &wrong) && bound == nil && r.history.Best > 0 {
		wrong.Kept, wrong.KeptEpoch = r.steps, r.history.Best
	}
	if err == nil {
		err = bound
	}
	if err != nil && ctx.Err() == nil {
		r.net.session.Wait() // else the next cell gets the errors of chunks that came to nothing
	}
	return err
}
