package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fit"
	"gaiden/lib/fused"
	"gaiden/lib/models"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// drill is a net that is trained by steps of its own, and not by package fit: their products
// can be float32 in kernels and in XLA's form alike.
type drill struct {
	training
	rule kernels.Rule
	rate float64
}

// drills are the nets that have a plan of several kernels, at rates at which they learn.
// The MLP's kernel of many steps, convolutions of images and the stacks and sequences are
// not among them: the first two have no form with float32 products, and the last are
// never anything else or, for a stack, compared step by step (case stack exact). Keras' net
// is without dropout.
func drills() []drill {
	train := func(name string, net models.Net, batch int) training {
		return training{name: name, net: net, batch: batch, n: examples}
	}
	return []drill{
		{train("MLP b100 exact", models.MLP(1000), 100), optim.Adam{}.Rule(), 0.001},
		{train("SeedCNN b8 exact", models.SeedCNN(), 8), optim.Adam{}.Rule(), 0.001},
		{train("LeNet5 b100 exact", models.LeNet5(), 100), optim.Adam{}.Rule(), 0.001},
		{train("KerasCNN b128 exact", keras(), 128), optim.AdaDelta{Rho: 0.95, Epsilon: 1e-7}.Rule(), 1},
		{train("FCN b1024 exact", fcn(), 1024), optim.Adam{}.Rule(), 0.0003},
	}
}

// Places of a step's inputs from the end: see step.
const (
	inRate = 1 + iota
	inOrder
	inLabels
	inExamples
)

// put makes what a drill begins with: the first weights and the examples that package fit's
// curves have, and a step's case's order of these, with the noise that an arm has.
func (l drill) put(d *desk, c operation, arm arm) ([]*session.Array, error) {
	end, each := len(c.Inputs), 1+l.rule.Moments()
	c.Inputs = slices.Clone(c.Inputs)
	c.Inputs[end-inRate].Limit = l.rate
	in, err := c.Put(d.s)
	if err != nil {
		return nil, err
	}
	put := func(place int, flat any) {
		if err == nil {
			in[place], err = d.s.Put(flat, c.Inputs[place].Shape, 0)
		}
	}
	data := l.data()
	put(end-inExamples, data.X)
	put(end-inLabels, data.Y)
	if arm.turn != nil && err == nil {
		order := make([]int32, l.batch)
		err = in[end-inOrder].Values(order)
		arm.turn(order)
		put(end-inOrder, order)
	}
	if err != nil {
		return nil, err
	}
	net, err := fit.Attach(d.s, "drill", l.net, fit.Config{Seed: 1})
	if err != nil {
		return nil, err
	}
	defer net.Reset()
	first, err := net.Weights()
	if err != nil {
		return nil, err
	}
	for i, w := range weightsOf(l.net) {
		at := slices.IndexFunc(first, func(t fit.Tensor) bool { return t.Name == w.name })
		if at < 0 {
			return nil, fmt.Errorf("package fit has no weights %s", w.name)
		}
		if arm.nudge != nil {
			arm.nudge(first[at].Data)
		}
		put(i*each, first[at].Data)
	}
	return in, err
}

// arm is a curve of a drill. There are some with the noise of float32: once, in the last
// bit of the first weights, or in each step, whose examples are the same in another order.
// That is another order of sums, and so what fused kernels are beside XLA's.
type arm struct {
	name  string
	fused bool
	nudge func(w []float32)
	turn  func(order []int32)
}

// arms are all, with two draws of each noise as shakes are.
var arms = []arm{
	{name: "XLA exact"},
	{name: "fused exact", fused: true},
	{name: "XLA exact nudged", nudge: func(w []float32) { nudged(w, 0) }},
	{name: "XLA exact nudged otherwise", nudge: func(w []float32) { nudged(w, 1) }},
	{name: "XLA exact turned", turn: slices.Reverse[[]int32]},
	{name: "XLA exact turned otherwise", turn: slices.Sort[[]int32]},
}

// train does the epochs of a drill, with kernels or in the form that GoMLX derives. All
// products are float32.
func (l drill) train(d *desk, arm arm, set settings) curve {
	curve := curve{Case: l.name, Kernels: arm.name}
	err := d.guard(func() error {
		c := exact(step(l.net, l.batch, l.rule, false))
		build, ops := c.reference, func(*hlo.Builder) fused.Ops { return fused.Ops{} }
		if arm.fused {
			build = c.Build
			if d.cuda {
				ops = func(b *hlo.Builder) fused.Ops { return fused.Ops{Builder: b} }
			}
		}
		in, err := l.put(d, c, arm)
		if err != nil {
			return err
		}
		began := time.Now()
		p, err := d.program(arm.name+" "+l.name, hlo.HighestPrecision, c.Shapes(), func(b *hlo.Builder, in []*Node) []*Node { return build(ops(b), in) })
		if err != nil {
			return err
		}
		for e := range set.epochs {
			if e > 0 {
				began = time.Now()
			}
			loss, right, err := epoch(p, c, in, l.n/l.batch)
			if err != nil {
				return err
			}
			curve.add(loss, right, time.Since(began), l.n/l.batch)
		}
		return nil
	})
	if err != nil {
		curve.Note = err.Error()
	}
	return curve
}

// epoch does steps, each with what the one before left in place of its inputs. It returns
// the mean loss and the share of right answers.
func epoch(p *session.Program, c operation, in []*session.Array, steps int) (loss, right float64, err error) {
	var rows []*session.Array
	for range steps {
		out, err := p.Run(session.Call{Inputs: complete(p, in)})
		if err != nil {
			return 0, 0, err
		}
		for from, to := range c.Chain {
			old := in[to]
			in[to] = out[from]
			if err := old.Finalize(); err != nil { // the collector is later than the device is full
				return 0, 0, err
			}
		}
		rows = append(rows, out[len(out)-1])
	}
	n := 0.0
	for _, a := range rows {
		var row [3]float32 // mean loss, examples, right answers
		if err := a.Values(row[:]); err != nil {
			return 0, 0, err
		}
		loss, n, right = loss+float64(row[0]), n+float64(row[1]), right+float64(row[2])
	}
	if n == 0 {
		return 0, 0, errors.New("no examples")
	}
	return loss / float64(steps), right / n, nil
}

// exactCurves trains each drill with fused kernels, in XLA's form, and in this with noise: how
// far the first two are from each other, beside how far float32's own noise takes XLA's. The
// mark is that of curves.
func (d *desk) exactCurves(r *report, set settings) error {
	all := map[string]drill{}
	var nets []training
	for _, l := range drills() {
		all[l.name] = l
		nets = append(nets, l.training)
	}
	return r.walk(set, nets, once, "pairs of curves differ", func(t training, _ string) bool {
		var curves []*curve
		for _, arm := range arms {
			c := all[t.name].train(d, arm, set)
			fmt.Println(c)
			curves = append(curves, &c)
		}
		measure(curves)
		for _, c := range curves {
			r.Curves = append(r.Curves, *c)
		}
		return agree(curves[0], curves[1], curves[2:], 0)
	})
}
