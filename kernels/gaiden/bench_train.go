package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gaiden/lib/fit"
	"gaiden/lib/profile"
	"gaiden/lib/session"
)

// benchTrain measures training steps: whole epochs as one program, and the
// phases as programs of their own, beside JAX and PyTorch. Each net has a session
// of its own, so that first calls are first and peaks of memory are the net's.
func benchTrain(b *bench) error {
	if b.devices != "" {
		return b.trainDevices()
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	os.Setenv("PATH", filepath.Dir(self)+":"+os.Getenv("PATH")) // kernels are tried in a session of this program
	for _, c := range trainCases {
		if !b.wants(c.name) {
			continue
		}
		fmt.Fprintf(b.progress, "bench train: %s\n", c.name)
		if err := b.train(c); err != nil {
			return fmt.Errorf("bench train: %s: %w", c.name, err)
		}
	}
	return nil
}

// peers are those that -peers names.
func (b *bench) peers() []string {
	if b.peerNames == "" {
		return nil
	}
	return strings.Split(b.peerNames, ",")
}

// train measures a net: its ways in turns with the peers. The phases of a deep one go
// before, in a session of their own: what forward leaves for backward has no room beside
// peers.
func (b *bench) train(c trainCase) error {
	ways := []way{b.trainVariants, b.trainPhases}
	if c.deep {
		err := inPrivate(func(_ *session.Private, s *session.Session) error { return b.inTurns(s, c, ways[1:], nil) })
		if err != nil {
			return err
		}
		ways = ways[:1]
	}
	return inPrivate(func(_ *session.Private, s *session.Session) error { return b.inTurns(s, c, ways, b.peers()) })
}

// way prepares ways of training.
type way func(s *session.Session, c trainCase) ([]*subject, error)

// inTurns measures a net, unless its case is not for this kind of device: first all ways
// of training it are prepared, then they are measured in turns.
func (b *bench) inTurns(s *session.Session, c trainCase, ways []way, others []string) error {
	if s.Welcome().Platform == "cpu" {
		c = c.small()
	}
	if c.n == 0 {
		return nil
	}
	var subjects []*subject
	for _, prepare := range ways {
		l, err := prepare(s, c)
		if err != nil {
			return err
		}
		subjects = append(subjects, l...)
	}
	for _, name := range others {
		script := "train_" + name + ".py"
		fmt.Fprintf(b.progress, "bench train: %s: %s\n", c.name, script)
		code, err := peers.ReadFile("peers/" + script)
		if err != nil {
			return err
		}
		p, l, err := b.prepare(script, code, c.name)
		if err != nil {
			return err
		}
		defer p.end(peerGrace)
		subjects = append(subjects, l...)
	}
	// Else the session would save what an epoch has made, at its end or two seconds later,
	// while the next one is measured, or a peer. It does so in a twentieth of the time at
	// most, which is in no figure; peers save nothing.
	save := func() error { _, err := s.Snapshot(""); return err }
	return b.rounds(c.name, subjects, save)
}

// trainVariants prepares the epochs, the plain one first.
func (b *bench) trainVariants(s *session.Session, c trainCase) ([]*subject, error) {
	var l []*subject
	cpu := s.Welcome().Platform == "cpu"
	for i, v := range variants {
		if v.gpu && cpu || v.asked && !slices.Contains(strings.Split(b.variants, ","), v.name) {
			continue
		}
		changed, name := c, plainEpoch
		v.change(&changed)
		if v.name != "" {
			name += ", " + v.name
		}
		x, err := b.trainEpochs(s, changed, fmt.Sprint("bench", i), name)
		switch {
		case err != nil && v.asked: // an option that this plugin lacks
			fmt.Fprintf(b.progress, "bench train: %s: %v\n", name, err)
		case err != nil:
			return nil, fmt.Errorf("%s: %w", name, err)
		case x != nil:
			l = append(l, x)
		}
	}
	return l, nil
}

// variants are ways of training a net.
var variants = []struct {
	name       string
	change     func(*trainCase)
	gpu, asked bool // only on a GPU; only if -variants names it
}{
	{"", func(*trainCase) {}, false, false},
	{"XLA's kernels", func(c *trainCase) { c.config.Kernels = fit.XLAKernels }, true, false},
	{"fused kernels", func(c *trainCase) { c.config.Kernels = fit.FusedKernels }, true, true},
	{"bf16", func(c *trainCase) { c.config.BF16 = true }, true, false}, // XLA's CPU compiler computes it in float32 anyway
	{"loop", func(c *trainCase) { c.config.Loop = fit.LoopedSteps }, false, true},
	{"single", func(c *trainCase) { c.config.Loop = fit.SingleSteps }, false, true},
	{"oneDNN", func(c *trainCase) { c.config.OneDNN = true }, false, true},
	{"first look", func(c *trainCase) { c.config.FirstLook = true }, false, true},
	{"no graphs", (*trainCase).ungraphed, true, true},
	{"serial graphs", func(c *trainCase) {
		c.config.Flags = map[string]any{"xla_gpu_command_buffer_scheduling_mode": "SERIALIZE"}
	}, true, true},
	{"collective graphs", func(c *trainCase) {
		c.config.Flags = map[string]any{"xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,COLLECTIVES"}
	}, true, true},
}

// ungraphed launches kernels one by one.
func (c *trainCase) ungraphed() { c.config.Flags = map[string]any{"xla_gpu_enable_command_buffer": ""} }

// variantNames are those that -variants can name.
func variantNames() string {
	var l []string
	for _, v := range variants {
		if v.asked {
			l = append(l, v.name)
		}
	}
	return strings.Join(l, ", ")
}

// attach makes a net of a case, and its data.
func (c trainCase) attach(s *session.Session, name string, config fit.Config) (*fit.Net, *fit.Set, error) {
	config.Session, config.Seed = s, 1
	net := fit.New(name, c.model, config)
	if err := net.Reset(); err != nil { // what a run that was stopped has left
		return nil, nil, err
	}
	data, err := net.Load("bench/data", c.examples())
	return net, data, err
}

// trainEpochs prepares epochs of a net, nil where the option changes nothing. The
// peak of memory is read for the plain epoch, when nothing else has been prepared.
func (b *bench) trainEpochs(s *session.Session, c trainCase, net, name string) (*subject, error) {
	n, data, err := c.attach(s, net, c.config)
	if err != nil {
		return nil, err
	}
	if why, err := n.Fused(data); c.config.Kernels == fit.XLAKernels && (err != nil || why == "") {
		return nil, n.Reset()
	}
	t := fit.Train{Epochs: max(1, c.epochs), Batch: c.batch, DropLast: true}
	epochs := func() error {
		_, err := n.Train(context.Background(), data, t)
		return err
	}
	began := time.Now()
	if err := epochs(); err != nil {
		return nil, errors.Join(err, n.Reset())
	}
	b.addSamples(c.name+"-first", name, "s", []float64{time.Since(began).Seconds()})
	if err := b.tuned(n, data, t); err != nil {
		return nil, err
	}
	if err := epochs(); err != nil { // programs for the rest of an epoch, and the pace
		return nil, err
	}
	steps := c.n / c.batch * t.Epochs
	recorded, err := profile.Record(s, epochs)
	switch {
	case errors.Is(err, profile.ErrNoProfiler):
	case err != nil:
		fmt.Fprintf(b.progress, "bench train: %s: %s: its kernels are not known: %v\n", c.name, name, err)
	case len(recorded.Kernels) > 0:
		b.addSamples(c.name+"-kernels", name, "kernels", []float64{float64(len(recorded.Kernels)) / float64(steps)})
	}
	if st, err := s.Status(); err == nil && len(st.Devices) > 0 && st.Devices[0].Peak >= 0 && name == plainEpoch {
		b.addSamples(c.name+"-memory", name, "MB", []float64{float64(st.Devices[0].Peak) / 1e6})
	}
	x := &subject{name: name, measure: perStep(steps, epochs)}
	if b.find(c.name+"-work", "") != nil { // noted by the plain epoch
		return x, nil
	}
	peaks, err := b.trainWork(s, n, data, c)
	if err != nil || recorded == nil {
		return x, err
	}
	return x, b.trainLimit(s, c, n, data, t, recorded, peaks)
}

// perStep measures some steps in µs each.
func perStep(steps int, run func() error) func() (float64, error) {
	return func() (float64, error) {
		began := time.Now()
		err := run()
		return time.Since(began).Seconds() / float64(steps) * 1e6, err
	}
}

// tuned chooses kernels as fit does in the background of a notebook, which is not
// for nets with batch norm: -variants "fused kernels" measures those.
func (b *bench) tuned(net *fit.Net, data *fit.Set, t fit.Train) error {
	if net.Model().HasBatchNorm() {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), b.tune)
	defer cancel()
	err := net.Tune(ctx, data, t, func(line string) { fmt.Fprintln(b.progress, "bench train:", line) })
	if errors.Is(err, context.DeadlineExceeded) {
		return nil // what was found until then holds
	}
	return err
}

// trainWork notes what a step is made of, and the device's peak: with them the
// table has percentages, also for the peers.
func (b *bench) trainWork(s *session.Session, net *fit.Net, data *fit.Set, c trainCase) (profile.Peaks, error) {
	work, err := net.Work(data, c.batch)
	if err != nil {
		return profile.Peaks{}, err
	}
	b.addSamples(c.name+"-work", "step", "GFLOP", []float64{work / 1e9})
	peaks, err := profile.ReadPeaks(context.Background(), s, nil)
	if err == nil && b.find("peak", "") == nil {
		b.addSamples("peak", "products", "TFLOP/s", []float64{peaks.TF32 / 1e12})
		b.addSamples("peak", "products, bf16", "TFLOP/s", []float64{peaks.BF16 / 1e12})
		b.addSamples("peak", "copy", "TB/s", []float64{peaks.Copy / 1e12})
	}
	return peaks, err
}

// trainPhases prepares the phases one after the other, as the article's hunt has
// them, without waiting between them.
func (b *bench) trainPhases(s *session.Session, c trainCase) ([]*subject, error) {
	net, data, err := c.attach(s, "phases", c.config)
	if err != nil {
		return nil, err
	}
	p, err := net.Phases(context.Background(), data, c.batch)
	if err != nil {
		return nil, err
	}
	steps := func(count int) error {
		for range count {
			for _, f := range []func() error{p.Next, p.Forward, p.Loss, p.Backward, p.Update} {
				if err := f(); err != nil {
					return err
				}
			}
		}
		return s.Wait()
	}
	began := time.Now()
	if err := steps(3); err != nil {
		return nil, err
	}
	count := max(1, min(100, int(0.5/(time.Since(began).Seconds()/3)))) // half a second
	return []*subject{{name: "gaiden phases", measure: perStep(count, func() error { return steps(count) })}}, nil
}
