package fit

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"gaiden/lib/engine/wire"
	"gaiden/lib/session"
)

// Job is a training that runs in the session, where any process can follow it:
//
//	job, err := fit.FindJob(s, "cnn")
//	history, err := job.Follow(ctx, report.Bar())
type Job struct {
	Name    string
	session *session.Session // nil: the notebook's, so that cells can hand on a Job as plain memory, and none begins another
}

// FindJob finds a job of TrainJob.
func FindJob(s *session.Session, name string) (*Job, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.FollowJob, Names: []string{name}, From: -1})
	if err != nil {
		return nil, err
	}
	if len(ans.Jobs) == 1 {
		if _, err = aboutJob(ans.Jobs[0]); err != nil {
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

// Follow returns what Train would have returned, when the job or ctx has ended; the job
// continues without ctx. Progress may be nil.
func (j *Job) Follow(ctx context.Context, progress func(Progress)) (*History, error) {
	s, err := j.open()
	if err != nil {
		return nil, err
	}
	var r *jobReader
	err = s.FollowJob(ctx, j.Name, 0, func(i wire.JobInfo, l []wire.JobEntry) error {
		if r == nil {
			about, err := aboutJob(i)
			if err != nil {
				return err
			}
			r = &jobReader{jobAbout: about, began: i.Started, history: &History{Devices: 1}}
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

// jobAbout is what a reader of the log has to know.
type jobAbout struct {
	Net, Data     string
	Epochs, Steps int // of an epoch
	Batch, N      int
	Answers       float64 // of an example
	Labels        bool
	Tests         int      // answers of the validation, 0 for none
	Layers        []string // their names
}

func aboutJob(i wire.JobInfo) (a jobAbout, err error) {
	if json.Unmarshal([]byte(i.About), &a) != nil || a.Steps < 1 || a.Net == "" {
		err = fmt.Errorf("fit: job %s is not of TrainJob: Session.FollowJob reads its log", i.Name)
	}
	if a.Answers == 0 { // of an older version
		a.Answers = 1
	}
	return a, err
}

// jobReader makes a History of a job's log.
type jobReader struct {
	jobAbout
	began       time.Time
	history     *History
	info        wire.JobInfo
	epoch       Epoch
	step        int // of the epoch
	sum, weight float64
	notFinite   *NotFiniteError // nil while all numbers are finite
}

func (r *jobReader) entry(e wire.JobEntry) {
	switch {
	case e.Name == "train" && r.finite(e.Values):
		for row := e.Values; len(row) > columns; row = row[columns:] { // the last row tells of weights that are not finite
			r.row(row[:columns], e.Time)
		}
	case e.Name == probed && r.notFinite != nil && len(e.Values) == 2+2*len(r.Layers):
		flags := make([]int32, len(e.Values))
		for i, v := range e.Values {
			flags[i] = int32(v)
		}
		located(r.notFinite, flags, r.Data, r.Layers)
	case e.Name == "validation" && len(e.Values) == 2 && len(r.history.Epochs) > 0:
		r.history.Epochs[len(r.history.Epochs)-1].Validation = &Score{Loss: e.Values[0], Right: int(e.Values[1]), N: r.Tests, Labels: r.Labels}
	}
}

// finite looks whether a chunk's weights were kept. Those of one that has a step
// whose loss is not finite, or whose last row says so of the weights, were not.
func (r *jobReader) finite(values []float64) bool {
	epoch := len(r.history.Epochs) + 1
	for i := 0; i < len(values); i += columns {
		if loss := values[i]; math.IsNaN(loss) || math.IsInf(loss, 0) {
			r.notFinite = &NotFiniteError{Net: r.Net, Loss: loss, Epoch: epoch, Step: min(r.step+i/columns+1, r.Steps), Kept: r.step, KeptEpoch: epoch}
			return false
		}
	}
	return true
}

// row is the result of one step.
func (r *jobReader) row(row []float64, at time.Time) {
	if r.step == 0 {
		r.epoch = Epoch{Number: len(r.history.Epochs) + 1, Train: Score{Labels: r.Labels}}
		r.sum, r.weight = 0, 0
	}
	r.step++
	r.sum += row[0] * row[1]
	r.weight += row[1]
	r.epoch.Train.Right += int(row[2])
	r.epoch.Train.N = int(math.Round(float64(min(r.N, r.step*r.Batch)) * r.Answers))
	r.epoch.Train.Loss = mean(r.sum, r.weight)
	r.history.Losses = append(r.history.Losses, float32(row[0]))
	if r.Labels {
		r.history.Right = append(r.history.Right, int32(row[2]))
	}
	r.history.Steps++
	if r.step == r.Steps {
		r.epoch.Elapsed = at.Sub(r.began)
		r.history.Epochs = append(r.history.Epochs, r.epoch)
		r.step = 0
	}
}

func (r *jobReader) progress() Progress {
	p := Progress{Phase: "train", Epoch: max(1, r.epoch.Number), Epochs: r.Epochs, Step: r.step, Steps: r.Steps, Loss: r.epoch.Train.Loss,
		Accuracy: r.epoch.Train.Accuracy(), Labels: r.Labels, Elapsed: time.Since(r.began)}
	if r.step == 0 && r.history.Steps > 0 {
		p.Step = r.Steps
	}
	if r.info.State.Over() {
		p.Elapsed = r.info.Changed.Sub(r.began)
	} else if done := r.history.Steps; done > 0 && r.info.State == wire.JobRuns {
		p.Left = time.Duration(float64(p.Elapsed) / float64(done) * float64(r.Epochs*r.Steps-done))
	}
	for i := len(r.history.Epochs) - 1; i >= 0 && p.Validation == nil; i-- {
		p.Validation = r.history.Epochs[i].Validation
	}
	return p
}
