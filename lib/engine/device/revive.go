package device

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"gaiden/lib/engine/wire"
)

// resumeJobs brings back the spaces whose jobs had not ended.
func (w *Worker) resumeJobs() {
	if w.stateOff != "" {
		return
	}
	paths, _ := filepath.Glob(filepath.Join(w.State, "*", "job-*.json"))
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			w.Logf("job %s: %v: it comes back with its notebook", path, err)
			continue
		}
		if f, err := decodeJob(b); err == nil && !f.Info.State.Over() {
			w.enter(f.Info.Space)
		}
	}
}

func decodeJob(b []byte) (f jobFile, err error) {
	err = json.Unmarshal(b, &f)
	if err == nil && f.Body == nil {
		err = errors.New("no job")
	}
	if err == nil {
		if why := checkJob(f.Body); why != nil {
			err = why
		}
	}
	return f, err
}

// maxTries is how often a job is resumed from one place without coming further than before: it may
// be what kills the worker.
const maxTries = 3

// readJobs reads the jobs of a space, and makes those that had not ended ready to continue
// from where they were at snapshot r, nil when there is none. An error leaves all as it
// was on disk.
func (w *Worker) readJobs(s *space, r *record) (l []*revival, err error) {
	defer func() {
		if err != nil {
			for _, v := range l {
				v.close()
			}
			l = nil
		}
	}()
	paths, err := filepath.Glob(filepath.Join(s.archive.dir, "job-*.json"))
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		b, err := os.ReadFile(path)
		if err != nil {
			return l, err
		}
		v := &revival{path: path}
		l = append(l, v)
		if v.file, v.damaged = decodeJob(b); v.damaged == nil && v.file.Info.Space != s.name {
			v.damaged = fmt.Errorf("it is of space %q", v.file.Info.Space)
		}
		w.mu.Lock()
		known := v.damaged == nil && s.jobs[v.file.Info.Name] != nil
		w.mu.Unlock()
		if known { // it has come back before, or was started again
			l = l[:len(l)-1]
			continue
		}
		if v.damaged != nil {
			v.lost = fmt.Sprintf("job %s is lost: its file is damaged, and is now %s", s.archive.jobOf(path, r), path+damagedJob)
			continue
		}
		f := &v.file
		keep := f.Began.Entries
		v.at, v.why, v.state = jobMoment{Worse: -1}, f.Info.Why, f.Info.State
		if !v.state.Over() {
			m, has := jobMoment{}, false
			if r != nil {
				m, has = r.about.Jobs[f.Info.Name]
			}
			switch {
			case has:
				v.at, keep = m, m.Entries
				v.why = fmt.Sprintf("continues from snapshot %d of %s", r.number, r.about.Time.Format(time.TimeOnly))
			case r != nil && r.about.Time.Before(f.Info.Started):
				keep = 0
				v.why = fmt.Sprintf("begins again: snapshot %d is from before it", r.number)
			default: // r is of a time when it waited, and has other arrays
				if o := s.archive.hasJob(f.Info.Name); o != nil && r != nil {
					v.from = o.number
					continue
				}
				v.state, v.why = wire.JobFailed, "there is no snapshot from which it could continue"
			}
		}
		if v.log, err = openLog(s.archive.jobPath(f.Info.Name)+".log", keep); err != nil {
			return l, err
		}
	}
	return l, nil
}

// hasJob is the newest snapshot that has a job, nil if there is none. The caller holds
// a.mu.
func (a *archive) hasJob(name string) *record {
	for _, r := range slices.Backward(a.records) {
		if _, has := r.about.Jobs[name]; has && r.kind != part && a.flaw(r) == nil {
			return r
		}
	}
	return nil
}

// revival is a job that comes back from disk.
type revival struct {
	path    string
	file    jobFile
	damaged error
	lost    string // what is told of one that is damaged
	log     *jobLog
	from    int // it waits until that snapshot is restored, 0 if it does not
	at      jobMoment
	state   wire.JobState
	why     string
}

// waitingJob is a job on disk that continues when a snapshot is restored.
type waitingJob struct {
	from int // number of the snapshot
	info wire.JobInfo
}

func (v *revival) close() {
	if v.log != nil {
		v.log.close()
	}
}

// reviveJobs makes the jobs of a space known again; those that had not ended continue. It
// says which are lost, and which wait for another snapshot.
func (w *Worker) reviveJobs(s *space, l []*revival) (lost []string) {
	for _, v := range l {
		f := v.file
		if v.damaged != nil {
			w.Logf("space %q: %s: %v", s.name, filepath.Base(v.path), v.damaged)
			lost = append(lost, v.lost)
			os.Rename(v.path, v.path+damagedJob) // it is told once
			continue
		}
		if v.from != 0 {
			w.mu.Lock()
			if s.waiting == nil {
				s.waiting = map[string]waitingJob{}
			}
			info := f.Info
			info.Space, info.State, info.Why = s.name, wire.JobWaits, fmt.Sprintf("for snapshot %d: %%rollback %[1]d restores both", v.from)
			s.waiting[f.Info.Name] = waitingJob{v.from, info}
			w.mu.Unlock()
			lost = append(lost, fmt.Sprintf("job %s waits: it continues from snapshot %d, and %%rollback %[2]d restores both", wire.Shown(f.Info.Name), v.from))
			continue
		}
		if err := v.log.cut(); err != nil { // what is left is written over
			w.Logf("space %q: job %s: its log: %v", s.name, f.Info.Name, err)
		}
		j := w.begin(s, f.Body, v.log, v.at)
		j.began, j.why, j.err, j.changed = f.Info.Started, v.why, f.Info.Error, f.Info.Changed
		if j.state = v.state; v.state == wire.JobPaused {
			j.want = v.state
		}
		if v.state.Over() {
			j.place = f.Info.Place
		} else if v.state == wire.JobRuns && j.lacks == "" {
			j.attempts = f.next(v.at, v.log.written)
		} else {
			j.attempts = f.attempts
		}
		if !v.state.Over() && j.Tries > maxTries {
			j.state, j.err = wire.JobFailed, wire.Errorf(wire.ExecuteError, "the worker has died %d times since the last snapshot of the job, the last %d times without coming further", j.Tries, maxTries).
				WithHint("%s has the workers' last words; the arrays are those of the snapshot, so that starting the job again, as with net.FitJob, continues from there; a smaller batch needs less memory", LogPath())
		}
		w.mu.Lock()
		s.jobs[f.Info.Name] = j
		delete(s.waiting, f.Info.Name)
		w.mu.Unlock()
		if !v.state.Over() {
			j.store(j.state)
		}
		if j.state.Over() {
			close(j.ended)
			continue
		}
		w.Logf("job %s of %q %s", f.Info.Name, s.name, v.why)
		go j.run()
	}
	return lost
}
