package fit

import (
	"context"
	"errors"
	"math"
	"time"

	"gaiden/lib/session"
)

// ahead is a chunk that the devices work on. While they do, the run asks for
// the one after it, so that they never wait for the host.
type ahead struct {
	portion      *portion
	order        *exampleOrder
	first, turns int
	closes       bool // it is an epoch's last
	beside       bool // another one was at work when it was asked for
	began        time.Time
	after        copies
	results      *session.Array
	unpacked     []*session.Array // of a packed state, for the names; nil if they do not follow to it
	values       []float32
	ended        time.Time
	err          error
	over         chan struct{} // closed when they have come to the host
}

// ask begins some turns with a state, from an example of the epoch on. Their
// results are asked for at once, so that the clock is read when they come and not
// when the run has done with the chunk after it.
func (r *run) ask(state copies, p *portion, order *exampleOrder, first, turns int) (*ahead, error) {
	c := &ahead{portion: p, order: order, first: first, turns: turns, closes: r.closes(p, first, turns), beside: len(r.asked) > 0, began: time.Now()}
	var err error
	c.after, c.results, err = p.steps.run(state, r.data, order.order, r.rate, first, turns)
	if err != nil {
		return nil, err
	}
	if p.Packed {
		r.state, r.named = c.after, false // the one before is gone
		if c.closes && (r.joined || r.Validation != nil || r.asking == r.Epochs) || time.Since(r.last) > r.net.bindInterval() {
			if c.unpacked, err = r.unpackState(); err != nil {
				return nil, err
			}
			r.last = time.Now()
		}
	}
	order.hold()
	c.values, c.over = make([]float32, resultsOf(p.Part).Size()), make(chan struct{})
	go func() {
		defer close(c.over)
		c.err = c.results.Values(c.values)
		c.ended = time.Now()
		if c.err == nil && c.unpacked != nil {
			c.err = c.unpacked[len(c.unpacked)-1].Values(make([]int32, 1)) // names are for arrays that are there
		}
	}()
	return c, nil
}

// closes says whether a chunk is the last of an epoch.
func (r *run) closes(p *portion, first, turns int) bool {
	last := &r.main
	for _, q := range []*portion{&r.odd, &r.tail} {
		if q.Turns > 0 {
			last = q
		}
	}
	return p == last && first+turns*p.Turn()*p.Batch == p.First+p.Turns*p.Turn()*p.Batch
}

// drop gives back what a chunk makes that nobody will look at.
func (c *ahead) drop() {
	if !c.portion.Packed {
		c.after.free()
	}
	free(c.unpacked...)
	c.results.Finalize()
	c.order.release()
}

// keep waits for a chunk, and keeps what it made when its losses are finite.
func (r *run) keep(c *ahead) error {
	n, p := r.net, c.portion
	if err := during(r.ctx, func() { r.tell("train") }, func() error { <-c.over; return c.err }); err != nil {
		return err
	}
	if c.began.Before(r.kept) { // the devices began with it when they had done the last one
		c.began = r.kept
	}
	r.kept = c.ended
	took := c.ended.Sub(c.began)
	r.history.Device += took
	steps, wrong := c.turns*p.Turn(), c.values[len(c.values)-1]
	values := c.values[:steps*columns]
	defer free(c.unpacked...)
	if p.Packed {
		if wrong > 0 {
			return r.halt(c, values, steps-int(wrong))
		}
	} else if err := r.take(c, values, wrong > 0); err != nil {
		return err
	}
	c.results.Finalize()
	if c.unpacked != nil {
		if err := r.bindArrays(c.after, c.unpacked); err != nil {
			return err
		}
	}
	r.count(values, p.Batch, steps)
	if r.warmed == 0 {
		r.warmed, r.warm = r.done, time.Since(r.began)-r.history.Compile
	}
	if p.Batch == r.Batch && r.done > steps { // the first chunk of a run also warms up
		r.pace = paced(r.pace, took, steps)
		n.stepTime[r.main.key(r.data)] = r.pace // the next run need not feel its way
	}
	return nil
}

// paced is the pace of a step, by what is known and by a chunk of some steps. A
// chunk far shorter than a share counts for less: by how late the host hears of
// an end, on a busy machine, it can seem to have taken no time at all.
func paced(known, took time.Duration, steps int) time.Duration {
	seen := max(1, took/time.Duration(steps))
	if known == 0 || took >= share/4 {
		return seen
	}
	return known + time.Duration(float64(seen-known)*float64(took)/float64(share/4))
}

// take makes what a chunk has made the run's state when its losses are finite.
func (r *run) take(c *ahead, values []float32, wrong bool) error {
	n, p := r.net, c.portion
	if bad := notFinite(values); bad >= 0 {
		return r.diagnose(p, c.order.order, c.first, bad, float64(values[bad*columns]))
	}
	if wrong { // the last step's gradient was not finite, though its loss was
		return r.diagnose(p, c.order.order, c.first, c.turns*p.Turn(), math.NaN())
	}
	if err := n.bind(n.layout.all(), c.after[0]); err != nil {
		return err
	}
	r.state.free()
	r.state = c.after
	return nil
}

// halt is the end of a run whose packed state has stopped after some good steps
// of a chunk.
func (r *run) halt(c *ahead, values []float32, good int) error {
	loss := float64(values[good*columns])
	if !math.IsInf(loss, 0) { // the loss may be finite where the gradient is not
		loss = math.NaN()
	}
	r.count(values, c.portion.Batch, good)
	return r.diagnose(c.portion, c.order.order, c.first+good*c.portion.Batch, 0, loss)
}

// count adds the results of steps to the epoch's.
func (r *run) count(values []float32, batch, steps int) {
	for i := range steps {
		row := values[i*columns:]
		r.sum += float64(row[0]) * float64(row[1])
		r.weight += float64(row[1])
		r.epoch.Train.Right += int(row[2])
		r.history.Losses = append(r.history.Losses, row[0])
		if r.data.targets == 0 {
			r.history.Right = append(r.history.Right, int32(row[2]))
		}
	}
	if r.joined {
		r.join(values, batch, steps)
		return
	}
	r.seen += steps * batch
	r.epoch.Train.N = r.data.answers(r.seen)
	r.step += steps
	r.done += steps
	r.history.Steps += steps
	r.epoch.Train.Loss = mean(r.sum, r.weight)
}

// join makes an epoch of each step.
func (r *run) join(values []float32, batch, steps int) {
	elapsed := time.Since(r.began)
	for i := range steps {
		row := values[i*columns:]
		r.done++
		r.epoch = Epoch{Number: r.done, Elapsed: elapsed,
			Train: Score{Loss: float64(row[0]), Right: int(row[2]), N: r.data.answers(batch), Labels: r.data.targets == 0}}
		r.history.Epochs = append(r.history.Epochs, r.epoch)
	}
	r.step = 1
	r.history.Steps += steps
	r.saves.request(r.save)
}

// notFinite is the first step whose loss is not finite, -1 if there is none.
func notFinite(values []float32) int {
	for i := 0; i < len(values); i += columns {
		if l := float64(values[i]); math.IsNaN(l) || math.IsInf(l, 0) {
			return i / columns
		}
	}
	return -1
}

// diagnose makes the error of a chunk whose step number bad had a loss that is
// not finite. The chunk's results are dropped.
func (r *run) diagnose(p *portion, order copies, first, bad int, loss float64) error {
	e := &NotFiniteError{Net: r.net.name, Loss: loss, Epoch: r.epoch.Number, Step: r.step + bad + 1, Kept: r.step, KeptEpoch: r.epoch.Number}
	if r.joined {
		e.Epoch, e.Step, e.Kept, e.KeptEpoch = r.done+bad+1, 1, min(r.done, 1), r.done
	}
	state, err := r.state[0], error(nil)
	if p.Packed {
		state, err = r.unpackState()
	}
	if err == nil {
		err = r.net.explain(r.ctx, e, r.data, p.Batch, order[0][0], first, bad, state, r.rate[0])
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return errors.Join(e, err)
	}
	return e
}
