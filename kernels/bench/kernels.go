package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	"github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/activations"
	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/engine/wire"
	"gaiden/lib/fused"
	"gaiden/lib/fused/tiling"
	"gaiden/lib/lower"
	"gaiden/lib/optim"
	"gaiden/lib/session"
)

// benchKernels compares the results of each GPU kernel with those of the plain form of its
// operation, in exact float32. Speed is not measured here. With -texts it writes the programs
// instead, for sanitize.py, which runs their kernels under compute-sanitizer.
func benchKernels(b *bench) error {
	if b.texts != "" {
		return b.writeKernels()
	}
	return inPrivate(func(_ *session.Private, s *session.Session) error {
		if t := lower.TargetOf(s.Welcome()); !t.Triton {
			return fmt.Errorf("kernels: got a session on %s, want a CUDA device; -texts DIR writes the programs anywhere", t)
		}
		var bad []error
		for _, op := range kernelOps() {
			if !b.wants(op.Key()) {
				continue
			}
			err := b.compareKernel(s, op)
			if err != nil {
				err = fmt.Errorf("kernels: %s: %w", op.Key(), err)
				fmt.Fprintln(b.progress, "bench", err)
			}
			bad = append(bad, err)
			if errors.Is(err, wire.Lost) {
				break
			}
		}
		for _, c := range attentions {
			if !b.wants("attention " + c.name) {
				continue
			}
			if err := b.compareAttention(s, c); err != nil {
				bad = append(bad, fmt.Errorf("kernels: attention %s: %w", c.name, err))
				fmt.Fprintln(b.progress, "bench", bad[len(bad)-1])
			}
		}
		return errors.Join(bad...)
	})
}

// compareKernel records the relative error of each output, and fails if one is too large.
func (b *bench) compareKernel(s *session.Session, op kernels.Op) error {
	form, err := tiling.FormOf(op)
	if err != nil {
		return err
	}
	in, err := form.Put(s)
	if err != nil {
		return err
	}
	d, err := form.Compare(s, op, in)
	if err != nil {
		return err
	}
	b.addSamples(op.Key(), "kernel", "relative error", d.Outputs)
	if d.Wrong() {
		return fmt.Errorf("got %s, want %.0e or less", d, d.Mark)
	}
	return nil
}

// writeKernels writes the program of each operation for CUDA. It needs no GPU.
func (b *bench) writeKernels() error {
	if err := os.MkdirAll(b.texts, 0o755); err != nil {
		return err
	}
	for i, op := range kernelOps() {
		if !b.wants(op.Key()) {
			continue
		}
		form, err := tiling.FormOf(op)
		if err != nil {
			return err
		}
		p, err := tiling.Write(op.Key(), lower.Target{Platform: "cuda", Triton: true}, hlo.DefaultPrecision, form.Shapes(), func(builder *hlo.Builder, in []*graph.Node) []*graph.Node {
			choose := func(op kernels.Op) kernels.Op { return op }
			return form.Build(fused.Ops{Builder: builder, Compute: form.Compute, Choose: choose}, in)
		})
		if err != nil {
			return fmt.Errorf("kernels: %s: %w", op.Key(), err)
		}
		if err := os.WriteFile(filepath.Join(b.texts, fmt.Sprintf("%04d.mlir", i)), p.Text(nil), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// kernelOps are operations of every kernel, in both precisions, with every activation and
// optimizer: sizes of nets, and sizes that fill no tile, down to a batch of one.
func kernelOps() []kernels.Op {
	acts := []kernels.Act{kernels.ReLU, kernels.Identity, kernels.Sigmoid, kernels.Tanh}
	rules := []kernels.Rule{optim.Adam{}.Rule(), optim.SGD{}.Rule(), optim.SGD{Momentum: 0.9}.Rule(), optim.AdaDelta{}.Rule(),
		optim.SGD{Momentum: 0.9, Nesterov: true, WeightDecay: 1e-4}.Rule(), optim.Adam{WeightDecay: 1e-2}.Rule()}
	var l []kernels.Op
	for _, k := range []dtypes.DType{dtypes.Float32, dtypes.BFloat16} {
		for i, s := range [][3]int{{100, 784, 1000}, {1, 33, 17}, {7, 9216, 128}, {128, 64, 64}, {513, 127, 65}, {4096, 100, 84}} {
			batch, in, out, act, without := s[0], s[1], s[2], acts[i%len(acts)], i%2 == 1
			l = append(l, kernels.Linear{Batch: batch, In: in, Out: out, X: k, Y: k, Compute: k, Act: act, NoBias: without},
				kernels.LinearInput{Batch: batch, In: in, Out: out, G: k, D: k, X: k, Compute: k, Act: act},
				kernels.LinearUpdate{Batch: batch, In: in, Out: out, X: k, G: k, Compute: k, Rule: rules[i%len(rules)]},
				kernels.LinearUpdate{Batch: batch, In: in, Out: out, X: k, G: k, Compute: k, NoBias: without})
		}
		for i, s := range [][3]int{{100, 1000, 10}, {1, 33, 2}, {1025, 84, 10}, {33, 70, 16}} {
			l = append(l, kernels.Head{Batch: s[0], In: s[1], Classes: s[2], X: k, G: k, Compute: k, NoBias: i%2 == 1},
				kernels.HeadReduce{Batch: s[0], In: s[1], Classes: s[2], Parts: 1 + 10*i, X: k, G: k, Compute: k, Act: acts[i%len(acts)], NoBias: i%2 == 0})
		}
		for i, g := range []kernels.Geometry{
			{Batch: 8, Height: 28, Width: 28, In: 1, Out: 10, Size: 3, Pad: 1, Pool: true},
			{Batch: 100, Height: 14, Width: 14, In: 6, Out: 16, Size: 5, Pool: true},
			{Batch: 128, Height: 28, Width: 28, In: 1, Out: 32, Size: 3},
			{Batch: 1, Height: 7, Width: 9, In: 2, Out: 3, Size: 3, Pool: true},
			{Batch: 3, Height: 11, Width: 6, In: 5, Out: 33, Size: 3, Pad: 1},
		} {
			l = append(l, kernels.Conv{Geometry: g, X: k, Y: k, Compute: k, Act: acts[i%len(acts)]},
				kernels.ConvInput{Geometry: g, G: k, D: k, X: k, Compute: k, Act: acts[(i+1)%len(acts)]},
				kernels.ConvGradient{Geometry: g, X: k, G: k, Compute: k})
		}
		for _, s := range [][3]int{{1, 1, 1}, {50, 20, 5}, {9, 33, 65}, {32, 64, 64}, {50, 64, 128}} {
			for _, r := range []kernels.Recurrence{{Cell: kernels.LSTM}, {Cell: kernels.GRU}, {Cell: kernels.RNN, Act: kernels.Tanh}, {Cell: kernels.RNN, Act: kernels.ReLU}} {
				r.Length, r.Batch, r.Units, r.Compute = s[0], s[1], s[2], k
				l = append(l, r, kernels.RecurrenceBack{Recurrence: r})
			}
		}
		l = append(l, kernels.Gather{Examples: 60000, Size: 784, Batch: 100, Steps: 4, X: dtypes.Uint8, Y: k}, kernels.Gather{Examples: 77, Size: 5, Batch: 1, X: dtypes.Float32, Y: k},
			kernels.Softmax{Batch: 100, Classes: 10, X: k, G: k}, kernels.Softmax{Batch: 77, Classes: 1000, X: k, G: k},
			kernels.CrossEntropy{Rows: 513, Classes: 50257, X: k}, kernels.CrossEntropy{Rows: 3, Classes: 4096, X: k},
			kernels.CrossEntropy{Rows: 2048, Classes: 50304, X: k, Gradient: true}, kernels.CrossEntropy{Rows: 3, Classes: 1025, X: k, Gradient: true})
		for i, in := range []int{768, 33, 2048, 3072, 100} {
			f := kernels.OneRow{In: in, Units: [][3]int{{768, 768, 768}, {17}, {5, 64}, {768}, {40, 7, 9}}[i], X: k, W: k, Scale: k, Epsilon: 1e-5, Act: acts[i%len(acts)]}
			f.Norm, f.Offset, f.Biases, f.Residual = i < 3, i == 0, i != 2, i == 1 || i == 3
			l = append(l, f)
		}
		for _, c := range []kernels.CachedAttention{{Rows: 1, Heads: 12, Groups: 12, Size: 64, Slots: 384}, {Rows: 3, Heads: 8, Groups: 2, Size: 80, Slots: 100, SoftCap: 5}, {Rows: 32, Heads: 4, Groups: 4, Size: 33, Slots: 77, Window: 9}} {
			c.X, c.Scale = k, 0.125
			l = append(l, c)
		}
		for i, act := range activations.All()[1:] {
			s := [][2]int{{8192, 3072}, {1, 33}, {77, 1024}, {513, 5000}}[i%4]
			a := kernels.Activation{Rows: s[0], Width: s[1], Act: act, NoBias: i%3 == 1, X: k}
			l = append(l, a, kernels.ActivationGradient{Activation: a})
		}
		for _, s := range [][2]int{{8192, 768}, {1, 33}, {77, 1024}, {513, 5000}, {9, 16384}} {
			for _, offset := range []bool{false, true} {
				n := kernels.Norm{Rows: s[0], Width: s[1], Offset: offset, Epsilon: 1e-5, X: k}
				l = append(l, n, kernels.NormGradient{Norm: n})
				n.Sum = true
				l = append(l, n, kernels.NormGradient{Norm: n})
			}
		}
	}
	for i, parts := range []int{1, 25, 300, 1001} {
		l = append(l, kernels.PartsUpdate{Parts: parts, Weights: shapes.Make(dtypes.Float32, 5, 7), Rule: rules[i]})
	}
	return l
}
