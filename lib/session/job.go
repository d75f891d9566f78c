package session

import (
	"context"
	"errors"
	"time"

	"gaiden/lib/engine/wire"
)

// JobStep is one program of a job's turn. See wire.JobStep, which has the
// program by its number.
type JobStep struct {
	Program *Program
	Repeat  int          // times a turn; default 1
	When    wire.Moment  // in which turns of a period; default: all
	Inputs  []wire.Input // an array name for each parameter
	Names   []string     // for the outputs, "" for none
	Read    []wire.Read  // outputs that go into the log
	// Finite: names are bound only when all that is read is finite; the program
	// must not give its inputs away then.
	Finite bool
	Device int
}

// Job is a loop that the session runs by itself; see wire.JobBody. It goes on
// when this process ends, and after a crash from the last snapshot.
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
	Turns  int         // default 1
	Period int         // turns to a period, such as an epoch; default 1
	Until  *wire.Until // ends it before its last turn
	Save   int         // periods from one snapshot to the next, more where they are short; default 1
	// Scratch is a prefix of names that are deleted when the job has ended.
	Scratch string
	Origin  string // for lists
	About   string // for who follows it: see wire.JobInfo
}

// Named are inputs by their names.
func Named(names ...string) []wire.Input {
	l := make([]wire.Input, len(names))
	for i, n := range names {
		l[i].Name = n
	}
	return l
}

// StartJob hands a loop to the session. Its arrays are on disk when it returns.
func (s *Session) StartJob(j Job) (wire.JobInfo, error) {
	b := &wire.JobBody{Name: j.Name, Turns: j.Turns, Period: j.Period, Until: j.Until, Save: j.Save, Scratch: j.Scratch, Origin: j.Origin, About: j.About}
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
	if err != nil {
		return wire.JobInfo{}, err
	}
	if len(ans.Jobs) != 1 {
		return wire.JobInfo{}, wire.Errorf(wire.Internal, "session: got %d jobs, want 1", len(ans.Jobs))
	}
	return ans.Jobs[0], nil
}

// Jobs lists the jobs of the space, those that have ended too.
func (s *Session) Jobs() ([]wire.JobInfo, error) {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Jobs})
	if err != nil {
		return nil, err
	}
	return ans.Jobs, nil
}

// PauseJob lets a job wait at the end of a step.
func (s *Session) PauseJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.PauseJob, Names: []string{name}})
}

// ResumeJob lets a job that was paused go on.
func (s *Session) ResumeJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.ResumeJob, Names: []string{name}})
}

// StopJob ends a job at the end of a step; its arrays stay as they are then.
func (s *Session) StopJob(name string) (wire.JobInfo, error) {
	return s.oneJob(wire.AskBody{Verb: wire.StopJob, Names: []string{name}})
}

// ForgetJob removes jobs that have ended, with their logs.
func (s *Session) ForgetJob(names ...string) error {
	_, err := s.Ask(wire.AskBody{Verb: wire.ForgetJob, Names: names})
	return err
}

// followedLosses bounds the workers that die one after the other before one of
// them has answered FollowJob.
const followedLosses = 3

// FollowJob calls see with the log of a job from entry number from on, and with
// new entries as they come, until the job has ended, see returns an error, or
// ctx is done. It sees the job at least twice a second; a nil see only waits.
// Ending it does not end the job. When the worker dies, FollowJob goes on with the
// next one, which resumes the job: each entry is seen once, also those that are
// computed again.
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
		if err != nil {
			return err
		}
		losses = 0
		if len(ans.Jobs) != 1 {
			return wire.Errorf(wire.Internal, "session: got %d jobs, want 1", len(ans.Jobs))
		}
		from += len(ans.Entries)
		if see != nil {
			if err := see(ans.Jobs[0], ans.Entries); err != nil {
				return err
			}
		}
		if ans.Jobs[0].State.Over() && from >= ans.Jobs[0].Entries {
			return nil
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}
