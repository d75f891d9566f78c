package main

import (
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/fit"
	"gaiden/lib/losses"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// benchRandom trains nets that are drawn from a seed, next to the peers' fastest ways of
// training, and with XLA's kernels only.
func benchRandom(b *bench) error {
	if b.peerNames == "" {
		fmt.Fprintln(b.progress, "bench random: no peers: -peers jax,torch measures them too")
	}
	cases := make([]trainCase, b.nets)
	for k := range cases {
		cases[k] = randomCase(b.seed, k)
	}
	return b.eachNet(cases, b.random)
}

// fastWays are the peers' ways of training that are the fastest somewhere; on a CPU it
// may be any.
var fastWays = []string{"scan", "jit step", "CUDA graph", "CUDA graph of a compiled step"}

func (b *bench) random(s *session.Session, c trainCase) error {
	fmt.Fprintf(b.progress, "bench random: %s: %v\n", c.name, c.model.Names())
	ways := fastWays
	if s.Welcome().Platform == "cpu" {
		c.n, ways = max(2*c.batch, c.n/20), nil
	}
	return b.compare(s, c, ways)
}

// compare trains a net next to its peers, after the losses of the first step were compared,
// and with XLA's kernels only.
func (b *bench) compare(s *session.Session, c trainCase, ways []string) error {
	if b.ways != "" {
		ways = strings.Split(b.ways, ",")
	}
	check, curve := "", []float32(nil)
	if c.config.Step == nil { // else it draws random numbers
		dir, err := os.MkdirTemp("", "bench-random")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		if curve, err = b.check(s, c, dir); err != nil {
			return err
		}
		check = dir
	}
	var subjects []*subject
	for i, v := range variants[:2] {
		changed := c
		v.change(&changed.config)
		x, err := b.trainEpochs(s, changed, fmt.Sprint("bench", i), v.name)
		if err != nil {
			return fmt.Errorf("%s: %w", v.name, err)
		}
		if x != nil { // else it is the same program
			subjects = append(subjects, x)
		}
	}
	l, end, err := b.peersOf(c, check, ways...)
	if err != nil {
		return err
	}
	defer end()
	if c.curve > 0 {
		b.compareCurves(c.name, curve, l)
	}
	return b.rounds(c.name, append(subjects, l...), func() error { _, err := s.Snapshot(""); return err })
}

// withoutDropout are layers whose losses the peers can repeat.
func withoutDropout(layers []models.Layer) (all []models.Layer) {
	for _, l := range layers {
		switch m := l.(type) {
		case models.Dropout:
			continue
		case models.Sequential:
			m.Layers = withoutDropout(m.Layers)
			l = m
		}
		all = append(all, l)
	}
	return all
}

// families are the kinds of nets that are drawn.
var families = []struct {
	name string
	draw func(d *draw)
}{
	{"dense", func(d *draw) { d.dense(false, 0) }},
	{"conv", func(d *draw) { d.conv(false, 0) }},
	{"lstm", (*draw).recurrent},
	{"norm", (*draw).normalised},
	{"dropout", (*draw).dropout},
	{"transformer", (*draw).transformer},
}

// draw draws a net.
type draw struct {
	*rand.Rand
	trainCase
}

// randomCase is net k of a seed: its family, layers, sizes, activations, loss, optimizer,
// batch and data.
func randomCase(seed uint64, k int) trainCase {
	d := draw{Rand: rand.New(rand.NewPCG(seed, uint64(k)))}
	family := families[(int(seed%uint64(len(families)))+k)%len(families)]
	d.model.Name = "random"
	family.draw(&d)
	for i, l := range d.model.Layers { // PyTorch's modules have names, too
		d.model.Layers[i] = renamed(l, fmt.Sprintf("l%d", i))
	}
	d.config.Optimizer = pick[optim.Optimizer](&d, optim.Adam{}, optim.Adam{}, optim.SGD{}, optim.SGD{Momentum: 0.9}, optim.SGD{Momentum: 0.9, Nesterov: true}, optim.AdaDelta{LearningRate: 0.1})
	size := 1
	for _, n := range d.model.Input {
		size *= n
	}
	d.n = d.batch * max(10, min(400, 60000/d.batch, 100_000_000/size/d.batch))
	d.name = fmt.Sprintf("seed%d-net%d-%s-b%d", seed, k, family.name, d.batch)
	return d.trainCase
}

func pick[T any](d *draw, from ...T) T { return from[d.IntN(len(from))] }

// between is a whole number, small ones as likely as large ones by their logarithm.
func (d *draw) between(low, high int) int {
	return int(math.Round(float64(low) * math.Pow(float64(high)/float64(low), d.Float64())))
}

func (d *draw) act() models.Act {
	return pick(d, models.ReLU, models.ReLU, graph.Tanh, graph.Sigmoid)
}

func (d *draw) add(l ...models.Layer) { d.model.Layers = append(d.model.Layers, l...) }

// end ends a net with classes, or with numbers to be met.
func (d *draw) end(floats bool) {
	if d.IntN(3) > 0 && !floats {
		classes := d.between(2, 100)
		d.add(models.Dense{Units: classes})
		d.data = d.noise(classes, nil)
		return
	}
	out := d.between(1, 16)
	d.add(models.Dense{Units: out})
	shape := []int{out}
	if floats && len(d.model.Input) == 2 {
		shape = []int{d.model.Input[0], out}
	}
	d.config.Loss, d.data = losses.MSE{}, d.noise(0, shape)
}

// noise are examples of random bytes, or numbers where the input is no image, with random
// classes or targets.
func (d *draw) noise(classes int, target []int) func(trainCase) fit.Data {
	return func(c trainCase) fit.Data {
		source := rand.NewChaCha8([32]byte{2})
		r := rand.New(source)
		floats := func(dims []int) []float32 {
			n := c.n
			for _, d := range dims {
				n *= d
			}
			l := make([]float32, n)
			for i := range l {
				l[i] = r.Float32()
			}
			return l
		}
		var data fit.Data
		if len(c.model.Input) == 3 {
			data.X = c.images(source)
		} else {
			data.X = floats(c.model.Input)
		}
		if classes == 0 {
			data.Y = floats(target)
			return data
		}
		y := make([]int32, c.n)
		for i := range y {
			y[i] = int32(r.IntN(classes))
		}
		data.Y = y
		return data
	}
}

// dense is a multilayer perceptron on an image or on numbers, with batch norms or dropout.
func (d *draw) dense(norm bool, dropout float64) {
	d.batch = d.between(8, 1024)
	d.model.Input = pick(d, []int{28, 28, 1}, []int{d.between(4, 1024)})
	if len(d.model.Input) == 3 {
		d.add(models.Flatten{})
	}
	act := d.act()
	for range 1 + d.IntN(5) {
		l := models.Dense{Units: d.between(16, 2048), Act: act}
		if norm {
			l.Act = nil
			d.add(l, models.BatchNorm{Act: act})
		} else {
			d.add(l)
		}
		if dropout > 0 {
			d.add(models.Dropout{Rate: dropout})
		}
	}
	d.end(false)
}

// conv is a convolutional net.
func (d *draw) conv(norm bool, dropout float64) {
	d.batch = d.between(8, 256)
	d.model.Input = pick(d, []int{28, 28, 1}, []int{32, 32, 3}, []int{48, 48, 3})
	side, channels, act := d.model.Input[0], d.between(8, 64), d.act()
	for range 1 + d.IntN(4) {
		kernel, same := pick(d, 3, 3, 5), d.IntN(2) == 0
		if !same && side <= kernel {
			break
		}
		l := models.Conv2D{Channels: channels, Kernel: kernel, Same: same, Act: act}
		if norm {
			l.Act, l.NoBias = nil, true
			d.add(l, models.BatchNorm{Act: act})
		} else {
			d.add(l)
		}
		if !same {
			side -= kernel - 1
		}
		if side >= 8 && d.IntN(3) > 0 {
			d.add(models.MaxPool2D{Window: 2})
			side, channels = side/2, channels*(1+d.IntN(2))
		}
	}
	d.add(models.Flatten{})
	hidden := d.IntN(3)
	if dropout > 0 {
		hidden = max(1, hidden)
	}
	for range hidden {
		d.add(models.Dense{Units: d.between(32, 512), Act: act})
		if dropout > 0 {
			d.add(models.Dropout{Rate: dropout})
		}
	}
	d.end(false)
}

// recurrent is a net of one or two LSTMs that gives numbers at each time step.
func (d *draw) recurrent() {
	d.batch = d.between(8, 128)
	d.model.Input = []int{d.between(16, 128), d.between(1, 64)}
	if d.IntN(3) == 0 {
		d.add(models.Dense{Units: d.between(4, 128)})
	}
	units := d.between(5, 256)
	for range 1 + d.IntN(2) {
		d.add(models.LSTM{Units: units})
	}
	d.end(true)
}

func (d *draw) normalised() {
	if d.IntN(3) == 0 {
		d.dense(true, 0)
	} else {
		d.conv(true, 0)
	}
}

func (d *draw) dropout() {
	rate := 0.1 * float64(1+d.IntN(5))
	if d.IntN(2) == 0 {
		d.dense(false, rate)
	} else {
		d.conv(false, rate)
	}
}

// transformer is a language model.
func (d *draw) transformer() {
	d.batch = d.between(4, 64)
	heads, vocab, length := pick(d, 1, 2, 4, 8), d.between(32, 4096), d.between(16, 256)
	net := gpt(vocab, length, heads*d.between(8, 64), 1+d.IntN(4), heads)
	d.model.Input, d.model.Layers, d.data = net.Input, net.Layers, ids(vocab, vocab, length)
}

func renamed(l models.Layer, name string) models.Layer {
	switch l := l.(type) {
	case models.Dense:
		l.Name = name
		return l
	case models.Conv2D:
		l.Name = name
		return l
	case models.BatchNorm:
		l.Name = name
		return l
	case models.LSTM:
		l.Name = name
		return l
	}
	return l
}

// printCompared prints a line for each net: µs per step of each way, the fastest peer's over
// Gaiden's, and XLA's kernels' over Gaiden's. The last lines are the geometric means and the
// worst.
func (b *bench) printCompared(w io.Writer) {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "net\tGaiden\tXLA's kernels\tJAX\tPyTorch\tbest peer / Gaiden\tXLA's kernels / Gaiden\tfirst loss\t")
	var peers, kernels []float64
	cell := func(r float64) string {
		if math.IsInf(r, 0) {
			return "–"
		}
		return fmt.Sprintf("%.4g", r)
	}
	for _, name := range b.compared() {
		of := func(subject string, exact bool) float64 { // the fastest
			best := math.Inf(1)
			for _, r := range b.records {
				if r.Case == name && (r.Subject == subject || !exact && strings.HasPrefix(r.Subject, subject)) {
					best = min(best, r.Median)
				}
			}
			return best
		}
		gaiden, xla, jax, torch := of(plainEpoch, true), of(variants[1].name, true), of("JAX", false), of("PyTorch", false)
		if math.IsInf(gaiden, 0) {
			continue
		}
		peer, kernel, kernelText := min(jax, torch)/gaiden, xla/gaiden, cell(xla)
		if !math.IsInf(peer, 0) {
			peers = append(peers, peer)
		}
		if math.IsInf(kernel, 0) {
			kernel, kernelText = 1, "the same" // program
		}
		kernels = append(kernels, kernel)
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%.3f\t%s\t\n", name, cell(gaiden), kernelText, cell(jax), cell(torch), cell(peer), kernel, b.firstLosses(name))
	}
	t.Flush()
	for _, x := range []struct {
		what   string
		ratios []float64
	}{{"best peer / Gaiden", peers}, {"XLA's kernels / Gaiden", kernels}} {
		if len(x.ratios) > 0 {
			sum := 0.0
			for _, r := range x.ratios {
				sum += math.Log(r)
			}
			fmt.Fprintf(w, "%s: geometric mean %.3f, worst %.3f, of %d nets\n", x.what, math.Exp(sum/float64(len(x.ratios))), slices.Min(x.ratios), len(x.ratios))
		}
	}
}

// compared are the names of the nets that were measured.
func (b *bench) compared() (names []string) {
	for _, r := range b.records {
		if r.Subject == plainEpoch && r.Unit == "µs" {
			names = append(names, r.Case)
		}
	}
	return names
}

// firstLosses says whether Gaiden's losses are the same a second time, and the peers' losses of the
// first step are Gaiden's.
func (b *bench) firstLosses(name string) string {
	own, count := b.find(name+"-loss", "gaiden first step"), 0
	if own == nil {
		return "not compared"
	}
	if again := b.find(name+"-repeat", "gaiden"); again != nil && again.Median > 0 {
		steps := float64(repeatedSteps)
		if curve := b.find(name+"-curve", "gaiden, steps"); curve != nil {
			steps = curve.Median
		}
		return fmt.Sprintf("%.0f of %.0f losses differ when training is repeated", again.Median, steps)
	}
	for _, r := range b.records {
		if r.Case == name+"-loss" && r.Subject != own.Subject {
			if math.Abs(r.Median/own.Median-1) > 0.01 {
				return fmt.Sprintf("%s: got %.5g, want %.5g", r.Subject, r.Median, own.Median)
			}
			count++
		}
	}
	return fmt.Sprintf("equal in %d peers", count)
}
