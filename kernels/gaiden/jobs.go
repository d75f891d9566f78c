package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"gaiden/kernels/internal/magic"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/fit/result"
	"gaiden/lib/report"
	"gaiden/lib/session"
	"gaiden/lib/timing/units"
)

const jobsArgs = "[all | attach|pause|resume|stop|forget NAME [NOTEBOOK]]"

const jobsMore = `
A job is training that runs in the session and continues after its cell, the kernel
or the browser has ended. Start one with net.FitJob(train, fit.Train{…}) instead
of net.Fit. After a crash, it continues from the last snapshot.
%jobs              list the notebook's jobs; %jobs all lists those of all notebooks
%jobs attach NAME  follow a job until it ends, with a progress bar if it trains a
                   net; interrupting the cell does not stop the job
%jobs pause NAME   pause a job at the end of the current step
%jobs resume NAME  continue a paused job
%jobs stop NAME    stop a job at the end of the current step; its arrays stay as
                   they are then
%jobs forget NAME  remove a job that has ended or waits for its snapshot, with its log
For a job of another notebook, add NOTEBOOK as %jobs all shows it.`

// jobCell answers those who expect a cell to continue by itself.
func jobCell(context.Context, magic.Host, magic.Command) error { return &jobCellError{} }

// A jobCellError says why %%job runs nothing.
type jobCellError struct{}

func (*jobCellError) Error() string {
	return "%%job: nothing was run: a cell's process ends with the cell, a job is work that is handed to the session"
}

// Hint says how.
func (*jobCellError) Hint() string {
	return "net.FitJob(train, fit.Train{…}) in a cell starts one, in place of net.Fit; %jobs shows it"
}

func jobsMagic(ctx context.Context, h magic.Host, c magic.Command) error {
	if len(c.Args) <= 1 {
		all := len(c.Args) == 1 && c.Args[0] == "all"
		if len(c.Args) == 1 && !all && c.Args[0] != "list" {
			return magic.Usage(c)
		}
		return reviving("", func(s *session.Session) error { return listJobs(h, s, all) })
	}
	if len(c.Args) > 3 {
		return magic.Usage(c)
	}
	name, notebook := c.Args[1], strings.Join(c.Args[2:], "")
	return reviving(notebook, func(s *session.Session) error {
		var i wire.JobInfo
		var err error
		switch c.Args[0] {
		case "attach":
			if j, err := fit.FindJob(s, name); err == nil {
				return attachNet(ctx, h, j)
			}
			return attachJob(ctx, h, s, name)
		case "pause":
			i, err = s.PauseJob(name)
		case "resume":
			i, err = s.ResumeJob(name)
		case "stop":
			i, err = s.StopJob(name)
		case "forget":
			return s.ForgetJob(name)
		default:
			return magic.Usage(c)
		}
		if err == nil {
			fmt.Fprintf(h.Stdout(), "job %s is %s\n", shownName(i.Name), i.State)
		}
		return err
	})
}

// listJobs shows the jobs of the notebook, or of all.
func listJobs(h magic.Host, s *session.Session, all bool) error {
	ans, err := s.Ask(wire.AskBody{Verb: wire.Jobs, Space: "*"})
	if err != nil {
		return err
	}
	l, others := ans.Jobs, 0
	if !all {
		l = slices.DeleteFunc(l, func(i wire.JobInfo) bool { return i.Space != s.Space() })
		others = len(ans.Jobs) - len(l)
	}
	switch {
	case len(l) > 0:
		showJobs(h, l, all)
	case all:
		fmt.Fprintln(h.Stdout(), "no jobs; net.FitJob(train, fit.Train{…}) starts one")
	default:
		fmt.Fprintf(h.Stdout(), "no jobs in notebook %q; net.FitJob(train, fit.Train{…}) starts one\n", s.Space())
	}
	if others > 0 {
		fmt.Fprintf(h.Stdout(), "other notebooks have %s: %%jobs all\n", units.Plural(others, "job"))
	}
	return nil
}

func showJobs(h magic.Host, l []wire.JobInfo, all bool) { grid(h, jobRows(l, all)) }

func jobRows(l []wire.JobInfo, all bool) [][]string {
	rows := [][]string{{"name", "state", "progress", "log", "started", "changed", ""}}
	if all {
		rows[0] = append([]string{"notebook"}, rows[0]...)
	}
	for _, i := range l {
		why := i.Why
		if i.Error != nil {
			why = i.Error.Error()
		}
		progress := units.Count(i.Place.Turn/i.Period) + " of " + units.Plural(i.Turns/i.Period, jobUnit(i))
		entries := units.Count(i.Entries) + " entries"
		if i.Entries == 1 {
			entries = "1 entry"
		}
		r := []string{shownName(i.Name), string(i.State), progress, entries, ago(i.Started), ago(i.Changed), why}
		if all {
			r = append([]string{wire.Shown(i.Space)}, r...)
		}
		rows = append(rows, r)
	}
	return rows
}

// jobUnit is what a job's progress counts: epochs of net.FitJob's, periods of others that have
// some.
func jobUnit(i wire.JobInfo) string {
	var about struct{ Net string } // as FitJob describes its jobs
	switch {
	case json.Unmarshal([]byte(i.About), &about) == nil && about.Net != "":
		return "epoch"
	case i.Period > 1:
		return "period"
	}
	return "turn"
}

// attachNet shows a net's training as Fit does, from its first step on, and at its end the
// history.
func attachNet(ctx context.Context, h magic.Host, j *fit.Job) error {
	live := h.Live()
	progress, end := report.Training(shownName(j.Name), func(text, page, ended string) {
		live(map[string]any{"text/plain": text, "text/html": page}, ended != "")
	})
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-h.Left():
			cancel()
		case <-ctx.Done():
		}
	}()
	history, err := j.Follow(ctx, progress)
	if ctx.Err() != nil {
		end(history, result.ErrDetached)
		fmt.Fprintf(h.Stdout(), "job %s continues\n", shownName(j.Name))
		return nil
	}
	end(history, err)
	if history != nil {
		fmt.Fprint(h.Stdout(), history)
	}
	return err
}

// attachJob prints the job's log as it grows: the first values of each entry.
func attachJob(ctx context.Context, h magic.Host, s *session.Session, name string) error {
	var last wire.JobInfo
	var failed error
	err := s.FollowJob(ctx, name, 0, func(i wire.JobInfo, l []wire.JobEntry) error {
		for _, e := range l {
			values := e.Values[:min(len(e.Values), 6)]
			more := ""
			if len(e.Values) > len(values) {
				more = fmt.Sprintf(" … %d values", len(e.Values))
			}
			fmt.Fprintf(h.Stdout(), "%s turn %d step %d.%d  %s %.6g%s\n", e.Time.Local().Format(time.TimeOnly), e.Place.Turn, e.Place.Step, e.Place.Repeat, e.Name, []float64(values), more)
		}
		last = i
		return nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(h.Stdout(), "job %s is %s after %d of %d turns\n", shownName(name), last.State, last.Place.Turn, last.Turns)
	if last.Error != nil {
		failed = last.Error
	}
	return failed
}
