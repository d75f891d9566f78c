package session

import (
	"context"
	"errors"
	"time"

	"gaiden/lib/engine/wire"
)

// JobStep is one program in each turn (iteration) of a job. See wire.JobStep, which
// refers to the program by its number.
type JobStep struct {
	Program *Program
	Repeat  int          // runs per turn; default 1
	When    wire.Moment  // in which turns of a period it runs; default: all
	Inputs  []wire.Input // an array name for each parameter
	Names   []string     // names for the outputs, "" for none
	Read    []wire.Read  // outputs that go into the log
	// Finite binds the names only if all logged outputs are finite; otherwise the job
	// ends. The program must not donate its inputs then.
	Finite bool
	Device int
}

// Job is a loop of programs that the session runs on its own; see wire.JobBody. It
// continues when this process ends, and after a crash from the last snapshot.
//
//	job, err := s.StartJob(session.Job{Name: "cnn", Turns: 10, Steps: []session.JobStep{
//		{Program: shuffle, Inputs: session.Named("cnn/step"), Names: []string{"cnn/order"}},
//		{Program: chunk, Repeat: 5, Inputs: session.Named("cnn/w", "cnn/step", "cnn/order"), Names: []string{"cnn/w", "cnn/step", ""},
//			Read: []wire.Read{{Output: 2, Name: "loss"}}},
//	}})
//	err = s.FollowJob(ctx, "cnn", 0, func(i wire.JobInfo, l []wire.JobEntry) error { … })
type Job struct {
	Name   string
	Steps  []JobStep
	Turns  int         // iterations of the loop; default 1
	Period int         // turns per period, such as an epoch; default 1
	Until  *wire.Until // ends the job early, unless nil
	Save   int         // periods between snapshots, more if they are short; default 1
	// Scratch is a prefix of array names that are deleted when the job ends.
	Scratch string
	// Copies is a prefix, longer than Scratch, of names that are not in snapshots: those of
	// copies on other devices, say. Steps with When: wire.AtStart bind them.
	Copies string
	Origin string // shown in lists
	About  string // for clients that follow the job: see wire.JobInfo
}

// Named returns inputs for array names, in order.
func Named(names ...string) []wire.Input {
	l := make([]wire.Input, len(names))
	for i, n := range names {
		l[i].Name = n
	}
	return l
}

// StartJob starts a job. It returns after a snapshot of its arrays is on disk. A step
// without a program is a wire.Invalid error.
func (s *Session) StartJob(j Job) (wire.JobInfo, error) {
	b := &wire.JobBody{Name: j.Name, Turns: j.Turns, Period: j.Period, Until: j.Until, Save: j.Save, Scratch: j.Scratch, Copies: j.Copies, Origin: j.Origin, About: j.About}
	index := map[*Program]int{}
	for i, x := range j.Steps {
		if x.Program == nil {
			return wire.JobInfo{}, wire.Errorf(wire.Invalid, "session: job %s: step %d has no program", j.Name, i)
		}
		n, known := index[x.Program]
		if !known {
			n = len(b.Programs)
			index[x.Program] = n
			b.Programs = append(b.Programs, x.Program.body())
		}
		b.Steps = append(b.Steps, wire.JobStep{Program: n, Repeat: x.Repeat, When: x.When, Inputs: x.Inputs, Names: x.Names, Donate: x.Program.donate, Read: x.Read, Finite: x.Finite, Device: x.Device})
	}
	return s.oneJob(wire.AskBody{Verb: wire.StartJob, Job: b})
}

func (s *Session) oneJob(a wire.AskBody) (wire.JobInfo, error) {
	ans, err := s.Ask(a)
	return one(ans.Jobs, "jobs", err)
}

// one is what a request's answer has one of.
func one[T any](l []T, what string, err error) (x T, _ error) {
	if err == nil && len(l) != 1 {
		err = wire.Errorf(wire.Internal, "session: got %d %s, want 1", len(l), what)
	}
	if err != nil {
		return x, err
	}
	return l[0], nil
}

// Jobs lists the jobs of the name space, including those that have ended.
func (s *Session) Jobs() ([]wire.JobInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Jobs})
	return ans.Jobs, err
}

// PauseJob pauses a job at the end of its current step.
func (s *Session) PauseJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.PauseJob, Names: []string{name}})
}

// ResumeJob continues a paused job.
func (s *Session) ResumeJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.ResumeJob, Names: []string{name}})
}

// StopJob stops a job at the end of its current step. Its arrays keep their current
// values.
func (s *Session) StopJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.StopJob, Names: []string{name}})
}

// ForgetJob removes jobs that have ended or wait for a snapshot, with their logs.
func (s *Session) ForgetJob(names ...string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.ForgetJob, Names: names})
	return err
}

// followedLosses bounds the workers that die one after the other before one of
// them has answered FollowJob.
const followedLosses = 3

// FollowJob calls see with the log entries of a job, starting with entry number from,
// and with new entries as they arrive. It calls see at least twice per second; a nil
// see only waits. It returns when the job has ended, when see returns an error, or
// when ctx is done; the job itself is not stopped. If the worker crashes, FollowJob
// reconnects to its successor, which resumes the job. Each entry is delivered once,
// even if it is computed again.
func (s *Session) FollowJob(ctx context.Context, name string, from int, see func(wire.JobInfo, []wire.JobEntry) error) error {
	at, losses := s, 0
	defer func() {
		if at != s {
			at.Close()
		}
	}()
	for {
		ans, err := at.Ask(wire.AskBody{Verb: wire.FollowJob, Names: []string{name}, From: from, Wait: 500 * time.Millisecond})
		if losses++; errors.Is(err, wire.Lost) && losses <= followedLosses {
			next, failed := Config{Socket: s.conn.RemoteAddr().String(), Space: s.space, NoStart: true}.Open()
			if failed != nil {
				return err
			}
			if at != s {
				at.Close()
			}
			at = next
			continue
		}
		job, err := one(ans.Jobs, "jobs", err)
		if err != nil {
			return err
		}
		losses = 0
		from += len(ans.Entries)
		if see != nil {
			if err := see(job, ans.Entries); err != nil {
				return err
			}
		}
		if job.State.Over() && from >= job.Entries {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
