package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/fit"
	"gaiden/lib/models"
)

// training is a net as fit trains it.
type training struct {
	name   string
	net    models.Net
	config fit.Config
	batch  int
	n      int // examples
}

// trainings are those of the benchmark, in float32 and bfloat16, and some of other
// sizes: one leaves a part of a batch over. Here the nets with batch norm have fused
// kernels, which AutoKernels does not choose for them.
func trainings() []training {
	keras, momentum := fit.AdaDelta{LearningRate: 0.001, Rho: 0.95, Epsilon: 1e-7}, fit.SGD{LearningRate: 0.01, Momentum: 0.9}
	l := []training{
		{"MLP b100", models.MLP(1000), fit.Config{}, 100, 60000},
		{"SeedCNN b8", models.SeedCNN(), fit.Config{}, 8, 60000},
		{"LeNet5 b100", models.LeNet5(), fit.Config{}, 100, 50000},
		{"KerasCNN b128", models.KerasCNN(), fit.Config{Optimizer: keras}, 128, 60000},
		{"FCN b1024", fcn(), fit.Config{Optimizer: fit.SGD{}}, 1024, 20480},
	}
	l = append(l, training{"LSTM5 b20", models.SineLSTM(5, 100), fit.Config{}, 20, 20000}, training{"LSTM128 b64", models.SineLSTM(128, 100), fit.Config{}, 64, 6400},
		training{"Peaks b40000", models.Peaks(), fit.Config{}, 40000, 800000},
		training{"ResNet14 b32", models.ResNet("ResNet14", 1, 1, 1, 1), fit.Config{Optimizer: momentum}, 32, 3200},
		training{"ResNet152 b2048", models.ResNet152(), fit.Config{Optimizer: momentum}, 2048, 20480},
		training{"ResNet50 b256", models.ResNet50(), fit.Config{Optimizer: momentum}, 256, 2560},
		training{"DeepPose b128", models.DeepPose(14), fit.Config{Optimizer: momentum}, 128, 1280})
	for _, t := range slices.Clip(l) {
		t.config.BF16 = true
		t.name += " bf16"
		l = append(l, t)
	}
	return append(l, training{"LSTM b100", models.SineLSTM(50, 100), fit.Config{}, 100, 20000}, training{"Peaks b10000", models.Peaks(), fit.Config{}, 10000, 400000},
		training{"Peaks b100", models.Peaks(), fit.Config{}, 100, 40000}, training{"SeedCNN b33 odd", models.SeedCNN(), fit.Config{Optimizer: fit.SGD{Momentum: 0.9}}, 33, 3001})
}

// curve is a training with one kind of kernels.
type curve struct {
	Case    string    `json:"case"`
	Kernels string    `json:"kernels"`
	Losses  []float64 `json:"losses"` // of the epochs
	Right   []float64 `json:"right"`  // share of right answers
	Samples []float64 `json:"samples"`
	Micros  float64   `json:"micros"` // of a step, the whole epoch around it; the median but for the first epoch
	First   float64   `json:"first_seconds"`
	Apart   float64   `json:"apart,omitempty"`         // from the losses with XLA's kernels, relative, the largest
	Apart32 float64   `json:"apart_float32,omitempty"` // those of bfloat16, from the losses of XLA's float32
	Repeats bool      `json:"repeats,omitempty"`       // a second time, all losses are the same, bit for bit
	Shares  []share   `json:"shares,omitempty"`        // kernels of a step
	Note    string    `json:"note,omitempty"`
}

func (c curve) String() string {
	if c.Note != "" {
		return fmt.Sprintf("%-20s %-6s %s", c.Case, c.Kernels, c.Note)
	}
	s := fmt.Sprintf("%-20s %-6s %8.2f µs a step, first epoch %.2f s, losses %.5f, right %.4f", c.Case, c.Kernels, c.Micros, c.First, c.Losses, c.Right)
	return s + lines(c.Shares)
}

// shake rounds weights to what products take, TF32 or bfloat16: the least that
// each step does to them. How far two trainings of one kind come apart by that is how far two kinds
// of kernels may.
func shake(net *fit.Net, bf16 bool) error {
	half := uint32(1) << 12 // of the last bit that stays
	if bf16 {
		half = 1 << 15
	}
	weights, err := net.Weights()
	if err != nil {
		return err
	}
	for _, w := range weights {
		for i, x := range w.Data {
			w.Data[i] = math.Float32frombits((math.Float32bits(x) + half) &^ (2*half - 1))
		}
	}
	return net.SetWeights(weights)
}

// attach makes a training's net and its data, from the first seed.
func (d *desk) attach(t training, name string) (*fit.Net, *fit.Set, error) {
	t.config.Session, t.config.Seed = d.s, 1
	net, err := fit.Attach(d.s, name, t.net, t.config)
	if err != nil {
		return nil, nil, err
	}
	data, err := net.Load(name, t.data())
	if err != nil {
		net.Reset() // the error that counts is there
	}
	return net, data, err
}

// train trains with one kind of kernels. With -texts it also writes down the program
// of the steps.
func (d *desk) train(t training, kind string, kernels fit.Kernels, profiled bool, set settings) curve {
	c := curve{Case: t.name, Kernels: kind}
	err := d.guard(func() error {
		t.config.Kernels = kernels
		net, data, err := d.attach(t, "curve")
		if err != nil {
			return err
		}
		defer net.Reset()
		if kind == "fused" && set.texts != "" {
			p, err := net.Steps(data, fit.Train{Batch: t.batch})
			if err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(set.texts, hlo.Symbol(t.name)+".mlir"), p.Text(nil), 0o644); err != nil {
				return err
			}
		}
		if kind == "XLA shaken" {
			if err := shake(net, t.config.BF16); err != nil {
				return err
			}
		}
		wish := fit.Train{Batch: t.batch}
		if set.tune && kind == "fused" {
			if err := net.Tune(context.Background(), data, wish, func(s string) { fmt.Println("   ", s) }); err != nil {
				return err
			}
		}
		steps := (t.n + t.batch - 1) / t.batch
		for e := range set.epochs {
			began := time.Now()
			h, err := net.Train(context.Background(), data, wish)
			if err != nil {
				return err
			}
			took := time.Since(began)
			last := h.Last()
			c.Losses = append(c.Losses, last.Train.Loss)
			c.Right = append(c.Right, float64(last.Train.Right)/float64(max(1, last.Train.N)))
			if e == 0 {
				c.First = took.Seconds()
			} else {
				c.Samples = append(c.Samples, took.Seconds()*1e6/float64(steps))
			}
		}
		if sorted := slices.Sorted(slices.Values(c.Samples)); len(sorted) > 0 {
			c.Micros = sorted[len(sorted)/2]
		}
		if profiled && d.cuda {
			few := t
			few.n = 128 * t.batch
			if data, err = net.Load("few", few.data()); err != nil {
				return err
			}
			run := func() error {
				_, err := net.Train(context.Background(), data, wish)
				return err
			}
			if err := run(); err != nil { // compiles
				return err
			}
			c.Shares, err = d.shares(128, run)
		}
		return err
	})
	if err != nil {
		c.Note = err.Error()
	}
	return c
}

// data are images of noise with a pattern for each class, so that there is
// something to learn.
func (t training) data() fit.Data {
	r := rand.New(rand.NewPCG(1, 2))
	size := 1
	for _, d := range t.net.Input {
		size *= d
	}
	if t.net.Name == "SineLSTM" {
		x, y := make([]float32, t.n*size), make([]float32, t.n*size)
		for i := range x { // what comes next on a noisy wave
			phase := float64(i%size)/5 + float64(i/size)
			x[i], y[i] = float32(math.Sin(phase)+0.1*r.NormFloat64()), float32(math.Sin(phase+0.2))
		}
		return fit.Data{X: x, Y: y}
	}
	if t.net.Name == "Peaks" {
		x, y := make([]float32, t.n*size), make([]float32, t.n)
		for i := range y { // waves
			a, b := 6*r.Float64()-3, 6*r.Float64()-3
			x[2*i], x[2*i+1], y[i] = float32(a), float32(b), float32(math.Sin(a)*math.Cos(b))
		}
		return fit.Data{X: x, Y: y}
	}
	if t.net.Name == "DeepPose" {
		x, y := make([]byte, t.n*size), make([]float32, t.n*28)
		for i := range x {
			x[i] = byte(r.Uint32())
		}
		for i := range y { // where joints are
			y[i] = r.Float32()
		}
		return fit.Data{X: x, Y: y}
	}
	patterns := make([]byte, 10*size)
	for i := range patterns {
		patterns[i] = byte(r.Uint32())
	}
	x, y := make([]byte, t.n*size), make([]int32, t.n)
	for k := range y {
		y[k] = int32(r.IntN(10))
		p := patterns[int(y[k])*size:][:size]
		for i := range p {
			x[k*size+i] = byte((int(p[i]) + 3*int(byte(r.Uint32()))) / 4)
		}
	}
	return fit.Data{X: x, Y: y}
}

// curves trains each net with XLA's kernels, with fused ones, and with XLA's from
// weights that are shaken, and once more with fused ones, which has to give the
// same losses bit for bit. It returns how many nets' curves do not agree: fused
// kernels may be four times as far from XLA's as these are from themselves, for
// one draw of noise says no more of its size, or by 1 %. In bfloat16 they may also be
// as far as XLA's bfloat16 is from its float32: fused kernels round less (the LSTM's
// state stays float32 in them), and to be nearer to float32 is no fault.
func (d *desk) curves(r *report, set settings) (bad int, err error) {
	began := time.Now()
	float32s := map[string][]float64{} // losses with XLA's kernels
	for _, t := range trainings() {
		if !set.only.MatchString(t.name) || time.Since(began) > set.budget {
			continue
		}
		fused := d.train(t, "fused", fit.FusedKernels, set.kernels, set)
		fmt.Println(fused)
		if set.alone {
			r.Curves = append(r.Curves, fused)
			continue
		}
		plain := d.train(t, "XLA", fit.XLAKernels, set.kernels, set)
		fmt.Println(plain)
		noise := d.train(t, "XLA shaken", fit.XLAKernels, false, set)
		fmt.Println(noise)
		again := d.train(t, "fused", fit.FusedKernels, false, set)
		fused.Repeats = again.Note == "" && slices.Equal(again.Losses, fused.Losses)
		fmt.Printf("%-20s the same losses a second time: %t\n", t.name, fused.Repeats)
		if !fused.Repeats && fused.Note == "" { // do XLA's?
			second := d.train(t, "XLA", fit.XLAKernels, false, set)
			plain.Repeats = second.Note == "" && slices.Equal(second.Losses, plain.Losses)
			fmt.Printf("%-20s XLA's the same a second time: %t\n", t.name, plain.Repeats)
		}
		if plain.Note == "" && fused.Note == "" && noise.Note == "" {
			fused.Apart, noise.Apart = apart(plain.Losses, fused.Losses), apart(plain.Losses, noise.Losses)
			fmt.Printf("%-20s losses are apart by %.2g, and by %.2g from weights that are shaken\n", t.name, fused.Apart, noise.Apart)
			name, bf16 := strings.CutSuffix(t.name, " bf16")
			if exact, is := float32s[name]; bf16 && is {
				plain.Apart32, fused.Apart32 = apart(exact, plain.Losses), apart(exact, fused.Losses)
				fmt.Printf("%-20s from XLA's float32 they are apart by %.2g, and XLA's by %.2g\n", t.name, fused.Apart32, plain.Apart32)
			}
			float32s[t.name] = plain.Losses
		}
		if !fused.Repeats || noise.Apart == 0 || fused.Apart > max(0.01, 4*noise.Apart, plain.Apart32) {
			bad++
			fmt.Printf("%-20s BAD\n", t.name)
		}
		r.Curves = append(r.Curves, plain, fused, noise)
		if err := r.save(set.json); err != nil {
			return bad, err
		}
	}
	return bad, nil
}

// apart is the largest relative difference of two curves.
func apart(a, b []float64) (far float64) {
	for i := range a {
		far = max(far, math.Abs(a[i]-b[i])/math.Abs(a[i]))
	}
	return far
}
