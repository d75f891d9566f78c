package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/device"
	"gaiden/lib/engine/pjrt"
	"gaiden/lib/fit"
	"gaiden/lib/models"
	"gaiden/lib/profile"
	"gaiden/lib/report"
	"gaiden/lib/session"
	"gaiden/lib/timing"
)

// phasesCase is one net that is taken apart.
type phasesCase struct {
	name  string
	model models.Net
	batch int
	n     int // examples, of noise
}

// phasesCases are the nets of the sources, the first one with each gradient of
// max pooling.
func phasesCases() []phasesCase {
	cases := []phasesCase{}
	for _, p := range []struct {
		name     string
		gradient models.Pooling
	}{{"mask", models.Mask}, {"scatter", models.SelectAndScatter}, {"fill", models.IndexedFill}} {
		cases = append(cases, phasesCase{"seedcnn-" + p.name + "-b8", pooled(models.SeedCNN(), p.gradient), 8, 8192})
	}
	return append(cases, []phasesCase{
		{"mlp-b100", models.MLP(1000), 100, 60000},
		{"kerascnn-b128", models.KerasCNN(), 128, 25600},
		{"lenet5-b100", models.LeNet5(), 100, 50000},
		{"sinelstm-b32", models.SineLSTM(5, 100), 32, 3200},
		{"surface-b40000", models.Peaks(), 40000, 40000},
		{"deeppose-b32", models.DeepPose(7), 32, 256},
	}...)
}

// pooled is a net whose max pooling hands its gradient back in another way.
func pooled(net models.Net, gradient models.Pooling) models.Net {
	net.Layers = slices.Clone(net.Layers)
	for i, l := range net.Layers {
		if p, ok := l.(models.MaxPool2D); ok {
			p.Gradient = gradient
			net.Layers[i] = p
		}
	}
	return net
}

// benchPhases finds out where a step's time goes: what %phases, %roofline,
// %sweep and %timeit show, as records. The cases check… are ratios that
// should be 1: of the phases in their places to the step made of them, of
// kernels with a label to all, of kernels' time to the clock's.
func benchPhases(b *bench) error {
	s, err := session.Config{Client: "gaiden bench", Space: "bench"}.Open()
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	if b.wants("peaks/") {
		if err := b.peaks(ctx, s); err != nil {
			return err
		}
	}
	if b.wants("product") {
		if err := b.product(s); err != nil {
			return err
		}
	}
	if b.wants("sweep") {
		if err := b.sweep(ctx, s); err != nil {
			return err
		}
	}
	client, err := analyst()
	if err != nil {
		fmt.Fprintf(b.progress, "bench phases: no cost analysis of XLA's: %v\n", err)
	}
	if client != nil {
		defer client.Close()
	}
	for _, c := range phasesCases() {
		if !b.wants(c.name) {
			continue
		}
		began := time.Now()
		if err := b.netPhases(ctx, s, client, c); err != nil { // others may still be worth having
			fmt.Fprintf(b.progress, "bench phases: %s: %v\n", c.name, err)
		}
		b.addSamples(c.name+"/whole measurement", "gaiden", "s", []float64{time.Since(began).Seconds()})
	}
	return nil
}

func (b *bench) netPhases(ctx context.Context, s *session.Session, client *pjrt.Client, c phasesCase) error {
	net, err := fit.Attach(s, "bench-"+c.name, c.model, fit.Config{Session: s, Seed: 1})
	if err != nil {
		return err
	}
	defer net.Reset()
	data, err := profile.Synthetic(net, c.n)
	if err != nil {
		return err
	}
	p, err := profile.Measure(ctx, net, data, profile.Options{Batch: c.batch, Budget: b.budget / 10, Progress: func(what string) {
		fmt.Fprintf(b.progress, "%s: %s\n", c.name, what)
	}})
	if err != nil {
		return err
	}
	fmt.Fprintln(b.progress, report.Phases(p))
	for _, l := range append(slices.Concat(p.Lines(), []profile.Line{p.Chain, p.Epoch}), p.TrainError) {
		b.line(c.name, l)
	}
	ratio := func(name, subject string, v float64) {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			b.addSamples(c.name+"/"+name, subject, "ratio", []float64{v})
		}
	}
	ratio("check", "phases and their rest to the step", p.InStep/p.Chain.Seconds())
	ratio("alone", "sum of the phases to the step", p.Sum()/p.Chain.Seconds())
	for _, in := range []struct {
		name   string
		groups []profile.Group
		whole  float64
	}{{"step", p.InChain, p.Chain.Seconds()}, {"epoch", p.InEpoch, p.Epoch.Seconds()}} {
		known, sum := 0.0, 0.0
		for _, g := range in.groups {
			b.addSamples(c.name+"/in the "+in.name+"/"+g.Name, "kernels by the profiler", "µs", []float64{1e6 * g.Seconds})
			sum += g.Seconds
			if !strings.HasPrefix(g.Name, profile.NoLabel) {
				known += g.Seconds
			}
		}
		if sum > 0 {
			ratio("check "+in.name+" labels", "kernels with a label to all, by their time", known/sum)
			ratio("check "+in.name+" busy", "kernels to a step's time", sum/in.whole)
		}
	}
	return b.counts(ctx, client, c, net, data)
}

// line keeps what one line of the table takes.
func (b *bench) line(net string, l profile.Line) {
	name := net + "/" + l.Path()
	if l.Device > 0 {
		b.addSamples(name, "kernels by the profiler", "µs", []float64{1e6 * l.Device})
	}
	if l.Kernels > 0 {
		b.addSamples(name, "kernels", "kernels", []float64{float64(l.Kernels)})
	}
	if m := l.Time; m.N() > 0 {
		samples := make([]float64, m.N())
		for i, s := range m.Samples {
			samples[i] = 1e6 * s
		}
		subject := "from the host"
		if m.DispatchBound() {
			subject += ", dispatch-bound"
		}
		b.addSamples(name, subject, "µs", samples)
	}
}

// counts compares the FLOPs and bytes that we count with those of XLA's cost
// analysis, where the plugin has one.
func (b *bench) counts(ctx context.Context, client *pjrt.Client, c phasesCase, net *fit.Net, data *fit.Set) error {
	if client == nil {
		return nil
	}
	phases, err := net.Phases(ctx, data, c.batch)
	if err != nil {
		return err
	}
	defer phases.Close()
	for _, f := range phases.List() {
		p, err := client.Compile(f.HLO.Text(nil), pjrt.CompileOptions{Flags: map[string]any{"xla_gpu_autotune_level": 0}})
		if err != nil {
			return err
		}
		theirs, err := p.Cost()
		if err = errors.Join(err, p.Close()); err != nil {
			if errors.Is(err, pjrt.ErrUnimplemented) {
				return nil
			}
			return err
		}
		ours := f.HLO.Cost()
		for name, v := range map[string]float64{"flops": ours.FLOPs, "transcendentals": ours.Transcendentals, "bytes accessed": ours.Bytes} {
			if xla, ok := theirs[name].(float64); ok && xla > 0 && v > 0 {
				b.addSamples(c.name+"/"+f.Name+"/"+name, "counted", name, []float64{v})
				b.addSamples(c.name+"/"+f.Name+"/"+name, "XLA's cost analysis", name, []float64{xla})
			}
		}
	}
	return nil
}

// analyst is a client of the plugin in this process, for XLA's cost analysis:
// the session has no use for it. It is nil on a CPU, whose plugin has none.
func analyst() (*pjrt.Client, error) {
	plugin, err := device.Find()
	if err != nil || plugin.Device == "cpu" {
		return nil, err
	}
	lib, err := pjrt.Load(plugin.Path)
	if err != nil {
		return nil, err
	}
	return lib.NewClient(plugin.Options)
}

func (b *bench) peaks(ctx context.Context, s *session.Session) error {
	p, err := profile.MeasurePeaks(ctx, s)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.progress, report.Peaks(p))
	for _, v := range []struct {
		name, unit string
		value      float64
	}{
		{"copy", "GB/s", p.Copy / 1e9}, {"product f32", "TFLOP/s", p.F32 / 1e12}, {"product default", "TFLOP/s", p.TF32 / 1e12},
		{"product bf16", "TFLOP/s", p.BF16 / 1e12}, {"dispatch", "µs", 1e6 * p.Dispatch}, {"latency", "µs", 1e6 * p.Latency},
	} {
		b.addSamples("peaks/"+v.name, "best", v.unit, []float64{v.value})
	}
	return nil
}

// product times a product of square matrices as %timeit does, beside JAX and
// PyTorch.
func (b *bench) product(s *session.Session) error {
	n := 4096
	if s.Welcome().Platform == "cpu" {
		n = 512
	}
	name := fmt.Sprintf("product-%d", n)
	shape := shapes.Make(dtypes.Float32, n, n)
	g := NewGraph(s.Backend(), name)
	node := Parameter(g, "x", shape)
	if err := g.Compile(MatMul(node, node)); err != nil {
		return err
	}
	p, err := s.Compile(g.Executable().(*session.Executable).Program(), session.Options{Origin: "bench"})
	if err != nil {
		return err
	}
	values := make([]float32, n*n)
	for i := range values {
		values[i] = float32(i%1000) / 1000
	}
	x, err := s.Put(values, shape, 0)
	if err != nil {
		return err
	}
	var failed error
	var last *session.Array // a session waits for results that somebody has
	found := report.Timeit{Runs: 15, Quiet: true}.Run(func(times int) {
		for range times {
			out, err := p.Run(session.Call{Inputs: []*session.Array{x}})
			if err != nil {
				failed = err
				return
			}
			if last != nil {
				failed = errors.Join(failed, last.Finalize())
			}
			last = out[0]
		}
	})
	if failed != nil {
		return failed
	}
	fmt.Fprintf(b.progress, "%s\n%v\n", name, found)
	if err := b.add(name, "gaiden %timeit", found.Measurement); err != nil {
		return err
	}
	for _, script := range []string{"product_torch.py", "product_jax.py"} {
		if err := b.peer(script, strconv.Itoa(n), name); err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) sweep(ctx context.Context, s *session.Session) error {
	most := 26
	if s.Welcome().Platform == "cpu" {
		most = 22
	}
	w, err := profile.SweepActivation(ctx, s, "sigmoid", most, nil)
	if err != nil {
		return err
	}
	fmt.Fprintln(b.progress, report.Sweep(w))
	for i, p := range w.Points {
		for _, m := range []timing.Measurement{p.Awaited, p.Pipelined, p.Host} {
			if m.N() > 0 {
				if err := b.add(fmt.Sprintf("sweep/2^%d", i), m.Name, m); err != nil {
					return err
				}
			}
		}
	}
	b.addSamples("sweep/floor", "awaited", "µs", []float64{1e6 * w.Floor()})
	b.addSamples("sweep/crossover with one core", "awaited", "numbers", []float64{float64(w.Crossover())})
	b.addSamples("sweep/throughput", "pipelined", "numbers/s", []float64{w.Throughput()})
	return nil
}
