package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/engine/pjrt/xspace"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/profile"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// trainSamples is how often each way of training is measured.
const trainSamples = 5

// benchTrain measures training steps: whole epochs as one program, and the
// phases as programs of their own, beside JAX and PyTorch. Each net has a session
// of its own, so that first calls are first and peaks of memory are the net's.
func benchTrain(b *bench) error {
	if b.devices != "" {
		return b.trainDevices()
	}
	for _, c := range trainCases {
		if !b.wants(c.name) {
			continue
		}
		fmt.Fprintf(b.progress, "bench train: %s\n", c.name)
		ran, err := b.train(c)
		if err != nil {
			return fmt.Errorf("bench train: %s: %w", c.name, err)
		}
		if !ran {
			continue
		}
		for _, script := range b.peers() {
			fmt.Fprintf(b.progress, "bench train: %s: %s\n", c.name, script)
			if err := b.peer("train_"+script+".py", strconv.Itoa(trainSamples), c.name); err != nil {
				return err
			}
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

// train measures a net, unless it is too slow for a CPU.
func (b *bench) train(c trainCase) (ran bool, err error) {
	p, err := startPrivate()
	if err != nil {
		return false, err
	}
	defer p.stop()
	s, err := p.open("bench")
	if err != nil {
		return false, err
	}
	defer s.Close()
	cpu := s.Welcome().Platform == "cpu"
	if cpu {
		if c.few == 0 {
			return false, nil
		}
		c = c.small()
	}
	for _, v := range variants {
		if v.gpu && cpu || v.asked && !slices.Contains(strings.Split(b.variants, ","), v.name) {
			continue
		}
		changed, subject := c, "gaiden epoch"
		v.change(&changed)
		if v.name != "" {
			subject += ", " + v.name
		}
		err := b.trainEpochs(s, changed, subject)
		if err != nil && v.asked { // an option that this plugin lacks
			fmt.Fprintf(b.progress, "bench train: %s: %v\n", subject, err)
			continue
		}
		if err != nil {
			return true, fmt.Errorf("%s: %w", subject, err)
		}
	}
	if c.few == 0 {
		return true, nil // compiling the phases of a deep net takes minutes
	}
	return true, b.trainPhases(s, c)
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
	{"patches", func(c *trainCase) { c.model = c.model.Lowered(models.Patches) }, false, true},
	{"library", func(c *trainCase) { c.model = c.model.Lowered(models.Library) }, false, true},
	{"oneDNN", func(c *trainCase) { c.config.OneDNN = true }, false, true},
	{"first look", func(c *trainCase) { c.config.FirstLook = true }, false, true},
	{"no graphs", func(c *trainCase) { c.config.Flags = map[string]any{"xla_gpu_enable_command_buffer": ""} }, true, true},
	{"collective graphs", func(c *trainCase) {
		c.config.Flags = map[string]any{"xla_gpu_enable_command_buffer": "FUSION,CUBLAS,CUBLASLT,CUSTOM_CALL,CUDNN,COLLECTIVES"}
	}, true, true},
}

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

// attach makes the net of a case, and its data.
func (c trainCase) attach(s *session.Session, config fit.Config) (*fit.Net, *fit.Set, error) {
	config.Session, config.Seed = s, 1
	net := fit.New("bench", c.model, config)
	if err := net.Reset(); err != nil { // what a run that was stopped has left
		return nil, nil, err
	}
	data, err := net.Load("bench/data", c.examples())
	return net, data, err
}

func (b *bench) trainEpochs(s *session.Session, c trainCase, subject string) error {
	net, data, err := c.attach(s, c.config)
	if err != nil {
		return err
	}
	defer net.Reset()
	if why, err := net.Fused(data); c.config.Kernels == fit.XLAKernels && (err != nil || why == "") {
		return nil // the same as without the option
	}
	t := fit.Train{Epochs: max(1, c.epochs), Batch: c.batch, DropLast: true}
	epochs := func() error {
		_, err := net.Train(context.Background(), data, t)
		return err
	}
	began := time.Now()
	if err := epochs(); err != nil {
		return err
	}
	b.addSamples(c.name+"-first", subject, "s", []float64{time.Since(began).Seconds()})
	if err := b.tuned(net, data, t); err != nil {
		return err
	}
	if err := epochs(); err != nil { // programs for the rest of an epoch, and the pace
		return err
	}
	steps := c.n / c.batch * t.Epochs
	var samples []float64
	for range trainSamples {
		began := time.Now()
		if err := epochs(); err != nil {
			return err
		}
		samples = append(samples, time.Since(began).Seconds()/float64(steps)*1e6)
	}
	b.addSamples(c.name, subject, "µs", samples)
	if n, err := kernelsPerStep(s, epochs, steps); err == nil && n > 0 {
		b.addSamples(c.name+"-kernels", subject, "kernels", []float64{n})
	}
	if st, err := s.Status(); err == nil && len(st.Devices) > 0 && st.Devices[0].Peak >= 0 && subject == "gaiden epoch" {
		b.addSamples(c.name+"-memory", subject, "MB", []float64{float64(st.Devices[0].Peak) / 1e6})
	}
	return b.trainWork(s, net, data, c)
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
func (b *bench) trainWork(s *session.Session, net *fit.Net, data *fit.Set, c trainCase) error {
	if slices.ContainsFunc(b.records, func(r timing.Record) bool { return r.Case == c.name+"-work" }) {
		return nil
	}
	work, err := net.Work(data, c.batch)
	if err != nil {
		return err
	}
	b.addSamples(c.name+"-work", "step", "GFLOP", []float64{work / 1e9})
	peaks, err := profile.ReadPeaks(context.Background(), s, nil)
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(b.records, func(r timing.Record) bool { return r.Case == "peak" }) {
		b.addSamples("peak", "products", "TFLOP/s", []float64{peaks.TF32 / 1e12})
		b.addSamples("peak", "products, bf16", "TFLOP/s", []float64{peaks.BF16 / 1e12})
	}
	return nil
}

// trainPhases measures the phases one after the other, as the article's hunt
// does, without waiting between them.
func (b *bench) trainPhases(s *session.Session, c trainCase) error {
	net, data, err := c.attach(s, c.config)
	if err != nil {
		return err
	}
	defer net.Reset()
	p, err := net.Phases(context.Background(), data, c.batch)
	if err != nil {
		return err
	}
	step := func() error {
		for _, f := range []func() error{p.Next, p.Forward, p.Loss, p.Backward, p.Update} {
			if err := f(); err != nil {
				return err
			}
		}
		return nil
	}
	steps := func(count int) (float64, error) {
		began := time.Now()
		for range count {
			if err := step(); err != nil {
				return 0, err
			}
		}
		err := s.Wait()
		return time.Since(began).Seconds() / float64(count) * 1e6, err
	}
	pace, err := steps(3)
	if err != nil {
		return err
	}
	count := max(2, min(100, int(0.5e6/pace))) // half a second
	var samples []float64
	for range trainSamples {
		one, err := steps(count)
		if err != nil {
			return err
		}
		samples = append(samples, one)
	}
	b.addSamples(c.name, "gaiden phases", "µs", samples)
	return nil
}

// kernelsPerStep counts the kernels that the device ran, by XLA's profiler; 0
// where the plugin has none.
func kernelsPerStep(s *session.Session, run func() error, steps int) (float64, error) {
	if _, err := s.Ask(wire.AskBody{Verb: wire.Profile, Start: true}); err != nil {
		return 0, err
	}
	err := run()
	ans, perr := s.Ask(wire.AskBody{Verb: wire.Profile})
	if err != nil || perr != nil {
		return 0, fmt.Errorf("profile: %v %v", err, perr)
	}
	space, err := xspace.Read(ans.Data)
	if err != nil {
		return 0, err
	}
	n := 0
	for _, p := range space.Planes {
		if !strings.HasPrefix(p.Name, "/device:GPU") {
			continue
		}
		for _, l := range p.Lines {
			if strings.HasPrefix(l.Name, "Stream") {
				n += len(l.Events)
			}
		}
	}
	return float64(n) / float64(steps), nil
}
