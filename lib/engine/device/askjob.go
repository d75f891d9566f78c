package device

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"
	"strings"
	"time"

	"gaiden/lib/engine/typo"
	"gaiden/lib/engine/wire"
)

// askJob obeys the requests about jobs.
func (c *conn) askJob(a wire.AskBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	switch a.Verb {
	case wire.Jobs:
		if a.Space != "*" {
			w.enter(a.Space)
		}
		return &wire.AnswerBody{Jobs: w.jobList(a.Space)}, nil
	case wire.StartJob:
		return c.startJob(w.enter(a.Space), a.Job)
	case wire.ForgetJob:
		return w.forgetJobs(w.enter(a.Space), a.Names)
	}
	j, why := w.job(w.enter(a.Space), first(a.Names))
	if why != nil {
		return nil, why
	}
	w.mu.Lock()
	if j.state.Over() {
		w.mu.Unlock()
		return nil, wire.Errorf(wire.Invalid, "job %s has ended: it is %s", wire.Shown(j.body.Name), j.state).WithHint("%%jobs shows them; a job of that name can be started again")
	}
	if a.Verb == wire.ResumeJob && j.lacks != "" {
		w.mu.Unlock()
		return nil, wire.Errorf(wire.Unavailable, "job %s: %s", wire.Shown(j.body.Name), j.lacks).WithHint("it continues when %s; %%hosts lists the hosts. %%jobs stop %s ends it and keeps its arrays", j.until, wire.Shown(j.body.Name))
	}
	j.want = map[wire.Verb]wire.JobState{wire.PauseJob: wire.JobPaused, wire.ResumeJob: wire.JobRuns, wire.StopJob: wire.JobStopped}[a.Verb]
	w.mu.Unlock()
	j.signal()
	w.await(j)
	w.mu.Lock()
	defer w.mu.Unlock()
	return &wire.AnswerBody{Jobs: []wire.JobInfo{j.info()}}, nil
}

// await waits until the job is as it is wanted, or has come to the end of a step
// that takes long: it will be, then.
func (w *Worker) await(j *runner) {
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		_, changed, _ := j.log.from(-1)
		w.mu.Lock()
		done := j.state == j.want || j.state.Over()
		w.mu.Unlock()
		if done {
			return
		}
		select {
		case <-changed:
		case <-j.ended:
			return
		case <-time.After(time.Second):
		}
	}
}

// job finds a job of a space.
func (w *Worker) job(s *space, name string) (*runner, *wire.Error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if j := s.jobs[name]; j != nil {
		return j, nil
	}
	if j, waits := s.waiting[name]; waits {
		return nil, wire.Errorf(wire.Invalid, "job %s waits %s", wire.Shown(name), j.info.Why).WithHint("%%rollback %d restores it, %%jobs forget %s removes it", j.from, wire.Shown(name))
	}
	all := slices.Collect(maps.Keys(s.jobs))
	e := wire.Errorf(wire.NotFound, "notebook %q has no job %.80q", s.name, name)
	if near := typo.Within(len(name)/3+1, name, all); near != "" {
		e.Text += fmt.Sprintf("; did you mean %q?", near) // in the text: what a cell prints or panics with has no hint
	}
	for _, o := range w.spaces {
		if o.jobs[name] != nil {
			return nil, e.WithHint("notebook %q has a job of that name: %%jobs attach %s %s", o.name, name, o.name)
		}
	}
	return nil, e.WithHint("%%jobs lists what there is")
}

// jobList describes the jobs of a space, "*" for all, by name.
func (w *Worker) jobList(space string) []wire.JobInfo {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []wire.JobInfo
	for n, s := range w.spaces {
		for _, j := range s.jobs {
			if n == space || space == "*" {
				l = append(l, j.info())
			}
		}
		for _, j := range s.waiting {
			if n == space || space == "*" {
				l = append(l, j.info)
			}
		}
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Space+"\x00"+l[i].Name < l[j].Space+"\x00"+l[j].Name })
	return l
}

// startJob starts a job. Its arrays are on disk before its first step, where
// the session keeps snapshots.
func (c *conn) startJob(s *space, b *wire.JobBody) (*wire.AnswerBody, *wire.Error) {
	w := c.w
	if b == nil {
		return nil, wire.Errorf(wire.Invalid, "start of a job without a job")
	}
	if why := checkJob(b); why != nil {
		return nil, why
	}
	if why, _ := w.cannotRun(b); why != "" {
		return nil, wire.Errorf(wire.Invalid, "job %s: %s", wire.Shown(b.Name), why)
	}
	if why := w.waits(s, b.Name); why != nil {
		return nil, why
	}
	j, old, why := c.reserve(s, b)
	if why != nil {
		return nil, why
	}
	if err := j.openLog(); err != nil {
		w.mu.Lock()
		j.state, j.err = wire.JobFailed, diskError(err)
		if s.jobs[b.Name] = old; old == nil {
			delete(s.jobs, b.Name)
		}
		w.mu.Unlock()
		close(j.ended)
		j.log.wakeAll()
		return nil, j.err
	}
	if old != nil {
		old.log.close()
	}
	j.store(wire.JobRuns)
	j.save(true)
	w.mu.Lock()
	for _, step := range b.Steps { // the job is what the cell does
		for _, n := range step.Names {
			if b.Scratch == "" || !strings.HasPrefix(n, b.Scratch) {
				w.preserve(name{s.name, n})
			}
		}
	}
	info := j.info()
	w.mu.Unlock()
	go j.run()
	return &wire.AnswerBody{Jobs: []wire.JobInfo{info}}, nil
}

// waits is an error while a job of that name is on disk and continues only from a snapshot
// that is not restored: a new one would replace it.
func (w *Worker) waits(s *space, name string) *wire.Error {
	w.mu.Lock()
	known, unrestored, number := s.jobs[name] != nil, s.unrestored, s.waiting[name].from
	w.mu.Unlock()
	const text, or = "job %s of an earlier session is on disk, and could not be restored yet: %v", "; or give the new one another name"
	switch {
	case known:
	case number != 0:
		return wire.Errorf(wire.Invalid, text, wire.Shown(name), fmt.Sprintf("it continues from snapshot %d", number)).WithHint("%%rollback %d restores both"+or, number)
	case unrestored != nil && exists(s.archive.jobPath(name)+".json"):
		s.archive.mu.Lock()
		defer s.archive.mu.Unlock()
		return wire.Errorf(wire.Invalid, text, wire.Shown(name), unrestored).WithHint("%s", s.archive.howRestored()+or)
	}
	return nil
}

// reserve makes a job known under its name before its files are touched: of two that are
// started at the same time and do not go together, the second leaves all as it is. old
// has had the name.
func (c *conn) reserve(s *space, b *wire.JobBody) (j, old *runner, why *wire.Error) {
	w := c.w
	w.mu.Lock()
	defer w.mu.Unlock()
	old = s.jobs[b.Name]
	taken := c.goesWith(s, b)
	switch {
	case old != nil && !old.state.Over():
		return nil, nil, wire.Errorf(wire.Invalid, "job %s is %s already", wire.Shown(b.Name), old.state).WithHint("stop it first, or give the new one another name")
	case taken != nil:
		return nil, nil, taken
	case w.ending:
		return nil, nil, wire.Errorf(wire.Cancelled, "the session is stopping")
	}
	j = w.begin(s, b, newLog(), jobMoment{Worse: -1})
	j.conn.starter = c
	s.jobs[b.Name] = j
	s.touch(j.began)
	return j, old, nil
}

// openLog makes the job's log, which is empty, on disk. After an error nothing has
// changed there.
func (j *runner) openLog() error {
	path := ""
	if a := j.space.archive; a != nil {
		if err := wire.PrivateDir(a.dir); err != nil {
			return err
		}
		path = a.jobPath(j.body.Name) + ".log"
	}
	if err := j.log.open(path, 0); err != nil {
		return err
	}
	return j.log.cut()
}

// forgetJobs removes jobs that have ended or wait for a snapshot, with their logs.
func (w *Worker) forgetJobs(s *space, names []string) (*wire.AnswerBody, *wire.Error) {
	count := 0
	for _, n := range names {
		w.mu.Lock()
		_, waits := s.waiting[n]
		delete(s.waiting, n)
		w.mu.Unlock()
		if waits {
			os.Remove(s.archive.jobPath(n) + ".json")
			os.Remove(s.archive.jobPath(n) + ".log")
			count++
			continue
		}
		j, why := w.job(s, n)
		if why != nil {
			return nil, why
		}
		w.mu.Lock()
		over := j.state.Over()
		if over {
			delete(s.jobs, n)
		}
		w.mu.Unlock()
		if !over {
			return nil, wire.Errorf(wire.Invalid, "job %s is %s", n, j.state).WithHint("stop it first")
		}
		j.log.close()
		if s.archive != nil {
			os.Remove(s.archive.jobPath(n) + ".json")
			os.Remove(s.archive.jobPath(n) + ".log")
		}
		count++
	}
	return &wire.AnswerBody{Count: count}, nil
}

// followJob answers with the entries of a job's log from a number on. It waits
// for one, or for the job to change.
func (c *conn) followJob(id uint32, a wire.AskBody) {
	w := c.w
	a.Space = cmp.Or(a.Space, c.hello.Space)
	j, why := w.job(w.enter(a.Space), first(a.Names))
	if why != nil {
		c.fail(id, why)
		return
	}
	timeout := time.After(min(a.Wait, time.Minute))
	for {
		l, changed, err := j.log.from(a.From)
		if err != nil {
			c.fail(id, diskError(err))
			return
		}
		w.mu.Lock()
		info := j.info()
		w.mu.Unlock()
		wait := len(l) == 0 && !info.State.Over() && a.Wait > 0
		if !wait {
			c.answer(id, &wire.AnswerBody{Jobs: []wire.JobInfo{info}, Entries: l})
			return
		}
		select {
		case <-changed:
		case <-timeout:
			a.Wait = 0
		}
	}
}

// stopJobs ends all jobs, and waits for it.
func (w *Worker) stopJobs() {
	for _, j := range w.loops() {
		w.mu.Lock()
		j.want = wire.JobStopped
		w.mu.Unlock()
		j.signal()
		<-j.ended
	}
}

// haltJobs waits until the jobs have come to the end of a step: the worker ends.
func (w *Worker) haltJobs() {
	for _, j := range w.loops() {
		j.signal()
		select {
		case <-j.ended:
		case <-time.After(time.Minute):
			w.Logf("job %s of %q: its step has not ended within a minute", j.body.Name, j.space.name)
		}
	}
}

// loops are the jobs that have not ended.
func (w *Worker) loops() []*runner {
	w.mu.Lock()
	defer w.mu.Unlock()
	var l []*runner
	for _, s := range w.spaces {
		for _, j := range s.jobs {
			if !j.state.Over() {
				l = append(l, j)
			}
		}
	}
	return l
}

// clearState removes all that is kept of spaces.
func (w *Worker) clearState() *wire.Error {
	if w.stateOff != "" {
		return nil
	}
	w.mu.Lock()
	var l []*space
	for _, s := range w.spaces {
		l = append(l, s)
		s.jobs, s.kept, s.unrestored, s.waiting = map[string]*runner{}, time.Time{}, nil, nil
	}
	w.mu.Unlock()
	for _, s := range l {
		s.archive.mu.Lock()
		defer s.archive.mu.Unlock()
		s.archive.known, s.archive.records, s.archive.unheld = false, nil, false
	}
	dirs, _ := filepath.Glob(filepath.Join(w.State, "*", "space.json"))
	for _, d := range dirs {
		if err := os.RemoveAll(filepath.Dir(d)); err != nil {
			return diskError(err)
		}
	}
	for _, s := range l {
		if err := os.RemoveAll(s.archive.dir); err != nil {
			return diskError(err)
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range l {
		s.saved = s.version // there is nothing to save
	}
	for a := w.all.next; a != &w.all; a = a.next {
		a.saved = nil
	}
	return nil
}
