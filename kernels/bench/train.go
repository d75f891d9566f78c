package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// benchTrain measures training steps: whole epochs as one program, next to JAX and
// PyTorch.
func benchTrain(b *bench) error {
	if b.devices != "" {
		return b.trainDevices()
	}
	return b.eachNet(trainCases, b.train)
}

// peers are those that -peers names.
func (b *bench) peers() []string {
	if b.peerNames == "" {
		return nil
	}
	return strings.Split(b.peerNames, ",")
}

// train measures a net, unless its case is not for this kind of device: first all ways
// of training it are prepared, then they are measured in interleaved rounds.
func (b *bench) train(s *session.Session, c trainCase) error {
	if s.Welcome().Platform == "cpu" {
		c = c.small()
	}
	if c.n == 0 {
		return nil
	}
	var subjects []*subject
	for i, v := range variants {
		if v.gpu && s.Welcome().Platform == "cpu" {
			continue
		}
		changed := c
		v.change(&changed.config)
		x, err := b.trainEpochs(s, changed, fmt.Sprint("bench", i), v.name)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if x != nil {
			subjects = append(subjects, x)
		}
	}
	l, end, err := b.peersOf(c, "")
	if err != nil {
		return err
	}
	defer end()
	subjects = append(subjects, l...)
	// Else the session would save what an epoch has made, at its end or two seconds later,
	// while the next one is measured, or a peer. It does so in a twentieth of the time at
	// most, which is in no figure; peers save nothing.
	save := func() error { _, err := s.Snapshot(""); return err }
	return b.rounds(c.name, subjects, save)
}

// peersOf starts the peers for a case, and waits until they have prepared their ways of
// training it. check is a folder as in description.
func (b *bench) peersOf(c trainCase, check string, ways ...string) (ready []*subject, end func(), err error) {
	names := b.peers()
	started, subjects, errs := make([]*peer, len(names)), make([][]*subject, len(names)), make([]error, len(names))
	end = func() {
		for _, p := range started {
			if p != nil {
				p.end(peerGrace)
			}
		}
	}
	d, err := c.describe()
	if err != nil {
		return nil, end, err
	}
	d.Check, d.Curve, d.Ways = check, c.curve, ways
	text, err := json.Marshal(d)
	if err != nil {
		return nil, end, err
	}
	var all sync.WaitGroup // they compile next to each other, and are measured one by one
	for i, name := range names {
		script := "train_" + name + ".py"
		fmt.Fprintf(b.progress, "bench %s: %s: %s\n", b.name, c.name, script)
		code, err := peers.ReadFile("peers/" + script)
		if err != nil {
			return nil, end, err
		}
		all.Go(func() { started[i], subjects[i], errs[i] = b.prepare(script, code, string(text)) })
	}
	all.Wait()
	return slices.Concat(subjects...), end, errors.Join(errs...)
}

// plainEpoch is how a net is trained if nothing else is chosen.
const plainEpoch = "gaiden epoch"

// variants are ways of training a net.
var variants = []struct {
	name   string
	change func(*fit.Config)
	gpu    bool // only on a GPU
}{
	{plainEpoch, func(*fit.Config) {}, false},
	{plainEpoch + ", XLA's kernels", func(c *fit.Config) { c.Kernels = fit.XLAKernels }, true},
	{plainEpoch + ", bf16", func(c *fit.Config) { c.BF16 = true }, true}, // XLA's CPU compiler computes it in float32 anyway
}

// attach makes a net of a case, and its data.
func (c trainCase) attach(s *session.Session, name string, config fit.Config) (*fit.Net, *fit.Set, error) {
	config.Session, config.Seed = s, 1
	net := fit.New(name, c.model, config)
	if err := net.Reset(); err != nil { // what a run that was stopped has left
		return nil, nil, err
	}
	data, err := net.Upload("bench/data", c.examples())
	return net, data, err
}

// trainEpochs prepares epochs of a net, nil where the variant changes nothing. The
// peak of memory is read for the plain epoch, when nothing else has been prepared.
func (b *bench) trainEpochs(s *session.Session, c trainCase, net, name string) (*subject, error) {
	n, data, err := c.attach(s, net, c.config)
	if err != nil {
		return nil, err
	}
	t := fit.Train{Epochs: max(1, c.epochs), Batch: c.batch, DropLast: true}
	plan, err := n.Plan(data, t)
	if err != nil {
		return nil, err
	}
	if _, err := plan.Available(); c.config.Kernels == fit.XLAKernels && err != nil { // it is the plain epoch
		return nil, n.Reset()
	}
	epochs := func() error {
		_, err := n.Fit(data, t)
		return err
	}
	began := time.Now()
	if err := epochs(); err != nil {
		return nil, errors.Join(err, n.Reset())
	}
	if b.name == "train" { // else the comparison of losses has compiled programs
		b.addSamples(c.name+"-first", name, "s", []float64{time.Since(began).Seconds()})
	}
	if err := b.tuned(n, data, t); err != nil {
		return nil, err
	}
	if err := epochs(); err != nil { // programs for the rest of an epoch, and the pace
		return nil, err
	}
	if c.epochs == 0 && (b.name == "random" || b.name == "nets" || b.name == "gpt") {
		began := time.Now()
		if err := epochs(); err != nil {
			return nil, err
		}
		t.Epochs = int(math.Ceil(0.3 / time.Since(began).Seconds()))
		if err := epochs(); err != nil { // that many may be another program
			return nil, err
		}
	}
	steps := c.n / c.batch * t.Epochs
	recorded, err := profile.Record(s, epochs)
	switch {
	case errors.Is(err, profile.ErrNoProfiler):
	case err != nil:
		fmt.Fprintf(b.progress, "bench train: %s: %s: its kernels are not known: %v\n", c.name, name, err)
	case len(recorded.Kernels) > 0:
		b.addSamples(c.name+"-kernels", name, "kernels", []float64{float64(len(recorded.Kernels)) / float64(steps)})
		if b.out != "" {
			if err := b.keepKernels(c.name+", "+name, recorded.Kernels, steps); err != nil {
				return nil, err
			}
		}
	}
	if st, err := s.Status(); err == nil && len(st.Devices) > 0 && st.Devices[0].Peak >= 0 && name == plainEpoch {
		b.addSamples(c.name+"-memory", name, "MB", []float64{float64(st.Devices[0].Peak) / 1e6})
	}
	return &subject{name: name, measure: func() (float64, error) {
		began := time.Now()
		err := epochs()
		return time.Since(began).Seconds() / float64(steps) * 1e6, err
	}}, nil
}

// tuned chooses kernels as fit does in the background of a notebook.
func (b *bench) tuned(net *fit.Net, data *fit.Set, t fit.Train) error {
	ctx, cancel := context.WithTimeout(context.Background(), b.tune)
	defer cancel()
	err := net.WithContext(ctx).Tune(data, t, func(line string) { fmt.Fprintln(b.progress, "bench train:", line) })
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // what was found until then holds
	}
	return err
}
