package fit

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gaiden/lib/fused/tiling"
	"gaiden/lib/lower/plan"
)

// shortestTiming is how long a look at some steps must take: below it, what a call costs the
// host counts as much as its steps, and what is the faster is chance.
var shortestTiming = 2 * time.Millisecond

// timedSteps is how many steps a look takes, where an epoch has so many and they do not take
// longer than longestTiming.
const timedSteps = 500

// longestTiming is how long a look at some steps takes at most, if that is more than one turn of
// the loop: whoever comes back to the session meanwhile waits for its end.
var longestTiming = 100 * time.Millisecond

// unmeasured says whether an entry of a step says nothing: of one that was not looked at, or
// whose epochs of Tried steps are too short to tell.
func unmeasured(e tiling.Entry) bool { return e.Micros == 0 && e.Refused == "" }

// faster says whether a step, in µs, gains more from other tilings than the usual ones
// than the same step differs from one look to the next.
func faster(usual, tried float64) bool { return tried < 0.98*usual }

// choices notes the ops of the net's steps whose best tilings are not known, and returns
// the steps' key in the table: "" if there is nothing to choose from, and tells why.
func (n *Net) choices(ctx context.Context, data *Set, t Train, tell func(string)) (key string, err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.open(); err != nil {
		return "", err
	}
	none := func(why string) (string, error) {
		tell(fmt.Sprintf("%s: there is nothing to choose from: %s", n.name, why))
		return "", nil
	}
	switch {
	case !n.kernelsMayRun():
		return none("Gaiden's kernels are for CUDA GPUs, and this is a " + n.target.String())
	case n.config.Kernels == XLAKernels:
		return none("the net is to have XLA's kernels")
	}
	if _, err := n.available(data, 1); err != nil {
		return none("of kernels, " + err.Error())
	}
	r, err := n.run(ctx, data, compared(data, t), plan.Comparison)
	if err != nil {
		return "", err
	}
	defer r.close()
	if r.devices > 1 {
		return none("kernels on several devices are XLA's")
	}
	with, _, err := r.forms()
	if err == nil {
		_, err = n.epochProgram(data, with) // which notes the ops
	}
	return n.stepKey(r.main.Batch), err
}

// compared is a training whose steps are those of another one and can be compared: nothing
// is decided between epochs. An epoch of one batch is as many as a look takes, as Fit has
// them in one loop.
func compared(data *Set, t Train) Train {
	t.Validation, t.Threshold, t.Patience = nil, 0, 0
	if t.Batch == data.N {
		t.Epochs = timedSteps
	}
	return t
}

// forms are the run's steps with Gaiden's kernels and with XLA's, as Fit would have them.
func (r *run) forms() (with, without plan.Part, err error) {
	set, err := r.net.available(r.data, r.Batch)
	return r.main.WithKernels(set, r.net.tilings().Changes()), r.main.WithoutKernels(r.plan.Settings), err
}

// timeInSandbox times the net's steps with fused kernels and without: those of a clone, in a
// session of its own. Its programs are on the disk after it, for the net's.
func (n *Net) timeInSandbox(ctx context.Context, data *Set, t Train, look tiling.Options, tell func(string)) (e tiling.Entry, err error) {
	if err := look.Wait(ctx); err != nil {
		return e, err
	}
	a, err := startSandbox(n.session, true)
	if err != nil {
		return e, err
	}
	defer a.end()
	x, copied, err := a.clone(n, data)
	if err == nil {
		e, err = x.timeForms(ctx, copied, compared(data, t), look, tell)
	}
	return e, a.explain(err)
}

// timeForms is timeInSandbox in the session that the net is in, while nobody asks look.Other for
// anything.
func (n *Net) timeForms(ctx context.Context, data *Set, t Train, look tiling.Options, tell func(string)) (e tiling.Entry, err error) {
	r, err := n.run(ctx, data, t, plan.Comparison)
	if err != nil {
		return e, err
	}
	defer r.close()
	with, without, err := r.forms()
	if err != nil {
		return e, err
	}
	forms := []*stepPrograms{n.stepPrograms(data, without), n.stepPrograms(data, with)}
	for _, f := range forms {
		err := f.ready(ctx, nil)
		if f.Kernels != nil && refuses(err) {
			tell(fmt.Sprintf("%s: XLA's kernels, as this device does not take Gaiden's: %v", n.name, err))
			return tiling.Entry{Refused: err.Error()}, nil
		}
		if err != nil {
			return e, err
		}
	}
	order, err := r.exampleOrder(ctx)
	if err != nil {
		return e, err
	}
	defer order.free()
	most := min(r.main.Limit, max(1, timedSteps/r.main.Turn()))
	turns := most
	before := func() error { return look.Wait(ctx) }
	best, own, err := tiling.Alone(look.Other, before, func(alone func() error) (best [2]time.Duration, err error) {
		for look := 0; look < 6; look++ {
			for i, f := range forms {
				if err := errors.Join(alone(), ctx.Err()); err != nil {
					return best, err
				}
				took, err := r.timeTurns(f, order, turns)
				if err != nil {
					return best, err
				}
				if look == 0 { // it warms up, and says how long a look is
					turns = min(turns, within(longestTiming, turns, took))
					continue
				}
				if best[i] == 0 || took < best[i] {
					best[i] = took
				}
			}
			if slower := max(best[0], best[1]); look == 5 && slower < shortestTiming && turns < most {
				// Something held up the look that warmed up, so the others were too short.
				turns = min(most, max(2*turns, within(longestTiming, turns, slower)))
				best, look = [2]time.Duration{}, 0
			}
		}
		return best, nil
	})
	if err = errors.Join(own, err); err != nil {
		return e, err
	}
	steps := float64(turns * r.main.Turn())
	if max(best[0], best[1]) < shortestTiming {
		tell(fmt.Sprintf("%s: %.0f steps of %d are over too soon to be compared: the kernels stay as they are", n.name, steps, r.main.Batch))
		return tiling.Entry{Tried: r.steps}, nil
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / steps }
	e = tiling.Entry{Plain: micros(best[0]), Micros: micros(best[1])}
	tell(fmt.Sprintf("%s: a step of %d takes %.1f µs with fused kernels, %.1f µs with XLA's", n.name, r.main.Batch, e.Micros, e.Plain))
	return e, nil
}

// within is how many turns a limit has room for, at least one, where some took so long.
func within(limit time.Duration, turns int, took time.Duration) int {
	return max(1, int(float64(turns)*float64(limit)/float64(took)))
}

// exampleOrder is an order of the run's examples.
func (r *run) exampleOrder(ctx context.Context) (copies, error) {
	p, err := r.net.wait(ctx, r.net.order(r.data.N, !r.InOrder, r.devices), nil)
	if err != nil {
		return nil, err
	}
	return runOnce(p, stepOf(r.state))
}

// timeTurns is how long some turns take, whose results are dropped.
func (r *run) timeTurns(f *stepPrograms, order copies, turns int) (time.Duration, error) {
	if err := r.net.session.Wait(); err != nil {
		return 0, err
	}
	began := time.Now()
	after, results, err := f.run(r.state, r.data, order, r.rate, r.main.First, turns)
	if err == nil {
		err = r.net.session.Wait()
	}
	took := time.Since(began)
	if err == nil {
		after.free()
		results.Finalize()
	}
	return took, err
}
