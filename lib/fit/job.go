package fit

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/wire"
	"gaiden/lib/lower/plan"
	"gaiden/lib/session"
)

// FitJob is Fit, without OnEpoch, OnStep, Progress and Log, as a job of the session with the net's
// name: it continues when the cell or the kernel ends, and after a crash from the last snapshot.
func (n *Net) FitJob(data *Set, t Train) (*Job, error) {
	ctx := n.Context()
	n.mu.Lock()
	defer n.mu.Unlock()
	done, err := n.acquire(ctx, training) // until the job itself keeps others away
	if err != nil {
		return nil, err
	}
	defer done()
	if err := cmp.Or(n.refuseStream(data, "a job"), n.refuseStream(t.Validation, "the validation of a job")); err != nil {
		return nil, err
	}
	r, err := n.run(ctx, data, t, plan.Job)
	if err != nil {
		return nil, err
	}
	defer r.close()
	switch {
	case t.OnEpoch != nil || t.OnStep != nil:
		return nil, fmt.Errorf("fit: %s: OnEpoch or OnStep in a job: another process cannot run a function of this one: want Fit, or them left out", n.name)
	case t.Progress != nil:
		return nil, fmt.Errorf("fit: %s: Progress in a job, which continues after this call: want it given to Job.Follow", n.name)
	case t.Log != "":
		return nil, fmt.Errorf("fit: %s: Log in a job, which continues without this process: want runs.Save with the history that Job.Follow returns", n.name)
	case r.lastEpoch != r.steps:
		return nil, fmt.Errorf("fit: %s: a job of %d Steps, of which an epoch has %d: want a multiple of that, or no more than one epoch", n.name, t.Steps, r.steps)
	case t.Validation == nil && (t.Threshold != 0 || t.Patience != 0 || t.judged()):
		return nil, fmt.Errorf("fit: %s: Threshold, Patience, KeepBest and ReduceOnPlateau of a job go by its validation: want Train.Validation too", n.name)
	}
	b := jobBuilder{run: r, prefix: "job:" + n.name + "/"}
	if err := b.build(); err != nil {
		return nil, err
	}
	if _, err := n.session.StartJob(b.job); err != nil {
		return nil, err
	}
	if err := n.learnsFrom(data); err != nil {
		return nil, err
	}
	n.requestTuning(data, r.Train)
	return &Job{n.name, explicit(n.session)}, nil
}

// jobBuilder writes a run down as a job. A turn of the job is a chunk of steps, a
// period of it is an epoch. What a chunk makes has names of its own, and is copied
// to the state's when it is finite. Device 0 has what is in snapshots; see jobdevices.go
// for the others.
type jobBuilder struct {
	*run
	prefix string // of the names that only the job needs
	job    session.Job
	names  []string // of scalars, to be bound
	values []*session.Array
	shared []string // arrays that all devices have, and their shapes
	shapes []shapes.Shape
}

func (b *jobBuilder) build() error {
	n := b.net
	about, err := b.about()
	if err != nil {
		return err
	}
	if err := b.compileAll(); err != nil {
		return err
	}
	b.job = session.Job{Name: n.name, Scratch: b.prefix, Copies: b.prefix + copiesPrefix, Origin: n.config.Origin, Period: 1}
	if err := b.addBeginning(); err != nil {
		return err
	}
	if err := b.addEpoch(about.Steps); err != nil {
		return err
	}
	if err := b.copyToDevices(); err != nil {
		return err
	}
	b.job.Turns = b.job.Period * about.Epochs
	if b.Validation != nil {
		about.Tests = b.Validation.N * b.Validation.answers()
		if err := b.test(); err != nil {
			return err
		}
	}
	if b.plan.Merged { // for those who follow, each step is an epoch
		about.Epochs, about.Steps, about.N = b.Epochs, 1, b.Batch
	}
	text, err := json.Marshal(about)
	if err != nil {
		return err
	}
	b.job.About = string(text)
	return n.session.Bind(b.names, b.values)
}

// about is what those who follow the job are told of it.
func (b *jobBuilder) about() (jobDescription, error) {
	about := jobDescription{Net: b.net.name, Data: b.data.Name, Epochs: b.Epochs, Steps: b.steps, Batch: b.Batch, N: b.data.N, Layers: b.net.model.Names(), FLOPs: b.plan.Training.Work.FLOPs, Devices: b.devices, Note: b.plan.Note,
		jobResults: jobResults{Answers: b.data.answers(), Labels: b.net.labelled(b.data)}}
	if b.plan.Merged {
		about.Epochs, about.Steps = 1, b.Epochs
	}
	if b.DropLast || b.plan.Merged {
		about.N = about.Steps * b.Batch
	}
	if about.KeepBest = b.KeepBest; b.judged() {
		about.Monitor = monitoredName(b.Monitor)
	}
	about.Maximize = b.goal.maximize
	return about, about.describe(b.net.measured(b.data))
}

// compileAll waits for the programs of the steps, and measures a step.
func (b *jobBuilder) compileAll() (err error) {
	order := b.net.order(b.data.N, !b.InOrder, b.devices)
	for _, p := range []*portion{&b.main, &b.odd, &b.tail} {
		if err := b.ready(p); err != nil {
			return err
		}
	}
	if b.order, err = b.net.wait(b.ctx, order, nil); err != nil {
		return err
	}
	return b.measureStep()
}

// addBeginning adds what an epoch begins with: the order of its examples, and numbers that all
// devices have.
func (b *jobBuilder) addBeginning() error {
	n := b.net
	b.addStep(session.JobStep{Program: b.order, When: wire.FirstTurn, Inputs: session.Named(b.everywhere(n.name + "/step")...), Names: b.everywhere(b.prefix + "order")})
	base, err := n.session.Array(n.name + "/step")
	if err != nil {
		return err
	}
	b.bindLater("base", base)
	b.share(n.layout.step.shape, b.prefix+"base")
	b.bindLater("rate", b.rate[0][0])
	b.share(shapes.Make(dtypes.Float32), b.prefix+"rate")
	err = cmp.Or(b.shareNew(shapes.Make(dtypes.Int32, b.data.N), b.prefix+"order"), b.shareNew(shapes.Make(dtypes.Int32, 3), b.prefix+"where"))
	if err == nil && b.main.Form.Single() {
		err = b.shareNew(shapes.Make(dtypes.Int32), b.prefix+"begin")
	}
	return cmp.Or(err, b.scalar("replica", 0))
}

// addEpoch adds an epoch's chunks: those of the main portion a turn each, and what is left with
// the last one.
func (b *jobBuilder) addEpoch(steps int) error {
	where, err := b.net.whereProgram(steps, b.Batch, b.devices)
	if err != nil {
		return err
	}
	copied, err := b.net.copyProgram(b.devices)
	if err != nil {
		return err
	}
	each := b.chunkTurns(&b.main, b.main.Turns)
	b.job.Period = max(1, b.main.Turns/each)
	rest := b.main
	rest.Turns = b.main.Turns % each
	for _, part := range []struct {
		name  string
		p     *portion
		turns int
		when  wire.Moment
	}{{"main", &b.main, min(each, b.main.Turns), wire.EachTurn}, {"rest", &rest, rest.Turns, wire.LastTurn}, {"odd", &b.odd, b.odd.Turns, wire.LastTurn}, {"tail", &b.tail, b.tail.Turns, wire.LastTurn}} {
		if part.turns == 0 {
			continue
		}
		if err := b.chunk(part.name, part.p, part.turns, part.when, where, copied); err != nil {
			return err
		}
	}
	return nil
}

func (b *jobBuilder) addStep(s session.JobStep) { b.job.Steps = append(b.job.Steps, s) }

// scratchNames are names that only the job needs.
func (b *jobBuilder) scratchNames(names ...string) []string {
	l := make([]string, len(names))
	for i, n := range names {
		l[i] = b.prefix + n
	}
	return l
}

func (b *jobBuilder) bindLater(name string, a *session.Array) {
	b.names, b.values = append(b.names, b.prefix+name), append(b.values, a)
}

func (b *jobBuilder) scalar(name string, value int) error {
	l, err := b.net.integers(0, value)
	if err == nil {
		b.bindLater(name, l[0])
	}
	return err
}

// measureStep finds out how long a step takes, where it is not known: on a copy of the
// state.
func (b *jobBuilder) measureStep() error {
	if b.stepTime != 0 {
		return nil
	}
	if err := b.distribute(); err != nil {
		return err
	}
	defer func() { // the job has copies of its own
		b.state[1:].free()
		b.state = b.state[:1]
	}()
	order, err := runOnce(b.order, stepOf(b.state))
	if err != nil {
		return err
	}
	defer order.free()
	for range 2 { // the first one warms up
		began := time.Now()
		out, results, err := b.main.steps.run(b.state, b.data, order, b.rate, 0, 1)
		if err != nil {
			return err
		}
		if err := results.Values(make([]float32, b.net.resultsOf(b.data, b.main.Part).Size())); err != nil {
			return err
		}
		b.stepTime = max(1, time.Since(began)/time.Duration(b.main.Turn()))
		out.free()
		results.Finalize()
	}
	b.net.stepTime[b.main.key(b.data)] = b.stepTime
	return nil
}

// chunk adds the steps of a chunk. Single programs work on a copy of the state.
func (b *jobBuilder) chunk(name string, p *portion, turns int, when wire.Moment, where, copied *session.Program) error {
	n := b.net
	report, err := n.reportProgram(b.data, p.Part, turns*p.Turn())
	if err != nil {
		return err
	}
	if err := b.scalar("turns/"+name, turns); err != nil {
		return err
	}
	b.share(shapes.Make(dtypes.Int32), b.prefix+"turns/"+name)
	state := n.names(n.layout.all())
	next := make([]string, len(state))
	for i := range state {
		next[i] = fmt.Sprintf("%snext/%d", b.prefix, i)
	}
	results, at := b.prefix+"results/"+name, b.prefix+"where"
	if err := b.shareNew(n.resultsOf(b.data, p.Part), results); err != nil {
		return err
	}
	fixed := append(b.sources(b.data), b.prefix+"order", b.prefix+"rate", at)
	variables := next[:len(n.layout.variables)]
	b.addStep(session.JobStep{Program: where, When: when, Inputs: session.Named(b.everywhere(n.name+"/step", b.prefix+"base", b.prefix+"turns/"+name, b.prefix+"replica")...), Names: b.everywhere(at)})
	if p.Form.Single() {
		working := append(append([]string{}, next...), results, b.prefix+"begin")
		b.addStep(session.JobStep{Program: p.steps.start, When: when, Inputs: session.Named(b.everywhere(state...)...), Names: b.everywhere(working...)})
		b.addStep(session.JobStep{Program: p.steps.main, When: when, Repeat: turns, Inputs: session.Named(b.everywhere(slices.Concat(working, fixed)...)...), Names: b.everywhere(working...)})
	} else {
		b.addStep(session.JobStep{Program: p.steps.main, When: when, Inputs: session.Named(b.everywhere(slices.Concat(state, fixed)...)...), Names: b.everywhere(append(next[:len(next):len(next)], results)...)})
	}
	b.addStep(session.JobStep{Program: report, When: when, Inputs: session.Named(append(append([]string{}, variables...), results)...),
		Read: []wire.Read{{Output: 0, Name: "train"}}, Finite: true})
	if err := b.explain(p, turns*p.Turn(), state, results, at); err != nil {
		return err
	}
	b.addStep(session.JobStep{Program: copied, When: when, Inputs: session.Named(b.everywhere(next...)...), Names: b.everywhere(state...)})
	return nil
}

// sources are the names of a set's arrays, as programs take them.
func (b *jobBuilder) sources(s *Set) (l []string) {
	for _, a := range s.arrays {
		l = append(l, "data/"+s.Name+"/"+a.name)
	}
	return l
}

// test adds the steps of the validation, in runs that another client can come
// between.
func (b *jobBuilder) test() error {
	n, s := b.net, b.Validation
	batches := n.batchesOf(s)
	together := plan.JobTestBatches(n.target, n.convolves, batches)
	p, err := n.wait(b.ctx, n.tester(s), nil)
	if err != nil {
		return err
	}
	var first, count wire.Input
	for i := 0; i < batches; i += together {
		at := fmt.Sprintf("test/%d", i)
		if err := b.scalar(at, i); err != nil {
			return err
		}
		if err := b.scalar(at+"/count", min(together, batches-i)); err != nil {
			return err
		}
		first.Each, count.Each = append(first.Each, b.prefix+at), append(count.Each, b.prefix+at+"/count")
	}
	columns := n.columns(s)
	results := shapes.Make(dtypes.Float32, batches, columns)
	a, err := n.session.Put(make([]float32, batches*columns), results, 0)
	if err != nil {
		return err
	}
	b.bindLater("tested", a)
	tested := b.scratchNames("tested")
	in := session.Named(append(append(n.names(n.usedSlots()), b.sources(s)...), tested...)...)
	b.addStep(session.JobStep{Program: p, When: wire.LastTurn, Repeat: len(first.Each), Inputs: append(in, first, count), Names: tested})
	score, err := n.made("score", func(t *trace) []*Node {
		tested := Parameter(t.g, "results", results)
		sums := ReduceSum(tested, 0)
		loss := t.mean(Slice(sums, AxisRange(0, 1)), Slice(sums, AxisRange(1, 2)))
		result := []*Node{loss, Slice(sums, AxisRange(2, 3))}
		if columns > lossColumns {
			wide := ReduceSum(ConvertDType(Slice(tested, AxisRange(), AxisRange(lossColumns)), dtypes.Float64), 0)
			high := t.float(wide)
			result = append(result, high, t.float(Sub(wide, ConvertDType(high, dtypes.Float64))))
		}
		return []*Node{Concatenate(result, 0)}
	})
	if err != nil {
		return err
	}
	b.addStep(session.JobStep{Program: score, When: wire.LastTurn, Inputs: session.Named(tested...), Read: []wire.Read{{Output: 0, Name: "validation"}}})
	if b.Threshold != 0 || b.Patience != 0 {
		b.job.Until = &wire.Until{Read: "validation", Below: b.Threshold, Patience: b.Patience, Maximize: b.goal.maximize}
	}
	if !b.judged() {
		return nil
	}
	if b.job.Until != nil {
		b.job.Until.Read = monitoredName(b.Monitor)
	}
	return b.judge(tested, results)
}

// whereProgram says where a chunk begins: step, step before the job, turns, replica →
// [place, replica, turns], as epochProgram takes it. The state tells, so a job
// that is resumed has no counter that could be wrong.
func (n *Net) whereProgram(steps, batch, devices int) (*session.Program, error) {
	return n.madeFor(devices, "where", func(t *trace) []*Node {
		step, base := Parameter(t.g, "step", n.layout.step.shape), Parameter(t.g, "base", n.layout.step.shape)
		turns, replica := Parameter(t.g, "turns", shapes.Make(dtypes.Int32)), Parameter(t.g, "replica", shapes.Make(dtypes.Int32))
		place := Mul(Mod(Sub(step, base), t.scalar(int32(steps))), t.scalar(int32(batch)))
		return []*Node{Stack([]*Node{place, replica, turns}, 0)}
	})
}

// copyProgram copies the net's state.
func (n *Net) copyProgram(devices int) (*session.Program, error) {
	return n.madeFor(devices, "copy", func(t *trace) []*Node { return t.slots(n.layout.all()) })
}

// reportProgram is what a chunk of so many steps tells: variables, results →
// results of the steps and a row that is NaN where weights are not finite.
func (n *Net) reportProgram(s *Set, c plan.Part, steps int) (*session.Program, error) {
	return n.made("report", func(t *trace) []*Node {
		variables := t.variables()
		results := Slice(Parameter(t.g, "results", n.resultsOf(s, c)), AxisRange(0, steps), AxisRange())
		wrong := t.scalar(float32(0))
		for _, i := range n.layout.trained {
			wrong = Max(wrong, t.anyNotFinite(variables[i]))
		}
		mark := Where(GreaterThan(wrong, t.scalar(float32(0))), t.scalar(float32(math.NaN())), t.scalar(float32(0)))
		return []*Node{Concatenate([]*Node{results, BroadcastToDims(mark, 1, n.columns(s))}, 0)}
	})
}
