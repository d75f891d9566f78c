package fit

import (
	"context"
	"math"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"

	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// Train is the settings of a training.
type Train struct {
	Epochs       int     // default: 1
	Batch        int     // examples a step; default: 32, or all if there are fewer
	InOrder      bool    // do not shuffle
	KeepState    bool    // stateful LSTM layers keep their state from epoch to epoch
	DropLast     bool    // leave out the last batch of an epoch when it is not full
	LearningRate float64 // default: the optimizer's; changing it compiles nothing

	Validation *Set    // tested after each epoch
	Threshold  float64 // ends the run when the (validation) loss of an epoch is below it
	Patience   int     // ends it after so many epochs without a smaller one; 0: never

	// Progress is called at least every half second, by the goroutine that called Train.
	Progress func(Progress)
}

// share is how long a chunk of steps should take. A short cell of another
// notebook waits for the chunk at work and the one asked for ahead: 100 ms at
// most, of which this leaves a fifth for what the pace does not foresee on a busy
// machine. A step that takes longer is a chunk by itself.
const share = 40 * time.Millisecond

// Train trains the net. When ctx ends it returns within half a second, with the history so
// far. Meanwhile no other program can change the net.
func (n *Net) Train(ctx context.Context, data *Set, t Train) (*History, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	done, err := n.acquire(ctx, training)
	if err != nil {
		return nil, err
	}
	defer done()
	r, err := n.run(ctx, data, t, plan.Call)
	if err != nil {
		return nil, err
	}
	defer r.close()
	err = r.epochs()
	if nerr := r.bindState(); err == nil {
		err = nerr
	}
	if err != nil && ctx.Err() == nil {
		n.session.Wait() // else the next cell hears of what was asked for after it, and came to nothing
	}
	err = n.withBatchHint(err, data, r.Batch)
	if err != nil && r.history.Stopped == "" {
		r.history.Stopped = err.Error()
	}
	if err == nil {
		n.requestTuning(data, r.Train)
	}
	return r.history, err
}

// run is a call of Train at work.
type run struct {
	Train
	net     *Net
	ctx     context.Context
	data    *Set
	history *History
	began   time.Time

	state           copies // variables, moments, step
	rate            copies
	devices         int
	plan            *plan.Plan
	named           bool // the state, if it is packed; as of last
	last            time.Time
	order           *session.Program
	main, odd, tail portion
	steps           int           // of an epoch
	joined          bool          // epochs are single steps that nobody looks at: all are one loop
	drains          bool          // something is decided between two epochs
	asked           []*ahead      // the first is at work, the others wait for it
	asking          int           // the epoch of the last one
	settling        bool          // the run was stopped: epochs are not finished
	alone           bool          // there is no memory for a chunk beside another
	stepped         bool          // nor for a turn beside the one before it
	done            int           // steps of this run
	seen            int           // examples of this epoch
	warmed          int           // of them, those of the first chunk, which says little of what is left
	warm            time.Duration // when they were done, but for compiling
	kept            time.Time     // when the last chunk was
	pace            time.Duration // of a step; 0: not known yet
	saves           snapshots
	epoch           Epoch
	step            int // of the epoch
	sum, weight     float64
	best            float64 // loss of an epoch
	since           int     // epochs without a better one
}

// checked is a Train with its defaults filled in, if the net can be trained so.
func (n *Net) checked(data *Set, t Train) (Train, error) {
	if err := n.canTrain(data); err != nil {
		return t, err
	}
	if t.Validation != nil {
		if err := n.canTrain(t.Validation); err != nil {
			return t, err
		}
	}
	if t.Epochs == 0 {
		t.Epochs = 1
	}
	if t.Batch == 0 {
		t.Batch = min(32, data.N)
		if carried, _ := n.model.Sequences(); carried > 0 {
			t.Batch = carried
		}
	}
	if err := t.check(n, data); err != nil {
		return t, err
	}
	if t.Batch == data.N { // nothing to shuffle but the order of sums
		t.InOrder = true
	}
	return t, n.checkCarried(data, t)
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
	plan, err := n.decide(data, t, use)
	if err != nil {
		return nil, err
	}
	r := &run{Train: t, net: n, ctx: ctx, data: data, plan: plan, began: time.Now(), best: math.Inf(1),
		history: &History{Devices: plan.Devices, Note: plan.Note}, devices: plan.Devices, drains: t.decides(n), joined: t.merges(n, data),
		main: portion{Part: plan.Main}, odd: portion{Part: plan.Odd}, tail: portion{Part: plan.Tail}}
	r.saves.last = r.began
	r.steps = data.N / t.Batch
	if r.tail.Turns > 0 {
		r.steps++
	}
	r.pace = n.stepTime[r.main.key(data)]
	state, err := n.state(n.layout.all())
	if err != nil {
		return nil, err
	}
	r.state, r.named = copies{state}, true
	rate := t.LearningRate
	if rate == 0 {
		rate = n.config.Optimizer.Rate()
	}
	a, err := n.session.Put([]float32{float32(rate)}, shapes.Make(dtypes.Float32), 0)
	if err != nil {
		return nil, err
	}
	r.rate, err = n.replicate([]*session.Array{a}, r.devices)
	return r, err
}

func (r *run) close() {
	r.rate.free()
	r.state.free()
}

// prepare begins to compile a portion's programs.
func (r *run) prepare(p *portion) {
	if p.Turns > 0 && p.steps == nil {
		p.steps = r.net.stepPrograms(r.data, p.Part)
	}
}

func (r *run) ready(p *portion) error {
	if p.Turns == 0 || p.steps != nil && p.steps.main != nil {
		return nil
	}
	began := time.Now()
	defer func() { r.history.Compile += time.Since(began) }()
	alive := func() { r.tell("compile") }
	ready := func() error {
		r.prepare(p)
		alive()
		return p.steps.ready(r.ctx, alive)
	}
	err := ready()
	if p.Kernels != nil && r.net.config.Kernels == AutoKernels && refuses(err) {
		return r.without(err, ready)
	}
	return err
}

// ahead is how many chunks the devices may still have to do when the next one is
// asked for: none, until it is known how long a step takes, nor where memory has room
// for the state of one only. Nor any while a bulky
// state is given its names, so that no step's memory adds to that of a third copy,
// nor of such a state on a CPU, where asking costs little beside a step, and memory much:
// see device's idle.
func (r *run) ahead() int {
	last := len(r.asked) - 1
	if r.pace == 0 || r.alone || r.net.stateBytes() >= bulky && (r.net.target.CPU() || last >= 0 && r.asked[last].unpacked != nil) {
		return 0
	}
	return 1
}

// bulky is the size of a state, in bytes, that is worth the few milliseconds in which
// the devices have nothing to do when it is given its names. ResNet152's is 0.5 GB.
const bulky = 128 << 20

// turns is how many turns the next chunk does: about a share of time.
func (r *run) turns(p *portion, left int) int {
	left = min(left, p.Limit)
	if r.pace == 0 || r.paces(p) {
		return 1
	}
	return max(1, min(left, int(share/max(1, r.pace*time.Duration(p.Turn())))))
}

// tell reports where the run is.
func (r *run) tell(phase string) {
	if r.Progress == nil {
		return
	}
	p := Progress{Phase: phase, Epoch: max(1, r.epoch.Number), Epochs: r.Epochs, Step: r.step, Steps: r.steps, Loss: r.epoch.Train.Loss,
		Accuracy: r.epoch.Train.Accuracy(), Labels: r.data.targets == 0, Elapsed: time.Since(r.began), Validation: r.history.Last().Validation}
	if r.epoch.Validation != nil {
		p.Validation = r.epoch.Validation
	}
	if after := r.done - r.warmed; after > 0 && r.warmed > 0 {
		busy := p.Elapsed - r.history.Compile - r.warm
		p.Left = time.Duration(float64(busy) / float64(after) * float64(r.steps*r.Epochs-r.done))
	}
	r.Progress(p)
}

// save saves the session's arrays; its status has the error.
func (r *run) save() { r.net.session.Save() }

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
