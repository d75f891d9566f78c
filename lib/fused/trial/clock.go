package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomlx/compute/dtypes"
	"github.com/gomlx/compute/shapes"
	. "github.com/gomlx/gomlx/core/graph"

	"gaiden/lib/engine/hlo"
	"gaiden/lib/engine/triton/kernels"
	"gaiden/lib/fused"
	"gaiden/lib/profile"
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
	Micros  float64   `json:"micros"` // of one operation; the median, less Idle
	Idle    float64   `json:"idle"`   // of a repetition without the operation
	Samples []float64 `json:"samples"`
	Compile float64   `json:"compile_seconds"`
	GBs     float64   `json:"gb_per_s"` // of the bytes it moves at least
	TFLOPs  float64   `json:"tflop_per_s"`
	Kernels []share   `json:"kernels,omitempty"`
	Note    string    `json:"note,omitempty"`
}

// share is what the kernels of one name take of an operation.
type share struct {
	Name    string  `json:"name"`
	Count   float64 `json:"count"`  // of one operation
	Micros  float64 `json:"micros"` // of one kernel; the mean
	Details string  `json:"details"`
}

func (t timed) String() string {
	if t.Note != "" {
		return fmt.Sprintf("%-44s %-28s %s", t.Case, t.Variant, t.Note)
	}
	s := t.line()
	total, kernels := 0.0, 0.0
	for _, k := range t.Kernels {
		s += fmt.Sprintf("\n    %6.2f × %7.2f µs  %-36s %s", k.Count, k.Micros, k.Name, k.Details)
		total, kernels = total+k.Count*k.Micros, kernels+k.Count
	}
	if len(t.Kernels) > 0 {
		s += fmt.Sprintf("\n    %6.2f kernels, %.2f µs", kernels, total)
	}
	return s
}

func (t timed) line() string {
	return fmt.Sprintf("%-44s %-28s %8.2f µs  (%.2f to %.2f, of which %.2f idle)  %6.0f GB/s  %6.1f TFLOP/s  compiled in %.1f s",
		t.Case, t.Variant, t.Micros, slices.Min(t.Samples), slices.Max(t.Samples), t.Idle, t.GBs, t.TFLOPs, t.Compile)
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

// nothing is the variant without the operation: the loop and what ties its
// turns together.
var nothing = variant{"(nothing)", func(_ *hlo.Builder, o fused.Ops) fused.Ops { return o }, func(fused.Ops, []*Node) []*Node { return nil }}

// time measures a variant by a loop on the device. idle is what a repetition
// takes without the operation.
func (d *desk) time(c operation, v variant, runs int, idle float64, kernels bool) timed {
	t := timed{Case: c.name, Variant: v.name}
	err := d.guard(func() error {
		in, err := d.upload(c)
		if err != nil {
			return err
		}
		began := time.Now()
		var p *session.Program
		p, err = d.program("time "+c.name, hlo.DefaultPrecision, c.shapes(), func(b *hlo.Builder, in []*Node) []*Node {
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
			if _, err := p.Run(session.Call{Inputs: complete(p, in)}); err != nil {
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
	t.Idle = idle
	t.Micros = sorted[len(sorted)/2] - idle
	t.GBs, t.TFLOPs = c.bytes/t.Micros/1e3, c.flops/t.Micros/1e6
	return t
}

// kernels are what the profiler sees of a run, by name, longest first.
func (d *desk) kernels(p *session.Program, in []*session.Array) ([]share, error) {
	r, err := profile.Record(d.s, func() error {
		_, err := p.Run(session.Call{Inputs: in})
		return err
	})
	if err != nil {
		return nil, err
	}
	all := map[string]*share{}
	for _, k := range r.Kernels {
		name := strings.TrimRight(k.Name, "0123456789") // XLA numbers the kernels of one name
		if all[name] == nil {
			all[name] = &share{Name: name, Details: k.Details}
		}
		all[name].Count += 1.0 / turns / repeat
		all[name].Micros += k.Seconds * 1e6 / turns / repeat
	}
	var l []share
	for _, k := range all {
		k.Micros /= k.Count
		l = append(l, *k)
	}
	slices.SortFunc(l, func(a, b share) int { return cmp.Compare(b.Count*b.Micros, a.Count*a.Micros) })
	return l, nil
}

// loop is the program: what build makes, repeated. Each repetition needs what
// the one before left, so that XLA can neither move work out of the loop nor
// join two repetitions: states take their places in the inputs, and one element
// of the input c.poke is replaced by a number from the last output.
func loop(c operation, build func(fused.Ops, []*Node) []*Node, o fused.Ops, in []*Node) []*Node {
	g := in[0].Graph()
	if c.prepare != nil {
		c.prepare(g)
	}
	none, one, limit := Const(g, int32(0)), Const(g, int32(1)), Const(g, int32(turns))
	state := append(append([]*Node{none}, in...), Const(g, float32(1)))
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
		i, in, last := l[0], l[1:len(l)-1], l[len(l)-1]
		for range repeat {
			if c.poke >= 0 {
				in[c.poke] = poke(in[c.poke], last, none)
			}
			out := build(o, in)
			if len(out) == 0 {
				continue
			}
			for from, to := range c.chain {
				in[to] = out[from]
			}
			switch {
			case c.poke < 0:
			case c.chain == nil: // all of the outputs are wanted, not a corner of one
				last = corner(OptimizationBarriers(out...)[len(out)-1])
			default:
				last = corner(out[len(out)-1])
			}
		}
		return append(append([]*Node{Add(i, one)}, in...), last)
	})
	return While(cond, body, state...)[1:]
}

// poke replaces the first element of x by a number that is next to nothing, but
// that XLA does not know.
func poke(x, last, none *Node) *Node {
	at := make([]*Node, x.Rank())
	ones := make([]int, x.Rank())
	for i := range at {
		at[i], ones[i] = none, 1
	}
	return DynamicUpdateSlice(x, ConvertDType(Reshape(MulScalar(last, 1e-30), ones...), x.DType()), at)
}

// corner is the first element of x as a float32 scalar.
func corner(x *Node) *Node {
	axes := make([]SliceAxisSpec, x.Rank())
	for i := range axes {
		axes[i] = AxisRange(0, 1)
	}
	return ConvertDType(Reshape(Slice(x, axes...)), dtypes.Float32)
}
