package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/session"
)

const (
	turns  = 100 // of the loop in a timed program
	repeat = 8   // of the operation in each turn
)

// variant is a form of an operation to be timed.
type variant struct {
	name string
	ops  func(b *hlo.Builder, compute fused.Ops) fused.Ops
	// build is the operation's own, or its reference.
	build func(o fused.Ops, in []*Node) []*Node
}

// timed is the time of a variant.
type timed struct {
	Case    string    `json:"case"`
	Variant string    `json:"variant"`
	Micros  float64   `json:"micros"` // of one operation; the median
	Samples []float64 `json:"samples"`
	Compile float64   `json:"compile_seconds"`
	GBs     float64   `json:"gb_per_s"` // of the bytes it moves at least
	TFLOPs  float64   `json:"tflop_per_s"`
	Note    string    `json:"note,omitempty"`
}

func (t timed) String() string {
	if t.Note != "" {
		return fmt.Sprintf("%-44s %-28s %s", t.Case, t.Variant, t.Note)
	}
	return fmt.Sprintf("%-44s %-28s %8.2f µs  (%.2f to %.2f)  %6.0f GB/s  %6.1f TFLOP/s  compiled in %.1f s",
		t.Case, t.Variant, t.Micros, slices.Min(t.Samples), slices.Max(t.Samples), t.GBs, t.TFLOPs, t.Compile)
}

// variants are the forms of a case worth timing.
func (d *desk) variants(c operation, tilings bool) []variant {
	same := func(_ *hlo.Builder, o fused.Ops) fused.Ops { return o }
	l := []variant{{"plain", same, c.build}}
	if c.reference != nil {
		l = append(l, variant{"as GoMLX derives it", same, c.reference})
	}
	if !d.cuda {
		return l
	}
	if c.op == nil || !tilings {
		return append(l, variant{"kernel", func(b *hlo.Builder, o fused.Ops) fused.Ops {
			o.Builder = b
			return o
		}, c.build})
	}
	for _, t := range c.op.Tiles() {
		l = append(l, variant{t.String(), func(b *hlo.Builder, o fused.Ops) fused.Ops {
			o.Builder = b
			o.Choose = func(op kernels.Op) kernels.Op { return op.With(t) }
			return o
		}, c.build})
	}
	return l
}

// time measures a variant: a loop on the device repeats it, each time on what
// the last one left, so that nothing can be moved out of the loop or dropped.
func (d *desk) time(c operation, v variant, runs int) timed {
	t := timed{Case: c.name, Variant: v.name}
	err := d.guard(func() error {
		in, err := d.upload(c)
		if err != nil {
			return err
		}
		began := time.Now()
		p, err := d.program("time "+c.name, hlo.DefaultPrecision, c.shapes(), func(b *hlo.Builder, in []*Node) []*Node {
			return loop(c, v.build, v.ops(b, fused.Ops{Compute: kind(c.bf16)}), in)
		})
		if err != nil {
			return err
		}
		t.Compile = time.Since(began).Seconds()
		for k := range runs + 1 {
			if err := d.s.Wait(); err != nil {
				return err
			}
			began := time.Now()
			if _, err := p.Run(session.Call{Inputs: in}); err != nil {
				return err
			}
			if err := d.s.Wait(); err != nil {
				return err
			}
			if k > 0 { // the first is warm-up
				t.Samples = append(t.Samples, float64(time.Since(began).Nanoseconds())/1e3/turns/repeat)
			}
		}
		return nil
	})
	if err != nil {
		t.Note = err.Error()
		return t
	}
	sorted := slices.Sorted(slices.Values(t.Samples))
	t.Micros = sorted[len(sorted)/2]
	t.GBs, t.TFLOPs = c.bytes/t.Micros/1e3, c.flops/t.Micros/1e6
	return t
}

// loop is the program: inputs and the last outputs go round.
func loop(c operation, build func(fused.Ops, []*Node) []*Node, o fused.Ops, in []*Node) []*Node {
	g := in[0].Graph()
	zero, one, limit := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(turns))
	first := build(o, in) // for the shapes; it also fills the state
	state := append(append([]*Node{zero}, in...), first...)
	shape := make([]shapes.Shape, len(state))
	for i, s := range state {
		shape[i] = s.Shape()
	}
	parameters := func(g *Graph) []*Node {
		l := make([]*Node, len(shape))
		for i, s := range shape {
			l[i] = Parameter(g, fmt.Sprint("s", i), s)
		}
		return l
	}
	cond := NewClosure(g, func(g *Graph) []*Node { return []*Node{LessThan(parameters(g)[0], limit)} })
	body := NewClosure(g, func(g *Graph) []*Node {
		l := parameters(g)
		i, in, out := l[0], l[1:1+len(in)], l[1+len(in):]
		for range repeat {
			held := OptimizationBarriers(append(slices.Clone(in), out...)...)
			in = slices.Clone(held[:len(in)])
			out = build(o, in)
			for from, to := range c.chain {
				in[to] = out[from]
			}
		}
		return append(append([]*Node{Add(i, one)}, in...), out...)
	})
	return While(cond, body, state...)[1+len(in):]
}
