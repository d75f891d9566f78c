package fit

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/session"
)

// tables are what is known of kernels' tilings, one for each session of this
// process.
var tables struct {
	sync.Mutex
	of map[*session.Session]*tiling.Table
}

// tilings is the table of the net's device. One that cannot be read is empty.
func (n *Net) tilings() *tiling.Table {
	tables.Lock()
	defer tables.Unlock()
	if t := tables.of[n.session]; t != nil {
		return t
	}
	t, err := tiling.Open(n.session)
	if err != nil {
		t = &tiling.Table{}
	}
	if tables.of == nil {
		tables.of = map[*session.Session]*tiling.Table{}
	}
	tables.of[n.session] = t
	return t
}

// stepKey names the training step of a net in the table.
func (n *Net) stepKey(batch int) string {
	var layers string
	for i, l := range n.model.Layers {
		title, kind := l.Title()
		layers += fmt.Sprintf("%d %s %s;", i, title, kind)
	}
	for _, v := range n.layout.variables {
		layers += fmt.Sprintf("%s %s;", v.name, v.shape)
	}
	sum := sha256.Sum256([]byte(layers))
	return fmt.Sprintf("step %s %x b%d %T%+v bf16 %t", n.model.Name, sum[:6], batch, n.config.Optimizer, n.config.Optimizer, n.config.BF16)
}

// Tune finds out how the training steps that Train would do are fastest on the
// session's GPU: how each fused kernel is best divided, and whether XLA's own
// kernels are faster. A way whose numbers are not those of XLA's kernels is told and
// not taken. What it finds is kept on disk, for all nets with such
// layers. It takes seconds, or a minute where nothing is known. After a net's first run
// "gaiden tune" does the same in the background, see [Tuner], but for nets with batch
// norm. On a CPU there is nothing to find. Kernels are tried in another session on the
// same GPU, which ends with that: one that goes wrong costs no array. It needs
// memory there: for SeedCNN on an H100 0.9 GB.
//
// tell, if not nil, is told of each finding in a line.
func (n *Net) Tune(ctx context.Context, data *Set, t Train, tell func(string)) error {
	if tell == nil {
		tell = func(string) {}
	}
	if _, err := n.Session(); err != nil {
		return err
	}
	return n.tune(ctx, data, t, tiling.Look{}, tell)
}

// tune is Tune.
func (n *Net) tune(ctx context.Context, data *Set, t Train, look tiling.Look, tell func(string)) error {
	before := func() error { return look.Wait(ctx) }
	compare := func(again bool) (key string, e tiling.Entry, err error) {
		if err := before(); err != nil {
			return "", e, err
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		if err := n.open(); err != nil {
			return "", e, err
		}
		return n.compare(ctx, data, t, again, before, tell)
	}
	began := time.Now()
	key, usual, err := compare(false)
	if err != nil || key == "" {
		return err
	}
	table := n.tilings()
	table.Set(key, usual)
	if err := table.Save(); err != nil || untold(usual) {
		return err
	}
	// Time is left for the comparison at the end.
	some := ctx
	if end, limited := ctx.Deadline(); limited {
		var cancel context.CancelFunc
		some, cancel = context.WithDeadline(ctx, end.Add(-min(time.Since(began), time.Until(end)/3)))
		defer cancel()
	}
	var found []kernels.Op
	look.Found = func(op kernels.Op, e tiling.Entry) {
		found = append(found, op)
		tell(fmt.Sprintf("%s: %.2f µs with %s, %.2f µs otherwise", op.Key(), e.Micros, e.Tile, e.Plain))
	}
	look.Wrong = func(op kernels.Op, tile kernels.Tile, why error) {
		tell(fmt.Sprintf("%s: not with %s: %v", op.Key(), tile, why))
	}
	err = n.try(some, look)
	if len(found) == 0 || err != nil && !(errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil) {
		return err // what was found stays proposed
	}
	table.Trust(true)
	_, tried, err := compare(true)
	table.Trust(false)
	switch {
	case ctx.Err() != nil || errors.Is(err, wire.Lost):
		return err
	case err == nil && worthwhile(usual.Micros, tried.Micros):
		table.Accept(found...)
		table.Set(key, tried)
	default:
		tell(fmt.Sprintf("%s: the usual tilings stay", n.name))
		table.Usual(found...)
	}
	return errors.Join(err, table.Save())
}

// try tries the kernels whose best tilings are not known.
func (n *Net) try(ctx context.Context, look tiling.Look) error {
	table := n.tilings()
	if len(table.Wanted()) == 0 {
		return nil
	}
	if err := look.Wait(ctx); err != nil {
		return err
	}
	s, end, err := aside(n.session)
	if err != nil {
		return err
	}
	defer end()
	look.Beside = n.session
	err = table.Try(ctx, s, look)
	if _, _, gone := s.Pulse(); gone != nil && err != nil {
		return fmt.Errorf("fit: in the session that kernels are tried in, beside the net's: %w", err)
	}
	return err
}

// tellable is how long a look at some steps must take: below it, what a call costs the
// host counts as much as its steps, and what is the faster is chance. Peaks' step of 13 µs
// took 300 where a call was one step.
var tellable = 2 * time.Millisecond

// looked is how many steps a look takes, where an epoch has so many and they do not take
// longer than glance.
const looked = 500

// glance is how long a look at some steps takes at most, if that is more than one turn of
// the loop: whoever comes back to the session meanwhile waits for its end.
const glance = 100 * time.Millisecond

// untold says whether an entry of a step says nothing: of one that was not looked at, or
// whose epochs of Tried steps are too short to tell.
func untold(e tiling.Entry) bool { return e.Micros == 0 && e.Refused == "" }

// worthwhile says whether a step gains from other tilings than the usual ones, in µs,
// more than the same step differs from one look to the next. By less than that the
// MLP's in bf16 took XLA's update for its own, which is 11 kernels for 5.
func worthwhile(usual, tried float64) bool { return tried < 0.98*usual }

// compare times the net's steps with fused kernels and without, and returns the
// times and their key in the table, "" if there is nothing to choose from. What is
// known is not timed again, unless it is asked for. An epoch of one batch is as many as a
// look takes, as Train has them in one loop. before is called before each try.
func (n *Net) compare(ctx context.Context, data *Set, t Train, again bool, before func() error, tell func(string)) (key string, e tiling.Entry, err error) {
	if !n.cuda() || n.config.Kernels == XLAKernels || !n.fusible(data, 1) {
		return "", e, nil
	}
	t.Validation, t.Threshold, t.Patience = nil, 0, 0 // nothing is decided between epochs
	if t.Batch == data.N {
		t.Epochs = looked
	}
	r, err := n.run(ctx, data, t)
	if err != nil {
		return "", e, err
	}
	defer r.close()
	key = n.stepKey(r.main.Batch)
	table := n.tilings()
	fused := r.main.chunk
	fused.Fused = 1 + table.Changes()
	if _, err := n.epochProgram(data, fused); err != nil { // which notes the ops whose tilings are not known
		return "", e, err
	}
	e = table.Known(key)
	switch {
	case r.devices > 1:
		return "", e, nil
	case !untold(e) && !again:
		return key, e, nil
	}
	plain := r.main.chunk
	plain.Fused, plain.Resident = 0, false
	if n.config.Unroll == 0 { // as Train would have it
		plain.Inner, plain.Unroll = plain.turn(), 1
	}
	forms := []*steps{n.steps(data, plain), n.steps(data, fused)}
	for _, f := range forms {
		err := f.ready(ctx, nil)
		if f.Fused > 0 && refuses(err) {
			tell(fmt.Sprintf("%s: XLA's kernels, as this device does not take Gaiden's: %v", n.name, err))
			return key, tiling.Entry{Refused: err.Error()}, nil
		}
		if err != nil {
			return "", e, err
		}
	}
	k := fmt.Sprintf("order/%d/%t/%d", data.N, !t.InOrder, r.devices)
	p, err := n.wait(ctx, k, n.prepare(k, func() (*hlo.Program, error) { return n.orderProgram(data.N, !t.InOrder, r.devices) }, nil), nil)
	if err != nil {
		return "", e, err
	}
	last := len(r.state[0]) - 1
	order, err := run1(p, r.state.cut(last, last+1))
	if err != nil {
		return "", e, err
	}
	defer order.free()
	turns := min(r.main.Limit, max(1, looked/r.main.turn()))
	best, own, err := tiling.Alone(n.session, before, func(alone func() error) (best [2]time.Duration, err error) {
		for look := range 6 {
			for i, f := range forms {
				if err := errors.Join(alone(), ctx.Err()); err != nil {
					return best, err
				}
				took, err := r.clock(f, order, turns)
				if err != nil {
					return best, err
				}
				if look == 0 { // it warms up, and says how long a look is
					turns = max(1, min(turns, int(float64(turns)*float64(glance)/float64(took))))
					continue
				}
				if best[i] == 0 || took < best[i] {
					best[i] = took
				}
			}
		}
		return best, nil
	})
	if err = errors.Join(own, err); err != nil {
		return "", e, err
	}
	steps := float64(turns * r.main.turn())
	if max(best[0], best[1]) < tellable {
		tell(fmt.Sprintf("%s: %.0f steps of %d are over too soon to be compared: the kernels stay as they are", n.name, steps, r.main.Batch))
		return key, tiling.Entry{Tried: r.steps}, nil
	}
	micros := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / steps }
	e = tiling.Entry{Plain: micros(best[0]), Micros: micros(best[1])}
	tell(fmt.Sprintf("%s: a step of %d takes %.1f µs with fused kernels, %.1f µs with XLA's", n.name, r.main.Batch, e.Micros, e.Plain))
	return key, e, nil
}

// clock is how long some turns take, whose results are dropped.
func (r *run) clock(f *steps, order copies, turns int) (time.Duration, error) {
	if err := r.net.session.Wait(); err != nil {
		return 0, err
	}
	began := time.Now()
	after, results, err := f.do(r.state, r.data, order, r.rate, r.main.first, turns)
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
