package fit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"reflect"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/fit/result"
	"gaiden/lib/metrics"
	"gaiden/lib/session"
)

// Job is a training that runs in the session, where any process can follow it:
//
//	job, err := fit.FindJob(s, "cnn")
//	history, err := job.Follow(ctx, nil)
type Job struct {
	Name    string
	session *session.Session // nil: the notebook's, so that cells can hand on a Job as plain memory, and none begins another
}

// FindJob finds a job of FitJob.
func FindJob(s *session.Session, name string) (*Job, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.FollowJob, Names: []string{name}, From: -1})
	if err != nil {
		return nil, err
	}
	if len(ans.Jobs) == 1 {
		if _, err = describedJob(ans.Jobs[0]); err != nil {
			return nil, err
		}
	}
	return &Job{name, explicit(s)}, nil
}

func (j *Job) String() string {
	return fmt.Sprintf("job %s: %%jobs shows it, %%jobs attach %[1]s follows it, %%jobs stop %[1]s ends it", j.Name)
}

// Pause pauses the job at the end of a program; its weights are complete.
func (j *Job) Pause() error {
	return j.do((*session.Session).PauseJob)
}

// Resume continues a job that was paused.
func (j *Job) Resume() error {
	return j.do((*session.Session).ResumeJob)
}

// Stop ends the job.
func (j *Job) Stop() error {
	return j.do((*session.Session).StopJob)
}

func (j *Job) do(verb func(*session.Session, string) (wire.JobInfo, error)) error {
	s, err := j.open()
	if err == nil {
		_, err = verb(s, j.Name)
	}
	return err
}

// open returns the job's session.
func (j *Job) open() (*session.Session, error) {
	if j.session != nil {
		return j.session, nil
	}
	return sharedSession()
}

// Follow returns what Fit would have returned, when the job or ctx has ended; the job
// continues without ctx. Progress may be nil.
func (j *Job) Follow(ctx context.Context, progress func(Progress)) (*History, error) {
	s, err := j.open()
	if err != nil {
		return nil, err
	}
	var r *jobReader
	err = s.FollowJob(ctx, j.Name, 0, func(i wire.JobInfo, l []wire.JobEntry) error {
		if r == nil {
			about, err := describedJob(i)
			if err != nil {
				return err
			}
			all, err := about.readMetrics()
			if err != nil {
				return err
			}
			r = &jobReader{jobDescription: about, began: i.Started, last: i.Started, record: record{history: &History{Devices: max(1, about.Devices), Note: about.Note, FLOPs: about.FLOPs}, labels: about.Labels, measured: all, answers: about.Answers, goal: newGoal("", about.Maximize)}}
		}
		for _, e := range l {
			r.entry(e)
		}
		r.info = i
		if progress != nil {
			progress(r.progress())
		}
		return nil
	})
	if r == nil {
		return nil, err
	}
	if err == nil && r.info.Error != nil {
		err = r.info.Error
		if r.notFinite != nil {
			err = r.notFinite
		}
	}
	r.history.Stopped = r.info.Why
	if r.info.State == wire.JobDone && r.info.Place.Turn >= r.info.Turns {
		r.history.Stopped = ""
	}
	return r.history, err
}

// jobDescription is what a reader of the log has to know.
type jobDescription struct {
	Net, Data     string
	Epochs, Steps int // of an epoch
	Batch, N      int
	Layers        []string // their names
	FLOPs         float64  // of a step; 0: not counted
	Devices       int      `json:",omitempty"`
	Note          string   `json:",omitempty"` // see History
	jobResults
	jobGoal
}

// jobResults says what the results in the log are.
type jobResults struct {
	Labels  bool
	Tests   int             // answers of the validation, 0 for none
	Answers int             // of an example; 0: 1
	Metrics json.RawMessage `json:",omitempty"`
	Sums    []int           `json:",omitempty"` // of each
}

// jobGoal says which result is judged, and how.
type jobGoal struct {
	Monitor  string `json:",omitempty"` // the name of that result in the log
	Maximize bool   `json:",omitempty"`
	KeepBest bool   `json:",omitempty"`
}

// describe writes down the metrics of a set. A function is written without what it does on
// the device: its sums are all that a reader has.
func (a *jobDescription) describe(all measured) error {
	var l []metrics.Metric
	for _, m := range all {
		one := m.Metric
		if f, is := one.(metrics.Func); is {
			f.Of = nil
			one = f
		}
		if !isKind(one) {
			return fmt.Errorf("fit: %s: metric %s of a job is a %T, which another process does not know: want those of package metrics, such as metrics.Func, or Fit", a.Net, m.Title(), m.Metric)
		}
		l, a.Sums = append(l, one), append(a.Sums, m.sums)
	}
	v, err := plainOf(reflect.ValueOf(l))
	if err == nil {
		a.Metrics, err = json.Marshal(v)
	}
	return err
}

func (a jobDescription) readMetrics() (all measured, err error) {
	var l []metrics.Metric
	if a.Metrics != nil {
		err = setPlain(a.Metrics, reflect.ValueOf(&l).Elem())
	}
	if err != nil || len(l) != len(a.Sums) {
		return nil, fmt.Errorf("fit: metrics of job %s: %d with %d sums: %w", a.Net, len(l), len(a.Sums), err)
	}
	for i, m := range l {
		_, accuracy := m.(metrics.Accuracy)
		all = append(all, oneMeasured{m, a.Sums[i], accuracy && a.Labels})
	}
	return all, nil
}

func describedJob(i wire.JobInfo) (a jobDescription, err error) {
	if json.Unmarshal([]byte(i.About), &a) != nil || a.Steps < 1 || a.Net == "" {
		err = fmt.Errorf("fit: job %s is not of FitJob: Session.FollowJob reads its log", i.Name)
	}
	if a.Answers == 0 { // of an older version
		a.Answers = 1
	}
	return a, err
}

// jobReader makes a History of a job's log.
type jobReader struct {
	jobDescription
	record
	began     time.Time
	ran       time.Duration // until the last entry; it never shrinks, though the clock may be set back
	last      time.Time     // of the last entry, or began
	first     time.Duration // ran when the first steps had been done, and how many
	warm      int
	info      wire.JobInfo
	notFinite *result.NotFiniteError // nil while all numbers are finite
}

func (r *jobReader) entry(e wire.JobEntry) {
	r.ran += max(0, e.Time.Sub(r.last))
	r.last = e.Time
	switch {
	case e.Name == "train" && r.finite(e.Values):
		for row := e.Values; len(row) > r.columns(); row = row[r.columns():] { // the last row tells of weights that are not finite
			r.row(row[:r.columns()])
		}
		if r.warm == 0 {
			r.first, r.warm = r.ran, r.history.Steps
		}
	case (e.Name == probed || e.Name == probedBefore) && r.notFinite != nil && len(e.Values) == 2+2*len(r.Layers):
		flags := make([]int32, len(e.Values))
		for i, v := range e.Values {
			flags[i] = int32(v)
		}
		if e.Name == probed {
			located(r.notFinite, flags, r.Data, r.Layers)
		} else {
			blameStepBefore(r.notFinite, flags, r.Data, r.Layers)
		}
	case r.Monitor != "" && e.Name == r.Monitor && len(e.Values) == 1:
		if r.goal.judge(e.Values[0]) && r.KeepBest {
			r.history.Best = len(r.history.Epochs)
		}
	case e.Name == "validation" && len(e.Values) == 2+2*r.measured.size() && len(r.history.Epochs) > 0:
		sums := make([]float64, r.measured.size())
		for i := range sums { // a number each for its high and low digits
			sums[i] = e.Values[2+i] + e.Values[2+len(sums)+i]
		}
		r.validated(&Score{Loss: e.Values[0], Right: int(e.Values[1]), N: r.measured.answers(sums, r.Tests), Labels: r.Labels, Metrics: r.measured.values(sums)})
	}
}

// finite looks whether a chunk's weights were kept. Those of one that has a step
// whose loss is not finite, or whose last row says so of the weights, were not.
func (r *jobReader) finite(values []float64) bool {
	epoch := len(r.history.Epochs) + 1
	done := r.step % r.Steps
	for i := 0; i < len(values); i += r.columns() {
		if loss := values[i]; math.IsNaN(loss) || math.IsInf(loss, 0) {
			r.notFinite = &result.NotFiniteError{Net: r.Net, Loss: loss, Epoch: epoch, Step: min(done+i/r.columns()+1, r.Steps), Kept: done, KeptEpoch: epoch}
			if r.Steps == 1 { // each row is an epoch
				r.notFinite.Epoch, r.notFinite.Kept, r.notFinite.KeptEpoch = epoch+i/r.columns(), min(1, epoch-1), epoch-1
			}
			return false
		}
	}
	return true
}

// row is the result of one step.
func (r *jobReader) row(row []float64) {
	if r.step%r.Steps == 0 {
		r.begin(len(r.history.Epochs) + 1)
	}
	addRow(&r.record, row, min(r.Batch, r.N-r.step*r.Batch))
	if r.step == r.Steps {
		r.end(r.ran, nil)
	}
}

func (r *jobReader) progress() Progress {
	phase := "train"
	switch {
	case r.info.State == wire.JobPaused:
		if phase = "paused"; r.info.Why != "" {
			phase += ": " + r.info.Why
		}
	case r.history.Steps == 0:
		phase = "compile"
	}
	p := r.record.progress(phase, r.Epochs, r.Steps)
	p.Total = r.Epochs * r.Steps
	p.Elapsed = max(r.ran, time.Since(r.began))
	if r.info.State.Over() {
		p.Elapsed = max(r.ran, r.info.Changed.Sub(r.began))
	} else if done := r.history.Steps - r.warm; done > 0 && r.info.State == wire.JobRuns {
		p.Left = time.Duration(float64(r.ran-r.first) / float64(done) * float64(p.Total-r.history.Steps))
	}
	return p
}
