package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"gaiden/lib/engine/pjrt/xspace"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/session"
)

// trainCase is one net of the benchmark, with the sources' batch size and
// optimizer. The peers' scripts have the same.
type trainCase struct {
	name   string
	model  models.Net
	config fit.Config
	batch  int
	n      int // examples
}

var trainCases = []trainCase{
	{"mlp-b100", models.MLP(1000), fit.Config{}, 100, 60000},
	{"seedcnn-b8", models.SeedCNN(), fit.Config{}, 8, 60000},
	{"kerascnn-b128", models.KerasCNN(), fit.Config{Optimizer: fit.AdaDelta{LearningRate: 0.001, Rho: 0.95, Epsilon: 1e-7}}, 128, 60000},
	{"lenet5-b100", models.LeNet5(), fit.Config{}, 100, 50000},
}

// benchTrain measures training steps: whole epochs as one program, and the
// phases as programs of their own, beside JAX and PyTorch.
func benchTrain(b *bench) error {
	const epochs = 5
	var names []string
	for _, c := range trainCases {
		if !b.wants(c.name) {
			continue
		}
		names = append(names, c.name)
		if err := b.train(c, epochs); err != nil {
			return fmt.Errorf("bench train: %s: %w", c.name, err)
		}
	}
	only := b.only
	b.only = "" // the scripts are told which nets
	defer func() { b.only = only }()
	for _, script := range b.peers() {
		if err := b.peer("train_"+script+".py", append([]string{strconv.Itoa(epochs)}, names...)...); err != nil {
			return err
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

func (b *bench) train(c trainCase, epochs int) error {
	s, err := session.Config{Client: "gaiden bench", Space: "bench"}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	cpu := s.Welcome().Platform == "cpu"
	if cpu {
		c.n /= 10
	}
	for _, v := range []struct {
		subject string
		change  func(*fit.Config)
	}{
		{"gaiden epoch", func(*fit.Config) {}},
		{"gaiden epoch, bf16", func(f *fit.Config) { f.BF16 = true }},
	} {
		if strings.Contains(v.subject, "bf16") && cpu {
			continue // XLA's CPU compiler computes it in float32 anyway
		}
		config := c.config
		v.change(&config)
		config.Session, config.Seed = s, 1
		if err := b.trainEpochs(s, c, config, v.subject, epochs); err != nil {
			return err
		}
	}
	return b.trainPhases(s, c)
}

// data are synthetic images of the net's shape.
func (c trainCase) data() fit.Data {
	r := rand.New(rand.NewPCG(1, 2))
	size := 1
	for _, d := range c.model.Input {
		size *= d
	}
	x, y := make([]byte, c.n*size), make([]int32, c.n)
	for i := range x {
		x[i] = byte(r.Uint32())
	}
	for i := range y {
		y[i] = int32(r.IntN(10))
	}
	return fit.Data{X: x, Y: y}
}

func (b *bench) trainEpochs(s *session.Session, c trainCase, config fit.Config, subject string, epochs int) error {
	net, err := fit.Attach(s, "bench", c.model, config)
	if err != nil {
		return err
	}
	defer net.Reset()
	data, err := net.Load("bench/data", c.data())
	if err != nil {
		return err
	}
	t := fit.Train{Epochs: 1, Batch: c.batch, DropLast: true}
	began := time.Now()
	if _, err := net.Train(context.Background(), data, t); err != nil {
		return err
	}
	first := time.Since(began).Seconds()
	steps := c.n / c.batch
	var samples []float64
	t.Epochs = 1
	for range epochs {
		began := time.Now()
		if _, err := net.Train(context.Background(), data, t); err != nil {
			return err
		}
		samples = append(samples, time.Since(began).Seconds()/float64(steps)*1e6)
	}
	b.addSamples(c.name, subject, "µs", samples)
	b.addSamples(c.name+"-first", subject, "s", []float64{first})
	if n, err := kernelsPerStep(s, func() error {
		_, err := net.Train(context.Background(), data, t)
		return err
	}, steps); err == nil && n > 0 {
		b.addSamples(c.name+"-kernels", subject, "kernels", []float64{n})
	}
	if st, err := s.Status(); err == nil && len(st.Devices) > 0 && st.Devices[0].Peak >= 0 {
		b.addSamples(c.name+"-memory", subject+" (session's peak so far)", "MB", []float64{float64(st.Devices[0].Peak) / 1e6})
	}
	return nil
}

// trainPhases measures the phases one after the other, as the article's hunt
// does, without waiting between them.
func (b *bench) trainPhases(s *session.Session, c trainCase) error {
	config := c.config
	config.Session, config.Seed = s, 1
	net, err := fit.Attach(s, "bench", c.model, config)
	if err != nil {
		return err
	}
	defer net.Reset()
	data, err := net.Load("bench/data", c.data())
	if err != nil {
		return err
	}
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
	var samples []float64
	count := 100
	for i := range 6 {
		began := time.Now()
		for range count {
			if err := step(); err != nil {
				return err
			}
		}
		if err := s.Wait(); err != nil {
			return err
		}
		if i > 0 {
			samples = append(samples, time.Since(began).Seconds()/float64(count)*1e6)
		}
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
