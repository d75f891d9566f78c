package fit

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/fit/result"
	"gaiden/lib/lower/plan"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// Train is the settings of a training.
type Train struct {
	Epochs       int     // default: 1
	Steps        int     // in place of Epochs; the last epoch may then be a part of one
	Batch        int     // examples a step; default: 32, or all if there are fewer
	Accumulate   int     // parts that a batch's gradients are computed in, one after another, for less memory; default: 1
	InOrder      bool    // do not shuffle
	KeepState    bool    // stateful LSTM layers keep their state from epoch to epoch
	DropLast     bool    // leave out the last batch of an epoch when it is not full
	LearningRate float64 // default: the optimizer's; changing it compiles nothing

	Validation *Set    // tested after each epoch
	Monitor    string  // the (validation) result that the next four go by; default: loss
	Threshold  float64 // ends the run when that of an epoch is better
	Patience   int     // ends it after so many epochs without a better one; 0: never
	KeepBest   bool    // the net has the weights of the best epoch in the end, also after Stop
	// ReduceOnPlateau lowers the learning rate where results are no better.
	ReduceOnPlateau optim.ReduceOnPlateau
	// OnEpoch is called after each epoch, OnStep after every StepInterval (default: 1) steps.
	// There the net can be used, but not changed. An error or panic ends the run.
	OnEpoch, OnStep func(*Control) error
	StepInterval    int

	// Progress is called at least every half second, by the goroutine that called Fit.
	Progress func(Progress)
	Quiet    bool   // no progress bar and no curves in a notebook
	Log      string // a folder that gets TensorBoard's files, CSV and JSON; see package runs
}

// Fit trains the net; a notebook shows a bar and curves. When its context ends it returns
// within half a second with the history so far, and no error if the cell was stopped.
func (n *Net) Fit(data *Set, t Train) (h *History, err error) {
	ctx := n.Context()
	if err := context.Cause(ctx); err != nil { // a loop of your own around Fit ends, too
		return nil, err
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := n.infer(data); err != nil {
		return nil, err
	}
	done, err := n.acquire(ctx, training)
	if err != nil {
		return nil, err
	}
	defer done()
	t, shown := t.displayed(n.name)
	defer func() { shown(h, err) }()
	r, err := n.run(ctx, data, t, plan.Call)
	if err != nil {
		return nil, err
	}
	defer r.close()
	log, err := r.startLog()
	if err != nil {
		return nil, err
	}
	defer func() { log.end(r, err) }()
	err = n.withBatchHint(r.ended(ctx, r.stopped(r.train())), data, r.Batch)
	if err != nil && r.history.Stopped == "" {
		r.history.Stopped = err.Error()
	}
	if err == nil {
		n.requestTuning(r.data, r.Train)
	}
	if n.ctx == nil && isEnd(ctx, err) {
		err = nil // the user's own wish; History.Stopped says so
	}
	return r.history, err
}

// isEnd says whether an error is that of a context that has ended, and no other.
func isEnd(ctx context.Context, err error) bool {
	return ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}

// displayed is t that also shows its progress where there is a display, and what ends that.
func (t Train) displayed(net string) (Train, func(*History, error)) {
	if result.Display == nil || t.Quiet {
		return t, func(*History, error) {}
	}
	seen := t.Progress
	set, end := result.Display(net)
	t.Progress = func(p Progress) {
		set(p)
		if seen != nil {
			seen(p)
		}
	}
	return t, end
}

// run is a call of Fit.
type run struct {
	Train
	net  *Net
	ctx  context.Context
	data *Set
	plan *plan.Plan
	epochParts
	deviceState
	queue
	pace
	record
	snapshots
	control
}

// epochParts are the examples and the programs of an epoch.
type epochParts struct {
	source           *source          // of a stream; nil: of a set
	order            *session.Program // of the examples
	main, odd, tail  portion
	final, cut       portion // main and what is left over of a last epoch that is shorter
	steps, lastEpoch int     // of an epoch, and of the last one
}

// pace is how fast a run is.
type pace struct {
	began     time.Time     // the run
	committed time.Time     // the last chunk
	stepTime  time.Duration // 0: not known yet
	warmSteps int           // those of the first chunk, which says little of what is left
	warmTime  time.Duration // when they were done, without the time to compile
}

// run checks the settings, decides the plan and prepares the state.
func (n *Net) run(ctx context.Context, data *Set, t Train, use plan.Use) (*run, error) {
	if n.kernelsMayRun() {
		n.tilings().Refresh() // of one that cannot be read, what is known already
	}
	t, err := n.checked(data, t)
	if err != nil {
		return nil, err
	}
	if data.stream != nil {
		data = data.sized(data.N - data.N%t.Batch)
	}
	plan, err := n.decide(data, t, use)
	if err != nil {
		return nil, err
	}
	r := &run{Train: t, net: n, ctx: ctx, data: data, plan: plan}
	r.began = time.Now()
	r.snapshots.last = r.began
	r.record = record{history: &History{Devices: plan.Devices, Note: plan.Note, FLOPs: plan.Training.Work.FLOPs}, labels: n.labelled(data), measured: n.measured(data), answers: data.answers()}
	maximize, err := r.measured.maximizes(t.Monitor, r.labels)
	if err != nil {
		return nil, err // checked: it cannot be
	}
	r.goal = newGoal(t.Monitor, maximize)
	r.main, r.odd, r.tail = portion{Part: plan.Main}, portion{Part: plan.Odd}, portion{Part: plan.Tail}
	r.final, r.cut = portion{Part: plan.Final}, portion{Part: plan.Cut}
	r.steps, r.lastEpoch = t.epochSteps(data), t.lastSteps(data)
	if t.Epochs == 1 {
		r.steps = r.lastEpoch
	}
	if data.stream != nil {
		r.steps, r.lastEpoch = 0, 0 // not known before the first epoch has ended
	}
	r.stepTime = n.stepTime[r.main.key(data)]
	r.devices = plan.Devices
	state, err := n.state(n.layout.all())
	if err != nil {
		return nil, err
	}
	r.state, r.bound = copies{state}, true
	rate := cmp.Or(t.LearningRate, n.config.Optimizer.Rate())
	return r, r.setRate(rate)
}

func (r *run) close() {
	r.source.close()
	r.rate.free()
	r.state.free()
}

// train does all epochs. Chunks of steps are requested one ahead of the devices, across
// epochs too, where nothing is decided between them.
func (r *run) train() error {
	if err := r.prepare(); err != nil {
		return err
	}
	defer r.settle()
	epochs := r.Epochs
	if r.plan.Merged {
		epochs = 1
	}
	r.record.begin(1)
	for epoch := 1; epoch <= epochs && r.history.Stopped == ""; epoch++ {
		if err := r.trainEpoch(epoch); err != nil {
			return err
		}
		epochs = min(epochs, r.Epochs) // a stream's are known by the last one
	}
	return r.await(0)
}

// trainEpoch requests the steps of an epoch, chunk after chunk, and takes in the losses of
// those that have ended.
func (r *run) trainEpoch(epoch int) error {
	if err := r.resetState(); err != nil {
		return err
	}
	r.requesting = epoch
	for last := false; !last; {
		order, err := r.nextBlock()
		if err != nil {
			return err
		}
		if last = order.last; order.final {
			r.Epochs = epoch
		}
		err = r.trainBlock(order)
		order.release()
		if err != nil {
			return err
		}
	}
	if r.plan.Watched {
		return r.await(0)
	}
	return nil
}

// trainBlock requests the steps on some examples in an order.
func (r *run) trainBlock(order *exampleOrder) error {
	for _, p := range order.parts {
		if err := r.ready(p); err != nil {
			return err
		}
		for turn := 0; turn < p.Turns; {
			if err := r.await(r.mayPend()); err != nil {
				return err
			}
			if err := context.Cause(r.ctx); err != nil { // Progress may have stopped the run
				return err
			}
			if order.arrays == nil {
				if err := r.shuffle(order); err != nil {
					return err
				}
			}
			turns := r.chunkTurns(p, r.untilCall(p, p.Turns-turn))
			c, err := r.request(r.latest(), p, order, p.First+turn*p.Turn()*p.Batch, turns)
			if err != nil {
				return err
			}
			r.pending, turn = append(r.pending, c), turn+turns
			if r.requested += turns * p.Turn(); r.interval() > 0 && r.requested%r.interval() == 0 {
				if err := r.await(0); err != nil {
					return err
				}
			}
			if err := r.uploadAhead(); err != nil {
				return err
			}
		}
	}
	return nil
}

// endEpoch ends an epoch whose chunks are committed, with its test and what is decided by
// it.
func (r *run) endEpoch() error {
	var validation *Score
	if r.Validation != nil {
		if err := r.bindState(); err != nil {
			return err
		}
		if _, err := r.wait(r.ctx, r.net.tester(r.Validation)); err != nil {
			return err
		}
		r.report("test")
		var err error
		if validation, err = r.net.score(r.ctx, r.Validation, func() { r.report("test") }); err != nil {
			return err
		}
	}
	if r.source != nil {
		r.steps, r.lastEpoch = max(r.steps, r.step), r.step // known now
	}
	r.record.end(time.Since(r.began), validation)
	r.snapshots.request(r.save)
	r.report("train")
	if err := r.decide(); err != nil {
		return err
	}
	if r.epoch.Number < r.Epochs {
		if r.history.Stopped = r.goal.enough(r.epoch, r.Threshold, r.Patience); r.history.Stopped == "" {
			r.record.begin(r.epoch.Number + 1)
		}
	}
	return nil
}

// untilCall is how many of the turns that are left there are until OnStep is called.
func (r *run) untilCall(p *portion, left int) int {
	if r.interval() == 0 {
		return left
	}
	return min(left, (r.interval()-r.requested%r.interval())/p.Turn())
}

// prepare compiles the programs and puts the state on the devices. Programs that are not
// needed yet are compiled meanwhile.
func (r *run) prepare() error {
	var order *future
	if r.data.stream != nil {
		if err := r.openSource(); err != nil {
			return err
		}
	} else {
		order = r.net.order(r.data.N, !r.InOrder, r.devices)
	}
	if r.plan.Packed {
		r.net.prepare("pack", r.net.packProgram, nil)
		r.net.prepare("unpack", r.net.unpackProgram, nil)
	}
	r.compile(&r.main)
	if !r.net.target.CPU() { // whose processors the first steps do not need
		r.compileRest()
	}
	if err := r.ready(&r.main); err != nil {
		return err
	}
	r.compileRest()
	err := r.distribute()
	if err == nil && order != nil {
		r.order, err = r.wait(r.ctx, order)
	}
	return err
}

// compileRest begins to compile what comes after the main portion.
func (r *run) compileRest() {
	for _, p := range []*portion{&r.odd, &r.tail, &r.final, &r.cut} {
		r.compile(p)
	}
	if r.Validation != nil {
		r.net.tester(r.Validation)
	}
}

// portions are those of an epoch, in order.
func (r *run) portions(epoch int) []*portion {
	all := []*portion{&r.main, &r.odd, &r.tail}
	if epoch == r.Epochs && r.final.Turns+r.cut.Turns > 0 {
		all = []*portion{&r.final, &r.cut}
	}
	return slices.DeleteFunc(all, func(p *portion) bool { return p.Turns == 0 })
}

// compile begins to compile a portion's programs.
func (r *run) compile(p *portion) {
	if p.Turns == 0 || p.steps != nil {
		return
	}
	data := r.data
	if p.OwnRows = data.stream != nil && r.devices > 1; p.OwnRows {
		data = data.sized(ownRows(data.N, r.Batch, r.devices))
	}
	p.steps = r.net.stepPrograms(data, p.Part)
}

// ready waits for a portion's programs.
func (r *run) ready(p *portion) error {
	if p.Turns == 0 || p.steps != nil && p.steps.main != nil {
		return nil
	}
	began := time.Now()
	defer func() { r.history.Compile += time.Since(began) }()
	alive := func() { r.report("compile") }
	ready := func() error {
		r.compile(p)
		alive()
		return p.steps.ready(r.ctx, alive)
	}
	err := ready()
	if p.Kernels != nil && r.net.config.Kernels == AutoKernels && refuses(err) {
		return r.without(err, ready)
	}
	return err
}

// report reports where the run is.
func (r *run) report(phase string) {
	if r.Progress == nil {
		return
	}
	steps := r.steps
	if r.epoch.Number == r.Epochs {
		steps = r.lastEpoch
	}
	p := r.record.progress(phase, r.Epochs, steps)
	if p.Total = (r.Epochs-1)*r.steps + r.lastEpoch; r.source != nil && r.Steps > 0 {
		if p.Total, p.Epochs = r.Steps, 0; r.steps > 0 {
			p.Epochs = (r.Steps + r.steps - 1) / r.steps
		}
	}
	p.Elapsed = time.Since(r.began)
	if after := r.history.Steps - r.warmSteps; after > 0 && r.warmSteps > 0 && (r.steps > 0 || r.Steps > 0) {
		busy := p.Elapsed - r.history.Compile - r.warmTime
		p.Left = time.Duration(float64(busy) / float64(after) * float64(p.Total-r.history.Steps))
	}
	r.Progress(p)
}

// save saves the session's arrays; its status has the error.
func (r *run) save() { r.net.session.Save() }

// checked is a Train with its defaults filled in, if the net can be trained so.
func (n *Net) checked(data *Set, t Train) (Train, error) {
	if err := n.canTrain(data); err != nil {
		return t, err
	}
	if t.Validation != nil {
		if err := cmp.Or(n.canTrain(t.Validation), n.encodedAlike(t.Validation.Name, t.Validation.Encoder, data.Encoder, true)); err != nil {
			return t, err
		}
	}
	if t.Steps != 0 && (t.Steps < 0 || t.Epochs != 0) {
		return t, fmt.Errorf("fit: %s: %d Steps and %d Epochs: want 1 or more of one of them, and none of the other", n.name, t.Steps, t.Epochs)
	}
	t.Epochs = cmp.Or(t.Epochs, 1)
	if t.Batch == 0 {
		t.Batch = min(32, data.N)
		if carried, _ := n.model.Sequences(); carried > 0 {
			t.Batch = carried
		}
	}
	if err := t.check(n, data); err != nil {
		return t, err
	}
	if n.config.Step != nil {
		o, err := n.outline(data, t.Batch)
		if err != nil {
			return t, err
		}
		if t.Accumulate > 1 && o.losses > 1 {
			return t, fmt.Errorf("fit: %s: Accumulate of %d with a Config.Step that calls Minimize %d times, the later ones with the weights after the first: want one call of Minimize, or a smaller Batch", n.name, t.Accumulate, o.losses)
		}
	}
	if t.Steps > 0 {
		each := t.epochSteps(data)
		if data.stream != nil {
			each = 1 // or more: the examples of an epoch are not known
		}
		t.Epochs = (t.Steps + each - 1) / each
	}
	if t.Batch == data.N { // nothing to shuffle but the order of sums
		t.InOrder = true
	}
	if len(n.carriedSlots()) > 0 {
		if err := cmp.Or(n.refuseStream(data, "training stateful layers"), n.refuseStream(t.Validation, "validation of stateful layers")); err != nil {
			return t, err
		}
	}
	return t, n.checkCarried(data, t)
}

// integers puts int32 scalars on a device.
func (n *Net) integers(device int, values ...int) ([]*session.Array, error) {
	var l []*session.Array
	for _, v := range values {
		a, err := n.session.Put([]int32{int32(v)}, shapes.Make(dtypes.Int32), device)
		if err != nil {
			return nil, err
		}
		l = append(l, a)
	}
	return l, nil
}

func free(arrays ...*session.Array) {
	for _, a := range arrays {
		a.Finalize()
	}
}
