package profile

import (
	"errors"
	"fmt"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// task is a line to be measured, and how to run it.
type task struct {
	line  *Line
	run   func() error
	gated bool
	// inside, if not nil, gets the recording of some runs.
	inside func(r *Recording, runs float64)
}

// task makes a task of a program.
func (m *measurer) task(l *Line, p *hlo.Program, in []*session.Array) (task, error) {
	l.work(p)
	c := m.net.Config()
	l.Narrow = c.BF16 || c.F16
	r, err := m.runner(p, in)
	if err != nil {
		return task{}, err
	}
	return task{line: l, run: r.run, gated: r.gate != nil}, nil
}

// together is how many lines' time the ops of a layer get, if there are more: a
// convolution of blocks has a hundred on a CPU, which took half a minute.
const together = 20

// allowance is the time of each of some lines, of the budget for one.
func allowance(tasks []task, budget time.Duration) time.Duration {
	if len(tasks) > together && tasks[0].line.Level == Operation {
		return budget * together / time.Duration(len(tasks))
	}
	return budget
}

// measure measures lines alternately, and with them what measuring adds to them. Their
// runners have done then.
func (m *measurer) measure(tasks []task) error {
	defer func() {
		for _, r := range m.runners {
			r.end()
		}
		m.runners = nil
	}()
	gate, err := m.gateCost()
	if err != nil {
		return err
	}
	cases := []timing.Case{timing.Call("gate", func() { check(gate.run()) })}
	for _, t := range tasks {
		cases = append(cases, timing.Call(t.line.Path(), func() { check(t.run()) }))
	}
	timer := m.timer()
	timer.Budget = allowance(tasks, m.Budget)
	all := timer.Times(m.ctx, cases...)
	for i, found := range all[1:] {
		t := tasks[i]
		if found.Err != nil && m.ctx.Err() == nil {
			return fmt.Errorf("profile: %s: %w", m.net.Name(), found.Err)
		}
		if t.gated {
			t.line.Floor = all[0].Median() * max(all[0].Spread(), 0.05)
			found.Samples = less(found.Samples, all[0].Median(), t.line.Floor)
		}
		t.line.Time, t.line.Kernels = found, -1
	}
	if err := m.ctx.Err(); err != nil {
		return err
	}
	return m.record(tasks)
}

// check panics with an error: a Timer makes it the measurement's.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// less takes a cost off every sample. What is left is at least floor, as far as the cost
// itself is known.
func less(samples []float64, cost, floor float64) []float64 {
	for i, s := range samples {
		samples[i] = max(s-cost, floor)
	}
	return samples
}

// recordedFor is for how long runs are recorded, in seconds.
const recordedFor = 0.05

// record asks the profiler for the kernels of each task, where there is one.
func (m *measurer) record(tasks []task) error {
	for _, t := range tasks {
		// A loop may run thousands of kernels: the longer a run, the fewer.
		runs := int(min(max(recordedFor/t.line.Time.Median(), 1), 10))
		r, err := Record(m.session, func() error {
			for range runs {
				if err := t.run(); err != nil {
					return err
				}
			}
			return nil
		})
		if errors.Is(err, ErrNoProfiler) {
			return nil
		}
		if err != nil {
			return err
		}
		t.line.Device = r.Busy() / float64(runs)
		t.line.Kernels = (len(r.Kernels) + runs/2) / runs
		if t.inside != nil {
			t.inside(r, float64(runs))
		}
	}
	return m.ctx.Err()
}
