package device

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"gaiden/lib/engine/wire"
)

// runner is a job at work: a client inside the worker, without a socket, that
// sends itself the executions that the job's text asks for.
type runner struct {
	w         *Worker
	space     *space
	body      *wire.JobBody
	log       *jobLog
	conn      *conn
	names     map[string]bool // that its steps take or bind
	used      []*program      // by body.Programs; nil: not needed yet
	lacks     string          // why it cannot run on the worker's devices, "" if it can
	until     string          // when it can
	started   bool            // the steps at the moment AtStart are done; the loop's goroutine's, as the next
	nonFinite bool            // numbers that were to be finite are not

	wake  chan struct{} // something has changed for the loop
	ended chan struct{} // the loop's goroutine has gone

	progress
}

// progress is where a job is. Worker.mu protects it.
type progress struct {
	state   wire.JobState
	want    wire.JobState // running, paused or stopped
	place   wire.Place
	began   time.Time
	changed time.Time
	why     string
	err     *wire.Error
	best    float64 // of Until
	worse   int     // periods since; -1-k before the first finite one and after k others
	saving  bool    // a snapshot of it is being written
	held    bool    // it waits for devices: paused, but on disk it runs, so that the next worker continues it
	attempts
}

// jobMoment is where a job was at the moment of a snapshot.
type jobMoment struct {
	Place   wire.Place
	Entries int
	Best    float64
	Worse   int
}

// jobMoments are the last steps of a space's jobs that have not ended. The caller
// holds Worker.mu.
func (s *space) jobMoments() map[string]jobMoment {
	m := map[string]jobMoment{}
	for n, j := range s.jobs {
		if !j.state.Over() {
			m[n] = jobMoment{j.place, j.log.count(), j.best, j.worse}
		}
	}
	return m
}

// refuseBusy is an error where a job changes the arrays of a space now.
func (s *space) refuseBusy(w *Worker) *wire.Error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for n, j := range s.jobs {
		if j.state == wire.JobRuns {
			return wire.Errorf(wire.Invalid, "job %s changes the arrays of notebook %q", n, s.name).WithHint("pause or stop it first")
		}
	}
	return nil
}

// begin makes a loop ready and starts it.
func (w *Worker) begin(s *space, b *wire.JobBody, log *jobLog, at jobMoment) *runner {
	now := time.Now()
	j := &runner{w: w, space: s, body: b, names: namesOf(b), used: make([]*program, len(b.Programs)), log: log, wake: make(chan struct{}, 1), ended: make(chan struct{}),
		progress: progress{state: wire.JobRuns, want: wire.JobRuns, place: firstPlace(at.Place, b), best: at.Best, worse: at.Worse, began: now, changed: now}}
	j.lacks, j.until = w.cannotRun(b)
	j.conn = &conn{w: w, handles: handles{programs: map[uint64]*program{}, windows: map[uint32]*window{}}, inFlight: inFlight{finished: sync.NewCond(&w.mu)}, clientInfo: clientInfo{since: now}, space: s}
	j.conn.hello = wire.HelloBody{Space: s.name, Client: "job " + b.Name}
	return j
}

// jobPrograms is the first handle of a job's programs: above those of arrays.
const jobPrograms = 1 << 62

// run goes round until the job ends, or the worker.
func (j *runner) run() {
	defer close(j.ended)
	state, why, err := j.turns()
	w := j.w
	if state == wire.JobRuns { // it is the worker that ends
		j.conn.leaveAll()
		return
	}
	if why := j.at(wire.AtEnd); why != nil && err == nil {
		state, err = wire.JobFailed, why
	}
	j.clean()
	if state != wire.JobFailed {
		j.save(true) // what the job has done is on disk before it is said to have ended
	}
	w.mu.Lock()
	j.state, j.why, j.err, j.changed = state, why, err, time.Now()
	j.space.touch(j.changed)
	w.mu.Unlock()
	j.conn.leaveAll()
	j.store(state)
	j.log.wakeAll()
	if err != nil {
		w.Logf("job %s of %q: %v", j.body.Name, j.space.name, err)
	}
}

// turns is the loop itself. Its state is running when the worker ends before the
// job does.
func (j *runner) turns() (wire.JobState, string, *wire.Error) {
	period := max(1, j.body.Period)
	for last := j.place.Turn / period; ; {
		switch j.wanted() {
		case wire.JobStopped:
			return wire.JobStopped, "on request", nil
		case wire.JobRuns:
		default:
			return wire.JobRuns, "", nil
		}
		if why := j.start(); why != nil {
			return j.failed(why)
		}
		t := j.place.Turn
		if t >= max(1, j.body.Turns) {
			return wire.JobDone, "", nil
		}
		if t/period != last {
			if done, why := j.enough(); done {
				return wire.JobDone, why, nil
			}
			if last = t / period; last%max(1, j.body.Save) == 0 && j.affords() {
				j.save(false)
			}
		}
		if why := j.step(); why != nil {
			if j.nonFinite {
				j.explain()
			}
			return j.failed(why)
		}
	}
}

// start makes the job ready to begin, or to continue.
func (j *runner) start() *wire.Error {
	if j.started {
		return nil
	}
	why := j.compile()
	if why == nil {
		why = j.at(wire.AtStart)
	}
	j.started = why == nil
	return why
}

// at does the steps of a moment, AtStart or AtEnd.
func (j *runner) at(m wire.Moment) *wire.Error {
	for i, s := range j.body.Steps {
		if s.When != m {
			continue
		}
		if why := j.prepare(s.Program); why != nil {
			return why
		}
		for at := (wire.Place{Turn: j.place.Turn, Step: i}); at.Repeat < max(1, s.Repeat); at.Repeat++ {
			if why := j.do(at, func() {}); why != nil {
				return why
			}
		}
	}
	return nil
}

// failed is how the job ends for an error. Where the devices or a host are lost it has not
// ended: the next worker continues it, or finds that it is what loses them. What a program
// says that was to hear from that host is a consequence.
func (j *runner) failed(why *wire.Error) (wire.JobState, string, *wire.Error) {
	if j.w.lost() != nil || why.Code == wire.Lost || why.Code == wire.ExecuteError && j.w.failed() {
		return wire.JobRuns, "", nil
	}
	return wire.JobFailed, "", why
}

// clean deletes the names that only the job needs.
func (j *runner) clean() {
	if j.body.Scratch == "" {
		return
	}
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	for n := range j.w.names {
		if n.space == j.space.name && strings.HasPrefix(n.name, j.body.Scratch) {
			j.w.unbind(n)
		}
	}
}

// affords is that of the job's space: its periods may be short.
func (j *runner) affords() bool {
	j.w.mu.Lock()
	defer j.w.mu.Unlock()
	return j.space.affords()
}

// save makes a snapshot of now. Without wait it is written while the job goes
// on, and left out when the last one is still being written.
func (j *runner) save(wait bool) {
	w, s := j.w, j.space
	if s.archive == nil {
		return
	}
	w.mu.Lock()
	if j.saving && !wait {
		w.mu.Unlock()
		return
	}
	j.saving = true
	m := w.freeze(s)
	w.mu.Unlock()
	write := func() {
		_, err := w.snapshot(m, "")
		w.trouble(s, err)
		w.mu.Lock()
		j.saving = false
		w.mu.Unlock()
	}
	if wait {
		write()
	} else {
		w.background.Go(write)
	}
}

// wanted waits while the job is to pause, and says what is wanted of it then:
// "" when the worker ends.
func (j *runner) wanted() wire.JobState {
	for {
		j.w.mu.Lock()
		want, ending, changes, waits := j.want, j.w.ending, j.want != j.state || j.held, j.want == wire.JobRuns && j.lacks != ""
		j.w.mu.Unlock()
		switch {
		case want == wire.JobStopped:
			return want
		case ending:
			return ""
		case waits:
			j.hold()
		case changes:
			j.become(want)
		}
		if want == wire.JobRuns && !waits {
			return want
		}
		j.started = false
		<-j.wake
	}
}

// become changes the job's state, on disk first.
func (j *runner) become(state wire.JobState) {
	j.store(state)
	j.w.mu.Lock()
	j.state, j.held, j.changed = state, false, time.Now()
	j.w.mu.Unlock()
	j.log.wakeAll()
}

// hold pauses a job that cannot run on the worker's devices. A worker that has those it needs
// continues it.
func (j *runner) hold() {
	j.w.mu.Lock()
	j.state, j.held, j.why, j.changed = wire.JobPaused, true, j.lacks+"; it continues when "+j.until, time.Now()
	j.w.mu.Unlock()
	j.log.wakeAll()
}

// signal tells the loop that there is a request for it.
func (j *runner) signal() {
	select {
	case j.wake <- struct{}{}:
	default:
	}
}

// compile makes the programs ready that the job needs while all is well.
func (j *runner) compile() *wire.Error {
	for _, s := range j.body.Steps {
		if s.When == wire.NotFinite {
			continue
		}
		if why := j.prepare(s.Program); why != nil {
			return why
		}
	}
	return nil
}

// prepare makes a program ready.
func (j *runner) prepare(i int) *wire.Error {
	if j.used[i] != nil {
		return nil
	}
	b := &j.body.Programs[i]
	b.Hash = wire.Key(b.Text, b.Flags, b.Replicas, b.Devices)
	p, _ := j.w.find(b)
	<-p.ready
	for p.missing {
		p, _ = j.w.find(b) // the file on disk was damaged; the text is here
		<-p.ready
	}
	if p.err != nil {
		return p.err
	}
	j.used[i] = p
	j.conn.programs[jobPrograms+uint64(i)] = p
	return nil
}

// explain does the steps behind the one whose numbers have ended the job.
func (j *runner) explain() {
	at := wire.Place{Turn: j.place.Turn, Step: j.place.Step + 1}
	for ; at.Step < len(j.body.Steps) && j.body.Steps[at.Step].When == wire.NotFinite; at.Step++ {
		s := &j.body.Steps[at.Step]
		why := j.prepare(s.Program)
		for at.Repeat = 0; why == nil && at.Repeat < max(1, s.Repeat); at.Repeat++ {
			if j.wanted() != wire.JobRuns {
				return
			}
			why = j.do(at, func() {})
		}
		if why != nil {
			j.w.Logf("job %s of %q: why its numbers are not finite: %v", j.body.Name, j.space.name, why)
			return
		}
	}
}

// enough says whether Until ends the job after a period.
func (j *runner) enough() (bool, string) {
	u := j.body.Until
	if u == nil {
		return false, ""
	}
	e, ok := j.log.last(u.Read)
	if !ok || u.Element < 0 || u.Element >= len(e.Values) {
		return false, ""
	}
	v := e.Values[u.Element]
	w := j.w
	w.mu.Lock()
	defer w.mu.Unlock()
	finite := !math.IsNaN(v) && !math.IsInf(v, 0)
	below, smaller := "below", "smaller"
	better := func(a, b float64) bool { return a < b }
	if u.Maximize {
		below, smaller = "above", "larger"
		better = func(a, b float64) bool { return a > b }
	}
	switch {
	case finite && (better(v, j.best) || j.worse < 0):
		j.best, j.worse = v, 0
	case j.worse < 0: // no finite number yet
		j.worse--
	default:
		j.worse++
	}
	switch {
	case u.Below != 0 && better(v, u.Below):
		return true, fmt.Sprintf("%s is %.6g, %s %g", u.Read, v, below, u.Below)
	case u.Patience > 0 && -1-j.worse >= u.Patience:
		return true, fmt.Sprintf("%s is %v, and was no finite number for %d periods", u.Read, v, -1-j.worse)
	case u.Patience > 0 && j.worse >= u.Patience && !finite:
		return true, fmt.Sprintf("%s is %v, and has not become %s than %.6g for %d periods", u.Read, v, smaller, j.best, j.worse)
	case u.Patience > 0 && j.worse >= u.Patience:
		return true, fmt.Sprintf("%s has not become %s than %.6g for %d periods", u.Read, smaller, j.best, j.worse)
	}
	return false, ""
}

// info describes the job. The caller holds Worker.mu.
func (j *runner) info() wire.JobInfo {
	return wire.JobInfo{Name: j.body.Name, Space: j.space.name, Origin: j.body.Origin, State: j.state, Place: j.place, Turns: max(1, j.body.Turns), Period: max(1, j.body.Period), About: j.body.About, Entries: j.log.count(),
		Started: j.began, Changed: j.changed, Error: j.err, Why: j.why}
}
