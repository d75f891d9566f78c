package main

import (
	"io"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/report"
	"gaiden/lib/session"
)

// runEpochs is how many epochs a whole run has at least.
const runEpochs = 20

// benchRun measures whole trainings as a notebook has them: a validation after each epoch,
// the progress bar, and the session's snapshots. Next to them are the bare epochs with the
// same number of validations, the first run in a session without any programs, and the
// peers' loops over steps, as their tutorials have them.
func benchRun(b *bench) error { return b.eachNet(trainCases, b.run) }

func (b *bench) run(s *session.Session, c trainCase) error {
	c.epochs = max(c.epochs, runEpochs)
	if s.Welcome().Platform == "cpu" {
		c = c.small()
	}
	if c.n == 0 {
		return nil
	}
	net, data, err := c.attach(s, "run", c.config)
	if err != nil {
		return err
	}
	tests := c
	tests.n = max(c.batch, c.n/6)
	test, err := net.Upload("bench/test", tests.examples())
	if err != nil {
		return err
	}
	bare := fit.Train{Epochs: max(1, c.epochs), Batch: c.batch, DropLast: true}
	whole := bare
	whole.Validation = test
	bar := &report.Progress{Title: c.name, Total: c.n / c.batch * bare.Epochs, Out: io.Discard}
	whole.Progress = func(p fit.Progress) { bar.Set((p.Epoch-1)*p.Steps+p.Step, p.String()) }
	first := whole
	first.Epochs = 1
	began := time.Now()
	if _, err := net.Fit(data, first); err != nil {
		return err
	}
	b.addSamples(c.name+"-first", "gaiden, first epoch", "s", []float64{time.Since(began).Seconds()})
	steps := float64(c.n / c.batch * bare.Epochs)
	timed := func(call func() error) func() (float64, error) {
		return func() (float64, error) {
			began := time.Now()
			err := call()
			return time.Since(began).Seconds() / steps * 1e6, err
		}
	}
	subjects := []*subject{
		{name: "gaiden, whole run", measure: timed(func() error { _, err := net.Fit(data, whole); return err })},
		{name: "gaiden, epochs and validations alone", measure: timed(func() error {
			if _, err := net.Fit(data, bare); err != nil {
				return err
			}
			for range bare.Epochs {
				if _, err := net.Evaluate(test); err != nil {
					return err
				}
			}
			return nil
		})},
	}
	for _, x := range subjects { // all programs, and the pace
		if _, err := x.measure(); err != nil {
			return err
		}
	}
	c.tests = tests.n
	l, end, err := b.peersOf(c, "")
	if err != nil {
		return err
	}
	defer end()
	return b.rounds(c.name, append(subjects, l...), func() error { return nil }) // snapshots are a part of a run
}
