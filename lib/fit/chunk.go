package fit

import (
	"context"
	"errors"
	"math"
	"slices"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// queue is the chunks of steps that a run has requested. While the devices work on one, the
// run requests the next, so that they never wait for the host.
type queue struct {
	pending    []*pendingChunk // the first is running, the others wait for it
	requesting int             // the epoch of the next one
	requested  int             // steps of the run
	memory     memoryFor
}

// memoryFor is what there is memory for, next to the state that has the names.
type memoryFor int

const (
	pendingChunks memoryFor = iota // more than one chunk's state
	oneChunk                       // that of one chunk at a time
	oneTurn                        // that of one turn of Fresh steps at a time
)

// pendingChunk is some turns of a portion that the devices work on.
type pendingChunk struct {
	portion      *portion
	order        *exampleOrder
	first, turns int
	endsEpoch    bool
	behind       bool // another one was running when it was requested
	began        time.Time
	after        copies           // the state
	results      *session.Array   // of its steps
	unpacked     []*session.Array // of a packed state, to be bound; nil if it is not
	outcome      chunkOutcome
	over         chan struct{} // closed when the outcome is there
}

// chunkOutcome is what the host gets of a chunk.
type chunkOutcome struct {
	values []float32
	ended  time.Time
	err    error
}

// request requests some turns with a state, from an example of the epoch on. A goroutine
// waits for the results, so that the clock is read when they come and not when the run has
// time for them.
func (r *run) request(state copies, p *portion, order *exampleOrder, first, turns int) (*pendingChunk, error) {
	all := order.parts
	c := &pendingChunk{portion: p, order: order, first: first, turns: turns, behind: len(r.pending) > 0, began: time.Now(), over: make(chan struct{}),
		endsEpoch: order.last && p == all[len(all)-1] && first+turns*p.Turn()*p.Batch == p.First+p.Turns*p.Turn()*p.Batch}
	var err error
	c.after, c.results, err = p.steps.run(state, order.data, order.arrays, r.rate, first, turns)
	if err != nil {
		return nil, err
	}
	if p.Packed {
		r.state, r.bound = c.after, false // the one before is gone
		if c.endsEpoch && (r.plan.Merged || r.Validation != nil || r.requesting == r.Epochs) || time.Since(r.boundAt) > r.plan.BindInterval() {
			if c.unpacked, err = r.unpackState(); err != nil {
				return nil, err
			}
			r.boundAt = time.Now()
		}
	}
	order.hold()
	c.outcome.values = make([]float32, r.net.resultsOf(r.data, p.Part).Size())
	go func() {
		defer close(c.over)
		o := &c.outcome
		o.err = c.results.Values(o.values)
		o.ended = time.Now()
		if o.err == nil && c.unpacked != nil {
			o.err = c.unpacked[len(c.unpacked)-1].Values(make([]int32, 1)) // names are for arrays that are there
		}
	}()
	return c, nil
}

// mayPend is how many chunks may be pending when the next one is requested.
func (r *run) mayPend() int {
	if r.memory != pendingChunks {
		return 0
	}
	last := len(r.pending) - 1
	return r.plan.Pending(r.stepTime, last >= 0 && r.pending[last].unpacked != nil)
}

// chunkTurns is how many turns the next chunk does.
func (r *run) chunkTurns(p *portion, left int) int {
	if r.turnByTurn(p) {
		return 1
	}
	return p.ChunkTurns(r.stepTime, left)
}

// turnByTurn says whether a portion's turns are requested one by one, since memory is short.
func (r *run) turnByTurn(p *portion) bool { return r.memory == oneTurn && p.Form == plan.Fresh }

// latest is the state after all that has been requested.
func (r *run) latest() copies {
	if n := len(r.pending); n > 0 && !r.pending[n-1].portion.Packed {
		return r.pending[n-1].after
	}
	return r.state
}

// await commits chunks until so many are pending.
func (r *run) await(pending int) error {
	for len(r.pending) > pending {
		c := r.pending[0]
		switch err := r.commit(r.ctx, c); {
		case r.lacksMemory(err):
			if err := r.retry(); err != nil {
				return err
			}
			continue
		case err != nil:
			return err
		}
		r.pop()
		if k := r.interval(); k > 0 && r.history.Steps%k == 0 {
			if err := r.call("OnStep", r.OnStep); err != nil {
				return err
			}
		}
		if c.endsEpoch && !r.plan.Merged {
			if err := r.endEpoch(); err != nil {
				return err
			}
		} else {
			r.report("train")
		}
	}
	return nil
}

func (r *run) pop() {
	r.pending[0].order.release()
	r.pending = r.pending[1:]
}

// settle frees what a run that ends early has requested. The steps of a packed state are
// in it: they count.
func (r *run) settle() {
	if r.ctx.Err() != nil {
		for len(r.pending) > 0 && r.pending[0].portion.Packed {
			if r.commit(context.WithoutCancel(r.ctx), r.pending[0]) != nil {
				break
			}
			r.pop()
			r.report("train")
		}
	}
	for _, c := range r.pending {
		r.history.Dropped += c.turns * c.portion.Turn()
		c.drop()
	}
	r.pending = nil
}

// drop frees the results of a chunk that are not needed.
func (c *pendingChunk) drop() {
	if !c.portion.Packed {
		c.after.free()
	}
	free(c.unpacked...)
	c.results.Finalize()
	c.order.release()
}

// commit waits for a chunk. When its losses are finite, its state is the net's and they are
// recorded.
func (r *run) commit(ctx context.Context, c *pendingChunk) error {
	p := c.portion
	if err := during(ctx, func() { r.report("train") }, func() error { <-c.over; return c.outcome.err }); err != nil {
		return err
	}
	took := r.clock(c)
	steps, values := c.turns*p.Turn(), c.outcome.values
	wrong := int(values[len(values)-1])
	values = values[:steps*r.columns()]
	defer free(c.unpacked...)
	switch {
	case p.Packed && wrong > 0:
		return r.halt(ctx, c, values, steps-wrong)
	case !p.Packed:
		if err := r.bindChunk(ctx, c, values, wrong > 0); err != nil {
			return err
		}
	}
	c.results.Finalize()
	if c.unpacked != nil {
		if err := r.bindArrays(c.after, c.unpacked, true); err != nil {
			return err
		}
	}
	r.count(values, p.Batch)
	if r.warmSteps == 0 {
		r.warmSteps, r.warmTime = r.history.Steps, time.Since(r.began)-r.history.Compile
	}
	if p.Batch == r.Batch && r.history.Steps > steps { // the first chunk of a run also warms up
		r.stepTime = plan.StepTime(r.stepTime, took, steps)
		r.net.stepTime[r.main.key(r.data)] = r.stepTime // the next run begins with it
	}
	return nil
}

// clock is how long the devices took for a chunk, which they began when they had done the
// one before it.
func (r *run) clock(c *pendingChunk) time.Duration {
	if c.began.Before(r.committed) {
		c.began = r.committed
	}
	r.committed = c.outcome.ended
	took := c.outcome.ended.Sub(c.began)
	r.history.Device += took
	return took
}

// bindChunk makes the state after a chunk the net's when its losses are finite.
func (r *run) bindChunk(ctx context.Context, c *pendingChunk, values []float32, wrong bool) error {
	p := c.portion
	if bad := firstNotFinite(values, r.columns()); bad >= 0 {
		return r.diagnose(ctx, p, c.order, c.first, bad, float64(values[bad*r.columns()]))
	}
	if wrong { // the last step's gradient was not finite, though its loss was
		return r.diagnose(ctx, p, c.order, c.first, c.turns*p.Turn(), math.NaN())
	}
	if err := r.bindTrained(c.after[0]); err != nil {
		return err
	}
	r.state.free()
	r.state = c.after
	return nil
}

// halt is the end of a run whose packed state has stopped after some good steps of a chunk.
func (r *run) halt(ctx context.Context, c *pendingChunk, values []float32, good int) error {
	loss := float64(values[good*r.columns()])
	if !math.IsInf(loss, 0) { // the loss may be finite where the gradient is not
		loss = math.NaN()
	}
	r.count(values[:good*r.columns()], c.portion.Batch)
	return r.diagnose(ctx, c.portion, c.order, c.first+good*c.portion.Batch, 0, loss)
}

// count records the results of steps. Steps of merged epochs are epochs.
func (r *run) count(values []float32, batch int) {
	elapsed := time.Since(r.began)
	for row := range slices.Chunk(values, r.columns()) {
		if r.plan.Merged {
			r.record.begin(r.history.Steps + 1)
		}
		addRow(&r.record, row, batch)
		if r.plan.Merged {
			r.record.end(elapsed, nil)
		}
	}
	if r.plan.Merged {
		r.snapshots.request(r.save)
	}
}

// firstNotFinite is the first step whose loss is not finite, -1 if there is none.
func firstNotFinite(values []float32, columns int) int {
	for i := 0; i < len(values); i += columns {
		if l := float64(values[i]); math.IsNaN(l) || math.IsInf(l, 0) {
			return i / columns
		}
	}
	return -1
}

// diagnose makes the error of a chunk whose step number bad had a loss that is not finite.
// The chunk's results are dropped.
func (r *run) diagnose(ctx context.Context, p *portion, order *exampleOrder, first, bad int, loss float64) error {
	e := &result.NotFiniteError{Net: r.net.name, Loss: loss, Epoch: r.epoch.Number, Step: r.step + bad + 1, Kept: r.step, KeptEpoch: r.epoch.Number}
	if done := r.history.Steps; r.plan.Merged {
		e.Epoch, e.Step, e.Kept, e.KeptEpoch = done+bad+1, 1, min(done, 1), done
	}
	state, err := r.state[0], error(nil)
	if p.Packed {
		state, err = r.unpackState()
	}
	if err == nil && p.steps.OwnRows { // device 0 looks at whole batches
		order = &exampleOrder{streamed: r.net, block: order.block, drawn: order.drawn}
		err = r.net.putBlock(order, r.data, p.Batch, 1)
		defer order.release()
	}
	if err == nil {
		err = r.net.explain(ctx, e, order.data, p.Batch, order.arrays[0][0], first, bad, state, r.rate[0])
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		return errors.Join(e, err)
	}
	return e
}

// exampleOrder is the order of an epoch's examples, or of a block's of a stream. Its chunks
// hold it, as the one that requests them does.
type exampleOrder struct {
	arrays copies
	held   int        // by chunks
	data   *Set       // the examples
	parts  []*portion // the steps
	last   bool       // of the epoch
	final  bool       // of the run

	streamed *Net // whose data is not needed any longer than the order; nil: of a set
	block    *hostBlock
	drawn    []int32 // the order of the block's examples
	host     []int32 // that of the arrays' rows
}

func (s *exampleOrder) hold() *exampleOrder {
	s.held++
	return s
}

// release frees the order when nothing holds it any more.
func (s *exampleOrder) release() {
	if s.held--; s.held >= 0 {
		return
	}
	s.arrays.free()
	if s.streamed != nil {
		s.streamed.freeCopies(s.data.all())
		free(s.data.all()...)
	}
}

// shuffle orders the examples for what comes after all that has been requested.
func (r *run) shuffle(s *exampleOrder) (err error) {
	if s.streamed != nil {
		return r.net.putOrder(s, r.devices)
	}
	s.arrays, err = runOnce(r.order, stepOf(r.latest()))
	return err
}

// lacksMemory says whether there was no memory for the first chunk next to the one that was
// running when it was requested, or for the state after one of its turns next to those
// before it. The state that it began with is still there, if it is not packed.
func (r *run) lacksMemory(err error) bool {
	c := r.pending[0]
	return errors.Is(err, wire.OutOfMemory) && !c.portion.Packed && (c.behind || c.portion.Form == plan.Fresh && c.turns > 1)
}
