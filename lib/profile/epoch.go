package profile

import (
	"context"
	"errors"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/fit/phases"
	"gaiden/lib/timing"
)

// mostEpochs bounds how many epochs are run of a set that is small.
const mostEpochs = 50

// epoch measures a step of the epoch's program, on a clone of the net: training
// it would change its weights.
func (m *measurer) epoch(parts *phases.Step) error {
	m.result.Epoch = Line{Level: Phase, Phase: "epoch", Calls: parts.Steps, Kernels: -1}
	if m.NoEpoch {
		return nil
	}
	m.Progress("an epoch's steps")
	clone, err := fit.Attach(m.session, m.net.Name()+".clone", m.net.Model(), m.net.Config())
	if err != nil {
		return err
	}
	defer clone.Reset() // an array that stays behind harms nobody
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	// Every chunk of steps that is done is one sample; the first one warms up.
	found := timing.Measurement{Name: "epoch", Loops: 1, Device: true, Time: time.Now().UTC()}
	step, at, spent := 0, time.Time{}, time.Duration(0)
	h, err := clone.WithContext(ctx).Fit(m.data, fit.Train{Epochs: mostEpochs, Batch: m.Batch, DropLast: true, Quiet: true, Progress: func(p fit.Progress) {
		done := (p.Epoch-1)*p.Steps + p.Step
		if p.Phase != "train" || done <= step {
			return
		}
		now := time.Now()
		if step > 0 {
			took := now.Sub(at)
			found.Samples = append(found.Samples, took.Seconds()/float64(done-step))
			found.Loops = done - step
			spent += took
		}
		step, at = done, now
		if spent > 4*m.Budget && len(found.Samples) >= 5 {
			cancel()
		}
	}})
	if m.ctx.Err() != nil || err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if len(found.Samples) == 0 && h != nil && h.Steps > 0 { // all was over with its first chunk
		found.Samples = []float64{h.Device.Seconds() / float64(h.Steps)}
	}
	m.result.Epoch.Time, m.result.Seen, m.result.Devices = found, step, h.Devices
	return m.inEpoch(clone)
}

// inEpoch asks the profiler for the kernels of some steps of the epoch's
// program, where there is one.
func (m *measurer) inEpoch(clone *fit.Net) error {
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	steps := 0
	r, err := Record(m.session, func() error {
		h, err := clone.WithContext(ctx).Fit(m.data, fit.Train{Epochs: 1, Batch: m.Batch, DropLast: true, Quiet: true, Progress: func(p fit.Progress) {
			if p.Phase == "train" && p.Step > 0 {
				cancel() // a chunk is enough
			}
		}})
		if h != nil {
			steps = h.Steps + h.Dropped // the profiler sees both
		}
		if errors.Is(err, context.Canceled) && m.ctx.Err() == nil {
			err = nil
		}
		return err
	})
	switch {
	case errors.Is(err, ErrNoProfiler):
		return nil
	case err != nil || steps == 0:
		return err
	}
	devices := map[string]bool{} // of this host; those of others are not recorded
	for _, k := range r.Kernels {
		devices[k.Device] = true
	}
	steps *= max(1, len(devices)) // each does all of them
	m.result.InEpoch = perRun(r.By(label), float64(steps))
	m.result.Epoch.Kernels = (len(r.Kernels) + steps/2) / steps
	return nil
}

// errors measures the evaluation of whole sets.
func (m *measurer) errors(*phases.Step) error {
	if m.NoErrors {
		return nil
	}
	for _, e := range []struct {
		name string
		set  *fit.Set
		to   *Line
	}{{"train error", m.data, &m.result.TrainError}, {"test error", m.Test, &m.result.TestError}} {
		if e.set == nil {
			continue
		}
		m.Progress(e.name)
		*e.to = Line{Level: Phase, Phase: e.name, Calls: 1, Kernels: -1}
		found := timing.Measurement{Name: e.name, Loops: 1, Device: true, Time: time.Now().UTC()}
		for spent, first := 0.0, true; first || len(found.Samples) < 1 || spent < 2*m.Budget.Seconds() && len(found.Samples) < 10; first = false {
			began := time.Now()
			if _, err := m.net.WithContext(m.ctx).Evaluate(e.set); err != nil {
				return err
			}
			took := time.Since(began).Seconds()
			if first { // it may compile
				found.First = took
				continue
			}
			found.Samples = append(found.Samples, took)
			spent += took
		}
		e.to.Time = found
	}
	return nil
}
